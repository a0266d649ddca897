/**
 * The road to the providers: one undici pool each, driven by callbacks (web streams cost 4 to 6 times the CPU here).
 * Redirects are not followed, compression is not asked for, and no two requests share a connection at once: with
 * pipelining a whole answer would wait behind a stream.
 */
import type { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { buildConnector, type Dispatcher, Pool } from 'undici'
import type { WorkOwner } from '#contract'
import type { AnswerHandler } from './handler.ts'
import { withoutInformational } from './informational.ts'

/** Where a provider is and how it may be used. */
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
  /** Whose work the answer is, for a provider inside this process. */
  readonly owner?: WorkOwner | undefined
}

/** A handler that also hears when its request goes out. A transport without a queue calls none of these. */
export interface QueuedHandler extends AnswerHandler {
  /** The request waits for others that hold all connections. */
  onQueued?(): void
  /** It is its turn: a connection is taken, or opened. */
  onTurn?(): void
  /** It has a connection, and is being written. */
  onSent?(): void
}

/** Sends one request and drives the handler with its answer. Never throws: what fails goes to `onError`. */
export type Transport = (request: UpstreamRequest, handler: QueuedHandler) => void

export interface HttpTransport {
  readonly dispatch: Transport
  close(): Promise<void>
}

/** A body of this size is written in pieces. */
const LONG_BODY_BYTES = 512 * 1024
const PIECE_BYTES = 256 * 1024

/** Response headers beyond this are refused. */
const LARGEST_HEADERS_BYTES = 64 * 1024

export function createHttpTransport(endpoint: Endpoint): HttpTransport {
  const { origin, pathname } = new URL(endpoint.baseUrl)
  const pool = new Pool(origin, {
    connections: endpoint.connections,
    pipelining: 1,
    connect: connectorOf(endpoint),
    // The attempt keeps the deadlines itself, with one clock for all of them.
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

/** A long body would hold the event loop while the kernel copies it: others run between two pieces. */
function writeInPieces(options: Dispatcher.DispatchOptions, body: Buffer): void {
  options.headers = { ...(options.headers as Record<string, string>), 'content-length': String(body.length) }
  // undici takes anything that can be iterated; its types do not say so.
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
 * The queue before the pool. undici has one of its own, but what waits there cannot be given up: it keeps its body, and
 * goes upstream for nobody when its turn comes. Deadlines and `max_inflight` bound this one.
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
    dispatch.handler.onConnect(reason => dispatch.giveUp(reason))
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

  /** A request has its answer, or was given up. */
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
 * One request, in undici's older handler shape, which hands headers over raw; its newer one was measured at 10 % more CPU
 * a request. Nothing in here may throw: undici would take the process with it.
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

  /** After the end undici's abort must not be called any more: it would throw where nobody catches. */
  giveUp(reason?: Error): void {
    if (this.isOver) return
    this.#end()
    this.#stop?.(reason ?? new Error('given up'))
  }

  onConnect(stop: (error?: Error) => void): void {
    this.#stop = stop
    if (this.isOver) stop(new Error('given up'))
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
 * Raw header pairs as a record with lower-case names; repeated ones are joined as RFC 9110 5.3 says. Of a good answer only those
 * that say what its body is: nobody asks for the others, and each is two strings.
 */
function headersOf(status: number, raw: readonly Buffer[]): Record<string, string> {
  const isGood = status < 300
  // An object without a prototype is a hash table, and takes many times the memory.
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

/** Whether a name is that one, in any case. */
function isNamed(bytes: Buffer, name: string): boolean {
  if (bytes.length !== name.length) return false
  // Of the bytes that a name may have, a hyphen alone becomes a hyphen.
  for (let at = 0; at < name.length; at++) if ((bytes[at]! | 0x20) !== name.charCodeAt(at)) return false
  return true
}
