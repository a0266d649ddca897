/** Several serving threads of a process: shared state, a reload, a death, and the shutdown. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { laneOf } from '../../src/store/ids.ts'
import { countsOf } from '../helpers/counts.ts'
import { createAccount, type Gateway, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { until } from '../helpers/until.ts'

const counts = countsOf('replicas')

/** Ends its thread on request. */
const DEADLY = `
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'deadly',
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    if (ctx.get('x-die') === 'before') process.exit(3)
    await next()
    if (ctx.get('x-die') === 'after') process.exit(3)
  },
})
`

const STEPS: readonly object[] = [
  { use: 'api-key' },
  { use: 'schema' },
  { use: 'credits' },
  { use: '../plugins/deadly.ts' },
  { use: 'route' },
]

/** Each request costs exactly a dollar, whatever its content. */
const PRICE = { per: '1M tokens', input: '$0', output: '$0', request: '$1' }

async function start(threads: number, policies: Readonly<Record<string, readonly object[]>>): Promise<Gateway> {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'plugins'))
  await writeFile(join(dir, 'plugins/deadly.ts'), DEADLY)
  const gateway = await startGateway({
    dir,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      threads,
      store: 'sqlite:./tollgate.db',
      drain: '5s',
      // On a busy machine the loop is late, and 503 would be correct.
      limits: { event_loop: '1m' },
      providers: { demo: { dialect: 'demo', pace: '5ms' } },
      models: {
        m: { context: '128k', max_output: 1024, price: PRICE, targets: [{ provider: 'demo', model: 'demo-small' }] },
      },
      routes: Object.keys(policies).map(policy => ({ path: pathOf(policy), policy })),
    },
    policies: Object.fromEntries(Object.entries(policies).map(([name, steps]) => [name, { steps }])),
  })
  return gateway
}

/** Tests of one gateway, in sequence: starting its threads takes longer than most of them. */
function withGateway(
  threads: number,
  policies: Readonly<Record<string, readonly object[]>>,
  tests: (gateway: () => Gateway) => void,
): void {
  describe(`a gateway with ${threads} threads`, () => {
    let gateway: Gateway
    beforeAll(async () => {
      gateway = await start(threads, policies)
    })
    afterAll(() => gateway?.kill9())
    test('the log has the number of threads', async () => {
      expect(await gateway.waitForLog(line => line['msg'] === 'listening')).toMatchObject({ threads })
    })
    tests(() => gateway)
  })
}

const pathOf = (policy: string) => `${policy === 'standard' ? '' : `/${policy}`}/v1/chat/completions`

function ask(
  gateway: Gateway,
  key: string,
  headers: Record<string, string> = {},
  body: object = {},
  policy = 'standard',
) {
  return fetch(gateway.url + pathOf(policy), {
    method: 'POST',
    // Its own connection: the kernel assigns each to one of the threads.
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close', ...headers },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...body }),
  })
}

const many = <Result>(count: number, act: () => Promise<Result>) => Promise.all(Array.from({ length: count }, act))

const statuses = (answers: readonly Response[]) => {
  const count = new Map<number, number>()
  for (const { status } of answers) count.set(status, (count.get(status) ?? 0) + 1)
  return Object.fromEntries(count)
}

const laneOfAnswer = (answer: Response) => laneOf(answer.headers.get('x-request-id')!)

/** Stops the gateway, and expects an orderly shutdown. */
async function expectOrderlyEnd(gateway: Gateway): Promise<void> {
  const code = await gateway.stop()
  const wrong = gateway.logs().filter(line => ['warn', 'error'].includes(String(line['level'])))
  expect(code, wrong.map(line => JSON.stringify(line)).join('\n')).toBe(0)
}

/** The value of a metric without labels, or the sum of all its label sets. */
async function metric(gateway: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const lines = text.split('\n').filter(line => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

const countOf = (gateway: Gateway, message: string) => gateway.logs().filter(line => line['msg'] === message).length
const deaths = (gateway: Gateway) => countOf(gateway, 'a serving thread has ended')
const recoveries = (gateway: Gateway) => countOf(gateway, 'settled the open holds of a serving thread that ended')

withGateway(2, { standard: STEPS }, gatewayOf => {
  test('every thread serves, with one balance and one view', async () => {
    const gateway = gatewayOf()
    const { key, accountId } = await createAccount(gateway, { credit: 10 })
    const answers = await many(counts(60, 1000), () => ask(gateway, key))
    const { 200: served, ...others } = statuses(answers)
    expect(served).toBe(10)
    expect(Object.keys(others).every(status => ['402', '429'].includes(status))).toBe(true)
    expect(new Set(answers.map(laneOfAnswer))).toEqual(new Set([1, 2]))
    const shown = JSON.parse(
      (await tollgate(['account', 'show', accountId, '--json'], { config: gateway.config })).stdout,
    )
    expect(shown.account).toMatchObject({ posted: '0.000000000', held: '0.000000000' })
    expect(await metric(gateway, 'tollgate_exchanges_total')).toBe(answers.length)
    expect(await metric(gateway, 'tollgate_inflight_exchanges')).toBe(0)
    // Any thread finds what another one has answered or refused.
    for (const answer of answers.slice(0, 20)) {
      const receipt = await fetch(`${gateway.url}/v1/receipts/${answer.headers.get('x-request-id')}`, {
        headers: { authorization: `Bearer ${key}`, connection: 'close' },
      })
      expect(receipt.status).toBe(200)
    }
  })

  test('a reload applies to all threads or to none', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 1000 })
    const policy = join(gateway.dir, 'policies/standard.yaml')
    const refused = [
      { use: 'api-key' },
      { use: 'rate-limit', with: { per: 'key', requests: '1 per hour' } },
      ...STEPS.slice(1),
    ]
    await writeFile(policy, JSON.stringify({ steps: [{ use: 'no-such-plugin' }] }))
    await gateway.waitForLog(line => line['msg'] === 'the configuration is not changed')
    expect(statuses(await many(8, () => ask(gateway, key)))).toEqual({ 200: 8 })
    await writeFile(policy, JSON.stringify({ steps: refused }))
    await gateway.waitForLog(line => line['msg'] === 'the configuration has changed')
    await until(async () => expect((await ask(gateway, key)).status).toBe(429))
    expect(statuses(await many(12, () => ask(gateway, key)))).toEqual({ 429: 12 })
    await writeFile(policy, JSON.stringify({ steps: STEPS }))
    await until(async () => expect(statuses(await many(12, () => ask(gateway, key)))).toEqual({ 200: 12 }))
  })

  test('a thread that dies is replaced; its holds are settled, and the others are not affected', async () => {
    const gateway = gatewayOf()
    const { key, accountId } = await createAccount(gateway, { credit: 1000 })
    const streams = await many(8, () => ask(gateway, key, {}, { stream: true }))
    const dead = laneOfAnswer(await ask(gateway, key))
    const dying = await until(async () => {
      const answer = await ask(gateway, key)
      expect(laneOfAnswer(answer)).toBe(dead)
      return ask(gateway, key, { 'x-die': 'before' }).then(
        () => 'answered',
        () => 'broken',
      )
    })
    expect(dying).toBe('broken')
    const died = await gateway.waitForLog(line => line['msg'] === 'a serving thread has ended')
    const deadThread = died['thread'] as number
    const texts = await Promise.allSettled(streams.map(answer => answer.text()))
    for (const [index, result] of texts.entries()) {
      if (laneOfAnswer(streams[index]!) === deadThread) continue
      expect(result).toMatchObject({ status: 'fulfilled' })
    }
    await gateway.waitForLog(line => line['msg'] === 'settled the open holds of a serving thread that ended')
    // The replacement has another number, and gets a part of the connections.
    await until(async () => expect(laneOfAnswer(await ask(gateway, key))).toBeGreaterThan(2))
    await until(async () => {
      const { stdout } = await tollgate(['account', 'show', accountId, '--json'], { config: gateway.config })
      expect(JSON.parse(stdout).account.held).toBe('0.000000000')
    })
  })

  test('threads that die repeatedly are reported by /readyz', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 1000 })
    const before = deaths(gateway)
    for (let death = before + 1; death <= before + 3; death++) {
      await until(async () => {
        // A request during a change of listeners may break without reaching a step.
        if (deaths(gateway) < death) await ask(gateway, key, { 'x-die': 'before' }).catch(() => {})
        expect(deaths(gateway)).toBeGreaterThanOrEqual(death)
      })
    }
    const ready = await fetch(`${gateway.adminUrl}/readyz`)
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { status: 'not ready', reason: expect.stringMatching(/^\d+ serving threads have ended within a minute/) },
    ])
  })

  test('a shutdown during the death of a thread is orderly, and leaves no hold open', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 1000 })
    await until(async () => expect((await ask(gateway, key)).status).toBe(200))
    await until(() => expect(recoveries(gateway)).toBe(deaths(gateway)))
    const before = deaths(gateway)
    await expect(ask(gateway, key, { 'x-die': 'before' })).rejects.toThrow()
    await until(() => expect(deaths(gateway)).toBe(before + 1))
    await expectOrderlyEnd(gateway)
    expect(recoveries(gateway)).toBe(before + 1)
    const verified = await tollgate(['ledger', 'verify'], { config: gateway.config })
    expect(verified.code, verified.stdout + verified.stderr).toBe(0)
  })
})

const SHARED: Readonly<Record<string, readonly object[]>> = {
  standard: STEPS,
  limited: [
    { use: 'api-key' },
    { use: 'rate-limit', with: { per: 'account', requests: '15 per hour' } },
    { use: 'concurrency', with: { per: 'account', limit: 5 } },
    { use: 'schema' },
    { use: 'credits' },
    { use: 'route' },
  ],
  queued: [
    { use: 'api-key' },
    { use: 'concurrency', with: { per: 'account', limit: 1, queue: { length: 20, wait: '30s' } } },
    ...STEPS.slice(1),
  ],
  cached: [
    { use: 'api-key' },
    { use: 'schema' },
    { use: 'rate-limit', with: { per: 'key', requests: '20 per day' } },
    { use: 'cache', with: { temperature: 'any' } },
    { use: 'credits' },
    { use: 'route' },
  ],
}

withGateway(3, SHARED, gatewayOf => {
  test('limits apply to the process, and a revoked key is refused by every thread', async () => {
    const gateway = gatewayOf()
    const { key, keyId } = await createAccount(gateway, { credit: 1000 })
    const first = await many(30, () => ask(gateway, key, {}, { stream: true }, 'limited'))
    // All accepted requests continue for a while.
    expect(statuses(first)).toEqual({ 200: 5, 429: 25 })
    await Promise.all(first.map(answer => answer.text()))
    const answers: Response[] = []
    for (let index = 0; index < 15; index++) answers.push(await ask(gateway, key, {}, {}, 'limited'))
    expect(statuses(answers)[200] ?? 0).toBeLessThanOrEqual(10)
    await tollgate(['key', 'revoke', keyId], { config: gateway.config })
    expect(statuses(await many(12, () => ask(gateway, key, {}, {}, 'limited')))).toEqual({ 401: 12 })
  })

  test('a request that waits for a slot gets one, whichever thread releases it, even if a thread with a slot dies', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 1000 })
    const dying = ask(gateway, key, { 'x-die': 'before' }, {}, 'queued').catch(() => null)
    const answers = await many(20, () => ask(gateway, key, {}, {}, 'queued').catch(() => null))
    expect(await dying).toBeNull()
    // Requests in the thread that died have no answer; all others have one.
    const answered = answers.filter(answer => answer !== null)
    expect(statuses(answered)).toEqual({ 200: answered.length })
    expect(answered.length).toBeGreaterThan(0)
    expect(statuses(await many(20, () => ask(gateway, key, {}, {}, 'queued')))).toEqual({ 200: 20 })
    expect(await metric(gateway, 'tollgate_queued_exchanges')).toBe(0)
  })

  test('a policy behaves the same with several threads: one limit, one cache', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 100 })
    const results: string[] = []
    for (let count = 0; count < 25; count++) {
      const answer = await ask(gateway, key, {}, {}, 'cached')
      await answer.text()
      results.push(`${answer.status} ${answer.headers.get('x-tollgate-cache')}`)
    }
    expect(results).toEqual(['200 miss', ...Array(19).fill('200 hit'), ...Array(5).fill('429 null')])
  })

  test('the shutdown waits for the streams of every thread', async () => {
    const gateway = gatewayOf()
    const { key } = await createAccount(gateway, { credit: 1000 })
    const streams = await many(8, () => ask(gateway, key, {}, { stream: true }))
    const [code, ...texts] = await Promise.all([gateway.stop(), ...streams.map(answer => answer.text())])
    expect(code).toBe(0)
    for (const text of texts) expect(text).toContain('data: [DONE]')
  })
})
