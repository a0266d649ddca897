/** For every key of gateway.yaml, a reload applies or refuses a change. A key without a row fails. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { GATEWAY_SCHEMA } from '../../src/config/schema.ts'
import { THREAD_QUEUE } from '../../src/request/http/owners.ts'
import { edit, type Yaml } from '../helpers/edit-configuration.ts'
import { exact, type FakeProvider, gated, startFakeProvider, stream } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, type InProcessOptions, startInProcess } from '../helpers/in-process.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../helpers/otlp-receiver.ts'
import { openRaw } from '../helpers/raw-client.ts'

let provider: FakeProvider
let collector: OtlpReceiver
beforeEach(async () => {
  provider = await startFakeProvider({ script: exact() })
  collector = await startOtlpReceiver()
})
afterEach(async () => {
  await provider.close()
  await collector[Symbol.asyncDispose]()
})

/** Returns the client address that the gateway derives. */
const mirror = definePlugin({
  name: 'mirror',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    ctx.set('x-address', ctx.exchange.address)
    return next()
  },
})

interface Row {
  readonly change: (yaml: Yaml) => void
  /** The initial configuration. */
  readonly yaml?: Record<string, unknown>
  readonly model?: InProcessOptions['model']
  /** The compared result, before and after the change. */
  readonly sees?: (gateway: InProcess, isChanged: boolean) => Promise<unknown>
  readonly before?: unknown
  /** Null: the change is refused. */
  readonly after: unknown
}

const PEOPLE = { dashboard: '127.0.0.1:0', registration: { mode: 'open', credit: '$1' } }
const status = async (answer: Promise<Response>) => {
  const { status, body } = await answer
  await body?.cancel()
  return status
}
const about = async (gateway: InProcess) =>
  (await fetch(`${gateway.running.dashboardUrl}/api/about`)).json() as Promise<Record<string, unknown>>

/** A price list that changes `max_output` of the model. */
const FOLDER = mkdtempSync(join(tmpdir(), 'tollgate-prices-'))
const PRICES = join(FOLDER, 'prices.json')
const GPT_5 = {
  litellm_provider: 'openai',
  max_output_tokens: 1000,
  input_cost_per_token: 1e-6,
  output_cost_per_token: 1e-5,
}
writeFileSync(PRICES, JSON.stringify({ 'gpt-5': GPT_5 }))
afterAll(() => rmSync(FOLDER, { recursive: true }))

let people = 0
async function register(gateway: InProcess) {
  const origin = gateway.running.dashboardUrl!
  const email = `person${++people}@example.com`
  const answer = await fetch(`${gateway.running.dashboardUrl}/api/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-tollgate-dashboard': '1', origin },
    body: JSON.stringify({ email, password: 'correct horse battery' }),
  })
  await answer.body?.cancel()
  return { status: answer.status, account: gateway.running.store.reads.findAccount(email) }
}

/** Shorter than each standard deadline that a row changes. */
const LONG_MS = 8000

/**
 * Waits for an event that comes soon only with the changed configuration. Returns null if it does not come.
 * @param quietMs the wait with the old configuration: at least as long as the event takes with the new one
 */
function soon<Result>(event: Promise<Result>, isChanged: boolean, quietMs: number): Promise<Result | null> {
  return Promise.race([event, wait(isChanged ? LONG_MS : quietMs, null, { ref: false })])
}

/** The status for a body that never arrives; null if the gateway sends none before the standard deadline. */
async function slowBody(gateway: InProcess, head: string, isChanged: boolean): Promise<string | null> {
  const client = await openRaw(gateway.url)
  client.socket.write(head)
  const answered = client.readResponse().then(({ status }) => String(status))
  // The server checks for late requests once a second.
  const seen = await soon(answered, isChanged, 1300)
  answered.catch(() => {})
  client.socket.destroy()
  return seen
}
const HALF_HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n'
const HALF_BODY = `${HALF_HEAD}content-type: application/json\r\ncontent-length: 100\r\n\r\n{`

/** Counts the comments of a stream whose provider is silent until `wanted` comments, or the end of the wait. */
async function pings(gateway: InProcess, wanted: number, isChanged: boolean, quietMs: number): Promise<number> {
  provider.script(gated({ tokens: 1 }))
  const index = provider.requests.length
  const { promise: reached, resolve } = Promise.withResolvers<void>()
  let [text, count] = ['', 0]
  const read = async () => {
    for await (const bytes of (await gateway.chat({ stream: true })).body!) {
      text += Buffer.from(bytes)
      count = text.match(/^: ?ping/gm)?.length ?? 0
      if (count >= wanted) resolve()
    }
  }
  const reading = read()
  const request = await provider.waitForRequest(index)
  await soon(reached, isChanged, quietMs)
  request.release()
  await reading
  provider.script(exact())
  return count
}

const KEEPING = [
  { path: '/v1/chat/completions', policy: 'test' },
  { path: '/v1/responses', policy: 'test', keep_responses: '1h' },
]

/** Sends requests on the route that keeps responses. Returns the status of each response when it is read afterwards. */
async function kept({ url, key }: InProcess, inputs: readonly string[]): Promise<number[]> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const ids: string[] = []
  for (const input of inputs) {
    const body = JSON.stringify({ model: 'm', input })
    const answer = await fetch(`${url}/v1/responses`, { method: 'POST', headers, body })
    ids.push(((await answer.json()) as { id: string }).id)
  }
  return Promise.all(ids.map(id => status(fetch(`${url}/v1/responses/${id}`, { headers }))))
}

/** The data of the collector after one more exchange. */
async function exported(gateway: InProcess): Promise<OtlpReceiver> {
  await status(gateway.chat())
  await gateway.stop()
  return collector
}
const TELEMETRY = (changes: object) => (yaml: Yaml) => {
  yaml['telemetry'] = { endpoint: collector.url, ...changes }
}

/** The number of listed alerts, once it is reached. */
async function listedAlerts({ running: { store } }: InProcess, expected: number): Promise<number> {
  const count = async () => (await store.alerts.list({ limit: 9 })).items.length
  await expect.poll(count).toBe(expected)
  return count()
}

const LIMIT = (key: string, value: unknown) => (yaml: Yaml) => {
  yaml['limits'] = { ...(yaml['limits'] as object), [key]: value }
}
const SET = (key: string, value: unknown) => (yaml: Yaml) => {
  yaml[key] = value
}

const ROWS: Readonly<Record<string, Row>> = {
  version: { change: SET('version', 2), after: null },
  listen: { change: SET('listen', '127.0.0.1:1'), after: null },
  threads: { change: SET('threads', 'auto'), after: null },
  admin: { change: SET('admin', '127.0.0.1:1'), after: null },
  dashboard: { change: SET('dashboard', '127.0.0.1:0'), after: null },
  store: { change: SET('store', 'sqlite:./other.db'), after: null },
  state: { change: SET('state', 'redis://127.0.0.1:2'), after: null },
  secret: { change: SET('secret', '${OTHER}'), after: null },
  metrics: {
    change: SET('metrics', 'token'),
    async sees({ running: { store, adminUrl } }) {
      const { secret } = await store.people.createToken({ name: 'prometheus', expiresAt: null, createdBy: 'test' })
      const headers = { authorization: `Bearer ${secret}` }
      return [await status(fetch(`${adminUrl}/metrics`)), await status(fetch(`${adminUrl}/metrics`, { headers }))]
    },
    before: [200, 200],
    after: [401, 200],
  },
  'telemetry.endpoint': {
    change: yaml => TELEMETRY({ endpoint: `${collector.url}/new/` })(yaml),
    sees: async gateway => (await exported(gateway)).requests[0]!.path,
    after: '/new/v1/traces',
  },
  'telemetry.protocol': {
    change: TELEMETRY({ protocol: 'json' }),
    sees: async gateway => (await exported(gateway)).requests[0]!.headers['content-type'],
    after: 'application/json',
  },
  'telemetry.ratio': {
    change: TELEMETRY({ ratio: 0 }),
    sees: async gateway => (await exported(gateway)).requests.map(({ path }) => path),
    after: ['/v1/metrics'],
  },
  'telemetry.headers': {
    change: TELEMETRY({ headers: { 'x-team': 'blue' } }),
    sees: async gateway => (await exported(gateway)).requests[0]!.headers['x-team'],
    after: 'blue',
  },
  'telemetry.allow_insecure': {
    change: TELEMETRY({ allow_insecure: true }),
    sees: async gateway => (await exported(gateway)).spans.length,
    after: 2,
  },
  'telemetry.metrics': {
    change: TELEMETRY({ metrics: false }),
    sees: async gateway => (await exported(gateway)).requests.map(({ path }) => path),
    after: ['/v1/traces'],
  },
  'telemetry.attributes': {
    change: TELEMETRY({ attributes: { 'service.name': 'gate' } }),
    sees: async gateway => (await exported(gateway)).spans[0]!.resource['service.name'],
    after: 'gate',
  },
  'alerts.low_balance': {
    change: SET('alerts', { low_balance: '$2000' }),
    sees: (gateway, isChanged) => listedAlerts(gateway, isChanged ? 1 : 0),
    before: 0,
    after: 1,
  },
  'alerts.keep': {
    change: SET('alerts', { keep: '7d' }),
    async sees(gateway, isChanged) {
      const old = { id: 'old', kind: 'budget', at: Date.now() - 8 * 86_400_000, account: null, data: {} }
      if (!isChanged) await gateway.running.store.alerts.put([old])
      return listedAlerts(gateway, isChanged ? 0 : 1)
    },
    before: 1,
    after: 0,
  },
  'alerts.webhooks': {
    change: yaml => SET('alerts', { webhooks: [{ name: 'ops', url: `${provider.baseUrl}/hook` }] })(yaml),
    async sees({ running: { store } }) {
      const isKnown = () => store.alerts.due([{ name: 'ops', events: [] }], Date.now())
      await expect.poll(isKnown).toEqual([])
      await store.alerts.put([{ id: 'new', kind: 'budget', at: Date.now(), account: null, data: {} }])
      const paths = () => provider.requests.map(({ path }) => path)
      await expect.poll(paths).toContain('/v1/hook')
    },
    after: undefined,
  },
  dashboard_url: {
    yaml: { ...PEOPLE, trust_proxy: 1 },
    change: SET('dashboard_url', 'https://gate.example.com'),
    // The listener then refuses its own address as a host name.
    sees: gateway => status(fetch(`${gateway.running.dashboardUrl}/api/about`)),
    before: 200,
    after: 404,
  },
  public_url: {
    yaml: { ...PEOPLE, public_url: 'https://one.example.com/v1' },
    change: SET('public_url', 'https://two.example.com/v1'),
    sees: async gateway => (await about(gateway))['base_url'],
    before: 'https://one.example.com/v1',
    after: 'https://two.example.com/v1',
  },
  'registration.mode': {
    yaml: PEOPLE,
    change: SET('registration', { mode: 'closed' }),
    sees: async gateway => (await register(gateway)).status,
    before: 201,
    after: 403,
  },
  'registration.credit': {
    yaml: PEOPLE,
    change: SET('registration', { mode: 'open', credit: '$2' }),
    sees: async gateway => (await register(gateway)).account!.posted,
    before: 1_000_000_000n,
    after: 2_000_000_000n,
  },
  'registration.plan': {
    yaml: PEOPLE,
    change: SET('registration', { mode: 'open', credit: '$1', plan: 'gold' }),
    sees: async gateway => (await register(gateway)).account!.plan,
    before: 'default',
    after: 'gold',
  },
  trust_proxy: {
    change: SET('trust_proxy', 1),
    async sees(gateway) {
      const headers = {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        'x-forwarded-for': '192.0.2.7',
      }
      const answer = await gateway.chat({}, { headers })
      await answer.body?.cancel()
      return answer.headers.get('x-address')
    },
    before: '127.0.0.1',
    after: '192.0.2.7',
  },
  hosts: {
    change: SET('hosts', ['gate.example.com']),
    sees: gateway => status(gateway.chat()),
    before: 200,
    after: 404,
  },
  'limits.max_inflight': {
    change: LIMIT('max_inflight', 1),
    async sees(gateway) {
      provider.script(gated({ tokens: 1 }))
      const index = provider.requests.length
      const first = gateway.chat()
      const request = await provider.waitForRequest(index)
      provider.script(exact())
      const second = await status(gateway.chat())
      request.release()
      await (await first).text()
      await gateway.exchangeLine((await first).headers.get('x-request-id')!)
      return second
    },
    before: 200,
    after: 503,
  },
  'limits.body': {
    change: LIMIT('body', '1KiB'),
    sees: gateway => status(gateway.chat({ messages: [{ role: 'user', content: 'x'.repeat(3000) }] })),
    before: 200,
    after: 413,
  },
  'limits.answer': {
    change: LIMIT('answer', '1KiB'),
    async sees(gateway) {
      provider.script(exact({ tokens: ['x'.repeat(5000)] }))
      const seen = await status(gateway.chat({ max_tokens: 900 }))
      provider.script(exact())
      return seen
    },
    before: 200,
    after: 502,
  },
  'limits.bodies_in_flight': {
    model: { context: '10M' },
    change: LIMIT('bodies_in_flight', '1MiB'),
    // A body above the total limit is refused as too large.
    sees: gateway => status(gateway.chat({ messages: [{ role: 'user', content: 'x'.repeat(1_500_000) }] })),
    before: 200,
    after: 413,
  },
  'limits.kept_response': {
    yaml: { routes: KEEPING },
    change: LIMIT('kept_response', '1KiB'),
    sees: async gateway => (await kept(gateway, ['x'.repeat(3000)]))[0],
    before: 200,
    after: 404,
  },
  'limits.kept_responses': {
    yaml: { routes: KEEPING },
    model: { context: '10M' },
    change: LIMIT('kept_responses', '1MiB'),
    // The second one displaces the first.
    sees: async gateway => (await kept(gateway, ['x'.repeat(700_000), 'y'.repeat(700_000)])).join(),
    before: '200,200',
    after: '404,200',
  },
  'limits.event_loop': {
    yaml: { limits: { event_loop: '10s' } },
    change: LIMIT('event_loop', '1ms'),
    async sees(gateway, isChanged) {
      // CPU time of the thread counts, so the loop is late on any machine.
      const busy = setInterval(() => burn(60), 10)
      const until = performance.now() + (isChanged ? Number.POSITIVE_INFINITY : 300)
      const seen = new Set<number>()
      while (performance.now() < until && !seen.has(503)) {
        for (const answer of await Promise.all(Array.from({ length: 10 }, () => gateway.chat())))
          seen.add(answer.status)
      }
      clearInterval(busy)
      return seen.has(503)
    },
    before: false,
    after: true,
  },
  catalog: {
    yaml: {
      providers: { far: { dialect: 'openai', base_url: 'https://api.openai.com/v1' } },
      models: { m: { targets: [{ provider: 'far', model: 'gpt-5' }], price: 'auto' } },
    },
    change: SET('catalog', PRICES),
    async sees({ url, key }) {
      const answer = await fetch(`${url}/v1/models/m`, { headers: { authorization: `Bearer ${key}` } })
      return ((await answer.json()) as { max_output: number }).max_output
    },
    before: 128_000,
    after: 1000,
  },
  'cors.origins': {
    change: SET('cors', { origins: ['https://app.example.com'] }),
    async sees(gateway) {
      const answer = await gateway.chat({}, { headers: { origin: 'https://app.example.com' } })
      return answer.headers.get('access-control-allow-origin')
    },
    before: null,
    after: 'https://app.example.com',
  },
  'overload.prefer': {
    change: SET('overload', { prefer: ['default'] }),
    async sees(gateway) {
      await status(gateway.chat())
      return THREAD_QUEUE.owners.account(gateway.accountId).weight
    },
    before: 1,
    after: 4,
  },
  plans: {
    change: SET('plans', { default: { weight: 9 } }),
    async sees(gateway) {
      await status(gateway.chat())
      return THREAD_QUEUE.owners.account(gateway.accountId).weight
    },
    before: 1,
    after: 9,
  },
  'limits.headers': {
    change: LIMIT('headers', '100ms'),
    sees: (gateway, isChanged) => slowBody(gateway, HALF_HEAD, isChanged),
    before: null,
    after: '408',
  },
  'limits.request': {
    change: yaml => {
      yaml['limits'] = { request: '200ms', headers: '100ms' }
    },
    sees: (gateway, isChanged) => slowBody(gateway, HALF_BODY, isChanged),
    before: null,
    after: '408',
  },
  'limits.stall': {
    model: { context: '100M', max_output: '50M' },
    yaml: { limits: { stall: '10m' } },
    change: LIMIT('stall', '500ms'),
    async sees(gateway, isChanged) {
      const piece = 'x'.repeat(60_000)
      provider.script(stream({ tokens: Array.from({ length: 1000 }, () => piece), obeyCap: false }))
      const client = await openRaw(gateway.url)
      client.pause()
      const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
      await client.post('/v1/chat/completions', body, { authorization: `Bearer ${gateway.key}` })
      const line = gateway.waitForLog(each => each['msg'] === 'exchange').then(each => each['outcome'])
      const seen = await soon(line, isChanged, 1000)
      client.socket.destroy()
      if (seen === null) {
        await line
        ;(gateway.log as unknown[]).length = 0
      }
      provider.script(exact())
      return seen
    },
    before: null,
    after: 'client_left',
  },
  drain: {
    change: SET('drain', '50ms'),
    async sees(gateway) {
      provider.script(gated({ tokens: 1 }))
      const index = provider.requests.length
      const answer = gateway.chat({ stream: true })
      await provider.waitForRequest(index)
      gateway.running.drain()
      const text = await (await answer).text()
      provider.script(exact())
      return text.includes('"error"')
    },
    after: true,
  },
  'heartbeat.first': {
    change: SET('heartbeat', { first: '50ms' }),
    sees: (gateway, isChanged) => pings(gateway, 1, isChanged, 200),
    before: 0,
    after: 1,
  },
  'heartbeat.every': {
    yaml: { heartbeat: { first: '50ms' } },
    change: SET('heartbeat', { first: '50ms', every: '1s' }),
    sees: (gateway, isChanged) => pings(gateway, 2, isChanged, 1200),
    before: 1,
    after: 2,
  },
  providers: {
    change: yaml => {
      yaml.providers['p']!['headers'] = { 'x-team': 'blue' }
    },
    async sees(gateway) {
      await status(gateway.chat())
      return provider.requests.at(-1)!.headers['x-team']
    },
    before: undefined,
    after: 'blue',
  },
  models: {
    change: yaml => {
      yaml.models['n'] = { ...yaml.models['m']! }
    },
    sees: gateway => status(gateway.chat({ model: 'n' })),
    before: 404,
    after: 200,
  },
  routes: {
    change: yaml => {
      yaml.routes.push({ path: '/new/v1/chat/completions', policy: 'test', kind: 'chat' })
    },
    sees: gateway => status(fetch(`${gateway.url}/new/v1/chat/completions`, { method: 'POST' })),
    before: 404,
    after: 415,
  },
}

/** Keys of the top and of nested maps. Maps such as `providers` count as one key, because their keys are names. */
function keysOf({ properties }: { readonly properties: object }): string[] {
  return Object.entries(properties).flatMap(([key, schema]: [string, { readonly properties?: object }]) =>
    schema.properties ? Object.keys(schema.properties).map(inner => `${key}.${inner}`) : [key],
  )
}

test('the table has every key', () => {
  expect(Object.keys(ROWS).toSorted()).toEqual(keysOf(GATEWAY_SCHEMA).toSorted())
})

/** Uses the CPU for this time. */
function burn(ms: number): void {
  const began = process.threadCpuUsage()
  const used = () => {
    const { user, system } = process.threadCpuUsage(began)
    return (user + system) / 1000
  }
  while (used() < ms);
}

test.each(Object.entries(ROWS))('%s', async (key, row) => {
  provider.script(exact())
  await using gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [mirror],
    steps: [{ use: 'mirror' }, ...FIVE_STEPS],
    credit: '1000',
    env: { OTHER: 'another secret that is long enough' },
    yaml: { admin: '127.0.0.1:0', ...row.yaml },
    ...(row.model ? { model: row.model } : {}),
  })
  if ('before' in row) expect(await row.sees!(gateway, false)).toEqual(row.before)
  edit(gateway, row.change)
  const result = await gateway.running.reload()
  if (row.after === null) {
    expect(result).toBe('refused')
    const readiness = (await fetch(`${gateway.running.adminUrl}/readyz`).then(answer => answer.json())) as object
    const says = key === 'version' ? 'must be 1' : `:1: a change of ${key} needs a restart`
    expect(readiness).toMatchObject({ configuration: expect.stringContaining(says) })
    expect(await status(gateway.chat())).toBe(200)
  } else {
    expect(result, JSON.stringify(gateway.log.at(-1))).toBe('changed')
    expect(await row.sees!(gateway, true)).toEqual(row.after)
  }
})
