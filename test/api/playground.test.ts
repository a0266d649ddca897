/** The playground through the whole gateway: it is charged, refused and ended like any other request. */

import { rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { formatMoney, parseMoney } from '#contract'
import type { ReceiptView } from '../../src/api/views.ts'
import { type FakeProvider, gated, type Script, startFakeProvider, stream } from '../helpers/fake-provider.ts'
import { temporaryDirectory, writeConfiguration } from '../helpers/gateway.ts'
import { FIVE_STEPS, type LocalRunning, PRICE, serveLocally } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'

const BODY = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }

describe('a completion', () => {
  test('is a stream, is charged to the account, and its receipt is found by its id', async () => {
    const { gateway, provider } = await start(stream({ tokens: 5, promptTokens: 12 }))
    const alice = await person(gateway, '10')
    const answer = await alice.play(BODY)
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toMatch(/^text\/event-stream/)
    const events = await answer.text()
    expect(events.trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect(events).toContain('"usage":{')
    // 12 input tokens at $1 a million, 5 output tokens at $2.
    const cost = 12n * 1000n + 5n * 2000n
    expect(gateway.store.reads.findAccount(alice.accountId)).toMatchObject({
      posted: parseMoney('10') - cost,
      held: 0n,
    })
    const id = String(answer.headers['x-request-id'])
    const receipt = await alice.get<ReceiptView>(`/api/receipts/${id}`)
    expect(receipt).toMatchObject({ id, charged: formatMoney(cost), outcome: 'answered', model: 'm' })
    expect(gateway.store.reads.findKey(receipt.key_id)).toMatchObject({ name: 'playground', spent: cost })
    // Neither the browser's cookie nor the account's key goes to the provider.
    const { headers, body } = await provider.waitForRequest()
    expect(JSON.stringify(headers)).not.toMatch(/cookie|tollgate=|tg_live_|6\.6\.6\.6/)
    expect(body).toMatchObject({ stream: true, stream_options: { include_usage: true } })
  })

  test('ends at the provider within a second of a disconnect and is charged for what was sent', async () => {
    const { gateway, provider } = await start(gated({ tokens: 50 }))
    const alice = await person(gateway, '10')
    const asked = alice.play(BODY)
    const inner = await provider.waitForRequest()
    await inner.step(4)
    const answer = await asked
    const leftAt = performance.now()
    answer.leave()
    const { how, at } = await provider.waitForClose(inner)
    expect(['fin', 'reset']).toContain(how)
    expectWithin(at - leftAt, 1000)
    const id = String(answer.headers['x-request-id'])
    await settled(gateway, id)
    const receipt = gateway.store.reads.findReceipt(id)!
    expect(receipt).toMatchObject({ outcome: 'client_left' })
    expect(receipt.charged!).toBeLessThan(50n * 2000n)
    expect(gateway.store.reads.findAccount(alice.accountId)).toMatchObject({
      posted: parseMoney('10') - receipt.charged!,
      held: 0n,
    })
  })
})

describe('a refusal', () => {
  test('has the envelope of the policy that refused: no credit, no such model, a frozen account', async () => {
    const { gateway, provider } = await start(stream())
    const poor = await person(gateway, '0')
    const broke = await poor.play(BODY)
    expect([broke.status, broke.headers['x-should-retry']]).toEqual([402, 'false'])
    expect(JSON.parse(await broke.text()).error).toMatchObject({ code: 'insufficient_quota' })

    const alice = await person(gateway, '1')
    const unknown = await alice.play({ ...BODY, model: 'none' })
    expect(unknown.status).toBe(404)
    expect(JSON.parse(await unknown.text()).error).toMatchObject({ code: 'model_not_found', param: 'model' })
    const effort = await alice.play({ ...BODY, reasoning_effort: 'high' })
    expect(JSON.parse(await effort.text()).error).toMatchObject({ code: 'unsupported_parameter' })
    await gateway.store.freeze(alice.accountId, true)
    const frozen = await alice.play(BODY)
    expect(frozen.status).toBe(403)
    expect(JSON.parse(await frozen.text()).error).toMatchObject({ code: 'account_frozen' })
    expect(provider.requests).toHaveLength(0)
  })
})

test("a restarted gateway does not have the key's secret: it rotates the key and creates no second one", async () => {
  const dir = await temporaryDirectory()
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const first = await start(stream(), dir)
  const alice = await person(first.gateway, '10')
  await (await alice.play(BODY)).text()
  const tokenBefore = first.gateway.store.reads.listKeys(alice.accountId)
  await first.stop()

  const { gateway } = await start(stream(), dir)
  const again = await signIn(gateway, alice.id, alice.accountId)
  for (let time = 0; time < 2; time++) {
    const answer = await again.play(BODY)
    expect(answer.status).toBe(200)
    await answer.text()
  }
  const keys = gateway.store.reads.listKeys(alice.accountId)
  expect(keys.map(({ id, purpose }) => [id, purpose])).toEqual([[tokenBefore[0]!.id, 'playground']])
  expect(keys[0]!.secrets).toHaveLength(1)
  expect(keys[0]!.secrets[0]!.last4).not.toBe(tokenBefore[0]!.secrets[0]!.last4)
  expect(keys[0]!.requests).toBe(3)
})

interface PlaygroundSetup {
  readonly gateway: LocalRunning
  readonly provider: FakeProvider
  stop(): Promise<void>
}

async function start(script: Script, dir?: string): Promise<PlaygroundSetup> {
  const provider = await startFakeProvider({ script })
  const home = dir ?? (await temporaryDirectory())
  const configFile = await writeConfiguration(home, {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      dashboard: '127.0.0.1:0',
      store: dir === undefined ? 'memory' : `sqlite:${join(dir, 'tollgate.db')}`,
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        m: {
          targets: [{ provider: 'p', model: 'upstream-model' }],
          price: PRICE,
          context: 8192,
          max_output: 1000,
        },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: FIVE_STEPS } },
  })
  const gateway = await serveLocally({
    configFile,
    env: {},
    signals: false,
    stdout: () => {},
    page: async () => join(home, 'no-page'),
  })
  let stopped: Promise<void> | undefined
  const stop = () =>
    (stopped ??= (async () => {
      gateway.drain()
      gateway.drain()
      await gateway.finished
      await provider.close()
      if (dir === undefined) await rm(home, { recursive: true, force: true })
    })())
  onTestFinished(stop)
  return { gateway, provider, stop }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  text(): Promise<string>
  leave(): void
}

interface Player {
  readonly id: string
  readonly accountId: string
  get<Body>(path: string): Promise<Body>
  play(body: object): Promise<Answer>
}

let people = 0

async function person({ store, ...rest }: LocalRunning, credit: string): Promise<Player> {
  const { id, accountId } = await store.people.create({
    email: `person${++people}@example.com`,
    password: '$argon2id$none-that-fits-anything',
    role: 'member',
    membership: { name: `person ${people}`, plan: 'default', credit: parseMoney(credit) },
  })
  return signIn({ store, ...rest }, id, accountId)
}

async function signIn({ store, dashboardUrl }: LocalRunning, id: string, accountId: string): Promise<Player> {
  const secret = await store.people.createSession(id)
  const call = (method: string, path: string, body?: object) =>
    new Promise<Answer>((resolve, reject) => {
      const asked = request(new URL(path, dashboardUrl!), {
        method,
        agent: false,
        headers: {
          origin: new URL(dashboardUrl!).origin,
          cookie: `tollgate=${secret}`,
          'content-type': 'application/json',
          'x-tollgate-dashboard': '1',
          'x-forwarded-for': '6.6.6.6',
        },
      })
      asked.on('error', reject)
      asked.on('response', response =>
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text: () => text(response),
          leave: () => asked.destroy(),
        }),
      )
      asked.end(body === undefined ? undefined : JSON.stringify(body))
    })
  return {
    id,
    accountId,
    get: async path => {
      const answer = await call('GET', path)
      expect(answer.status).toBe(200)
      return JSON.parse(await answer.text())
    },
    play: body => call('POST', '/api/playground', body),
  }
}

/** Waits until the receipt has its charge. */
async function settled({ store }: LocalRunning, id: string): Promise<void> {
  while (store.reads.findReceipt(id)?.charged == null) await new Promise(resolve => setImmediate(resolve))
}
