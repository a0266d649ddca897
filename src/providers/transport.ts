/**
 * HTTP connections to the providers: one undici pool each, driven by callbacks (web streams cost 4 to 6 times the CPU here). It does
 * not follow redirects, does not ask for compression, and does not pipeline: a whole answer would wait behind a stream.
 */
import type { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { buildConnector, type Dispatcher, Pool } from 'undici'
import type { WorkOwner } from '#contract'
import type { AnswerHandler } from './handler.ts'
import { withoutInformational } from './informational.ts'

/** The address of a provider and the limits of its connections. */
export interface Endpoint {
  readonly name: string
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly connections: number
  readonly connectMs: number
}

export interface UpstreamRequest {
  /** Appended to the base URL's path. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The client that the work is counted for, if the provider runs inside this process. */
  readonly owner?: WorkOwner | undefined
}

/** A handler that also learns when its request is sent. A transport without a queue calls none of these. */
export interface QueuedHandler extends AnswerHandler {
  /** All connections are in use, so the request waits. */
  onQueued?(): void
  /** The request left the queue: a connection is taken or opened. */
  onTurn?(): void
  /** The request has a connection and is being written. */
  onSent?(): void
}

/** Sends one request and passes the answer to the handler. Never throws: failures go to `onError`. */
export type Transport = (request: UpstreamRequest, handler: QueuedHandler) => void

export interface HttpTransport {
  readonly dispatch: Transport
  close(): Promise<void>
}

/** A longer body is written in pieces. */
const LONG_BODY_BYTES = 512 * 1024
const PIECE_BYTES = 256 * 1024

const LARGEST_HEADERS_BYTES = 64 * 1024

export function createHttpTransport(endpoint: Endpoint): HttpTransport {
  const { origin, pathname } = new URL(endpoint.baseUrl)
  const pool = new Pool(origin, {
    connections: endpoint.connections,
    pipelining: 1,
    connect: connectorOf(endpoint),
    // The attempt enforces the deadlines, with one clock for all of them.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 30_000,
    maxHeaderSize: LARGEST_HEADERS_BYTES,
    allowH2: false,
  })
  const prefix = pathname === '/' ? '' : pathname
  const slots = new Slots(pool, endpoint.connections)
  return {
    dispatch({ path, headers, body }, handler) {
      const options: Dispatcher.DispatchOptions = {
        origin,
        path: prefix + path,
        method: 'POST',
        headers: headers as Record<string, string>,
        body,
      }
      if (body.length > LONG_BODY_BYTES) writeInPieces(options, body)
      slots.take(new Dispatch(handler, options, slots))
    },
    close: () => pool.destroy(),
  }
}

/** A long body would block the event loop while the kernel copies it. Other work runs between two pieces. */
function writeInPieces(options: Dispatcher.DispatchOptions, body: Buffer): void {
  options.headers = { ...(options.headers as Record<string, string>), 'content-length': String(body.length) }
  // undici accepts any iterable, but its types do not.
  options.body = piecesOf(body) as unknown as Readable
}

async function* piecesOf(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    yield body.subarray(at, at + PIECE_BYTES)
    await setImmediate()
  }
}

function connectorOf({ connectMs }: Endpoint): buildConnector.connector {
  const connect = buildConnector({ timeout: connectMs, allowH2: false })
  return (options, done) =>
    connect(options, (error, socket) => {
      if (error) done(error, null)
      else done(null, withoutInformational(socket))
    })
}

/**
 * The queue before the pool. undici has its own queue, but a request in it cannot be removed: it keeps its body, and is sent when its
 * turn comes. Deadlines and `max_inflight` limit this queue.
 */
class Slots {
  readonly pool: Pool
  #free: number
  readonly #waiting = new Set<Dispatch>()

  constructor(pool: Pool, connections: number) {
    this.pool = pool
    this.#free = connections
  }

  take(dispatch: Dispatch): void {
    dispatch.handler.onConnect(reason => dispatch.abort(reason))
    if (dispatch.isOver) return
    dispatch.handler.onQueued?.()
    if (this.#free > 0) this.#send(dispatch)
    else this.#waiting.add(dispatch)
  }

  #send(dispatch: Dispatch): void {
    this.#free--
    dispatch.handler.onTurn?.()
    dispatch.send()
  }

  /** A request has its answer or was aborted. */
  over(dispatch: Dispatch): void {
    if (!dispatch.isSent) {
      this.#waiting.delete(dispatch)
      return
    }
    this.#free++
    for (const next of this.#waiting) {
      this.#waiting.delete(next)
      this.#send(next)
      break
    }
  }
}

/**
 * One request, in undici's older handler interface, which passes raw headers; the newer one was measured at 10 % more CPU a request.
 * No method may throw: undici would crash the process.
 */
class Dispatch implements Dispatcher.DispatchHandler {
  readonly handler: QueuedHandler
  isOver = false
  isSent = false
  readonly #options: Dispatcher.DispatchOptions
  readonly #slots: Slots
  #stop: ((error?: Error) => void) | null = null

  constructor(handler: QueuedHandler, options: Dispatcher.DispatchOptions, slots: Slots) {
    this.handler = handler
    this.#options = options
    this.#slots = slots
  }

  send(): void {
    this.isSent = true
    try {
      this.#slots.pool.dispatch(this.#options, this)
    } catch (error) {
      this.onError(error as Error)
    }
  }

  /** After the end undici's abort must not be called: it would throw an error that no code catches. */
  abort(reason?: Error): void {
    if (this.isOver) return
    this.#end()
    this.#stop?.(reason ?? new Error('aborted'))
  }

  onConnect(stop: (error?: Error) => void): void {
    this.#stop = stop
    if (this.isOver) stop(new Error('aborted'))
    else this.handler.onSent?.()
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    if (this.isOver) return true
    if (status < 200) {
      this.#stop?.(Object.assign(new Error(`status ${status}`), { code: 'UND_ERR_RESPONSE' }))
      return true
    }
    this.handler.onHeaders(status, headersOf(status, raw), resume)
    return true
  }

  onData(bytes: Buffer): boolean {
    return this.isOver || this.handler.onData(bytes)
  }

  onComplete(): void {
    if (this.isOver) return
    this.#end()
    this.handler.onComplete()
  }

  onError(error: Error): void {
    if (this.isOver) return
    this.#end()
    this.handler.onError(error)
  }

  #end(): void {
    this.isOver = true
    this.#slots.over(this)
  }
}

/**
 * Raw header pairs as a record with lower-case names; repeated ones are joined as RFC 9110 5.3 requires. A good answer keeps only the
 * headers of its body: the others are not used, and each would cost two strings.
 */
function headersOf(status: number, raw: readonly Buffer[]): Record<string, string> {
  const isGood = status < 300
  // An object without a prototype is a hash table, which takes much more memory.
  const headers: Record<string, string> = isGood ? {} : Object.create(null)
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const bytes = raw[index]!
    const name = isGood ? nameOfBody(bytes) : bytes.toString('latin1').toLowerCase()
    if (name === undefined) continue
    const value = raw[index + 1]!.toString('latin1')
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  return headers
}

const OF_BODY = ['content-type', 'content-encoding', 'content-length'] as const

function nameOfBody(bytes: Buffer): string | undefined {
  for (const name of OF_BODY) if (isNamed(bytes, name)) return name
  return undefined
}

/** Compares a header name, ignoring case. */
function isNamed(bytes: Buffer, name: string): boolean {
  if (bytes.length !== name.length) return false
  // Of the bytes allowed in a name, only a hyphen becomes a hyphen.
  for (let at = 0; at < name.length; at++) if ((bytes[at]! | 0x20) !== name.charCodeAt(at)) return false
  return true
}
