/**
 * The road to the providers: one undici pool each, driven by callbacks (web streams cost 4 to 6 times the CPU here).
 * Redirects are not followed, compression is not asked for, and no two requests share a connection at once: with
 * pipelining a whole answer would wait behind a stream.
 */
import { type Dispatcher, Pool } from 'undici'
import type { AnswerHandler } from './handler.ts'

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
}

/** Sends one request and drives the handler with its answer. Never throws: what fails goes to `onError`. */
export type Transport = (request: UpstreamRequest, handler: AnswerHandler) => void

export interface HttpTransport {
  readonly dispatch: Transport
  close(): Promise<void>
}

/** Response headers beyond this are refused. */
const LARGEST_HEADERS_BYTES = 64 * 1024
/** Informational (1xx) responses beyond this are an attack. */
const MOST_INFORMATIONAL = 100

export function createHttpTransport(endpoint: Endpoint): HttpTransport {
  const url = new URL(endpoint.baseUrl)
  const pool = new Pool(url.origin, {
    connections: endpoint.connections,
    pipelining: 1,
    connect: { timeout: endpoint.connectMs },
    // The attempt keeps the deadlines itself, with one clock for all of them.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 30_000,
    maxHeaderSize: LARGEST_HEADERS_BYTES,
    allowH2: false,
  })
  const prefix = url.pathname === '/' ? '' : url.pathname
  return {
    dispatch({ path, headers, body }, handler) {
      const options: Dispatcher.DispatchOptions = {
        origin: url.origin,
        path: prefix + path,
        method: 'POST',
        headers: headers as Record<string, string>,
        body,
      }
      try {
        pool.dispatch(options, legacyHandler(handler))
      } catch (error) {
        handler.onError(error as Error)
      }
    },
    close: () => pool.destroy(),
  }
}

/**
 * undici's older handler shape, which hands headers over raw; its newer one was measured at 10 % more CPU a request.
 * Nothing in here may throw: undici would take the process with it.
 */
function legacyHandler(handler: AnswerHandler): Dispatcher.DispatchHandler {
  let informational = 0
  let over = false
  let abort: (error?: Error) => void = () => {}
  return {
    onConnect(stop: (error?: Error) => void) {
      abort = stop
      // After the end undici's abort must not be called any more: it would throw where nobody catches.
      handler.onConnect(reason => {
        if (over) return
        over = true
        stop(reason ?? new Error('given up'))
      })
    },
    onHeaders(status: number, raw: Buffer[], resume: () => void) {
      if (over) return true
      if (status < 200) {
        informational++
        if (informational > MOST_INFORMATIONAL) {
          abort(Object.assign(new Error('too many informational responses'), { code: 'UND_ERR_RESPONSE' }))
        }
        return true
      }
      handler.onHeaders(status, headersOf(raw), resume)
      return true
    },
    onData: (bytes: Buffer) => over || handler.onData(bytes),
    onComplete() {
      if (over) return
      over = true
      handler.onComplete()
    },
    onError(error: Error) {
      if (over) return
      over = true
      handler.onError(error)
    },
  } as Dispatcher.DispatchHandler
}

/** Raw header pairs as a record with lower-case names; repeated ones are joined as RFC 9110 5.3 says. */
function headersOf(raw: readonly Buffer[]): Record<string, string> {
  const headers: Record<string, string> = Object.create(null)
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!.toString('latin1').toLowerCase()
    const value = raw[index + 1]!.toString('latin1')
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  return headers
}
