/**
 * The Koa context of an exchange without a client. Built-in steps use little of it, and creating all of it would take a tenth of a
 * replay's time. Other plugins get Koa's own context.
 */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import Koa, { type Context } from 'koa'

/** The request line and headers. */
export interface RequestHead {
  readonly method: string
  readonly path: string
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** Names and values in turn. */
  readonly rawHeaders?: readonly string[]
}

/** Creates contexts over one unconnected socket. */
export class Contexts {
  readonly #app = new Koa()
  readonly #socket = new Socket()

  constructor() {
    this.#app.silent = true
  }

  /** A complete context, created by Koa. */
  koa({ method, path, headers, rawHeaders = [] }: RequestHead): Context {
    const request = new IncomingMessage(this.#socket)
    request.method = method
    request.url = path
    Object.assign(request.headers, headers)
    request.rawHeaders.push(...rawHeaders)
    return this.#app.createContext(request, new ServerResponse(request))
  }

  dispose(): void {
    this.#socket.destroy()
  }
}

/** The part of a context that built-in plugins, the runner and a step in shadow use. */
export function lightContext(head: RequestHead): Context {
  return new LightContext(head) as unknown as Context
}

class LightContext {
  readonly method: string
  readonly path: string
  readonly req: { readonly rawHeaders: readonly string[] }
  readonly response = new LightResponse()
  readonly headers: Readonly<Record<string, string>>
  exchange: unknown = null

  constructor({ method, path, headers, rawHeaders = [] }: RequestHead) {
    this.method = method
    this.path = path
    this.req = { rawHeaders }
    this.headers = headers ?? NONE
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

/** Koa's response and Node's in one object. */
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
