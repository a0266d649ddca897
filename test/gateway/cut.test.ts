/**
 * The bytes of answers that fail after their head. An event stream sends its error event, and then ends properly. Any other
 * answer breaks off, without anything that a client could take for the body's end. Over HTTP/1.1 and HTTP/1.0.
 */
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin, ERRORS } from '#contract'
import { type Behaviour, type FakeProvider, sendStreamHead, sse, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw, type RawClient, type RawResponse } from '../helpers/raw-client.ts'
import { parseSse, textOf } from '../helpers/sse.ts'

const STALL_MS = 1000

/** Answers itself, with a stream that fails in its middle. */
const fails = definePlugin({
  name: 'fails',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async ctx => {
    ctx.type = 'text/plain'
    ctx.body = Readable.from(
      (async function* () {
        yield 'the first half'
        await pause(20)
        throw new Error('the disk failed')
      })(),
    )
  },
})

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: breaking('reset') })
  const raw = { kind: 'raw', policy: 'raw', provider: 'p', price: 'free' }
  gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [fails],
    policies: { raw: [{ use: 'api-key' }, { use: 'credits' }], fails: [{ use: 'fails' }, ...FIVE_STEPS] },
    yaml: {
      limits: { stall: `${STALL_MS}ms` },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        { ...raw, path: '/v1/audio/speech' },
        { path: '/fails/v1/chat/completions', policy: 'fails' },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** A stream with two tokens, which the provider then ends, or reports as failed. */
function breaking(how: 'reset' | 'says so'): Behaviour {
  return {
    name: `breaking: ${how}`,
    async run(call) {
      sendStreamHead(call)
      const delta = (content: string) => ({
        id: 'c',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'upstream-model',
        choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }],
      })
      const failure = sse({ error: { message: 'no', type: 'server_error' } })
      await call.write(sse(delta('one')) + sse(delta(' two')) + (how === 'reset' ? '' : failure))
      await (how === 'reset' ? pause(20) : call.closed)
      call.reset()
    },
  }
}

/** A body of a type that breaks off after its first pieces. */
const bytes = (type: string, headers: Readonly<Record<string, string>> = {}): Behaviour => ({
  name: `bytes of ${type}`,
  async run(call) {
    call.head(200, { 'content-type': type, ...headers })
    for (const piece of ['data: one\n\n', 'data: two\n\n']) {
      await call.write(piece)
      await pause(20)
    }
    call.reset()
  },
})

const FORMATS = {
  '/v1/chat/completions': { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/messages': { model: 'm', stream: true, max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/responses': { model: 'm', stream: true, input: 'Hello' },
}
const VERSIONS = ['HTTP/1.1', 'HTTP/1.0, keep-alive', 'HTTP/1.0'] as const
type Version = (typeof VERSIONS)[number]

async function send(path: string, body: object, version: Version): Promise<RawClient> {
  const raw = await openRaw(gateway.url)
  const text = JSON.stringify(body)
  const keepAlive = version.endsWith('keep-alive') ? 'connection: keep-alive\r\n' : ''
  await raw.send(
    `POST ${path} ${version.slice(0, 8)}\r\nhost: ${new URL(gateway.url).host}\r\n${keepAlive}` +
      `authorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  )
  return raw
}

/** Reads an answer that must break off. Over HTTP/1.0 a FIN ends an answer, so it must be a reset there. */
async function readCut(raw: RawClient, version: Version): Promise<RawResponse> {
  const answer = await raw.readResponse()
  expect([answer.status, answer.end]).toEqual([200, 'cut'])
  if (version !== 'HTTP/1.1') expect(await raw.closed).toBe('reset')
  return answer
}

/** Reads an answer that must end as a complete one. */
async function readEnded(raw: RawClient, version: Version): Promise<string> {
  const answer = await raw.readResponse()
  expect([answer.status, answer.end]).toEqual([200, version === 'HTTP/1.1' ? 'chunked' : 'close'])
  return answer.text()
}

const errorsIn = (text: string) =>
  parseSse(text).events.flatMap(({ data }) => {
    const said = JSON.parse(data) as { error?: { message: string }; type?: string; message?: string }
    return said.error ? [said.error.message] : said.type === 'error' ? [said.message] : []
  })

describe.each(VERSIONS)('over %s', version => {
  test.each(Object.entries(FORMATS))(
    'a stream of %s ends in its error event, and then properly',
    async (path, body) => {
      for (const how of ['reset', 'says so'] as const) {
        provider.script(breaking(how))
        const text = await readEnded(await send(path, body, version), version)
        expect(parseSse(text).events.at(-1)!.data).toContain('"error"')
        const errors = errorsIn(text)
        expect(errors).toEqual([ERRORS[how === 'reset' ? 'upstream_truncated' : 'upstream_error'].message])
        expect(text).toContain('two')
        expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed|"finish_reason":"|"stop_reason":"/)
      }
    },
  )

  test.each([
    ['bytes', {}],
    ['bytes with a length of the provider', { 'content-length': '1000000' }],
  ])('a started raw answer breaks off: %s', async (_name, headers) => {
    provider.script(bytes('audio/mpeg', headers))
    const text = (await readCut(await send('/v1/audio/speech', { input: 'Hello' }, version), version)).text()
    expect(text).toContain('data: one')
  })

  test.each([
    ['events', {}],
    ['events with a length of the provider', { 'content-length': '200' }],
  ])('but ends properly after an error event: %s', async (_name, headers) => {
    provider.script(bytes('text/event-stream', headers))
    const text = await readEnded(await send('/v1/audio/speech', { input: 'Hello' }, version), version)
    expect(text).toContain('data: one')
    expect(errorsIn(text.replace(/^data: (one|two)$/gm, 'data: {}'))).toHaveLength(1)
  })

  test('a started answer of a step breaks off, too', async () => {
    expect((await readCut(await send('/fails/v1/chat/completions', {}, version), version)).text()).toBe(
      'the first half',
    )
  })

  test('a client that does not read holds its exchange no longer than `stall`', async () => {
    provider.script({
      name: 'floods',
      async run(call) {
        call.head(200, { 'content-type': 'audio/mpeg' })
        const flood = Buffer.alloc(64 * 1024)
        while (await call.write(flood));
      },
    })
    const before = gateway.log.length
    const raw = await send('/v1/audio/speech', { input: 'Hello' }, version)
    raw.pause()
    const startedMs = performance.now()
    await gateway.waitForLog(line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= before)
    expectWithin(performance.now() - startedMs, STALL_MS)
    raw.resume()
    expect((await raw.readResponse()).end).toBe('cut')
  })
})

test('a slow reader of fetch gets the error event', async () => {
  provider.script(breaking('says so'))
  const answer = await gateway.chat({ stream: true })
  // If the connection broke, fetch would drop the bytes that its reader has not consumed.
  await pause(50)
  expect(errorsIn(await textOf(answer))).toHaveLength(1)
})
