/**
 * Raw routes (`/v1/embeddings` and others): the body goes to the provider unchanged, and the answer comes back byte for byte,
 * over http-proxy. The answer is collected here, or passed on piece by piece if the gateway asks for that. The gateway
 * decides when it is sent to the client.
 *
 * http-proxy copies all headers of a request, and destroys the response when the provider's connection breaks. So it does not get
 * the client's request and response. It gets a request with only the headers built below, and a response without a reader.
 * Closing that response signals http-proxy that the client disconnected.
 */
import { type ClientRequest, Agent as HttpAgent, IncomingMessage, ServerResponse } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Socket } from 'node:net'
import { type Duplex, Readable } from 'node:stream'
import { createProxyServer } from 'http-proxy'
import type { UpstreamFailure } from '#contract'
import { type AnswerRoom, ByteCollector, roomFailure } from '../common/bytes.ts'
import type { DeadlineClock } from '../common/clock.ts'
import { failureOfError } from './attempt.ts'
import { headFailure, LARGEST_ERROR_BYTES, MAX_INFORMATIONAL, SWITCHES } from './head.ts'

export interface RawRequest extends AnswerRoom {
  /** The client's request. Only its method and its content type are sent upstream. */
  readonly request: Pick<IncomingMessage, 'method' | 'headers'>
  /** The body, already read. */
  readonly bytes: Buffer
  readonly provider: {
    readonly name: string
    /** Without a trailing slash. */
    readonly baseUrl: string
    /** Maximum number of sockets. */
    readonly connections: number
    readonly timeouts: {
      readonly connectMs: number
      readonly firstByteMs: number
      readonly idleMs: number
      readonly totalMs: number
    }
  }
  /** The gateway's credentials at this provider, as in `Upstream`; lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Appended to the base URL's path. */
  readonly path: string
  readonly requestId: string
  /** Aborting it closes the upstream connection at once. */
  readonly signal: AbortSignal
  readonly deadlineClock: DeadlineClock
  /**
   * Called at a head with a 2xx status. Returns the sink for the body, or null to have it collected.
   * @param resume continues after the sink paused the answer
   */
  begin?(head: RawHead, resume: () => void): RawSink | null
  decodeError(status: number, headers: Readonly<Record<string, string>>, body: Buffer): UpstreamFailure
}

/** The head of an answer with a 2xx status. */
export interface RawHead {
  readonly status: number
  /** `content-type` and `content-disposition`, if the provider sent them. */
  readonly headers: Readonly<Record<string, string>>
  /** Length of the body in bytes, if the provider sent it. */
  readonly length: number | null
}

/** Takes a piece of the body. Returning false pauses the answer until it is resumed; throwing ends it. */
export type RawSink = (bytes: Buffer) => boolean

/** A complete answer with a 2xx status. */
export interface RawAnswer extends RawHead {
  /** Empty if a sink took it. */
  readonly body: Buffer
}

/** Any result except a complete answer with a 2xx status. The message is for the log. */
export class RawFailure extends Error {
  override readonly name = 'RawFailure'
  readonly failure: UpstreamFailure
  /** The provider's status, or null if no head came. */
  readonly status: number | null
  /** Whether the answer waited for the client to read. The failure then does not count against the target. */
  readonly isPaused: boolean

  constructor(failure: UpstreamFailure, status: number | null, isPaused = false) {
    super(`${failure.code}: ${failure.detail}`)
    this.failure = failure
    this.status = status
    this.isPaused = isPaused
  }
}

/** The signal was aborted, so the request was ended. */
export class RawAbort extends Error {
  override readonly name = 'AbortError'
  /** Whether the provider may bill the request: all of it was sent, and no error status came back. */
  readonly isBillable: boolean

  constructor({ reason }: AbortSignal, isBillable: boolean) {
    super(`The request was aborted: ${String(reason?.message ?? reason)}`)
    this.isBillable = isBillable
  }
}

/** The connections to one provider. */
export interface RawProxy {
  /** Rejects with a `RawFailure`, or with a `RawAbort` when the signal aborts. */
  send(request: RawRequest): Promise<RawAnswer>
  /** Closes every connection; requests in progress fail. */
  close(): void
}

/** Without an agent http-proxy 1.x sent `connection: close`, at twice the CPU per request. The timeout closes idle sockets only. */
const AGENT = { keepAlive: true, maxFreeSockets: 32, timeout: 30_000 }

/** Creates the proxy of one provider. All requests share the sockets of the first request's settings. */
export function createRawProxy(): RawProxy {
  let agent: HttpAgent | null = null
  return {
    async send(options) {
      if (options.signal.aborted) throw new RawAbort(options.signal, false)
      const { baseUrl, connections } = options.provider
      const target = new URL(baseUrl)
      agent ??= new (target.protocol === 'https:' ? HttpsAgent : HttpAgent)({ ...AGENT, maxSockets: connections })
      const { status, headers, body } = await new ProxiedRequest(options, target, agent).answer
      if (status > 299) throw new RawFailure(options.decodeError(status, headers, body), status)
      return { ...headOf(status, headers), body }
    },
    close() {
      agent?.destroy()
    },
  }
}

/** An answer of any status, with all its headers. */
interface WholeAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** One request through http-proxy. */
class ProxiedRequest {
  readonly answer: Promise<WholeAnswer>
  readonly #options: RawRequest
  readonly #settle: PromiseWithResolvers<WholeAnswer>
  readonly #response: ServerResponse
  readonly #startedMs: number
  readonly #unwatch: () => void
  readonly #onAbort = () => this.#reject(new RawAbort(this.#options.signal, this.#isBillable))
  #phase: 'head' | 'body' | 'over' = 'head'
  #outgoing: ClientRequest | null = null
  #connectingSinceMs: number | null = null
  #lastMs: number
  #status: number | null = null
  #headers: Record<string, string> = {}
  #informational = 0
  readonly #body = new ByteCollector()
  #sink: RawSink | null = null
  #paused = false

  constructor(options: RawRequest, target: URL, agent: HttpAgent) {
    this.#options = options
    this.#settle = Promise.withResolvers()
    this.answer = this.#settle.promise
    this.#startedMs = this.#lastMs = options.deadlineClock.now()
    this.#unwatch = options.deadlineClock.watch(now => this.#checkDeadlines(now))
    options.signal.addEventListener('abort', this.#onAbort, { once: true })
    const request = preparedRequest(options)
    this.#response = new ServerResponse(request)
    this.#dispatch(request, target, agent)
  }

  /** One proxy per request, which is cheap: its events then belong to that request. */
  #dispatch(request: IncomingMessage, { protocol, hostname, port, pathname }: URL, agent: HttpAgent): void {
    const proxy = createProxyServer()
    const failed = (error: Error) => this.#failed(error)
    proxy.on('proxyReq', outgoing => this.#gotSocket(outgoing))
    proxy.on('proxyRes', answer => this.#gotHead(answer))
    proxy.on('error', failed)
    proxy.on('econnreset', failed)
    const options = {
      // The URL itself does not work: node:http wants an IPv6 address without brackets.
      target: { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port, pathname },
      agent,
      buffer: Readable.from([this.#options.bytes], { objectMode: false }),
      selfHandleResponse: true,
      followRedirects: false,
      xfwd: false,
    }
    proxy.web(request, this.#response, options).catch(failed)
  }

  #gotSocket(outgoing: ClientRequest): void {
    this.#outgoing = outgoing
    outgoing.on('information', () => this.#gotInformation())
    // Without a listener Node closes the connection silently.
    outgoing.on('upgrade', (_, socket) => this.#switched(socket))
    const { socket } = outgoing
    const secure = 'secureConnecting' in (socket ?? {}) ? (socket as { secureConnecting?: unknown }) : null
    if (!socket?.connecting && secure?.secureConnecting !== true) return
    this.#connectingSinceMs = this.#options.deadlineClock.now()
    socket!.once(secure ? 'secureConnect' : 'connect', () => {
      this.#connectingSinceMs = null
    })
  }

  #gotInformation(): void {
    if (this.#phase === 'over') return
    this.#informational++
    if (this.#informational > MAX_INFORMATIONAL) {
      this.#fail({ code: 'upstream_invalid', detail: 'too many informational responses' })
    }
  }

  #switched(socket: Duplex): void {
    socket.destroy()
    if (this.#phase !== 'over') this.#fail({ code: 'upstream_invalid', detail: SWITCHES })
  }

  #gotHead(answer: IncomingMessage): void {
    if (this.#phase === 'over') return
    this.#phase = 'body'
    this.#lastMs = this.#options.deadlineClock.now()
    this.#status = answer.statusCode ?? 0
    this.#headers = flatHeaders(answer)
    const failure = headFailure(this.#status, this.#headers, this.#options.decodeError) ?? this.#begin(answer)
    if (failure) {
      this.#fail(failure)
      return
    }
    answer.on('data', (bytes: Buffer) => this.#gotData(answer, bytes))
    answer.on('end', () => this.#gotEnd(answer.complete))
    answer.on('close', () => this.#gotEnd(answer.complete))
  }

  /** Asks for the sink of a good answer. An answer without a sink must not be too large. */
  #begin(answer: IncomingMessage): UpstreamFailure | null {
    if (this.#status! > 299) return null
    const resume = () => {
      if (!this.#paused) return
      this.#paused = false
      this.#lastMs = this.#options.deadlineClock.now()
      answer.resume()
    }
    this.#sink = this.#options.begin?.(headOf(this.#status!, this.#headers), resume) ?? null
    return this.#sink ? null : this.#sizeFailure(this.#headers['content-length'])
  }

  #gotData(answer: IncomingMessage, bytes: Buffer): void {
    if (this.#phase === 'over') return
    this.#lastMs = this.#options.deadlineClock.now()
    if (this.#sink) {
      this.#passOn(this.#sink, answer, bytes)
      return
    }
    this.#body.add(bytes)
    if (this.#status! > 299) {
      if (this.#body.size > LARGEST_ERROR_BYTES) this.#cutShort()
    } else {
      const failure = this.#sizeFailure(this.#body.size)
      if (failure) this.#fail(failure)
    }
  }

  #passOn(sink: RawSink, answer: IncomingMessage, bytes: Buffer): void {
    try {
      if (sink(bytes)) return
      this.#paused = true
      answer.pause()
    } catch (error) {
      this.#reject(error as Error)
    }
  }

  #gotEnd(complete: boolean): void {
    if (this.#phase === 'over') return
    if (complete) this.#complete()
    else this.#failed(new Error('the connection closed before the end of the answer'))
  }

  #failed(error: Error): void {
    if (this.#phase === 'over') return
    // The beginning of an error body is enough.
    if (this.#status !== null && this.#status > 299) this.#cutShort()
    else this.#fail(failureOfError(error, this.#phase === 'body'))
  }

  #sizeFailure(bytes: number | string | undefined): UpstreamFailure | null {
    if (this.#status! > 299 || bytes === undefined) return null
    return roomFailure(Number(bytes), this.#options)
  }

  #checkDeadlines(now: number): void {
    const { connectMs, firstByteMs, idleMs, totalMs } = this.#options.provider.timeouts
    if (now - this.#startedMs > totalMs) this.#timeOut(`the whole answer took longer than ${totalMs} ms`)
    else if (this.#phase === 'body') {
      // The gateway paused this answer itself.
      if (!this.#paused && now - this.#lastMs > idleMs) this.#timeOut(`no data for ${idleMs} ms`)
    } else if (now - this.#startedMs > firstByteMs) this.#timeOut(`no answer within ${firstByteMs} ms`)
    else if (this.#connectingSinceMs !== null && now - this.#connectingSinceMs > connectMs) {
      this.#timeOut(`no connection within ${connectMs} ms`)
    }
  }

  #timeOut(detail: string): void {
    const why = `no connection to the provider was free: ${detail}`
    if (this.#outgoing) this.#fail({ code: 'upstream_timeout', detail })
    else this.#fail({ code: 'overloaded', retryAfterMs: 1000, detail: why })
  }

  get #isBillable(): boolean {
    return this.#outgoing?.writableFinished === true && (this.#status ?? 200) <= 299
  }

  #complete(): void {
    this.#over()
    this.#settle.resolve({ status: this.#status!, headers: this.#headers, body: this.#body.take() })
  }

  #cutShort(): void {
    this.#complete()
    this.#closeUpstream()
  }

  #fail(failure: UpstreamFailure): void {
    this.#reject(new RawFailure(failure, this.#status, this.#paused))
  }

  #reject(error: Error): void {
    this.#over()
    this.#settle.reject(error)
    this.#closeUpstream()
  }

  #over(): void {
    this.#phase = 'over'
    this.#unwatch()
    this.#options.signal.removeEventListener('abort', this.#onAbort)
  }

  /** Emits `close`, as a closed client connection does: http-proxy then destroys the request and its answer. */
  #closeUpstream(): void {
    this.#body.clear()
    this.#response.emit('close')
  }
}

/** The request that http-proxy gets: it copies all headers, so it gets only the ones built here. */
function preparedRequest({ request, bytes, headers, path, requestId }: RawRequest): IncomingMessage {
  // Only the client knows the type of the body. If the request was signed, the signed type is used.
  const { 'content-type': signedType, ...ours } = headers
  const contentType =
    request.headers['content-type'] ?? (Object.hasOwn(ours, SIGNATURE_HEADER) ? signedType : undefined)
  const prepared = new IncomingMessage(new Socket())
  prepared.method = request.method ?? 'POST'
  prepared.url = path
  prepared.headers = {
    ...ours,
    accept: '*/*',
    'accept-encoding': 'identity',
    'x-request-id': requestId,
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
    ...(bytes.length === 0 && (prepared.method === 'GET' || prepared.method === 'HEAD')
      ? {}
      : { 'content-length': String(bytes.length) }),
  }
  return prepared
}

/** A header that signed requests (AWS) have. */
const SIGNATURE_HEADER = 'x-amz-date'

function flatHeaders({ headers }: IncomingMessage): Record<string, string> {
  const flat: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

const KEPT_HEADERS = ['content-type', 'content-disposition']

function headOf(status: number, headers: Readonly<Record<string, string>>): RawHead {
  const length = headers['content-length']
  return {
    status,
    headers: Object.fromEntries(
      KEPT_HEADERS.filter(name => headers[name] !== undefined).map(name => [name, headers[name]!]),
    ),
    length: length === undefined ? null : Number(length),
  }
}
