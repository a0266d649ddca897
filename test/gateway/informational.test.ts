/**
 * Unrequested informational responses (1xx), on all routes. They are ignored (RFC 9110, 15.2), except endless ones and `101 Switching
 * Protocols`, after which no answer can come.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Call, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

/** The limit for an immediate refusal: a fifth of the time for a late one. */
const FIRST_BYTE_MS = 20_000

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: [] })
  const raw = { kind: 'raw', policy: 'raw', provider: 'p', price: 'free' }
  gateway = await startInProcess({
    provider: provider.baseUrl,
    timeouts: { connect: '10s', first_byte: `${FIRST_BYTE_MS}ms`, idle: '20s', total: '30s' },
    policies: { test: FIVE_STEPS, raw: [{ use: 'api-key' }, { use: 'credits' }] },
    yaml: {
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { ...raw, path: '/v1/raw' },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
const message = { role: 'assistant', content: 'hello' }
const whole = { ...chunk, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage }
const streamed = [
  { ...chunk, choices: [{ index: 0, delta: { content: 'hello' }, finish_reason: null }] },
  { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage },
]
const events = `${streamed.map(each => `data: ${JSON.stringify(each)}\n\n`).join('')}data: [DONE]\n\n`

const ROUTES = [
  ['a whole chat', '/v1/chat/completions', {}, 'application/json', JSON.stringify(whole)],
  ['a chat stream', '/v1/chat/completions', { stream: true }, 'text/event-stream', events],
  ['a raw answer', '/v1/raw', {}, 'application/json', JSON.stringify(whole)],
  ['a raw stream', '/v1/raw', {}, 'text/event-stream', events],
] as const

describe.each(ROUTES)('%s', (_route, path, extra, type, body) => {
  const answer = (connection = 'keep-alive') =>
    `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nconnection: ${connection}\r\n\r\n${body}`

  const ask = () =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...extra }),
    })

  /** Sends the bytes in slices, one packet each; to each request its own. */
  const say = (slice: number | undefined, ...answers: string[]) => {
    const behaviours = answers.map(bytes => ({
      name: 'informational',
      async run(call: Call) {
        const size = slice ?? bytes.length
        for (let at = 0; at < bytes.length; at += size) {
          if (!(await call.sendRaw(bytes.slice(at, at + size)))) return
          if (size < bytes.length) await new Promise(resolve => setImmediate(resolve))
        }
      },
    }))
    provider.script(behaviours)
  }

  test.each([
    ['100', 'HTTP/1.1 100 Continue\r\n\r\n', undefined],
    ['100 without a reason, with a header', 'HTTP/1.1 100\r\nserver: x\r\n\r\n', undefined],
    ['102', 'HTTP/1.1 102 Processing\r\n\r\n', undefined],
    ['103', 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n', undefined],
    [
      '103 between two 100',
      `${'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n'.repeat(2)}`,
      undefined,
    ],
    ['100 of them', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100), undefined],
    ['100 and 103 in packets of 1 byte', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n', 1],
  ])('%s: ignored, even twice on a connection', async (_name, bytes, slice) => {
    say(slice, bytes + answer(), bytes + answer('close'))
    const connections = provider.connections
    for (let time = 0; time < 2; time++) {
      const got = await ask()
      expect(got.status).toBe(200)
      expect(await got.text()).toContain('hello')
    }
    expect(provider.connections - connections).toBeLessThanOrEqual(1)
  })

  test.each([
    ['more than 100', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(101) + answer()],
    ['101', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['101 with an upgrade', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'],
    ['101 after 100', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['a body of 100', `HTTP/1.1 100 Continue\r\ncontent-length: 2\r\n\r\nxx${answer()}`],
    ['line feeds alone', `HTTP/1.1 100 Continue\n\nHTTP/1.1 100 Continue\r\n\r\n${answer().slice(0, 30)}\n\n`],
  ])('%s: an error at once, and the connection is closed', async (_name, bytes) => {
    say(undefined, bytes)
    const index = provider.requests.length
    const startedMs = performance.now()
    const got = await ask()
    await expectRefusal(got, 'upstream_invalid')
    expect(got.status).toBe(502)
    await provider.waitForClose(await provider.waitForRequest(index))
    expect(performance.now() - startedMs).toBeLessThan(FIRST_BYTE_MS)
  })
})
