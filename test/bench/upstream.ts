/**
 * The provider of the benchmark: one thread, raw sockets and prepared answers, so that it costs less than any gateway in front of
 * it. The request's model selects the answer:
 *
 * - `json-1k`, `json-16k`: a completion, at once
 * - `paced`: an event stream of 100 chunks, 10 ms apart, the first at once
 * - `open`: one chunk a second until the other side disconnects
 *
 * run.ts starts this process and receives its port. One timer of 1 ms sends all chunks: at thousands of chunks a second, a timer
 * for each would cost more than the gateway.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'

const CHUNKS = 100
const PACE_MS = 10
const OPEN_PACE_MS = 1000
const END_OF_HEAD = Buffer.from('\r\n\r\n')
const ACCEPTED = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
const BEFORE_MODEL = Buffer.from('"model":"')

const whole = { 'json-1k': wholeAnswer(950), 'json-16k': wholeAnswer(16_384) }
const oneOfStream = frame(chunk({ content: ' word, and' }))
/** It includes a word, because the gateway sends no role before the first content: it may still try another target. */
const firstOfStream = Buffer.concat([streamHead(), frame(chunk({ role: 'assistant', content: '' })), oneOfStream])
const endOfStream = Buffer.from(
  [
    frame(chunk({}, 'stop')),
    frame({ ...chunk({}), choices: [], usage: usage() }),
    framed('data: [DONE]\n\n'),
    '0\r\n\r\n',
  ].join(''),
)

interface Stream {
  readonly socket: Socket
  /** Chunks to come. */
  left: number
}

/** Streams by the millisecond of their next chunk, modulo the pace. */
const paced = Array.from({ length: PACE_MS }, () => new Set<Stream>())
const open = Array.from({ length: OPEN_PACE_MS }, () => new Set<Stream>())
let beat = 0
const startedMs = performance.now()

setInterval(() => {
  for (const now = Math.floor(performance.now() - startedMs); beat < now; ) {
    beat++
    for (const stream of paced[beat % PACE_MS]!) advance(stream)
    for (const stream of open[beat % OPEN_PACE_MS]!) stream.socket.write(oneOfStream)
  }
}, 1)

const server = createServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', 8192, () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())

function serve(socket: Socket): void {
  let unread: Buffer | null = null
  let stream: Stream | null = null
  socket.on('data', (bytes: Buffer) => {
    const request = unread === null ? bytes : Buffer.concat([unread, bytes])
    unread = isWhole(request) ? null : request
    if (unread === null) stream = answer(socket, request)
  })
  // The gateway may reset its connections.
  socket.on('error', () => {})
  socket.on('close', () => {
    if (stream === null) return
    for (const slot of [...paced, ...open]) slot.delete(stream)
  })
}

function isWhole(request: Buffer): boolean {
  const headEnd = request.indexOf(END_OF_HEAD)
  if (headEnd < 0) return false
  const length = /content-length: *(\d+)/i.exec(request.toString('latin1', 0, headEnd))?.[1] ?? '0'
  return request.length >= headEnd + END_OF_HEAD.length + Number(length)
}

function answer(socket: Socket, request: Buffer): Stream | null {
  const before = request.indexOf(BEFORE_MODEL)
  if (before < 0) {
    // The request has traces: this process is the collector too.
    socket.write(ACCEPTED)
    return null
  }
  const at = before + BEFORE_MODEL.length
  const model = request.toString('latin1', at, request.indexOf('"', at))
  if (model === 'json-1k' || model === 'json-16k') {
    socket.write(whole[model])
    return null
  }
  const stream = { socket, left: CHUNKS - 2 }
  const slots = model === 'paced' ? paced : open
  slots[beat % slots.length]!.add(stream)
  socket.write(firstOfStream)
  return stream
}

function advance(stream: Stream): void {
  if (stream.left-- > 0) {
    stream.socket.write(oneOfStream)
    return
  }
  for (const slot of paced) slot.delete(stream)
  stream.socket.write(endOfStream)
}

function usage(): object {
  return {
    prompt_tokens: 120,
    completion_tokens: 98,
    total_tokens: 218,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  }
}

function wholeAnswer(bytes: number): Buffer {
  const bodyOf = (content: string) =>
    JSON.stringify({
      id: 'chatcmpl-CYq0aN9yqQ0J3bV1mH7uZk2w4xT5s',
      object: 'chat.completion',
      created: 1_795_200_000,
      model: 'bench-2026-01-31',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content, refusal: null, annotations: [] },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: usage(),
      service_tier: 'default',
      system_fingerprint: 'fp_5f20662549',
    })
  const body = bodyOf('word '.repeat((bytes - bodyOf('').length) / 5))
  return Buffer.from(`${head('application/json')}content-length: ${body.length}\r\n\r\n${body}`)
}

function chunk(delta: object, finish: string | null = null): object {
  return {
    id: 'chatcmpl-CYq0aN9yqQ0J3bV1mH7uZk2w4xT5s',
    object: 'chat.completion.chunk',
    created: 1_795_200_000,
    model: 'bench-2026-01-31',
    service_tier: 'default',
    system_fingerprint: 'fp_5f20662549',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  }
}

function streamHead(): Buffer {
  return Buffer.from(`${head('text/event-stream; charset=utf-8')}transfer-encoding: chunked\r\n\r\n`)
}

function frame(event: object): Buffer {
  return Buffer.from(framed(`data: ${JSON.stringify(event)}\n\n`))
}

function framed(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

/** Returns a head with about as many headers as a provider sends. */
function head(type: string): string {
  return [
    'HTTP/1.1 200 OK',
    'date: Sat, 21 Nov 2026 03:00:00 GMT',
    `content-type: ${type}`,
    'connection: keep-alive',
    'access-control-expose-headers: X-Request-ID',
    'openai-organization: org-bench',
    'openai-processing-ms: 12',
    'openai-version: 2020-10-01',
    'x-ratelimit-limit-requests: 10000',
    'x-ratelimit-remaining-requests: 9999',
    'x-ratelimit-reset-requests: 6ms',
    'x-request-id: req_5c1a0b7d2f5d4b6f8e1f0a9b3c7d2e11',
    'strict-transport-security: max-age=31536000; includeSubDomains; preload',
    'server: bench',
    '',
  ].join('\r\n')
}
