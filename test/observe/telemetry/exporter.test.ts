/** The exporter against a real server, with a fake clock. */
import type { ServerResponse } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { TelemetryConfig } from '../../../src/common/telemetry-config.ts'
import { type Encoding, loadEncoding } from '../../../src/observe/telemetry/encoding.ts'
import {
  BATCH_CHARACTERS,
  BATCH_SPANS,
  MAX_WAITING_CHARACTERS,
  MAX_WAITING_SPANS,
} from '../../../src/observe/telemetry/exporter.ts'
import { createTelemetry, type Telemetry } from '../../../src/observe/telemetry/telemetry.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../helpers/otlp-receiver.ts'
import { expectWithin } from '../../helpers/promised.ts'
import { seeded } from '../../helpers/seeded.ts'
import { summary } from '../summary.ts'

interface Rig {
  readonly receiver: OtlpReceiver
  readonly telemetry: Telemetry
  readonly log: (readonly [level: string, fields: Readonly<Record<string, unknown>>, message: string])[]
  /** Records `count` sampled exchanges of one span each. */
  record(count: number, tags?: Readonly<Record<string, string>>): void
  /** Like `record`, with a second span whose content has about `characters` characters. */
  recordContent(count: number, characters: number): void
  /** Advances the clock and runs the due timers. */
  pass(ms: number): void
  /** Advances the clock until the collector has received `requests` requests. */
  passUntil(requests: number): Promise<void>
  dropped(): number
}

async function rig(config: Partial<TelemetryConfig> = {}, encoding?: Encoding): Promise<Rig> {
  const receiver = await startOtlpReceiver()
  let nowMs = 1000
  let dropped = 0
  const checks = new Set<(now: number) => void>()
  const log: Rig['log'] = []
  const say = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) =>
    void log.push([level, fields, message])
  const telemetry = await createTelemetry(
    { endpoint: receiver.url, protocol: 'protobuf', ratio: 1, headers: {}, metrics: true, attributes: {}, ...config },
    {
      version: '1.2.3',
      clock: { now: () => 1_700_000_000_000 + nowMs },
      random: seeded(7),
      deadlineClock: {
        now: () => nowMs,
        watch(check) {
          checks.add(check)
          return () => checks.delete(check)
        },
      },
      log: { info: say('info'), warn: say('warn'), error: say('error') },
      redact: text => text,
      lane: null,
      dropped(spans) {
        dropped += spans
      },
    },
    encoding,
  )
  const pass = (ms: number) => {
    nowMs += ms
    for (const check of checks) check(nowMs)
  }
  onTestFinished(async () => {
    receiver.answer(true)
    await telemetry.close()
    await receiver[Symbol.asyncDispose]()
  })
  return {
    receiver,
    telemetry,
    log,
    record(count, tags = {}) {
      for (let index = 0; index < count; index++) {
        const trace = telemetry.open({})
        const common = {
          operation: null,
          attempts: [],
          asked: {},
          answer: {},
          content: null,
          finish: null,
          openedMs: nowMs,
          endedMs: nowMs + 1,
        }
        telemetry.record({ trace, summary: summary({ traceId: trace.id, tags }), ...common })
      }
    },
    recordContent(count, characters) {
      for (let index = 0; index < count; index++) {
        const trace = telemetry.open({})
        const messages = Array.from({ length: 3 }, () => ({ role: 'user', content: 'x'.repeat(characters / 3) }))
        const content = { messages, isSystemApart: false, answer: null, isCut: false }
        const common = { asked: {}, answer: {}, finish: null, openedMs: nowMs, endedMs: nowMs + 1 }
        const facts = { trace, summary: summary({ traceId: trace.id }), operation: 'chat', ...common }
        telemetry.record({ ...facts, attempts: [ATTEMPT], content })
      }
    },
    pass,
    async passUntil(requests) {
      while (receiver.requests.length < requests) {
        pass(1000)
        await new Promise(resolve => setTimeout(resolve, 5))
      }
      // The exporter needs a moment to process the last response.
      await new Promise(resolve => setTimeout(resolve, 50))
    },
    dropped: () => dropped,
  }
}

const ATTEMPT = {
  spanId: '0123456789abcdef',
  peer: { name: 'p', provider: 'openai', address: null, port: null },
  model: 'm',
  error: null,
  status: 200,
  startedMs: 0,
  endedMs: 9,
  firstChunkMs: null,
}

const messages = ({ log }: Rig) => log.map(([level, , message]) => `${level}: ${message}`)
const refuses =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(status, headers).end()

test('the span of a request has its tags', async () => {
  const all = await rig()
  all.record(1, { team: 'search' })
  all.record(1)
  await all.passUntil(1)
  const tags = all.receiver.spans.map(({ attributes }) => attributes['tollgate.tag.team'])
  expect(tags).toEqual(['search', undefined])
})

describe('a failing collector', () => {
  test.each([429, 502, 503, 504])('HTTP %d: spans wait, and the failure is logged once', async status => {
    const all = await rig()
    all.receiver.answer(refuses(status))
    all.record(3)
    await all.passUntil(3)
    expect(all.dropped()).toBe(0)
    expect(messages(all)).toEqual(['warn: telemetry cannot be exported'])
    expect(all.log[0]![1]).toEqual({ endpoint: all.receiver.url, signal: 'traces', problem: `HTTP ${status}` })
    all.receiver.answer(true)
    await all.passUntil(4)
    expect(all.receiver.spans).toHaveLength(3)
    expect(messages(all)).toEqual(['warn: telemetry cannot be exported', 'info: telemetry is exported again'])
  })

  test.each([400, 401, 403, 404, 413, 500])('HTTP %d: the batch is dropped without a retry', async status => {
    const all = await rig()
    all.receiver.answer(refuses(status))
    all.record(3)
    await all.passUntil(1)
    expect(all.dropped()).toBe(3)
    all.record(2)
    await all.passUntil(2)
    expect(all.dropped()).toBe(5)
    expect(messages(all)).toEqual(['warn: telemetry cannot be exported'])
  })

  test('a refused connection is handled like a busy collector', async () => {
    const all = await rig()
    await all.receiver[Symbol.asyncDispose]()
    all.record(1)
    all.pass(5000)
    await expect.poll(() => messages(all)).toEqual(['warn: telemetry cannot be exported'])
    expect(all.log[0]![1]).toMatchObject({ problem: 'ECONNREFUSED' })
    expect(all.dropped()).toBe(0)
    await all.telemetry.close()
    expect(all.dropped()).toBe(1)
    expect(messages(all).at(-1)).toBe('warn: telemetry ends with spans that were not exported')
  })

  test('retries back off exponentially and respect retry-after', async () => {
    const all = await rig()
    all.receiver.answer(refuses(503))
    all.record(1)
    await all.passUntil(1)
    all.pass(4000)
    await settled()
    expect(all.receiver.requests).toHaveLength(1)
    await all.passUntil(2)
    for (const ms of [4000, 4000]) all.pass(ms)
    await settled()
    expect(all.receiver.requests).toHaveLength(2)
    all.receiver.answer(refuses(503, { 'retry-after': '100' }))
    await all.passUntil(3)
    for (let second = 0; second < 98; second++) all.pass(1000)
    await settled()
    expect(all.receiver.requests).toHaveLength(3)
    all.pass(3000)
    await all.receiver.until(() => all.receiver.requests.length === 4)
  })

  test('metrics respect retry-after, and spans do not wait for them', async () => {
    const all = await rig()
    const of = (path: string) => all.receiver.requests.filter(request => request.path === path).length
    all.receiver.answer((response, { path }) =>
      path === '/v1/metrics'
        ? void response.writeHead(503, { 'retry-after': '200' }).end()
        : void response.writeHead(200).end(),
    )
    all.recordContent(1, 30)
    while (of('/v1/metrics') === 0) {
      all.pass(1000)
      await settled()
    }
    for (let second = 0; second < 190; second++) all.pass(1000)
    all.recordContent(1, 30)
    all.pass(6000)
    await expect.poll(() => of('/v1/traces')).toBe(2)
    await settled()
    expect(of('/v1/metrics')).toBe(1)
    all.pass(6000)
    await expect.poll(() => of('/v1/metrics')).toBe(2)
    expect(all.dropped()).toBe(0)
  })

  test('an unanswered metrics request does not delay spans', async () => {
    const all = await rig()
    const unanswered: ServerResponse[] = []
    all.receiver.answer((response, { path }) => {
      if (path === '/v1/traces') response.writeHead(200).end()
      else unanswered.push(response)
    })
    all.recordContent(1, 30)
    while (!all.receiver.requests.some(({ path }) => path === '/v1/metrics')) {
      all.pass(1000)
      await settled()
    }
    all.record(1)
    all.pass(6000)
    const traces = () => all.receiver.requests.filter(({ path }) => path === '/v1/traces')
    await expect.poll(traces).toHaveLength(2)
    all.record(1)
    const closing = all.telemetry.close()
    await expect.poll(traces).toHaveLength(3)
    for (const response of unanswered) response.end()
    await closing
    expect(all.dropped()).toBe(0)
  })

  test('spans that cannot be encoded are dropped and counted, and later ones are sent', async () => {
    const encoding = await loadEncoding('protobuf')
    const all = await rig(
      {},
      {
        ...encoding,
        spans(spans) {
          if (spans.length === 3) throw new Error('three are too many')
          return encoding.spans(spans)
        },
      },
    )
    all.record(3)
    all.pass(6000)
    await expect.poll(all.dropped).toBe(3)
    expect(all.log[0]![1]).toMatchObject({ signal: 'traces', problem: 'encoding failed: three are too many' })
    all.record(1)
    await all.passUntil(1)
    expect(all.receiver.spans).toHaveLength(1)
    expect(all.dropped()).toBe(3)
    expect(messages(all)).toEqual(['warn: telemetry cannot be exported', 'info: telemetry is exported again'])
  })

  test('waiting spans have a limit; those above it are dropped and counted', async () => {
    const all = await rig()
    all.receiver.answer(refuses(503))
    all.record(MAX_WAITING_SPANS + 10)
    expect(all.dropped()).toBe(10)
    await all.passUntil(1)
    all.record(5)
    expect(all.dropped()).toBe(15)
    all.receiver.answer(true)
    await all.passUntil(1 + MAX_WAITING_SPANS / BATCH_SPANS)
    expect(all.receiver.spans).toHaveLength(MAX_WAITING_SPANS)
    expect(all.log.at(-1)![1]).toMatchObject({ dropped: 15 })
  })

  test('waiting content has a limit of its own', async () => {
    const all = await rig({ metrics: false })
    all.receiver.answer(refuses(503))
    const most = Math.floor(MAX_WAITING_CHARACTERS / 30_100)
    all.recordContent(most + 40, 30_000)
    expect(all.dropped()).toBeGreaterThanOrEqual(2 * 38)
    expect(all.dropped()).toBeLessThan(2 * 60)
    const dropped = all.dropped()
    await all.passUntil(1)
    all.record(1)
    all.recordContent(10, 30_000)
    expect(all.dropped()).toBe(dropped + 20)
    all.receiver.answer(true)
    while (all.receiver.spans.length < 2 * (most + 40) - dropped + 1)
      await all.passUntil(all.receiver.requests.length + 1)
    expect(Math.max(...all.receiver.requests.map(({ body }) => body.length))).toBeLessThan(1.5 * BATCH_CHARACTERS)
    // Space is available again.
    all.recordContent(10, 30_000)
    expect(all.dropped()).toBe(dropped + 20)
  })

  test("partially rejected spans are dropped, and the collector's message is logged", async () => {
    const all = await rig({ protocol: 'json' })
    const partialSuccess = { rejectedSpans: '2', errorMessage: 'too old' }
    all.receiver.answer(response => void response.writeHead(200).end(JSON.stringify({ partialSuccess })))
    all.record(3)
    await all.passUntil(1)
    expect(all.dropped()).toBe(2)
    expect(all.log[0]![1]).toMatchObject({ problem: '2 rejected: too old' })
  })

  test.each(['-5', '1e30', '99999999999'])(
    'a report of %s rejected spans is capped at the number sent',
    async rejectedSpans => {
      const all = await rig({ protocol: 'json' })
      const partialSuccess = { rejectedSpans, errorMessage: 'too old' }
      all.receiver.answer(response => void response.writeHead(200).end(JSON.stringify({ partialSuccess })))
      all.record(3)
      await all.passUntil(1)
      expect(all.dropped()).toBe(rejectedSpans === '-5' ? 0 : 3)
    },
  )

  test.each([200, 503])('an endless answer (HTTP %d) takes bounded memory, and its status counts', async status => {
    const all = await rig({ protocol: 'json' })
    let sent = 0
    let isOver = false
    all.receiver.answer(response => {
      response.writeHead(status)
      const piece = Buffer.alloc(64 * 1024, 'x')
      const more = () => {
        while (!isOver && sent < 200e6 && response.write(piece)) sent += piece.length
      }
      response.on('drain', more).on('close', () => {
        isOver = true
      })
      more()
    })
    all.record(2)
    all.pass(5000)
    await expect.poll(() => isOver).toBe(true)
    expect(sent).toBeLessThan(20e6)
    await settled()
    expect(all.dropped()).toBe(0)
    all.receiver.answer(true)
    for (let second = 0; second < 10; second++) all.pass(1000)
    await settled()
    expect(all.receiver.spans).toHaveLength(status === 503 ? 2 : 0)
  })

  test.each([
    ['no JSON', 'json', 'nonsense'],
    ['null', 'json', 'null'],
    ['an empty object', 'json', '{}'],
    ['nothing', 'json', ''],
    ['no protobuf', 'protobuf', 'nonsense'],
    ['nothing', 'protobuf', ''],
  ] as const)('an answer that is %s (%s) means that it has taken them', async (_, protocol, body) => {
    const all = await rig({ protocol })
    all.receiver.answer(response => void response.writeHead(200).end(body))
    all.record(1)
    await all.passUntil(1)
    for (let second = 0; second < 100; second++) all.pass(1000)
    await settled()
    expect(all.receiver.requests).toHaveLength(1)
    expect(all.dropped()).toBe(0)
    expect(all.log).toEqual([])
  })

  test('headers are not sent to the target of a redirect', async () => {
    const other = await startOtlpReceiver()
    onTestFinished(() => other[Symbol.asyncDispose]())
    const all = await rig({ headers: { authorization: 'Bearer canary' } })
    all.receiver.answer(refuses(307, { location: `${other.url}/v1/traces` }))
    all.record(1)
    await all.passUntil(1)
    expect(all.receiver.requests[0]!.headers).toMatchObject({ authorization: 'Bearer canary' })
    expect(other.requests).toEqual([])
    expect(all.dropped()).toBe(1)
  })

  test('a collector that never answers delays the shutdown only briefly', async () => {
    const all = await rig()
    all.receiver.answer(() => {})
    all.record(2)
    const from = performance.now()
    await all.telemetry.close()
    expectWithin(performance.now() - from, 8000)
    expect(all.dropped()).toBe(2)
  })
})

describe('requests', () => {
  test('nothing is sent without data', async () => {
    const all = await rig()
    for (let minute = 0; minute < 10; minute++) all.pass(60_000)
    await all.telemetry.close()
    expect(all.receiver.requests).toEqual([])
  })

  test('a batch is sent after five seconds, or at once when it is full', async () => {
    const all = await rig()
    all.record(1)
    all.pass(100)
    all.pass(4000)
    await settled()
    expect(all.receiver.requests).toEqual([])
    all.pass(1500)
    await all.receiver.until(() => all.receiver.spans.length === 1)
    await settled()
    all.record(BATCH_SPANS + 1)
    all.pass(50)
    await all.receiver.until(() => all.receiver.spans.length === 1 + BATCH_SPANS)
    await settled()
    expect(all.receiver.requests).toHaveLength(2)
    all.record(2 * BATCH_SPANS)
    all.pass(50)
    // A second full batch is sent without a wait.
    await all.receiver.until(() => all.receiver.requests.length === 4)
    await settled()
    await all.telemetry.close()
    expect(all.receiver.requests).toHaveLength(5)
    expect(all.receiver.spans).toHaveLength(2 + 3 * BATCH_SPANS)
  })

  test.each(['protobuf', 'json'] as const)(
    '%s is sent with its content type and the configured headers',
    async protocol => {
      const all = await rig({ protocol, headers: { 'x-team': 'a' }, attributes: { 'service.name': 'gate' } })
      all.record(1)
      await all.telemetry.close()
      const [request] = all.receiver.requests
      expect(request!.path).toBe('/v1/traces')
      const { contentType } = await loadEncoding(protocol)
      expect(request!.headers).toMatchObject({
        'content-type': contentType,
        'x-team': 'a',
        'user-agent': 'tollgate/1.2.3',
      })
      expect(all.receiver.spans[0]!.resource).toMatchObject({ 'service.name': 'gate', 'service.version': '1.2.3' })
    },
  )

  test('no metrics are sent if they are switched off', async () => {
    const all = await rig({ metrics: false })
    const common = {
      operation: 'chat',
      attempts: [ATTEMPT],
      asked: {},
      answer: {},
      content: null,
      finish: null,
      openedMs: 0,
      endedMs: 9,
    }
    all.telemetry.record({ trace: all.telemetry.open({}), summary: summary(), ...common })
    await all.telemetry.close()
    expect(all.receiver.requests.map(({ path }) => path)).toEqual(['/v1/traces'])
  })
})

const settled = () => new Promise(resolve => setTimeout(resolve, 50))
