/**
 * The context of a replayed exchange. Steps that come with the gateway need little of Koa's, and making all of it would
 * be a tenth of a replay's time; plugins of other people get Koa's own.
 */
import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type Koa from 'koa'
import type { Context } from 'koa'
import type { LogLine } from './line.ts'
import { NOBODY } from './services.ts'

/** The whole of it, without a connection. */
export function koaContext(app: Koa, socket: Socket, line: LogLine): Context {
  const request = new IncomingMessage(socket)
  request.method = line.method
  request.url = line.route
  Object.assign(request.headers, line.headers)
  request.rawHeaders.push(...rawHeadersOf(line))
  return app.createContext(request, new ServerResponse(request))
}

/** What the built-in plugins, the runner and a step in shadow use of it. */
export function lightContext(line: LogLine): Context {
  return new LightContext(line) as unknown as Context
}

class LightContext {
  readonly method: string
  readonly path: string
  readonly req: { readonly rawHeaders: readonly string[] }
  readonly response = new LightResponse()
  readonly headers: Readonly<Record<string, string>>
  exchange: unknown = null

  constructor(line: LogLine) {
    this.method = line.method
    this.path = line.route
    this.req = { rawHeaders: rawHeadersOf(line) }
    this.headers = line.headers ?? NONE
  }

  get res(): LightResponse {
    return this.response
  }

  get status(): number {
    return this.response.statusCode
  }

  get(name: string): string {
    return this.headers[name.toLowerCase()] ?? ''
  }

  set(name: string, value: string): void {
    this.response.setHeader(name, value)
  }
}

const NONE: Readonly<Record<string, string>> = {}

/** Koa's response and Node's in one. */
class LightResponse {
  statusCode = 404
  readonly headersSent = false
  _body: unknown
  _explicitStatus: boolean | undefined
  #headers = new Map<string, string>()

  get body(): unknown {
    return this._body
  }

  get res(): LightResponse {
    return this
  }

  get(name: string): string {
    return this.#headers.get(name.toLowerCase()) ?? ''
  }

  getHeaders(): Record<string, string> {
    return Object.fromEntries(this.#headers)
  }

  setHeader(name: string, value: string): void {
    this.#headers.set(name.toLowerCase(), value)
  }

  removeHeader(name: string): void {
    this.#headers.delete(name.toLowerCase())
  }
}

function rawHeadersOf({ headers, who, code, id }: LogLine): string[] {
  const raw = headers === null ? [] : Object.entries(headers).flat()
  if (who === null && code !== null && NOBODY.has(code)) return raw
  // The id of the exchange: the keys of a replay know whose it was.
  raw.push('authorization', `Bearer ${id}`)
  return raw
}
