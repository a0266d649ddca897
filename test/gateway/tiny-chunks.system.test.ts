/**
 * Providers with answers in chunks of one byte. The answer is correct, and memory grows with the bytes and not with the number of chunks.
 * A `Buffer` for each chunk took 400 bytes.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { type Behaviour, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { resourcesOf, WATCHED_GATEWAY } from '../helpers/resources.ts'

const counts = countsOf('floods')

const MIB = 1024 * 1024
/** A chunk of one byte takes six on the wire: 5 MB of them, in full 25 MB. */
const BYTES = counts(0.8 * MIB, 4.2 * MIB)
/** Events of a chat stream are refused beyond 1 MiB. */
const LARGE_EVENT = MIB - 4096
/** The growth over all answers below: garbage, the answer, its copies, and newly compiled code. 20 MiB were measured. */
const MAX_GROWN = 200 * MIB

const SLOW_CLIENTS = counts(4, 16)

let provider: FakeProvider
let gateway: Gateway
let key: string
/** Resident bytes before the first answer. */
let atRest: number

beforeAll(async () => {
  provider = await startFakeProvider({ script: inChunksOfOne(200, 'application/json', '{}') })
  const raw = { kind: 'raw', policy: 'raw', provider: 'p', price: 'free' }
  gateway = await startGateway({
    entry: WATCHED_GATEWAY,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: 'memory',
      // Chunks of one byte keep the loop busy for seconds, and the probe must still be answered.
      limits: { event_loop: '1m' },
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        m: { targets: [{ provider: 'p', model: 'm' }], price: PRICE, context: 9_000_000, max_output: 8_000_000 },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { ...raw, path: '/v1/raw' },
      ],
    },
    policies: { test: { steps: FIVE_STEPS }, raw: { steps: [{ use: 'api-key' }, { use: 'credits' }] } },
    keep: line => line['msg'] === 'resources' || line['level'] === 'error',
  })
  key = (await createAccount(gateway, { credit: '1000000' })).key
  atRest = (await resourcesOf(gateway)).resident
})
afterAll(() => provider.close())

const text = 'x'.repeat(BYTES)
const long = 'y'.repeat(LARGE_EVENT)
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`
const completion = { id: 'c', object: 'chat.completion', created: 1, model: 'm' }
const message = { role: 'assistant', content: text }
const whole = JSON.stringify({ ...completion, choices: [{ index: 0, message, finish_reason: 'stop' }] })
const chunk = { ...completion, object: 'chat.completion.chunk' }
const streamed = [
  event({ ...chunk, choices: [{ index: 0, delta: { content: long }, finish_reason: null }] }),
  event({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  'data: [DONE]\n\n',
].join('')
const lines = `${'data:\n'.repeat(BYTES / 6)}\n${event({ ...chunk, choices: [] })}`

const RAW = { path: '/v1/raw', body: { model: 'm' } }
const CHAT = { path: '/v1/chat/completions', body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] } }
const STREAM = { ...CHAT, body: { ...CHAT.body, stream: true } }

test.each([
  ['raw bytes', RAW, 200, 'audio/mpeg', text, text],
  ['raw JSON', RAW, 200, 'application/json', whole, whole],
  ['raw events', RAW, 200, 'text/event-stream', event(text) + event('end'), event(text) + event('end')],
  ['a raw error', RAW, 500, 'application/json', text, '"upstream_error"'],
  ['a whole chat', CHAT, 200, 'application/json', whole, text],
  ['a chat stream with a large event', STREAM, 200, 'text/event-stream', streamed, long],
  ['a chat stream of empty lines', STREAM, 200, 'text/event-stream', lines, '"upstream_'],
  ['an error of a chat', CHAT, 400, 'application/json', text, '"error"'],
] as const)('%s in chunks of 1 byte', async (name, { path, body }, status, type, said, expected) => {
  provider.script(inChunksOfOne(status, type, said))
  const answer = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const got = await answer.text()
  const { peak } = await resourcesOf(gateway)
  expect(got.includes(expected)).toBe(true)
  console.log(`${name}: the peak is ${((peak - atRest) / MIB).toFixed()} MiB above the start`)
  expect(peak - atRest).toBeLessThan(MAX_GROWN)
  expect(gateway.logs().filter(({ level }) => level === 'error')).toEqual([])
})

test('raw bytes in chunks of 1 byte for clients that do not read: the waiting bytes are limited for each', async () => {
  provider.script(inChunksOfOne(200, 'audio/mpeg', text.repeat(4)))
  const before = await resourcesOf(gateway)
  const clients = await Promise.all(Array.from({ length: SLOW_CLIENTS }, () => openRaw(gateway.url)))
  const sent = provider.requests.length
  for (const client of clients) {
    client.pause()
    await client.post('/v1/raw', { model: 'm' }, { authorization: `Bearer ${key}` })
  }
  const requests = await Promise.all(clients.map((_, index) => provider.waitForRequest(sent + index)))
  await untilStill(() => requests.reduce((sum, { emitted }) => sum + emitted.bytes, 0))
  const { heap, buffers } = await resourcesOf(gateway)
  const each = (heap + buffers - before.heap - before.buffers) / SLOW_CLIENTS
  console.log(`${(each / 1024).toFixed()} KiB wait for each of ${SLOW_CLIENTS} clients`)
  for (const client of clients) client.reset()
  // Node parses all of a read (64 KiB) before it pauses: 11,000 chunks of 400 bytes wait there. With a write for each: 19 MiB.
  expect(each).toBeLessThan(8 * MIB)
})

/** Resolves when a figure has not changed for half a second. */
async function untilStill(figure: () => number): Promise<void> {
  for (let before = -1; before !== figure(); ) {
    before = figure()
    await new Promise(resolve => setTimeout(resolve, 500))
  }
}

/** An answer with chunked framing, whose chunks have one byte each (RFC 9112, 7.1). */
function inChunksOfOne(status: number, type: string, body: string): Behaviour {
  return {
    name: 'chunks of one byte',
    async run(call) {
      await call.sendRaw(`HTTP/1.1 ${status} Some\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`)
      for (let at = 0; at < body.length; at += 65_536) {
        const slice = body.slice(at, at + 65_536)
        if (!(await call.sendRaw(slice.replaceAll(/./gs, byte => `1\r\n${byte}\r\n`)))) return
      }
      await call.sendRaw('0\r\n\r\n')
      call.fin()
    },
  }
}
