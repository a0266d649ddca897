/**
 * The shutdown of a gateway by an operator: signals to a real process with answers in progress. Started answers are completed or get an
 * error, everything is settled before the process ends, and the next start has nothing to repair. The operators' view meanwhile (health,
 * metrics) is tested here too.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { formatMoney, parseMoney } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import {
  exact,
  type FakeProvider,
  gated,
  type ProviderRequest,
  startFakeProvider,
  withhold,
} from '../helpers/fake-provider.ts'
import { answerOf, createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { PRICE } from '../helpers/in-process.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { chunksOf, contentOf, parseSse } from '../helpers/sse.ts'
import { until } from '../helpers/until.ts'

const counts = countsOf('kills')

/** One second is promised; a busy machine gets five. */
const IDLE_END_MAX_MS = 5 * 1000
const CREDIT = '100'
const STREAMS = counts(20, 200)
const TOKENS = ['alpha', 'beta', 'gamma']
/** 10 prompt tokens and three of output, as the provider reports them. */
const REPORTED = BigInt(10 * 1000 + TOKENS.length * 2000)
/** "Hello" is estimated at a quarter of its bytes and four for the message. */
const ESTIMATED_PROMPT = Math.ceil('Hello'.length / 4) + 4

let provider: FakeProvider
let gateway: Gateway
let dir: string | undefined
let account: { accountId: string; key: string }
/** The charges of the account so far, by the test's own sums. */
let spent = 0n

/** Starts on the same directory each time; processes that a failed test left running are ended first. */
async function start(drain = '10m'): Promise<void> {
  if (dir !== undefined) await gateway.kill9()
  gateway = await startGateway({
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'sqlite:./data/tollgate.db',
      drain,
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        // Room for the large answers: one far beyond the cap would be broken off.
        m: { targets: [{ provider: 'p', model: 'upstream' }], price: PRICE, context: '4Mi', max_output: '2Mi' },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'chat' },
        { path: '/v1/receipts/{id}', policy: 'receipts' },
      ],
    },
    policies: {
      chat: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] },
      receipts: { steps: [{ use: 'api-key' }] },
    },
    ...(dir === undefined ? {} : { dir }),
  })
  dir = gateway.dir
}

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: TOKENS }) })
  await start()
  account = await createAccount(gateway, { credit: CREDIT })
})
afterAll(() => provider.close())

/** Sends a request on its own connection and waits until the provider has it. */
async function ask(body: object): Promise<{ client: RawClient; upstream: ProviderRequest }> {
  const index = provider.requests.length
  const client = await openRaw(gateway.url)
  await post(client, body)
  return { client, upstream: await provider.waitForRequest(index) }
}

function post(client: RawClient, body: object): Promise<void> {
  const whole = { model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...body }
  return client.post('/v1/chat/completions', whole, { authorization: `Bearer ${account.key}` })
}

/** Sends SIGTERM; resolves when the gateway has received it. */
async function terminate(): Promise<void> {
  process.kill(gateway.pid, 'SIGTERM')
  await gateway.waitForLog(({ msg }) => msg === 'shutting down')
}

/** Nothing runs any more: the audit finds no open hold, so recovery has nothing to do. */
async function expectSettled(): Promise<void> {
  expect(await answerOf(['ledger', 'verify'], gateway)).toMatchObject({ open_holds: 0, violations: [] })
}

async function expectBalance(): Promise<void> {
  const shown = await answerOf<{ account: unknown }>(['account', 'show', account.accountId], gateway)
  const posted = formatMoney(parseMoney(CREDIT) - spent)
  expect(shown.account).toMatchObject({ posted, held: formatMoney(0n) })
}

async function receiptOf(id: string): Promise<unknown> {
  const answer = await fetch(`${gateway.url}/v1/receipts/${id}`, {
    headers: { authorization: `Bearer ${account.key}` },
  })
  return answer.json()
}

const get = async (url: string) => {
  const answer = await fetch(url)
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text, json: () => JSON.parse(text) as unknown }
}

describe('operators', () => {
  test.each(['/livez', '/readyz'])('%s on both listeners', async path => {
    for (const base of [gateway.url, gateway.adminUrl]) {
      const { status, headers, json } = await get(base + path)
      expect(status).toBe(200)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(json()).toEqual({ status: 'ok' })
      expect((await fetch(base + path, { method: 'POST' })).status).toBe(405)
    }
  })

  test.each(['/', '/metric', '/v1/chat/completions'])('%s is a 404 on the operators’ listener', async path => {
    const { status, headers, json } = await get(gateway.adminUrl + path)
    expect(status).toBe(404)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    const error = { message: expect.any(String), type: 'invalid_request_error', param: null, code: 'unknown_url' }
    expect(json()).toEqual({ error })
  })

  test('metrics are not for clients', async () => {
    expect((await get(`${gateway.url}/metrics`)).status).toBe(404)
  })

  test('metrics count exchanges by their outcome, and charges to the nano-dollar', async () => {
    provider.script(exact({ tokens: TOKENS }))
    for (const stream of [false, true]) {
      const { client } = await ask({ stream })
      await client.readResponse()
      spent += REPORTED
    }
    const refused = await openRaw(gateway.url)
    await post(refused, { model: 'unknown' })
    expect((await refused.readResponse()).status).toBe(404)
    // The last of the three is recorded when its line is written.
    await gateway.waitForLog(({ msg, code }) => msg === 'exchange' && code === 'model_not_found')

    const { status, headers, text } = await get(`${gateway.adminUrl}/metrics`)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const samples = samplesOf(text)
    const where = 'route="/v1/chat/completions",model="m",provider="p"'
    expect(samples.get(`tollgate_exchanges_total{${where},outcome="answered",code="none"}`)).toBe('2')
    const unknown = 'route="/v1/chat/completions",model="none",provider="none",outcome="refused"'
    expect(samples.get(`tollgate_exchanges_total{${unknown},code="model_not_found"}`)).toBe('1')
    // Of the stream alone.
    expect(samples.get('tollgate_time_to_first_token_seconds_count{model="m",provider="p"}')).toBe('1')
    expect(samples.get('tollgate_time_per_output_token_seconds_count{model="m",provider="p"}')).toBe('1')
    expect(samples.get(`tollgate_charged_dollars_total{${where}}`)).toBe(formatMoney(2n * REPORTED))
    expect(samples.get(`tollgate_tokens_total{${where},type="input"}`)).toBe('20')
    expect(samples.get(`tollgate_tokens_total{${where},type="output"}`)).toBe(String(2 * TOKENS.length))
    expect(samples.get('tollgate_attempts_total{provider="p",target="p/upstream",code="none"}')).toBe('2')
    expect(samples.get('tollgate_holds_open')).toBe('0')
    expect(samples.get('tollgate_ledger_healthy')).toBe('1')
  })
})

/** The samples of a page of metrics; a line that is neither a sample nor a comment is an error. */
function samplesOf(page: string): ReadonlyMap<string, string> {
  expect(page.endsWith('\n')).toBe(true)
  const samples = new Map<string, string>()
  for (const line of page.trimEnd().split('\n')) {
    if (/^# (HELP|TYPE) [a-z_]+ ./.test(line)) continue
    const [, name, value] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? []
    expect(name, line).toBeDefined()
    expect(samples.has(name!), `${name} twice`).toBe(false)
    samples.set(name!, value!)
  }
  return samples
}

/** More than the kernel's buffers between two local sockets hold. */
const LARGE_BYTES = 16 * 1024 * 1024
const PIECES = 256

test('SIGTERM: no new work; answers in progress are completed, even for slow readers; then exit code 0, with everything settled', async () => {
  provider.script(gated({ tokens: TOKENS }))
  const stream = await ask({ stream: true, stream_options: { include_usage: true } })
  const whole = await ask({})
  await stream.upstream.step(2)
  await stream.client.readUntil(TOKENS[0]!)
  // Two that do not read: one has its answer waiting in the gateway, one has most of it still at the provider.
  provider.script(exact({ tokens: ['x'.repeat(LARGE_BYTES)] }))
  const slowWhole = await ask({})
  await slowWhole.client.readUntil('xxx')
  slowWhole.client.pause()
  provider.script(exact({ tokens: Array<string>(PIECES).fill('y'.repeat(LARGE_BYTES / PIECES)) }))
  const slowStream = await ask({ stream: true })
  await slowStream.client.readUntil('yyy')
  slowStream.client.pause()
  await provider.waitForClose(slowWhole.upstream)
  const idle = await openRaw(gateway.url)
  const early = await openRaw(gateway.url)
  await early.send('GET /v1/receipts/req_1 HTTP/1.1\r\nhost: x\r\n')
  // These are answered on the same listener after those two: by then the gateway has accepted both and read their requests.
  for (let round = 0; round < 3; round++) expect((await get(`${gateway.url}/livez`)).status).toBe(200)
  expect((await get(`${gateway.adminUrl}/readyz`)).status).toBe(200)

  await terminate()
  const ready = await get(`${gateway.adminUrl}/readyz`)
  expect(ready.status).toBe(503)
  expect(ready.json()).toEqual({ status: 'not ready', reason: 'the gateway is shutting down' })
  expect((await get(`${gateway.adminUrl}/livez`)).status).toBe(200)
  expect(samplesOf((await get(`${gateway.adminUrl}/metrics`)).text).get('tollgate_inflight_exchanges')).toBe('4')
  await expect(fetch(gateway.url)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
  expect(await idle.closed).toBe('fin')
  // A request that had begun to arrive is refused.
  await early.send(`authorization: Bearer ${account.key}\r\n\r\n`)
  const refusal = await early.readResponse()
  expect(refusal.status).toBe(503)
  expect(JSON.parse(refusal.text())).toMatchObject({ error: { code: 'shutting_down', type: 'server_error' } })
  expect(refusal.header('connection')).toBe('close')
  expect(refusal.header('retry-after')).toBe('1')

  stream.upstream.release()
  whole.upstream.release()
  const streamed = parseSse((await stream.client.readResponse()).text())
  expect(contentOf(streamed)).toBe(TOKENS.join(''))
  expect(streamed.done).toBe(true)
  const answered = await whole.client.readResponse()
  expect(answered).toMatchObject({ status: 200, end: 'length' })
  // Without this header the client would send its next request on the same connection.
  expect(answered.header('connection')).toBe('close')
  slowWhole.client.resume()
  slowStream.client.resume()
  const large = await slowWhole.client.readResponse()
  expect(large.end).toBe('length')
  expect(JSON.parse(large.text()).choices[0].message.content).toHaveLength(LARGE_BYTES)
  const largeStream = await slowStream.client.readResponse()
  expect(largeStream.end).toBe('chunked')
  const pieces = parseSse(largeStream.text())
  expect(contentOf(pieces)).toHaveLength(LARGE_BYTES)
  expect(pieces.done).toBe(true)

  expect(await gateway.exited).toBe(0)
  expect(gateway.stderr()).toBe('')
  spent += 2n * REPORTED + BigInt(10 * 1000 + 2000) + BigInt(10 * 1000 + PIECES * 2000)
  await expectSettled()
})

/** A client that has requested more than the kernel buffers, and stops reading in the middle. */
async function askWithoutReading(): Promise<RawClient> {
  provider.script(exact({ tokens: ['x'.repeat(LARGE_BYTES)] }))
  const { client } = await ask({})
  await client.readUntil('xxx')
  client.pause()
  spent += BigInt(10 * 1000 + 2000)
  return client
}

describe('cut', () => {
  const CASES = [
    { name: 'by the end of `drain`', drain: '300ms', again: false },
    { name: 'by a second SIGTERM', drain: '10m', again: true },
  ]
  test.each(CASES)('$name: one error event, then the end; charged as delivered; 0', async ({ drain, again }) => {
    await start(drain)
    provider.script(gated({ tokens: TOKENS }))
    const begun = await ask({ stream: true })
    await begun.upstream.step(3)
    await begun.client.readUntil(TOKENS[1]!)
    provider.script(withhold(exact()))
    const silent = await ask({ stream: true })
    const whole = await ask({})
    const coming = await openRaw(gateway.url)
    await coming.send(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\nauthorization: Bearer ${account.key}\r\n\r\n{`,
    )

    // Connections are accepted in order: after this answer the half request was accepted too, and is not in a backlog.
    expect((await get(`${gateway.url}/livez`)).status).toBe(200)
    const stuck = again ? await askWithoutReading() : null

    await terminate()
    if (again) {
      expect((await get(`${gateway.adminUrl}/readyz`)).status).toBe(503)
      expect(begun.upstream.ending, 'the first signal cuts nothing').toBeNull()
      process.kill(gateway.pid, 'SIGTERM')
    }
    const answer = await begun.client.readResponse()
    const events = chunksOf(parseSse(answer.text()))
    expect(contentOf(parseSse(answer.text()))).toBe(TOKENS[0]! + TOKENS[1]!)
    expect(events.filter(({ error }) => error)).toEqual([events.at(-1)])
    expect(events.at(-1)!.error).toMatchObject({ code: 'shutting_down', type: 'server_error', param: null })
    expect(answer.text()).not.toContain('[DONE]')
    expect(answer.text()).not.toMatch(/"finish_reason":"/)
    expect(await begun.client.closed).toBe('fin')
    for (const { client } of [silent, whole, { client: coming }]) {
      const refused = await client.readResponse()
      expect(refused.status).toBe(503)
      expect(JSON.parse(refused.text())).toMatchObject({ error: { code: 'shutting_down' } })
    }
    for (const { upstream } of [begun, silent, whole]) {
      expect((await provider.waitForClose(upstream)).how).not.toBe('answered')
    }
    expect(await gateway.exited).toBe(0)
    expect(gateway.stderr()).toBe('')
    // Its answer is charged although it was not read: the shutdown did not wait for it.
    stuck?.resume()
    if (stuck) expect((await stuck.readResponse()).end).toBe('cut')
    await expectSettled()

    // The next start finds nothing to do, and shows the owner the result.
    const nano = BigInt(ESTIMATED_PROMPT * 1000 + Math.max(2, Math.ceil('alphabeta'.length / 4)) * 2000)
    spent += nano
    await start()
    expect(gateway.logs().filter(({ settled }) => settled !== undefined)).toEqual([])
    expect(await receiptOf(answer.header('x-request-id')!)).toMatchObject({
      outcome: 'cut',
      code: 'shutting_down',
      charged: formatMoney(nano),
      usage: { source: 'estimated' },
    })
    await expectBalance()
    expect(await gateway.stop()).toBe(0)
  })
})

describe(`SIGTERM with ${STREAMS} streams open`, () => {
  /** This many streams that have each sent a piece, and the ledger's counts before them. */
  async function openStreams() {
    const { events } = await ledger()
    provider.script(gated({ tokens: TOKENS }))
    const from = provider.requests.length
    const clients = await Promise.all(
      Array.from({ length: STREAMS }, async () => {
        const client = await openRaw(gateway.url)
        await post(client, { stream: true, max_tokens: 64, stream_options: { include_usage: true } })
        return client
      }),
    )
    await provider.waitForRequest(from + STREAMS - 1)
    const upstreams = provider.requests.slice(from)
    await Promise.all(upstreams.map(upstream => upstream.step(2)))
    await Promise.all(clients.map(client => client.readUntil(TOKENS[0]!)))
    return { clients, upstreams, events }
  }

  async function ledger(): Promise<{ events: number }> {
    const report = await answerOf<{ events: number }>(['ledger', 'verify'], gateway)
    expect(report).toMatchObject({ open_holds: 0, violations: [] })
    return report
  }

  /** The process has ended properly, and each stream has a hold and a settle: the next start has nothing to do. */
  async function expectAllSettled(before: number, title: string, startedAt: number, freedAt: number) {
    expect(await gateway.exited).toBe(0)
    const now = performance.now()
    expect(gateway.stderr()).toBe('')
    const settled = ((await ledger()).events - before) / 2
    expect(settled).toBe(STREAMS)
    console.log(
      `${STREAMS} streams ${title}: ended ${(now - startedAt).toFixed(0)} ms after SIGTERM, ` +
        `${(now - freedAt).toFixed(0)} ms after the last one could; ${settled} settled`,
    )
    await expectBalance()
  }

  test('all of them are completed within the drain, and each connection ends with its stream', async () => {
    await start()
    const { clients, upstreams, events } = await openStreams()
    const startedAt = performance.now()
    await terminate()
    const last = upstreams.at(-1)!
    for (const upstream of upstreams) if (upstream !== last) upstream.release()
    // The mapping of clients to upstream requests is unknown; all but one end while that one keeps the gateway running.
    const ended: RawClient[] = []
    const answers = clients.map(async client => {
      const answer = await client.readResponse()
      ended.push(client)
      return answer
    })
    await until(() => expect(ended).toHaveLength(STREAMS - 1))
    for (const client of ended) expect(await client.closed).toBe('fin')
    expect((await get(`${gateway.adminUrl}/livez`)).status).toBe(200)
    const freedAt = performance.now()
    last.release()
    for (const answer of await Promise.all(answers)) {
      expect(answer).toMatchObject({ status: 200, end: 'chunked' })
      const stream = parseSse(answer.text())
      expect(contentOf(stream)).toBe(TOKENS.join(''))
      expect(stream.done).toBe(true)
    }
    spent += BigInt(STREAMS) * REPORTED
    await expectAllSettled(events, 'finished', startedAt, freedAt)
  })

  test('after the drain time each gets one error event and is charged as delivered', async () => {
    await start('1s')
    const { clients, upstreams, events } = await openStreams()
    const startedAt = performance.now()
    await terminate()
    for (const client of clients) {
      const { text } = await client.readResponse()
      const chunks = chunksOf(parseSse(text()))
      expect(chunks.filter(({ error }) => error)).toEqual([chunks.at(-1)])
      expect(chunks.at(-1)!.error).toMatchObject({ code: 'shutting_down', type: 'server_error', param: null })
      expect(text()).not.toContain('[DONE]')
      expect(text()).not.toMatch(/"finish_reason":"/)
      expect(await client.closed).toBe('fin')
    }
    const freedAt = startedAt + 1000
    for (const upstream of upstreams) expect((await provider.waitForClose(upstream)).how).not.toBe('answered')
    spent += BigInt(STREAMS) * BigInt(ESTIMATED_PROMPT * 1000 + Math.ceil(TOKENS[0]!.length / 4) * 2000)
    await expectAllSettled(events, 'cut', startedAt, freedAt)
  })
})

test(`SIGTERM with nothing in progress ends within a second, whatever connections are open (${counts(2, 20)} times)`, async () => {
  const times: number[] = []
  for (let round = 0; round < counts(2, 20); round++) {
    await start()
    provider.script(exact({ tokens: TOKENS }))
    const { client: idle } = await ask({})
    expect((await idle.readResponse()).status).toBe(200)
    spent += REPORTED
    const silent = await openRaw(gateway.url)
    const operators = await openRaw(gateway.adminUrl)
    await operators.send('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n')
    expect((await operators.readResponse()).status).toBe(200)
    // Half a head: no client has been promised anything yet.
    const half = await openRaw(gateway.url)
    await half.send('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n')
    const before = performance.now()
    expect(await gateway.stop()).toBe(0)
    times.push(performance.now() - before)
    expect(gateway.stderr()).toBe('')
    for (const client of [idle, silent, operators, half]) expect(await client.closed).not.toBe('own')
  }
  console.log(`SIGTERM to the end with nothing in progress: ${times.map(ms => ms.toFixed(0)).join(', ')} ms`)
  expect(Math.max(...times)).toBeLessThan(IDLE_END_MAX_MS)
})

test('kill -9 with answers in progress: the next one starts, releases the holds and serves', async () => {
  await start()
  provider.script(gated({ tokens: TOKENS }))
  const { client, upstream } = await ask({ stream: true })
  await upstream.step(2)
  await client.readUntil(TOKENS[0]!)
  await gateway.kill9()
  await client.closed
  expect(client.received().toString()).not.toContain('[DONE]')
  await start()
  expect(gateway.logs().find(({ settled }) => settled !== undefined)).toMatchObject({ settled: 1, replayed: 0 })
  provider.script(exact({ tokens: TOKENS }))
  const next = await ask({})
  expect((await next.client.readResponse()).status).toBe(200)
  spent += REPORTED
  expect(await gateway.stop()).toBe(0)
  await expectSettled()
  await expectBalance()
})
