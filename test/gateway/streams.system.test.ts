/**
 * Streams in large numbers: thousands of stalling readers, tens of thousands of abandoned streams, and one that is cut at every byte. The
 * gateway has its own process; figures are printed.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { countsOf, isFull } from '../helpers/counts.ts'
import { type Behaviour, exact, type FakeProvider, sse, startFakeProvider, stream } from '../helpers/fake-provider.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { seeded } from '../helpers/seeded.ts'
import { readSse, sseEvents } from '../helpers/sse.ts'

const counts = countsOf('floods')
const full = isFull('floods')

const MEBIBYTE = 1024 * 1024
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
console.log(`streams: SEED=${seed}`)

/** A gateway in its own process, and a key with enough credit for all simultaneous holds. */
async function start(provider: FakeProvider, connections: number): Promise<{ gateway: Gateway; key: string }> {
  const gateway = await startGateway({
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'sqlite:./data/tollgate.db',
      limits: { max_inflight: 20_000, stall: '15m' },
      providers: {
        p: {
          dialect: 'openai',
          base_url: provider.baseUrl,
          connections,
          timeouts: { first_byte: '15m', idle: '15m', total: '15m' },
        },
      },
      models: {
        m: { targets: [{ provider: 'p', model: 'm' }], price: PRICE, context: '2M', max_output: '1M' },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: FIVE_STEPS } },
    keep: line => line['msg'] !== 'exchange',
  })
  const { key } = await createAccount(gateway, { credit: '1000000' })
  return { gateway, key }
}

async function metric(gateway: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`no metric ${name}`)
  return Number(value)
}

const mib = (bytes: number) => `${(bytes / MEBIBYTE).toFixed(1)} MiB`

const bodyOf = (content: string) => ({ model: 'm', stream: true, messages: [{ role: 'user', content }] })

function ask({ url }: Gateway, key: string, content: string, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(bodyOf(content)),
    ...(signal ? { signal } : {}),
  })
}

describe('readers that stall', () => {
  const READERS = counts(100, 2_000)
  const HEALTHY = counts(40, 100)
  const ROUNDS = counts(2, 5)
  /** Some events in one write, as when a provider is faster than its reader. */
  const PIECE = Buffer.from(
    sse({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [delta()] }).repeat(24),
  )
  const PIECES = Math.ceil((2 * MEBIBYTE) / PIECE.length)

  function delta(): object {
    return { index: 0, delta: { content: 'x'.repeat(512) }, finish_reason: null }
  }

  /** 2 MiB as fast as they are read, and then no end. */
  const endless: Behaviour = {
    name: 'endless',
    async run(call) {
      call.head(200, { 'content-type': 'text/event-stream' })
      for (let sent = 0; sent < PIECES; sent++) if (!(await call.write(PIECE))) return
      await call.closed
    },
  }

  test('cost bounded memory, and other clients are served as before', async () => {
    const healthy = exact({ tokens: 20 })
    const script = ({ body }: { body: Record<string, unknown> | undefined }) =>
      JSON.stringify(body).includes('stall') ? endless : healthy
    await using provider = await startFakeProvider({ script })
    const { gateway, key } = await start(provider, 4_096)
    await firstChunks(gateway, key)
    const before = await firstChunks(gateway, key)
    const empty = await metric(gateway, 'process_resident_memory_bytes')

    const readers: RawClient[] = []
    for (let count = 0; count < READERS; count++) {
      const reader = await openRaw(gateway.url)
      reader.pause()
      await reader.post('/v1/chat/completions', bodyOf('stall'), { authorization: `Bearer ${key}` })
      readers.push(reader)
    }
    await expect.poll(() => metric(gateway, 'tollgate_inflight_exchanges')).toBe(READERS)
    const sent = await atRest(provider)
    const most = await metric(gateway, 'process_resident_memory_bytes')
    const beside = await firstChunks(gateway, key)
    console.log(
      [
        `${READERS} stalled readers, ${mib(sent / READERS)} of ${mib(PIECES * PIECE.length)} taken from the provider for each`,
        `  memory   ${mib(empty)} before, ${mib(most)} with them: ${Math.round((most - empty) / READERS / 1024)} KiB each`,
        `  first chunk of ${HEALTHY} others, median ${before.median.toFixed(1)} -> ${beside.median.toFixed(1)} ms,` +
          ` p95 ${before.p95.toFixed(1)} -> ${beside.p95.toFixed(1)} ms` +
          ` (aim: ${(1.25 * before.median + 20).toFixed(1)} and ${(1.25 * before.p95 + 20).toFixed(1)})`,
      ].join('\n'),
    )
    if (full) expect(most).toBeLessThanOrEqual(600 * MEBIBYTE)
    // Whatever the kernel buffers, the gateway itself must not keep unread data. V8 also keeps unused buffers until it collects,
    // whatever the number of readers.
    expect(most - empty).toBeLessThan(128 * MEBIBYTE + (READERS * MEBIBYTE) / 4)

    for (const reader of readers) reader.reset()
    await expect.poll(() => metric(gateway, 'tollgate_inflight_exchanges')).toBe(0)
    expect(await metric(gateway, 'tollgate_holds_open')).toBe(0)
    expect(await gateway.stop()).toBe(0)
  })

  /** Times to the first event of simultaneous streams, measured several times. */
  async function firstChunks(gateway: Gateway, key: string): Promise<{ median: number; p95: number }> {
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const one = async () => {
        const startedAt = performance.now()
        const events = sseEvents(await ask(gateway, key, 'hello'))
        await events.next()
        times.push(performance.now() - startedAt)
        for await (const _rest of events);
      }
      await Promise.all(Array.from({ length: HEALTHY }, one))
    }
    const sorted = times.sort((one, other) => one - other)
    return { median: sorted[sorted.length >> 1]!, p95: sorted[Math.floor(sorted.length * 0.95)]! }
  }

  /** Resolves when the provider could not send anything for a while; returns the sent bytes. */
  async function atRest(provider: FakeProvider): Promise<number> {
    const sum = () => provider.requests.reduce((total, { emitted, ending }) => total + (ending ? 0 : emitted.bytes), 0)
    for (let [bytes, still] = [-1, 0]; still < 5; ) {
      await pause(100)
      const now = sum()
      still = now === bytes ? still + 1 : 0
      bytes = now
    }
    return sum()
  }
})

describe('streams that are abandoned', () => {
  const STREAMS = counts(150, 10_000)
  const POOL = 64
  const AT_ONCE = 256

  /** Begins, and continues only as long as the client is connected. */
  const begins: Behaviour = {
    name: 'begins',
    async run(call) {
      call.head(200, { 'content-type': 'text/event-stream' })
      const choices = [{ index: 0, delta: { role: 'assistant', content: 'Well' }, finish_reason: null }]
      await call.write(sse({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices }))
      await call.closed
    },
  }

  test(`leave a pool of ${POOL} connections unchanged`, async () => {
    await using provider = await startFakeProvider({ script: begins })
    const { gateway, key } = await start(provider, POOL)
    const random = seeded(seed)
    let left = STREAMS
    let inTime = 0
    const client = async () => {
      while (left-- > 0) {
        const abort = new AbortController()
        // Half of them wait for the first word, the others disconnect at any time, mostly while they wait for a connection.
        const timer = random() < 0.5 ? setTimeout(() => abort.abort(), random() * 20) : undefined
        try {
          const answer = await ask(gateway, key, 'abandon', abort.signal)
          await sseEvents(answer).next()
          inTime++
        } catch {
          expect(abort.signal.aborted).toBe(true)
        }
        clearTimeout(timer)
        abort.abort()
      }
    }
    const startedAt = performance.now()
    await Promise.all(Array.from({ length: AT_ONCE }, client))
    const abandonedAt = performance.now()

    provider.script(stream({ tokens: 3 }))
    const answers = await Promise.all(
      Array.from({ length: POOL }, async () => readSse(await ask(gateway, key, 'hello'))),
    )
    const served = performance.now() - abandonedAt
    expect(answers.filter(({ done }) => done)).toHaveLength(POOL)
    console.log(
      `${STREAMS} streams abandoned in ${((abandonedAt - startedAt) / 1000).toFixed(1)} s, ${inTime} after their first word;` +
        ` ${provider.requests.length - POOL} had reached the provider. ${POOL} full answers ${served.toFixed(0)} ms later (aim: 1000)`,
    )
    expect(served).toBeLessThan(5_000)
    expect(provider.openConnections).toBeLessThanOrEqual(POOL)
    const open = () => provider.requests.filter(({ ending }) => ending === null).length
    await expect.poll(open).toBe(0)
    await expect.poll(() => metric(gateway, 'tollgate_inflight_exchanges')).toBe(0)
    expect(await metric(gateway, 'tollgate_holds_open')).toBe(0)
    expect(await gateway.stop()).toBe(0)
  })
})

describe('a stream in pieces', () => {
  let provider: FakeProvider
  let gateway: InProcess
  beforeAll(async () => {
    provider = await startFakeProvider({ script: exact() })
    gateway = await startInProcess({ provider: provider.baseUrl })
  })
  afterAll(async () => {
    await gateway.stop()
    await provider.close()
  })

  const chunk = (delta: object, finish_reason: string | null = null) =>
    JSON.stringify({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'u',
      choices: [{ index: 0, delta, finish_reason }],
    })
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":"\\u20ac"}' } }
  const WIRE = [
    ': hello\n\n',
    `data: ${chunk({ role: 'assistant', content: '€ 😀' })}\r\n\r\n`,
    `event: message\nid: 1\ndata:${chunk({ content: 'x\n\ny' })}\n\n\n`,
    `data: ${chunk({ tool_calls: [call] })}\r\r`,
    `data: ${chunk({}, 'tool_calls').replace(',"choices"', ',\ndata: "choices"')}\n\n`,
    'data: {"id":"c","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3}}\n\ndata: [DONE]\n\n',
  ].join('')
  const BYTES = Buffer.from(WIRE)

  const pieces = (...cuts: readonly number[]): Behaviour => ({
    name: `cut at ${cuts}`,
    async run(to) {
      to.head(200, { 'content-type': 'text/event-stream' })
      const places = [0, ...cuts.toSorted((one, other) => one - other), BYTES.length]
      for (const [index, place] of places.slice(1).entries()) {
        if (!(await to.write(BYTES.subarray(places[index], place)))) return
      }
      await to.end()
    },
  })

  async function seen(...cuts: readonly number[]): Promise<{ text: string; charged: bigint | null | undefined }> {
    provider.script(pieces(...cuts))
    const answer = await gateway.chat({ stream: true })
    return { text: await answer.text(), charged: gateway.receipt(answer)?.charged }
  }

  test('at every byte: the client gets the same, and pays the same', async () => {
    const whole = await seen()
    expect(whole.text).toContain('€ 😀')
    expect(whole.text.match(/^data: /gm)).toHaveLength(5)
    expect(whole.text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(whole.charged).toBe(16_000n)
    const random = seeded(seed)
    // A short run has other cuts each time.
    const step = counts(4, 1)
    for (let cut = 1 + Math.floor(random() * step); cut < BYTES.length; cut += step) {
      expect(await seen(cut), `cut at ${cut}`).toEqual(whole)
    }
    for (let round = 0; round < counts(50, 20_000); round++) {
      const cuts = Array.from({ length: 2 + Math.floor(random() * 8) }, () => Math.floor(random() * BYTES.length))
      expect(await seen(...cuts), `cut at ${cuts}`).toEqual(whole)
    }
  })

  test('every event is sent before the next one arrives', async () => {
    const events = Array.from({ length: 20 }, (_, index) => `data: ${chunk({ content: `${index} ` })}\n\n`)
    provider.script({
      name: 'event by event',
      async run(to) {
        to.head(200, { 'content-type': 'text/event-stream' })
        for (const event of events) if (!(await to.step(() => to.write(event)))) return
        await to.step(() => to.end(`data: ${chunk({}, 'stop')}\n\ndata: [DONE]\n\n`))
      },
    })
    const index = provider.requests.length
    const asked = gateway.chat({ stream: true })
    const request = await provider.waitForRequest(index)
    await request.step()
    const stream = sseEvents(await asked)
    for (let at = 0; at < events.length; at++) {
      const { value } = await stream.next()
      expect(JSON.parse(value!.data).choices[0].delta.content).toBe(`${at} `)
      await request.step()
    }
    expect((await stream.next()).value?.data).toContain('"finish_reason":"stop"')
  })
})
