/**
 * One attempt at one target: sends the request, passes the answer to a sink, enforces the provider's deadlines and reports every
 * failure as an `UpstreamFailure`.
 */
import type { UpstreamFailure } from '#contract'
import { ByteCollector } from '../common/bytes.ts'
import type { DeadlineClock } from '../common/clock.ts'
import { headFailure, LARGEST_ERROR_BYTES } from './head.ts'
import type { QueuedHandler, Transport, UpstreamRequest } from './transport.ts'

/** Receives the answer. Exactly one of `end` and `fail` is called, once, unless the attempt was aborted. */
export interface AttemptSink {
  /** @returns false to pause until `resume()` */
  data(bytes: Buffer): boolean
  end(): void
  fail(failure: UpstreamFailure): void
}

export interface AttemptOptions {
  readonly transport: Transport
  readonly request: UpstreamRequest
  readonly sink: AttemptSink
  readonly deadlineClock: DeadlineClock
  readonly timeouts: {
    readonly connectMs: number
    readonly firstByteMs: number
    readonly idleMs: number
    readonly totalMs: number
  }
  /** When it started, in the time of the deadline clock. Default: now. */
  readonly startedMs?: number
  /** Whether the answer should be an event stream. */
  readonly stream: boolean
  decodeError(status: number, headers: Readonly<Record<string, string>>, body: Buffer): UpstreamFailure
  /** The response head has come, or the attempt has failed before it (status null). */
  onHead(status: number | null, failure: UpstreamFailure | null, atMs: number): void
}

/** An attempt in progress. */
export interface RunningAttempt {
  abort(): void
  /** Continues after the sink paused it. */
  resume(): void
  /** False while the attempt waits for a connection. The provider has not seen an attempt that is aborted then. */
  readonly isSent: boolean
  /** Whether the provider may bill the attempt: it was sent, and no error status came back. Not valid after its end. */
  readonly isBillable: boolean
  /** Length of a whole answer in bytes, from `content-length`; NaN if the head has none. */
  readonly expectedBytes: number
  /** Whether it waits for the client to read. A failure then does not count against the target. */
  readonly isPaused: boolean
}

export function startAttempt(options: AttemptOptions): RunningAttempt {
  const attempt = new LiveAttempt(options)
  options.transport(options.request, attempt)
  return attempt
}

class LiveAttempt implements QueuedHandler, RunningAttempt {
  readonly #options: AttemptOptions
  readonly #startedMs: number
  readonly #unwatch: () => void
  #lastMs: number
  #phase: 'head' | 'first' | 'answer' | 'error' | 'over' = 'head'
  #paused = false
  isSent = true
  #isQueued = false
  #abortTransport: ((reason?: Error) => void) | null = null
  #resumeTransport: (() => void) | null = null
  #status = 0
  #headers: Readonly<Record<string, string>> = {}
  /** Created for error answers only. */
  #errorBody: ByteCollector | null = null
  #headReported = false

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#startedMs = this.#lastMs = options.startedMs ?? options.deadlineClock.now()
    this.#unwatch = options.deadlineClock.watch(now => this.#checkDeadlines(now))
  }

  get isBillable(): boolean {
    return this.isSent && this.#phase !== 'error'
  }

  get expectedBytes(): number {
    return Number(this.#headers['content-length'])
  }

  get isPaused(): boolean {
    return this.#paused
  }

  abort(): void {
    this.#over()
    this.#abortTransport?.()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#lastMs = this.#options.deadlineClock.now()
    this.#resumeTransport?.()
  }

  onConnect(abort: (reason?: Error) => void): void {
    this.#abortTransport = abort
    // Aborted while it waited for a connection: do not send it.
    if (this.#phase === 'over') abort()
  }

  onQueued(): void {
    this.isSent = false
    this.#isQueued = true
  }

  onTurn(): void {
    this.#isQueued = false
  }

  onSent(): void {
    this.isSent = true
  }

  onHeaders(status: number, headers: Record<string, string>, resume: () => void): void {
    if (this.#phase === 'over') return
    this.#resumeTransport = resume
    this.#lastMs = this.#options.deadlineClock.now()
    this.#status = status
    this.#headers = headers
    const failure = headFailure(status, headers, this.#options.decodeError)
    if (failure) this.#fail(failure)
    else if (status >= 400) this.#phase = 'error'
    else {
      this.#phase = this.#options.stream ? 'first' : 'answer'
      this.#reportHead(null, this.#lastMs)
    }
  }

  onData(bytes: Buffer): boolean {
    if (this.#phase === 'over') return true
    this.#lastMs = this.#options.deadlineClock.now()
    if (this.#phase === 'error') {
      this.#errorBody ??= new ByteCollector()
      this.#errorBody.add(bytes)
      if (this.#errorBody.size > LARGEST_ERROR_BYTES) this.#failWithBody()
      return true
    }
    this.#phase = 'answer'
    const continues = this.#options.sink.data(bytes)
    if (!continues) this.#paused = true
    return continues
  }

  onComplete(): void {
    if (this.#phase === 'over') return
    if (this.#phase === 'error') {
      this.#failWithBody()
      return
    }
    this.#over()
    this.#options.sink.end()
  }

  onError(error: Error): void {
    if (this.#phase === 'over') return
    const begun = this.#phase === 'answer' || this.#phase === 'first'
    this.#fail(this.#phase === 'error' ? this.#decodedError() : failureOfError(error, begun))
  }

  #checkDeadlines(now: number): void {
    const { timeouts } = this.#options
    if (now - this.#startedMs > timeouts.totalMs)
      this.#timeOut(`the whole answer took longer than ${timeouts.totalMs} ms`)
    else if (this.#paused) return
    else if (this.#phase === 'answer' || this.#phase === 'error') {
      if (now - this.#lastMs > timeouts.idleMs) this.#timeOut(`no data for ${timeouts.idleMs} ms`)
    } else if (now - this.#startedMs > timeouts.firstByteMs) {
      this.#timeOut(`no answer within ${timeouts.firstByteMs} ms`)
    }
  }

  #timeOut(detail: string): void {
    if (!this.#isQueued) this.#fail({ code: 'upstream_timeout', detail })
    else
      this.#fail({
        code: 'overloaded',
        retryAfterMs: 1000,
        detail: `no connection to the provider was free: ${detail}`,
      })
  }

  #failWithBody(): void {
    this.#fail(this.#decodedError())
  }

  #decodedError(): UpstreamFailure {
    return this.#options.decodeError(this.#status, this.#headers, this.#errorBody?.take() ?? Buffer.alloc(0))
  }

  /** Ends the attempt. Also closes the connection, unless the answer was read to the end. */
  #fail(failure: UpstreamFailure): void {
    this.#over()
    this.#reportHead(failure, this.#options.deadlineClock.now())
    this.#abortTransport?.()
    this.#options.sink.fail(failure)
  }

  #reportHead(failure: UpstreamFailure | null, atMs: number): void {
    if (this.#headReported) return
    this.#headReported = true
    this.#options.onHead(this.#status === 0 ? null : this.#status, failure, atMs)
  }

  #over(): void {
    this.#phase = 'over'
    this.#unwatch()
  }
}

/** Maps a transport error to an `UpstreamFailure`. `begun`: a head with a 2xx status was received. */
export function failureOfError(error: Error, begun: boolean): UpstreamFailure {
  const code = (error as { code?: string }).code ?? error.name
  const detail = `${code}: ${error.message}`
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') return { code: 'upstream_timeout', detail }
  if (code.startsWith('HPE_') || NOT_HTTP.has(code)) return { code: 'upstream_invalid', detail }
  if (begun) return { code: 'upstream_truncated', detail }
  return { code: code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' ? 'upstream_invalid' : 'upstream_unreachable', detail }
}

/** Codes for bytes that are not HTTP. undici asserts parts of a status line, and has no code for some parser errors. */
const NOT_HTTP: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_RESPONSE',
  'ERR_ASSERTION',
  'HTTPParserError',
])
