/**
 * Everything that a provider can do wrong once it has been reached, as data: F05 to F30 of the list of upstream faults.
 * What happens before (refused, black hole, unknown name, bad TLS: F01 to F04) is in unreachable.ts.
 */
import { gzipSync } from 'node:zlib'
import type { WireUsage } from '#contract'
import {
  type AnswerOptions,
  capOf,
  errorAnswer,
  errorBody,
  sendJsonHead,
  sendStreamHead,
  sse,
  stream,
  streamParts,
  whole,
  wholePart,
} from './answers.ts'
import type { Behaviour, Call } from './fake-provider.ts'

export type FaultMode = 'whole' | 'stream'

export interface Fault {
  /** `F05` … `F30`. */
  readonly id: string
  /** What is special about this one of several with the same id. */
  readonly title: string
  make(mode: FaultMode): Behaviour
}

/** Between two bytes of F11, in milliseconds: longer than a test wants, shorter than any idle deadline. */
const DRIP_MS = 200
const HUGE_BYTES = 100 * 1024 * 1024
const CHUNK = Buffer.alloc(65_536, 'a')

/** A fault whose code is the same function for both modes. */
function fault(id: string, title: string, run: (call: Call, mode: FaultMode) => Promise<unknown>): Fault {
  return {
    id,
    title,
    make: mode => ({
      name: `${id} ${title} (${mode})`,
      early: id === 'F28',
      async run(call) {
        await run(call, mode)
      },
    }),
  }
}

/** The faults, one row a variant. Whole and stream are two cases of each. */
export const FAULTS: readonly Fault[] = [
  fault('F05', 'reset before the head', async call => call.reset()),
  fault('F06', 'closed before the head', async call => call.fin()),
  fault('F07', 'silence before the head', call => call.gone),
  fault('F08', 'silence after the head', async (call, mode) => {
    head(call, mode, 500)
    await call.gone
  }),
  fault('F09', 'reset in the middle', async (call, mode) => {
    await half(call, mode)
    call.reset()
  }),
  fault('F10', 'closed in the middle', async (call, mode) => {
    await half(call, mode)
    call.fin()
  }),
  fault('F10', 'ended in the middle, in good HTTP', async (call, mode) => {
    if (mode === 'whole') return answerWith(call, mode, wholePart(call.request).text.slice(0, 60))
    await half(call, mode)
    await call.end()
  }),
  fault('F11', `a byte each ${DRIP_MS} ms`, async (call, mode) => {
    const bytes = head(call, mode)
    for (const byte of bytes) {
      if (!(await call.write(Buffer.of(byte)))) return
      await pause(call, DRIP_MS)
    }
    await call.end()
  }),
  fault('F12', 'silence in the middle', async (call, mode) => {
    await half(call, mode)
    await call.gone
  }),
  fault('F13', 'JSON that is none', (call, mode) =>
    answerWith(call, mode, '{"id": "chatcmpl-1", "choices": [}', 'whole'),
  ),
  fault('F13', 'JSON of another kind', (call, mode) => answerWith(call, mode, '["hello"]', 'whole')),
  fault('F14', 'shorter than its content-length', async (call, mode) => {
    const bytes = Buffer.from(body(call, mode))
    call.head(200, { 'content-type': type(mode), 'content-length': String(bytes.length + 100) })
    await call.write(bytes)
    call.fin()
  }),
  fault('F15', 'bad JSON in an event', (call, mode) => spoiled(call, mode, 'data: {"choices": [{"index": 0,\n\n')),
  fault('F15', 'lines that are no fields', (call, mode) => spoiled(call, mode, '{"choices": []}\n\n')),
  fault('F15', 'carriage returns alone', (call, mode) =>
    answerWith(call, mode, streamText(call).replaceAll('\n', '\r'), 'stream'),
  ),
  fault('F16', '100 MiB without a newline', async (call, mode) => {
    head(call, mode)
    await call.write(mode === 'stream' ? 'data: {"x": "' : '{"x": "')
    for (let sent = 0; sent < HUGE_BYTES; sent += CHUNK.length) if (!(await call.write(CHUNK))) return
    await call.end(mode === 'stream' ? '"}\n\n' : '"}')
  }),
  fault('F17', '200 with a page', async call => {
    call.head(200, { 'content-type': 'text/html' })
    await call.end('<!doctype html><title>Sign in</title><h1>Please accept our terms</h1>')
  }),
  fault('F18', '200 with an error', (call, mode) => {
    const error = errorBody(500, 'the engine at 10.0.0.7 overheated')
    return answerWith(call, mode, mode === 'stream' ? sse(error) : JSON.stringify(error))
  }),
  fault('F18', 'an error after two tokens', async (call, mode) => {
    if (mode === 'whole')
      return answerWith(call, mode, JSON.stringify({ ...JSON.parse(body(call, mode)), ...errorBody(500) }))
    return spoiled(call, mode, sse(errorBody(500)))
  }),
  fault('F18', 'an event named error', (call, mode) => spoiled(call, mode, `event: error\n${sse(errorBody(500))}`)),
  ...['20', 'Wed, 21 Oct 2099 07:28:00 GMT', '1000000000', '-1', 'soon'].map(value =>
    fault('F19', `429 with Retry-After: ${value}`, call =>
      errorAnswer(429, errorBody(429), { 'retry-after': value }).run(call),
    ),
  ),
  ...[500, 502, 503, 529].flatMap(status => [
    fault('F20', `${status} with JSON`, call => errorAnswer(status).run(call)),
    fault('F20', `${status} with a page`, call =>
      errorAnswer(status, '<html><h1>Bad Gateway</h1>nginx</html>', { 'content-type': 'text/html' }).run(call),
    ),
    fault('F20', `${status} with nothing`, call => errorAnswer(status, '').run(call)),
  ]),
  ...[301, 302, 307, 308].map(status =>
    fault('F21', `${status} to another host`, call => {
      // The same server by another name: who follows is seen there, with what it brings along.
      const location = `${call.url.replace('127.0.0.1', 'localhost')}/elsewhere`
      return errorAnswer(status, '', { location }).run(call)
    }),
  ),
  fault('F22', 'a gzip bomb', async (call, mode) => {
    call.head(200, { 'content-type': type(mode), 'content-encoding': 'gzip' })
    // Members of a gzip file may be joined: 64 times 16 MiB become a GiB out of one MiB.
    const member = gzipSync(Buffer.alloc(16 * 1024 * 1024, 'a'))
    for (let sent = 0; sent < 64; sent++) if (!(await call.write(member))) return
    await call.end()
  }),
  fault('F22', 'an unknown encoding', (call, mode) => encoded(call, mode, 'zigzag')),
  fault('F22', 'a thousand encodings', (call, mode) => encoded(call, mode, Array(1000).fill('gzip').join(', '))),
  fault('F23', '1 MiB of headers', (call, mode) =>
    rawHead(call, mode, '200 OK', `x-large: ${'a'.repeat(1024 * 1024)}\r\n`),
  ),
  fault('F23', 'a line feed in a header', (call, mode) =>
    rawHead(call, mode, '200 OK', 'x-bad: a\nset-cookie: b=c\r\n'),
  ),
  fault('F23', 'a carriage return in a header', (call, mode) => rawHead(call, mode, '200 OK', 'x-bad: a\rb\r\n')),
  ...['000 None', '101 Switching Protocols', '999 Unknown'].map(status =>
    fault('F23', `status ${status.slice(0, 3)}`, (call, mode) => rawHead(call, mode, status, '')),
  ),
  fault('F23', '10,000 early hints', async (call, mode) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n'.repeat(1000)
    for (let sent = 0; sent < 10; sent++) if (!(await call.sendRaw(hints))) return
    await rawHead(call, mode, '200 OK', '')
  }),
  ...hostileUsages().map(([title, usage]) =>
    fault('F24', `usage: ${title}`, (call, mode) => answerWith(call, mode, body(call, mode, {}, usage))),
  ),
  fault('F24', 'usage: twice, with different values', (call, mode) => {
    const other = '"usage":{"prompt_tokens":99,"completion_tokens":99,"total_tokens":198}'
    const text = body(call, mode)
    if (mode === 'whole') return answerWith(call, mode, text.replace('"usage":', `${other},"usage":`))
    const events = text.split('\n\n')
    return answerWith(call, mode, events.toSpliced(-2, 0, `data: {"choices":[],${other}}`).join('\n\n'))
  }),
  fault('F24', 'usage: before the content', (call, mode) => {
    const usage = '"usage":{"prompt_tokens":25,"completion_tokens":1,"total_tokens":26}'
    return answerWith(
      call,
      mode,
      body(call, mode, { usage: null, includeUsage: false }).replace('{"id"', `{${usage},"id"`),
    )
  }),
  fault('F25', 'more after the end', (call, mode) =>
    answerWith(call, mode, body(call, mode) + (mode === 'stream' ? streamText(call) : body(call, mode))),
  ),
  fault('F25', 'two finishes', (call, mode) => {
    const text = body(call, mode)
    if (mode === 'whole') {
      const completion = JSON.parse(text)
      return answerWith(
        call,
        mode,
        JSON.stringify({ ...completion, choices: [...completion.choices, ...completion.choices] }),
      )
    }
    const events = text.split('\n\n')
    const finish = events.findIndex(event => event.includes('"finish_reason":"stop"'))
    return answerWith(call, mode, events.toSpliced(finish, 0, events[finish]!).join('\n\n'))
  }),
  ...(
    [
      ['1e9', [1e9]],
      ['-1', [-1]],
      ['out of order', [1, 0]],
    ] as const
  ).map(([title, indexes]) =>
    fault('F26', `tool call index ${title}`, (call, mode) => {
      const toolCalls = indexes.map(index => ({ name: `tool_${Math.max(0, Math.min(index, 9))}`, arguments: ['{}'] }))
      const text = body(call, mode, { toolCalls })
      return answerWith(
        call,
        mode,
        text.replace(/("tool_calls":\[\{"index":)(\d)/g, (_all, start, at) => start + indexes[at]),
      )
    }),
  ),
  fault('F27', '200 with nothing', (call, mode) => answerWith(call, mode, '')),
  fault('F27', '204', async call => {
    call.head(204)
    await call.end()
  }),
  fault('F28', 'answers before the body is read, then resets', async (call, mode) => {
    await rawHead(call, mode, '200 OK', '', false)
    call.reset()
  }),
  fault('F29', 'three times the allowed tokens', (call, mode) => {
    const options = { tokens: 3 * (capOf(call.request) ?? 64), obeyCap: false }
    return (mode === 'stream' ? stream(options) : whole(options)).run(call)
  }),
  fault('F29', 'never ends', async (call, mode) => {
    head(call, mode)
    const [opening, token] = streamParts(call.request, { tokens: 1 }).map(({ text }) => text)
    await call.write(mode === 'stream' ? opening! : '{"choices":[{"index":0,"message":{"content":"')
    const [more, tokens] = mode === 'stream' ? [token!, 1] : [' t'.repeat(512), 512]
    while (await call.write(more, { tokens }));
  }),
  fault('F30', 'characters cut anywhere', async (call, mode) => {
    head(call, mode)
    const text = body(call, mode, { tokens: ['na', 'ïve ', '€uro ', '😀'] })
    for (const byte of Buffer.from(text)) if (!(await call.write(Buffer.of(byte)))) return
    await call.end()
  }),
  fault('F30', 'bytes that are no UTF-8', (call, mode) => {
    const text = Buffer.from(body(call, mode, { tokens: ['a', 'b@c'] }))
    text[text.indexOf('@')] = 0xff
    return answerWith(call, mode, text)
  }),
  fault('F30', 'a byte order mark', (call, mode) => answerWith(call, mode, `\uFEFF${body(call, mode)}`)),
  fault('F30', 'a NUL', (call, mode) => answerWith(call, mode, body(call, mode, { tokens: ['a', 'b\u0000c'] }))),
  fault('F30', 'a NUL without its escape', (call, mode) =>
    answerWith(call, mode, body(call, mode, { tokens: ['a', 'b@c'] }).replace('@', '\u0000')),
  ),
]

/** The rows of F24: the text of `usage`, since some are no JSON that JavaScript would write. */
function hostileUsages(): [string, string | null][] {
  const usage = (prompt: string, completion: string) =>
    `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt}}`
  return [
    ['absent', null],
    ['null', 'null'],
    ['zero', usage('0', '0')],
    ['negative', usage('-5', '-5')],
    ['text', usage('"12"', '"34"')],
    ['fractions', usage('1.5', '2.5')],
    ['NaN', usage('NaN', 'NaN')],
    ['infinite', usage('1e400', '1e400')],
    ['1e308', usage('1e308', '1e308')],
    ['more than the context', usage('100000000', '100000000')],
    ['prompt only', '{"prompt_tokens":12}'],
    ['a list', '[1,2,3]'],
  ]
}

/** The text of a good answer; `usage` replaces the text of its usage, null leaves it out. */
function body(call: Call, mode: FaultMode, options: AnswerOptions = {}, usage?: string | null): string {
  const marker: WireUsage = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13, marker: true }
  const marked = usage === undefined ? options : { ...options, usage: usage === null ? null : marker }
  const text = mode === 'stream' ? streamText(call, marked) : wholePart(call.request, marked).text
  return typeof usage === 'string' ? text.replace(JSON.stringify(marker), usage) : text
}

function streamText(call: Call, options: AnswerOptions = {}): string {
  return streamParts(call.request, { includeUsage: true, ...options })
    .map(({ text }) => text)
    .join('')
}

function type(mode: FaultMode): string {
  return mode === 'stream' ? 'text/event-stream' : 'application/json'
}

/** Sends a good head, chunked unless a length is promised, and gives the body that would belong to it. */
function head(call: Call, mode: FaultMode, length?: number): Buffer {
  call.head(200, { 'content-type': type(mode), ...(length ? { 'content-length': String(length) } : {}) })
  return Buffer.from(body(call, mode))
}

/** Sends the head and about half of a good answer: of a stream, the role and two tokens. */
async function half(call: Call, mode: FaultMode): Promise<void> {
  if (mode === 'stream') {
    sendStreamHead(call)
    for (const { text, meter } of streamParts(call.request).slice(0, 3)) await call.write(text, meter)
    return
  }
  const { text } = wholePart(call.request)
  sendJsonHead(call, 200, text)
  await call.write(text.slice(0, text.length / 2))
}

/** A complete answer with that body; `as` when its type is not the one that was asked for. */
async function answerWith(call: Call, mode: FaultMode, text: string | Buffer, as: FaultMode = mode): Promise<void> {
  const length = as === 'stream' ? {} : { 'content-length': String(Buffer.byteLength(text)) }
  call.head(200, { 'content-type': type(as), ...length })
  await call.end(text)
}

/** Two good tokens, then something bad, then what would have followed. For a whole answer only the bad part. */
async function spoiled(call: Call, mode: FaultMode, bad: string): Promise<void> {
  if (mode === 'whole') return answerWith(call, mode, bad, 'stream')
  const parts = streamParts(call.request)
  sendStreamHead(call)
  for (const { text, meter } of parts.slice(0, 3)) if (!(await call.write(text, meter))) return
  await call.write(bad)
  for (const { text, meter } of parts.slice(3)) if (!(await call.write(text, meter))) return
  await call.end()
}

async function encoded(call: Call, mode: FaultMode, encoding: string): Promise<void> {
  call.head(200, { 'content-type': type(mode), 'content-encoding': encoding })
  await call.end(body(call, mode))
}

/** A head that Node would not write. `connection: close`, since nobody knows where such an answer ends. */
async function rawHead(call: Call, mode: FaultMode, status: string, headers: string, close = true): Promise<void> {
  const text = body(call, mode)
  const fixed = `content-type: ${type(mode)}\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n`
  await call.sendRaw(`HTTP/1.1 ${status}\r\n${fixed}${headers}\r\n${text}`)
  if (close) call.fin()
}

async function pause(call: Call, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const elapsed = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([elapsed, call.gone])
  clearTimeout(timer)
}
