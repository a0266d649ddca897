/** One request of a client without a network: what it sends, when it disconnects, and what it receives. */
import type { Configuration } from '../config/configuration.ts'
import { Wire } from './connection.ts'
import { namesOf } from './known-options.ts'

/** A request as a client sends it. */
export interface BenchRequest {
  /** Default: POST. */
  readonly method?: string
  /** Default: /v1/chat/completions. */
  readonly path?: string
  /** Names in any case; null omits a default header. */
  readonly headers?: Readonly<Record<string, string | null>>
  /** A value that becomes JSON, or a raw text. */
  readonly body?: unknown
  /** The API key. Default: the key of the bench; null: none. */
  readonly key?: string | null
  /**
   * The client disconnects after this number of events of a stream; 0: as soon as a provider is called. A whole answer has no events,
   * so any number means 0.
   */
  readonly leaveAfter?: number
  /** The client's address. */
  readonly address?: string
}

export const REQUEST_NAMES = namesOf<BenchRequest>({
  method: true,
  path: true,
  headers: true,
  body: true,
  key: true,
  leaveAfter: true,
  address: true,
})

/** The headers of a request, including those that every client sends. */
export function headersOf(
  { key, headers = {}, body }: BenchRequest,
  own: string,
  { hosts }: Pick<Configuration, 'hosts'>,
): Record<string, string> {
  const token = key === undefined ? own : key
  const all: Record<string, string | null> = {
    host: hosts?.[0] ?? 'bench',
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  }
  for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null))
}

export interface BenchAnswer {
  /** Id of the exchange, even if the client received nothing; null if no exchange began and no head arrived. */
  readonly id: string | null
  /** Null if no head arrived. */
  readonly status: number | null
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The events of a stream, parsed; `[DONE]` is a text. */
  readonly events: readonly unknown[]
  /** The text of the first choice. */
  readonly content: string
  /** The error, from the body or the stream's last event. */
  readonly error: { readonly code: string; readonly message: string; readonly [field: string]: unknown } | null
  /** Whether the answer is complete according to its framing. */
  readonly isWhole: boolean
  /** Whether the client disconnected before that. */
  readonly left: boolean
  /** The body parsed as JSON; throws if it is not JSON. */
  json(): unknown
}

/** A client with one request. */
export class Visit {
  readonly wire: Wire
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>
  readonly #leaveAfter: number | null
  readonly #stream: boolean
  #bytes: Buffer[] = []
  #events = 0
  #left = false

  constructor({ leaveAfter, address, body }: BenchRequest) {
    this.#leaveAfter = leaveAfter ?? null
    this.#stream = (body as { stream?: unknown } | null | undefined)?.stream === true
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    this.wire = new Wire({ data: bytes => this.#data(bytes), end() {}, closed: resolve }, address)
  }

  send(request: BenchRequest, headers: Readonly<Record<string, string>>): void {
    const { method = 'POST', path = '/v1/chat/completions', body } = request
    const bytes = Buffer.from(body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body))
    const lines = Object.entries({ ...headers, 'content-length': String(bytes.length) })
    const head = [`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`)]
    this.wire.send(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]))
  }

  /** Called when a provider is called for this request. */
  upstreamCalled(): void {
    if (this.#leaveAfter === 0 || (this.#leaveAfter !== null && !this.#stream)) this.leave()
  }

  leave(): void {
    if (this.wire.destroyed) return
    this.#left = true
    this.wire.leave('fin')
  }

  answer(exchange: string | null): BenchAnswer {
    const text = Buffer.concat(this.#bytes).toString('latin1')
    const { status, headers, body, isWhole } = parse(text)
    const events = /event-stream/.test(headers['content-type'] ?? '') ? eventsIn(body) : []
    const parsed = events.length > 0 ? events : [jsonIn(body)]
    return {
      id: exchange ?? headers['x-request-id'] ?? null,
      status,
      headers,
      text: body,
      events,
      content: parsed.map(contentOf).join(''),
      error:
        (parsed.findLast(each => typeof each === 'object' && each !== null && 'error' in each) as ErrorBody)?.error ??
        null,
      isWhole: isWhole && !this.#left,
      left: this.#left,
      json: () => JSON.parse(body),
    }
  }

  #data(bytes: Buffer): void {
    // A client that disconnected reads no more data.
    if (this.#left) return
    this.#bytes.push(bytes)
    if (this.#leaveAfter === null || this.#leaveAfter === 0) return
    this.#events += bytes.toString('latin1').split('data: ').length - 1
    if (this.#events >= this.#leaveAfter) this.leave()
  }
}

type ErrorBody = { readonly error: NonNullable<BenchAnswer['error']> } | undefined

interface Choice {
  readonly index?: number
  readonly delta?: { readonly content?: string | null }
  readonly message?: { readonly content?: string | null }
}

function contentOf(answer: unknown): string {
  const choices = (answer as { choices?: readonly Choice[] } | null)?.choices
  const choice = Array.isArray(choices)
    ? (choices as readonly Choice[]).find(each => (each.index ?? 0) === 0)
    : undefined
  return (choice?.delta ?? choice?.message)?.content ?? ''
}

function eventsIn(body: string): unknown[] {
  return [...body.matchAll(/^data: (.*)$/gm)].map(([, data]) => jsonIn(data!) ?? data)
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

interface HttpAnswer {
  readonly status: number | null
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly isWhole: boolean
}

/** Parses the HTTP answer received so far. */
function parse(text: string): HttpAnswer {
  const at = text.indexOf('\r\n\r\n')
  if (at < 0) return { status: null, headers: {}, body: '', isWhole: false }
  const [statusLine, ...lines] = text.slice(0, at).split('\r\n')
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const status = Number(statusLine!.split(' ')[1])
  const rest = text.slice(at + 4)
  if (headers['transfer-encoding'] === 'chunked') return { status, headers, ...dechunk(rest) }
  const length = Number(headers['content-length'] ?? 0)
  return { status, headers, isWhole: rest.length === length, body: utf8(rest.slice(0, length)) }
}

function dechunk(text: string): { body: string; isWhole: boolean } {
  let body = ''
  let at = 0
  for (;;) {
    const line = text.indexOf('\r\n', at)
    if (line < 0) return { body: utf8(body), isWhole: false }
    const size = Number.parseInt(text.slice(at, line), 16)
    if (size === 0) return { body: utf8(body), isWhole: text.slice(line, line + 4) === '\r\n\r\n' }
    if (text.length < line + 2 + size + 2) return { body: utf8(body + text.slice(line + 2)), isWhole: false }
    body += text.slice(line + 2, line + 2 + size)
    at = line + 2 + size + 2
  }
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8')
}
