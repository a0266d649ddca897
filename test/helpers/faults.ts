/**
 * Everything that a provider can do wrong once it has been reached, as data: F05 to F30 of the list of upstream faults.
 * Faults before that (refused, black hole, unknown name, bad TLS: F01 to F04) are in unreachable.ts.
 */
import { gzipSync } from 'node:zlib'
import { errorAnswer, sendJsonHead, sendStreamHead } from './answers.ts'
import type { Behaviour, Call } from './fake-provider.ts'
import { openAiVoice } from './voices/openai.ts'
import { countOf, type Say, type StreamPart, type UsageText, type Voice } from './voices/voice.ts'

export type FaultMode = 'whole' | 'stream'

export interface Fault {
  /** `F05` … `F30`. */
  readonly id: string
  /** The difference between several faults with the same id. */
  readonly title: string
  /** Whether a provider of this format can have the fault. Default: each can. */
  readonly fits?: (voice: Voice) => boolean
  /** Default of `voice`: OpenAI's own format. */
  make(mode: FaultMode, voice?: Voice): Behaviour
}

/** Runs a fault on a call, in a mode and in a provider's format. */
type Run = (call: Call, mode: FaultMode, voice: Voice) => Promise<unknown>

const OPENAI = openAiVoice('openai')

/** The pause between two bytes of F11, in milliseconds. It is shorter than every idle timeout. */
const DRIP_MS = 200
const HUGE_BYTES = 100 * 1024 * 1024
const CHUNK = Buffer.alloc(65_536, 'a')

/** A fault whose code is the same function for both modes. */
export function fault(id: string, title: string, run: Run, fits?: Fault['fits']): Fault {
  return {
    id,
    title,
    ...(fits ? { fits } : {}),
    make: (mode, voice = OPENAI) => ({
      name: `${id} ${title} (${mode})`,
      early: id === 'F28',
      async run(call) {
        await run(call, mode, voice)
      },
    }),
  }
}

/** The faults, one row per variant. Each has two cases: a whole answer and a stream. */
export const FAULTS: readonly Fault[] = [
  fault('F05', 'reset before the head', async call => call.reset()),
  fault('F06', 'closed before the head', async call => call.fin()),
  fault('F07', 'silence before the head', call => call.closed),
  fault('F08', 'silence after the head', async (call, mode, voice) => {
    head(call, mode, voice, 500)
    await call.closed
  }),
  fault('F09', 'reset in the middle', async (call, mode, voice) => {
    await half(call, mode, voice)
    call.reset()
  }),
  fault('F10', 'closed in the middle', async (call, mode, voice) => {
    await half(call, mode, voice)
    call.fin()
  }),
  fault('F10', 'ended in the middle, in good HTTP', async (call, mode, voice) => {
    if (mode === 'whole') return answerWith(call, mode, voice, body(call, mode, voice).subarray(0, 60))
    await half(call, mode, voice)
    await call.end()
  }),
  fault('F11', `a byte each ${DRIP_MS} ms`, async (call, mode, voice) => {
    const bytes = head(call, mode, voice)
    for (const byte of bytes) {
      if (!(await call.write(Buffer.of(byte)))) return
      await pause(call, DRIP_MS)
    }
    await call.end()
  }),
  fault('F12', 'silence in the middle', async (call, mode, voice) => {
    await half(call, mode, voice)
    await call.closed
  }),
  fault('F13', 'invalid JSON', (call, mode, voice) =>
    answerWith(call, mode, voice, '{"id": "chatcmpl-1", "choices": [}', 'whole'),
  ),
  fault('F13', 'JSON of another kind', (call, mode, voice) => answerWith(call, mode, voice, '["hello"]', 'whole')),
  fault('F14', 'shorter than its content-length', async (call, mode, voice) => {
    const bytes = body(call, mode, voice)
    call.head(200, { 'content-type': voice.types[mode], 'content-length': String(bytes.length + 100) })
    await call.write(bytes)
    call.fin()
  }),
  fault('F15', 'bad JSON in an event', (call, mode, voice) => spoiled(call, mode, voice, voice.badEvent())),
  fault('F15', 'lines that are no fields', (call, mode, voice) => spoiled(call, mode, voice, '{"choices": []}\n\n')),
  fault(
    'F15',
    'carriage returns alone',
    (call, mode, voice) =>
      answerWith(call, mode, voice, String(streamBytes(call, voice)).replaceAll('\n', '\r'), 'stream'),
    voice => voice.framing === 'sse',
  ),
  fault('F16', '100 MiB without a newline', async (call, mode, voice) => {
    head(call, mode, voice)
    await call.write(mode === 'stream' ? voice.endless : '{"x": "')
    for (let sent = 0; sent < HUGE_BYTES; sent += CHUNK.length) if (!(await call.write(CHUNK))) return
    await call.end(mode === 'stream' ? '"}\n\n' : '"}')
  }),
  fault('F17', '200 with a page', async call => {
    call.head(200, { 'content-type': 'text/html' })
    await call.end('<!doctype html><title>Sign in</title><h1>Please accept our terms</h1>')
  }),
  fault('F18', '200 with an error', (call, mode, voice) => {
    const words = 'the engine at 10.0.0.7 overheated'
    const error = mode === 'stream' ? voice.errorEvent(500, words) : JSON.stringify(insideOf(voice, 500, words))
    return answerWith(call, mode, voice, error)
  }),
  fault('F18', 'an error after two tokens', async (call, mode, voice) => {
    if (mode === 'stream') return spoiled(call, mode, voice, voice.errorEvent(500))
    const answer = JSON.parse(String(body(call, mode, voice)))
    return answerWith(call, mode, voice, JSON.stringify({ ...answer, ...insideOf(voice, 500) }))
  }),
  fault('F18', 'an event named error', (call, mode, voice) => spoiled(call, mode, voice, voice.namedErrorEvent(500))),
  ...['20', 'Wed, 21 Oct 2099 07:28:00 GMT', '1000000000', '-1', 'soon'].map(value =>
    fault('F19', `429 with Retry-After: ${value}`, (call, _mode, voice) => {
      const { body: said, headers } = voice.error(429)
      return errorAnswer(429, said, { ...headers, 'retry-after': value }).run(call)
    }),
  ),
  ...[500, 502, 503, 529].flatMap(status => [
    fault('F20', `${status} with JSON`, (call, _mode, voice) => {
      const { body: said, headers } = voice.error(status)
      return errorAnswer(status, said, { ...headers }).run(call)
    }),
    fault('F20', `${status} with a page`, call =>
      errorAnswer(status, '<html><h1>Bad Gateway</h1>nginx</html>', { 'content-type': 'text/html' }).run(call),
    ),
    fault('F20', `${status} with nothing`, call => errorAnswer(status, '').run(call)),
  ]),
  ...[301, 302, 307, 308].map(status =>
    fault('F21', `${status} to another host`, call => {
      // The same server by another name: it records a client that follows, with its headers.
      const location = `${call.url.replace('127.0.0.1', 'localhost')}/elsewhere`
      return errorAnswer(status, '', { location }).run(call)
    }),
  ),
  fault('F22', 'a gzip bomb', async (call, mode, voice) => {
    call.head(200, { 'content-type': voice.types[mode], 'content-encoding': 'gzip' })
    // A gzip file may have several members: 64 of 16 MiB make a GiB from one MiB.
    const member = bombPart()
    for (let sent = 0; sent < 64; sent++) if (!(await call.write(member))) return
    await call.end()
  }),
  fault('F22', 'an unknown encoding', (call, mode, voice) => encoded(call, mode, voice, 'zigzag')),
  fault('F22', 'a thousand encodings', (call, mode, voice) =>
    encoded(call, mode, voice, Array(1000).fill('gzip').join(', ')),
  ),
  fault('F23', '1 MiB of headers', (call, mode, voice) =>
    rawHead(call, mode, voice, '200 OK', `x-large: ${'a'.repeat(1024 * 1024)}\r\n`),
  ),
  fault('F23', 'a line feed in a header', (call, mode, voice) =>
    rawHead(call, mode, voice, '200 OK', 'x-bad: a\nset-cookie: b=c\r\n'),
  ),
  fault('F23', 'a carriage return in a header', (call, mode, voice) =>
    rawHead(call, mode, voice, '200 OK', 'x-bad: a\rb\r\n'),
  ),
  ...['000 None', '101 Switching Protocols', '999 Unknown'].map(status =>
    fault('F23', `status ${status.slice(0, 3)}`, (call, mode, voice) => rawHead(call, mode, voice, status, '')),
  ),
  fault('F23', '10,000 early hints', async (call, mode, voice) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n'.repeat(1000)
    for (let sent = 0; sent < 10; sent++) if (!(await call.sendRaw(hints))) return
    await rawHead(call, mode, voice, '200 OK', '')
  }),
  ...hostileUsages().map(([title, usage]) =>
    fault('F24', `usage: ${title}`, (call, mode, voice) =>
      answerWith(call, mode, voice, body(call, mode, voice, { usage })),
    ),
  ),
  fault('F24', 'usage: twice, with different values', (call, mode, voice) => {
    if (mode === 'whole') {
      const name = `"${voice.usageName}":`
      const text = String(body(call, mode, voice))
      return answerWith(call, mode, voice, text.replace(name, `${name}${voice.usage('99', '99')},${name}`))
    }
    const said = voice.stream({}, call.request).map(({ bytes }) => bytes)
    return answerWith(call, mode, voice, Buffer.concat(said.toSpliced(-1, 0, voice.usageEvent('99', '99'))))
  }),
  fault('F24', 'usage: before the content', (call, mode, voice) => {
    const rest = body(call, mode, voice, { usage: null, spoil: json => json.replace(',"usage":null', '') })
    if (mode === 'stream') return answerWith(call, mode, voice, Buffer.concat([voice.usageEvent('25', '1'), rest]))
    const usage = `"${voice.usageName}":${voice.usage('25', '1')}`
    return answerWith(call, mode, voice, String(rest).replace('{', `{${usage},`))
  }),
  fault('F25', 'more after the end', (call, mode, voice) => {
    const bytes = body(call, mode, voice)
    return answerWith(call, mode, voice, Buffer.concat([bytes, bytes]))
  }),
  fault('F25', 'two finishes', (call, mode, voice) =>
    answerWith(call, mode, voice, voice.twoFinishes(mode, call.request)),
  ),
  ...(
    [
      ['1e9', [1e9]],
      ['-1', [-1]],
      ['out of order', [1, 0]],
    ] as const
  ).map(([title, indexes]) =>
    fault('F26', `tool call index ${title}`, (call, mode, voice) => {
      const calls = indexes.map(index => `tool_${Math.max(0, Math.min(index, 9))}`)
      const spoil = (json: string) => voice.reindex(json, indexes)
      return answerWith(call, mode, voice, body(call, mode, voice, { calls, spoil }))
    }),
  ),
  fault('F27', '200 with nothing', (call, mode, voice) => answerWith(call, mode, voice, '')),
  fault('F27', '204', async call => {
    call.head(204)
    await call.end()
  }),
  fault('F28', 'answers before the body is read, then resets', async (call, mode, voice) => {
    await rawHead(call, mode, voice, '200 OK', '', false)
    call.reset()
  }),
  fault('F29', 'three times the allowed tokens', (call, mode, voice) => {
    const tokens = Array.from({ length: 3 * (voice.capOf(call.request) ?? 64) }, (_, at) => (at ? ` t${at}` : 't0'))
    return speak(voice, mode, { tokens }).run(call)
  }),
  fault('F29', 'never ends', async (call, mode, voice) => {
    const answer = head(call, mode, voice)
    const said = voice.stream({}, call.request)
    const first = said.findIndex(({ kind }) => kind === 'token')
    const opening = said.slice(0, first).map(({ bytes }) => bytes)
    await call.write(mode === 'stream' ? Buffer.concat(opening) : answer.subarray(0, answer.indexOf('t0')))
    const [more, tokens] = mode === 'stream' ? [said[first]!.bytes, 1] : [' t'.repeat(512), 512]
    // A whole answer is so slow that it reaches its timeout before the limit of its size.
    while (await call.write(more, { tokens })) if (mode === 'whole') await pause(call, 1)
  }),
  fault('F30', 'characters cut anywhere', async (call, mode, voice) => {
    head(call, mode, voice)
    const bytes = body(call, mode, voice, { tokens: ['na', 'ïve ', '€uro ', '😀'] })
    for (const byte of bytes) if (!(await call.write(Buffer.of(byte)))) return
    await call.end()
  }),
  fault('F30', 'bytes that are no UTF-8', (call, mode, voice) => {
    const spoil = (json: string) => {
      const bytes = Buffer.from(json)
      const at = bytes.indexOf('b@c')
      if (at !== -1) bytes[at + 1] = 0xff
      return bytes
    }
    return answerWith(call, mode, voice, body(call, mode, voice, { tokens: ['a', 'b@c'], spoil }))
  }),
  fault('F30', 'a byte order mark', (call, mode, voice) =>
    answerWith(call, mode, voice, Buffer.concat([Buffer.from('\uFEFF'), body(call, mode, voice)])),
  ),
  fault('F30', 'a NUL', (call, mode, voice) =>
    answerWith(call, mode, voice, body(call, mode, voice, { tokens: ['a', 'b\u0000c'] })),
  ),
  fault('F30', 'a NUL without its escape', (call, mode, voice) => {
    const spoil = (json: string) => json.replace('b@c', 'b\u0000c')
    return answerWith(call, mode, voice, body(call, mode, voice, { tokens: ['a', 'b@c'], spoil }))
  }),
]

/** The rows of F24. The counts are texts, because JavaScript cannot write some of them as JSON. */
function hostileUsages(): [string, UsageText][] {
  const both = (prompt: string, completion: string) => ({ prompt, completion })
  return [
    ['absent', null],
    ['null', 'null'],
    ['zero', both('0', '0')],
    ['negative', both('-5', '-5')],
    ['text', both('"12"', '"34"')],
    ['fractions', both('1.5', '2.5')],
    ['NaN', both('NaN', 'NaN')],
    ['infinite', both('1e400', '1e400')],
    ['1e308', both('1e308', '1e308')],
    ['more than the context', both('100000000', '100000000')],
    ['prompt only', { prompt: '12', completion: null }],
    ['a list', '[1,2,3]'],
  ]
}

/** A good answer in that format: whole, or as a list of events. */
export function speak(voice: Voice, mode: FaultMode, say: Say = {}): Behaviour {
  return {
    name: `${voice.dialect} (${mode})`,
    async run(call) {
      if (mode === 'whole') {
        call.head(200, { 'content-type': voice.types.whole })
        return call.end(voice.whole(say, call.request), { tokens: countOf(say) })
      }
      call.head(200, { 'content-type': voice.types.stream })
      for (const said of voice.stream(say, call.request)) if (!(await write(call, said))) return
      await call.end()
    },
  }
}

async function write(call: Call, { bytes, kind }: StreamPart): Promise<boolean> {
  return call.write(bytes, kind === 'token' ? { tokens: 1 } : {})
}

/** The bytes of a good answer; `say` replaces its content. */
export function body(call: Call, mode: FaultMode, voice: Voice, say: Say = {}): Buffer {
  return mode === 'stream' ? streamBytes(call, voice, say) : voice.whole(say, call.request)
}

function streamBytes(call: Call, voice: Voice, say: Say = {}): Buffer {
  return Buffer.concat(voice.stream(say, call.request).map(({ bytes }) => bytes))
}

/** A good stream in two parts: before its third token, and from it on. */
export function halves(call: Call, voice: Voice): readonly [readonly StreamPart[], readonly StreamPart[]] {
  const said = voice.stream({}, call.request)
  const third = said.findLastIndex(({ kind }) => kind === 'token')
  return [said.slice(0, third), said.slice(third)]
}

/** Sends a good head, chunked unless it has a length, and returns the body for it. */
function head(call: Call, mode: FaultMode, voice: Voice, length?: number): Buffer {
  call.head(200, { 'content-type': voice.types[mode], ...(length ? { 'content-length': String(length) } : {}) })
  return body(call, mode, voice)
}

/** Sends the head and about half of a good answer: of a stream, all before the third token. */
async function half(call: Call, mode: FaultMode, voice: Voice): Promise<void> {
  if (mode === 'stream') {
    sendStreamHead(call, { 'content-type': voice.types.stream })
    for (const said of halves(call, voice)[0]) await write(call, said)
    return
  }
  const bytes = body(call, mode, voice)
  sendJsonHead(call, 200, String(bytes))
  await call.write(bytes.subarray(0, bytes.length / 2))
}

/** A complete answer with that body. `as` is its type if it differs from the requested one. */
export async function answerWith(
  call: Call,
  mode: FaultMode,
  voice: Voice,
  text: string | Buffer,
  as: FaultMode = mode,
): Promise<void> {
  const length = as === 'stream' ? {} : { 'content-length': String(Buffer.byteLength(text)) }
  call.head(200, { 'content-type': voice.types[as], ...length })
  await call.end(text)
}

/** Two good tokens, the bad part, and the rest of a good stream. A whole answer is the bad part only. */
export async function spoiled(call: Call, mode: FaultMode, voice: Voice, bad: string | Buffer): Promise<void> {
  if (mode === 'whole') return answerWith(call, mode, voice, bad, 'stream')
  const [before, after] = halves(call, voice)
  sendStreamHead(call, { 'content-type': voice.types.stream })
  for (const said of before) if (!(await write(call, said))) return
  await call.write(bad)
  for (const said of after) if (!(await write(call, said))) return
  await call.end()
}

async function encoded(call: Call, mode: FaultMode, voice: Voice, encoding: string): Promise<void> {
  call.head(200, { 'content-type': voice.types[mode], 'content-encoding': encoding })
  await call.end(body(call, mode, voice))
}

/** The body of an error that has status 200. */
export function insideOf(voice: Voice, status: number, message?: string): object {
  return voice.inside?.(status, message) ?? voice.error(status, message).body
}

let bomb: Buffer | null = null

function bombPart(): Buffer {
  bomb ??= gzipSync(Buffer.alloc(16 * 1024 * 1024, 'a'))
  return bomb
}

/** A head that Node would not write. It has `connection: close`, because the end of such an answer cannot be determined. */
async function rawHead(
  call: Call,
  mode: FaultMode,
  voice: Voice,
  status: string,
  headers: string,
  close = true,
): Promise<void> {
  const bytes = body(call, mode, voice)
  const fixed = `content-type: ${voice.types[mode]}\r\ncontent-length: ${bytes.length}\r\nconnection: close\r\n`
  await call.sendRaw(Buffer.concat([Buffer.from(`HTTP/1.1 ${status}\r\n${fixed}${headers}\r\n`), bytes]))
  if (close) call.fin()
}

async function pause(call: Call, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const elapsed = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([elapsed, call.closed])
  clearTimeout(timer)
}
