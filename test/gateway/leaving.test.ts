/**
 * The client disconnects at every possible moment. The upstream request ends within a second; the account is charged once, by the table,
 * within two. Limits are five times the promises; the measured times are printed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import {
  exact,
  type FakeProvider,
  gated,
  type ProviderRequest,
  startFakeProvider,
  withhold,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'

const counts = countsOf('floods')

const CLOSED_MAX_MS = 1000
const SETTLED_MAX_MS = 2000
const TOKENS = ['alpha', 'beta', 'gamma', 'delta']

let provider: FakeProvider
let gateway: InProcess
const closedMs: number[] = []
const settledMs: number[] = []

/** A step that waits at its gate before or after the rest, so that a test can disconnect at that moment. */
const gate = { before: Promise.resolve(), after: Promise.resolve(), reached: () => {} }
const gatekeeper = definePlugin({
  name: 'gatekeeper',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (_ctx, next) => {
    gate.reached()
    await gate.before
    await next()
    gate.reached()
    await gate.after
  },
})

beforeAll(async () => {
  provider = await startFakeProvider({ script: gated({ tokens: TOKENS }) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [gatekeeper],
    steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'gatekeeper' }, ...FIVE_STEPS.slice(3)],
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
  const p99 = (times: number[]) => times.sort((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1]?.toFixed(1)
  console.log(
    `client leaves (${closedMs.length} times): upstream closed p99 ${p99(closedMs)} ms, settled p99 ${p99(settledMs)} ms`,
  )
})

/** Sends a request on its own socket, so that it can disconnect by FIN or by RST. */
async function ask(body: object): Promise<RawClient> {
  const client = await openRaw(gateway.url)
  const messages = [{ role: 'user', content: 'Hello' }]
  await client.post(
    '/v1/chat/completions',
    { model: 'm', messages, ...body },
    { authorization: `Bearer ${gateway.key}` },
  )
  return client
}

const WAYS = ['fin', 'reset'] as const
type Way = (typeof WAYS)[number]

function leave(client: RawClient, how: Way): number {
  if (how === 'fin') client.fin()
  else client.reset()
  return performance.now()
}

/** Waits for the exchange's line in the log and returns the charge, in output tokens beyond the prompt. */
async function settled(since: number, left: number, before: bigint): Promise<{ outcome: unknown; nano: bigint }> {
  const line = await gateway.waitForLog(line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= since)
  const ms = performance.now() - left
  settledMs.push(ms)
  expectWithin(ms, SETTLED_MAX_MS)
  const { posted, held } = gateway.balance()
  expect(held, 'nothing stays held').toBe(0n)
  return { outcome: line['outcome'], nano: before - posted }
}

async function closed(request: ProviderRequest, left: number): Promise<void> {
  const { at, how } = await provider.waitForClose(request)
  expect(how).not.toBe('answered')
  closedMs.push(at - left)
  expectWithin(at - left, CLOSED_MAX_MS)
}

/** The charge for n received tokens: the estimated prompt and the count. */
const estimate = (tokens: number) => {
  const prompt = Math.ceil('Hello'.length / 4) + 4
  const text = TOKENS.slice(0, tokens).join('')
  return BigInt(prompt * 1000 + Math.max(tokens, Math.ceil(text.length / 4)) * 2000)
}
/** The provider's report: 10 prompt tokens and one per piece. */
const REPORTED = BigInt(10 * 1000 + TOKENS.length * 2000)

test('in the queue for a provider: the request is not sent, although the model is drained', async () => {
  const busy = await startFakeProvider({ script: gated({ tokens: TOKENS }) })
  const p = { dialect: 'openai', base_url: busy.baseUrl, connections: 1 }
  const narrow = await startInProcess({
    provider: busy.baseUrl,
    model: { reasoning: true },
    yaml: { providers: { p } },
  })
  try {
    const first = narrow.chat({ stream: true })
    const running = await busy.waitForRequest(0)
    const second = await openRaw(narrow.url)
    const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
    await second.post('/v1/chat/completions', body, { authorization: `Bearer ${narrow.key}` })
    await expect.poll(() => narrow.running.store.openHolds()).toBe(2)
    const before = narrow.balance().posted
    leave(second, 'reset')
    const line = await narrow.waitForLog(line => line['outcome'] === 'client_left')
    expect(line['msg']).toBe('exchange')
    expect(narrow.balance().posted).toBe(before)
    running.release()
    await (await first).text()
    expect(busy.requests).toHaveLength(1)
  } finally {
    await narrow.stop()
    await busy.close()
  }
})

describe.each(WAYS)('by %s', how => {
  test('before the hold: nothing is sent and nothing is charged', async () => {
    const { promise: reached, resolve } = Promise.withResolvers<void>()
    const open = Promise.withResolvers<void>()
    Object.assign(gate, { before: open.promise, reached: resolve })
    const [since, before, calls] = [gateway.log.length, gateway.balance().posted, provider.requests.length]
    const client = await ask({ stream: true })
    await reached
    const left = leave(client, how)
    await client.closed
    open.resolve()
    Object.assign(gate, { before: Promise.resolve(), reached: () => {} })
    expect(await settled(since, left, before)).toEqual({ outcome: 'client_left', nano: 0n })
    expect(provider.requests.length).toBe(calls)
  })

  test.each([{ stream: true }, { stream: false }])(
    'before the head: upstream closed, the prompt is charged (stream $stream)',
    async mode => {
      provider.script(withhold(exact()))
      const [since, before, index] = [gateway.log.length, gateway.balance().posted, provider.requests.length]
      const client = await ask(mode)
      const request = await provider.waitForRequest(index)
      const left = leave(client, how)
      await closed(request, left)
      expect(await settled(since, left, before)).toEqual({ outcome: 'client_left', nano: estimate(0) })
    },
  )

  // The events of the stream: role, TOKENS pieces of content, finish, usage, [DONE].
  test.each(Array.from({ length: TOKENS.length + 1 }, (_, sent) => sent))(
    'after %i events: the received content is charged',
    async sent => {
      provider.script(gated({ tokens: TOKENS }))
      for (let round = 0; round < counts(1, 20); round++) {
        const [since, before, index] = [gateway.log.length, gateway.balance().posted, provider.requests.length]
        const client = await ask({ stream: true })
        const request = await provider.waitForRequest(index)
        if (sent > 0) {
          await request.step(sent)
          // A role alone waits at the gateway for the first content.
          if (sent > 1) await client.readUntil(TOKENS[sent - 2]!)
        }
        const left = leave(client, how)
        await closed(request, left)
        const nano = estimate(Math.max(0, sent - 1))
        expect(await settled(since, left, before)).toEqual({ outcome: 'client_left', nano })
      }
    },
  )

  test('after the finish event: nothing is cancelled; the usage is awaited and charged', async () => {
    provider.script(gated({ tokens: TOKENS }))
    const [since, before, index] = [gateway.log.length, gateway.balance().posted, provider.requests.length]
    const client = await ask({ stream: true })
    const request = await provider.waitForRequest(index)
    await request.step(TOKENS.length + 2)
    await client.readUntil(TOKENS.at(-1)!)
    const left = leave(client, how)
    await client.closed
    request.release()
    const { nano } = await settled(since, left, before)
    expect(nano).toBe(REPORTED)
  })

  test('between the last content and the closing bytes: charged as reported, once', async () => {
    provider.script(exact({ tokens: TOKENS }))
    const open = Promise.withResolvers<void>()
    let times = 0
    const after = Promise.withResolvers<void>()
    Object.assign(gate, {
      after: open.promise,
      reached: () => {
        if (++times === 2) after.resolve()
      },
    })
    const [since, before] = [gateway.log.length, gateway.balance().posted]
    const client = await ask({ stream: true })
    await after.promise
    const left = leave(client, how)
    await client.closed
    open.resolve()
    Object.assign(gate, { after: Promise.resolve(), reached: () => {} })
    expect(await settled(since, left, before)).toEqual({ outcome: 'answered', nano: REPORTED })
  })
})
