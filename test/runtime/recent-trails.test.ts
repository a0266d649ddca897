/** Finished exchanges and steps in shadow, as operators see them: by the API, the control socket and the metrics. */
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { definePlugin } from '#contract'
import { callControl, controlPath } from '../../src/api/control/socket.ts'
import type { FoundReceiptView, PastExchangeView, ShadowView } from '../../src/api/views.ts'
import { createPlan } from '../../src/loader/plan.ts'
import { MAX_RECENT } from '../../src/observe/recent.ts'
import { createRecentTrails } from '../../src/runtime/recent-trails.ts'
import { errorAnswer, exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { summary } from '../observe/summary.ts'

/** Finished exchanges that are still in memory. */
const seen: WeakRef<object>[] = []

/** Logs the body, as a careless author would. */
const chatty = definePlugin({
  name: 'chatty',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (ctx, next) => {
    seen.push(new WeakRef(ctx.exchange))
    if (ctx.get('x-note')) ctx.exchange.note(ctx.get('x-note'))
    await next()
  },
})

const once = { per: 'account', requests: '2 per hour', burst: 2 }
const STEPS = [
  { use: 'api-key' },
  { use: 'chatty' },
  { use: 'schema' },
  { use: 'rate-limit', id: 'new-limit', mode: 'shadow', with: once },
  { use: 'rate-limit', id: 'never', mode: 'shadow', when: 'account.plan == "none"', with: once },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

let provider: FakeProvider
let gateway: InProcess
let get: (path: string) => Promise<Response>

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [chatty],
    steps: STEPS,
    yaml: { admin: '127.0.0.1:0' },
  })
  const { secret } = await gateway.running.store.people.createToken({ name: 't', expiresAt: null, createdBy: 'test' })
  get = path => fetch(`${gateway.running.adminUrl}${path}`, { headers: { authorization: `Bearer ${secret}` } })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

async function view<Body>(path: string): Promise<Body> {
  const answer = await get(`/api/operator/${path}`)
  expect(answer.status).toBe(200)
  return (await answer.json()) as Body
}

/** Waits for the end of an exchange. Returns its id. */
async function idWhenOver(answer: Response): Promise<string> {
  await answer.text()
  const id = answer.headers.get('x-request-id')!
  await gateway.exchangeLine(id)
  return id
}

const ofSocket = () =>
  controlPath(gateway.running.configuration.store, join(dirname(gateway.running.configuration.file), 'gateway.yaml'))

describe('an unknown exchange', () => {
  test('is not found by the API', async () => {
    const answer = await get(`/api/operator/exchanges/req_${'0'.repeat(26)}`)
    expect(answer.status).toBe(404)
    const { error } = (await answer.json()) as { error: { message: string; code: string } }
    expect(error.code).toBe('not_found')
    expect(error.message).toMatch(/^Nothing is known of req_0+\. The gateway remembers the last 10,000 since its start/)
  })

  test('is not found by the socket', async () => {
    const call = callControl(ofSocket(), 'exchange.show', { exchange: 'req_nothing' })
    await expect(call).rejects.toThrow('Nothing is known of req_nothing. The gateway remembers the last 10,000')
    await expect(callControl(ofSocket(), 'exchange.show', {})).rejects.toThrow('"exchange" is missing')
    await expect(callControl(ofSocket(), 'shadow.show', { all: true })).rejects.toThrow('"all" is not an argument')
  })
})

describe('an exchange', () => {
  test('that was refused before a hold, with the notes of its steps', async () => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}`, 'x-note': 'seen' }
    const id = await idWhenOver(await gateway.chat({ model: 'none' }, { headers }))
    const shown = await view<PastExchangeView>(`exchanges/${id}`)
    expect(shown).toEqual({
      id,
      kept: 'memory',
      trace_id: null,
      started_at: expect.stringMatching(/^\d{4}-.*Z$/),
      ms: expect.any(Number),
      route: '/v1/chat/completions',
      policy: 'test',
      method: 'POST',
      account_id: gateway.accountId,
      account: 'test',
      key_id: expect.stringMatching(/^key_/),
      key: 'test',
      tags: {},
      model: null,
      stream: null,
      status: 404,
      outcome: 'refused',
      code: 'model_not_found',
      decided_by: 'schema',
      trail: [
        { step: 'api-key', verdict: 'passed' },
        { step: 'chatty', verdict: 'passed', note: 'seen' },
        { step: 'schema', verdict: 'refused', code: 'model_not_found' },
      ],
      attempts: [],
      receipt: null,
    } satisfies PastExchangeView)
    expect(await callControl(ofSocket(), 'exchange.show', { exchange: id })).toEqual(shown)
  })

  test('with an unknown key', async () => {
    const id = await idWhenOver(await gateway.chat({}, { headers: { 'content-type': 'application/json' } }))
    expect(await view(`exchanges/${id}`)).toMatchObject({ account_id: null, key_id: null, decided_by: 'api-key' })
  })

  test('that a provider refused: its message, without secrets', async () => {
    provider.script(errorAnswer(400, { error: { message: `no such tool; key=${'s'.repeat(20)}`, type: 'bad' } }))
    const id = await idWhenOver(await gateway.chat({}))
    provider.script(exact({ tokens: 3 }))
    const { attempts } = await view<PastExchangeView>(`exchanges/${id}`)
    expect(attempts).toMatchObject([{ status: 400, code: 'upstream_rejected' }])
    expect(attempts[0]!.detail).toMatch(/type bad.*: no such tool; key=\[secret\]$/)
  })

  test('that was answered, with its charge', async () => {
    const id = await idWhenOver(await gateway.chat({ stream: true }))
    const shown = await view<PastExchangeView>(`exchanges/${id}`)
    const { receipt } = await view<FoundReceiptView>(`receipts/${id}`)
    expect(shown).toMatchObject({ outcome: 'answered', status: 200, decided_by: null, stream: true, model: 'm' })
    expect(shown.attempts).toMatchObject([{ target: 'p/upstream-model', status: 200, code: null }])
    expect(shown.receipt).toEqual(receipt)
    expect(shown.receipt!.charged).toBe('0.000016000')
  })
})

test('requests without a key never displace a request with a key', () => {
  const { remember, find } = createRecentTrails({ metrics: { shadowRan() {} }, figures: { count() {} } })
  const plan = createPlan('test', [], () => ({}))
  remember(summary({ id: 'req_known', keyId: 'key_1' }), plan)
  for (let nth = 0; nth < MAX_RECENT; nth++) remember(summary({ id: `req_${nth}`, keyId: null }), plan)
  expect(find('req_known')).toMatchObject({ keyId: 'key_1' })
  expect(find('req_0')).toMatchObject({ keyId: null })
})

test('recent exchanges do not keep the requests in memory', async () => {
  seen.length = 0
  for (let nth = 0; nth < 20; nth++) await idWhenOver(await gateway.chat({ model: nth % 2 ? 'm' : 'none' }))
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  // References of sockets and promises to the last requests are released in a later turn.
  await expect
    .poll(() => {
      collect()
      return seen.filter(each => each.deref()).length
    })
    .toBeLessThanOrEqual(2)
  expect(seen).toHaveLength(20)
})

describe('steps in shadow', () => {
  test('their runs, suppressed refusals, accounts and keys; a reload keeps the count', async () => {
    const before = await figures()
    const ids: string[] = []
    for (let nth = 0; nth < 4; nth++) ids.push(await idWhenOver(await gateway.chat()))
    const after = await figures()
    expect(after.ran - before.ran).toBe(4)
    expect(after.would_refuse).toBeGreaterThanOrEqual(2)
    const [refusal] = after.refusals
    expect(refusal).toMatchObject({
      code: 'rate_limit_exceeded',
      count: after.would_refuse,
      accounts: { distinct: 1, more: false, top: [{ id: gateway.accountId, name: 'test', count: after.would_refuse }] },
      keys: { distinct: 1, top: [{ name: 'test' }] },
    })
    expect(refusal!.examples[0]!.id).toBe(ids.at(-1))

    const metrics = await fetch(`${gateway.running.adminUrl}/metrics`).then(answer => answer.text())
    const labels = 'policy="test",step="new-limit"'
    expect(metrics).toContain(`tollgate_shadow_runs_total{${labels}} ${after.ran}\n`)
    expect(metrics).toContain(
      `tollgate_shadow_refusals_total{${labels},code="rate_limit_exceeded"} ${after.would_refuse}\n`,
    )

    // Now another step is in shadow, and `new-limit` is enforced.
    const steps = STEPS.map(step => ('id' in step && step.id === 'new-limit' ? { ...step, mode: 'enforce' } : step))
    writeFileSync(join(dirname(gateway.running.configuration.file), 'policies/test.yaml'), stringify({ steps }))
    expect(await gateway.running.reload()).toBe('changed')
    const answer = await gateway.chat()
    expect([answer.status, answer.headers.get('x-tollgate-decision')]).toEqual([
      429,
      'new-limit; code=rate_limit_exceeded',
    ])
    await idWhenOver(answer)
    const { steps: shown } = await callControl(ofSocket(), 'shadow.show', {})
    expect(shown).toEqual([
      { ...after, now: false },
      { policy: 'test', step: 'never', now: true, since: null, ran: 0, would_refuse: 0, refusals: [] },
    ])
    expect((await view<ShadowView>('shadow')).steps).toEqual(shown)
  })

  async function figures() {
    const { steps, since } = await view<ShadowView>('shadow')
    expect(Date.parse(since)).toBeLessThanOrEqual(Date.now())
    const found = steps.find(({ step }) => step === 'new-limit')!
    expect(found.now).toBe(true)
    return found
  }
})
