/** `mode: shadow`: a step that runs and changes nothing. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Context } from 'koa'
import { type Chunk, type ErrorCode, isRefusal } from '#contract'
import type { Exchange } from './exchange.ts'
import type { StepHandle } from './handle.ts'

/**
 * Lets a step run without effect: what it does to the response is undone when it goes on and when it ends, however it
 * did it; its answers and rewritings are only recorded. Its edits see copies, and what they make of them goes nowhere. What a
 * watch or an edit throws would have stopped the answer: that is recorded too, and it sees no more of the answer.
 */
export class Shadow {
  readonly ctx: Context
  wouldAnswer = false
  /** With what it would have stopped the answer. */
  wouldStop: ErrorCode | null = null
  readonly #deeds = new Set<string>()
  readonly #response: ShadowedResponse
  #seen: ResponseState

  /** @param index the step's place in its policy */
  constructor(exchange: Exchange, handle: StepHandle, index: number) {
    const { ctx } = exchange
    this.#response = ctx.response as unknown as ShadowedResponse
    this.#seen = this.#state()
    const onStop = (error: unknown) => {
      if (this.wouldStop !== null) return
      this.wouldStop = isRefusal(error) ? error.code : 'plugin_error'
      this.#deeds.add('refused in the middle')
      // At once: the receipt may be written before the step is over.
      exchange.record(index, 'would_refuse', this.wouldStop, this.note())
    }
    const handler = new ShadowedExchange(this.#deeds, () => void (this.wouldAnswer = true), onStop)
    const shadowed = new Proxy(handle, handler)
    this.ctx = Object.create(ctx) as Context
    this.ctx['exchange'] = shadowed
  }

  /** Remembers the response as it is: what follows is the step's doing. */
  look(): void {
    this.#seen = this.#state()
  }

  /** Puts the response back as it was seen last. */
  undo(): void {
    const { res } = this.#response
    if (res.headersSent) return
    const now = this.#state()
    const before = this.#seen
    for (const name in now.headers) {
      if (before.headers[name] !== undefined) continue
      res.removeHeader(name)
      this.#deeds.add(`set ${name}`)
    }
    for (const name in before.headers) {
      const value = before.headers[name]
      if (now.headers[name] === value || value === undefined) continue
      res.setHeader(name, value)
      this.#deeds.add(`set ${name}`)
    }
    if (now.body !== before.body || now.explicitStatus !== before.explicitStatus) {
      this.wouldAnswer = true
      this.#deeds.add('answered')
      this.#response._body = before.body
      this.#response._explicitStatus = before.explicitStatus
      res.statusCode = before.status
    }
  }

  note(): string | undefined {
    return this.#deeds.size > 0 ? `would have: ${[...this.#deeds].join(', ')}` : undefined
  }

  #state(): ResponseState {
    const { res, _body: body, _explicitStatus: explicitStatus } = this.#response
    return { headers: res.getHeaders(), status: res.statusCode, body, explicitStatus }
  }
}

/**
 * The exchange as a step in shadow has it: it reads everything, and what would change something is recorded or stays
 * with the step. One proxy a request: a copy of all members would cost twenty times as much.
 */
class ShadowedExchange implements ProxyHandler<StepHandle> {
  readonly #deeds: Set<string>
  readonly #wouldAnswer: () => void
  readonly #onStop: (error: unknown) => void
  #stopped = false
  /** What the step has assigned. */
  #own: Record<PropertyKey, unknown> | null = null

  constructor(deeds: Set<string>, wouldAnswer: () => void, onStop: (error: unknown) => void) {
    this.#deeds = deeds
    this.#wouldAnswer = wouldAnswer
    this.#onStop = onStop
  }

  get(exchange: StepHandle, name: PropertyKey): unknown {
    if (this.#own !== null && Object.hasOwn(this.#own, name)) return this.#own[name]
    switch (name) {
      case 'edit':
        return (fn: (chunk: Chunk) => unknown) => {
          this.#watch(exchange, chunk => edited(fn(structuredClone(chunk))))
          this.#deeds.add('edited')
        }
      case 'rewrite':
        return () => void this.#deeds.add('rewritten')
      case 'answer':
        return async () => {
          this.#wouldAnswer()
          this.#deeds.add('answered')
        }
      case 'watch':
        return (fn: (chunk: Chunk) => void) => this.#watch(exchange, fn)
    }
    const value = exchange[name as keyof StepHandle] as unknown
    // What touches private fields does so on the exchange itself.
    return typeof value === 'function' ? value.bind(exchange) : value
  }

  set(exchange: StepHandle, name: PropertyKey, value: unknown): boolean {
    const facts = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(exchange), name)
    if (facts) return false
    this.#own ??= {}
    this.#own[name] = value
    return true
  }

  #watch(exchange: StepHandle, fn: (chunk: Chunk) => unknown): void {
    const stop = (error: unknown) => {
      this.#stopped = true
      this.#onStop(error)
    }
    exchange.watch(chunk => {
      if (this.#stopped) return
      try {
        const returned = fn(chunk)
        if (isPromise(returned)) return Promise.resolve(returned).then(ignore, stop)
      } catch (error) {
        stop(error)
      }
    })
  }
}

/** Throws for what no edit may return; of an async one when it is over. */
function edited(returned: unknown): unknown {
  if (isPromise(returned)) return Promise.resolve(returned).then(edited)
  if (typeof returned !== 'object') throw new TypeError('an edit must return a chunk, a list of chunks, or null')
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function'
}

const ignore = () => {}

/** What of Koa's response a step can change. */
interface ShadowedResponse {
  readonly res: ServerResponse
  _body: unknown
  _explicitStatus: boolean | undefined
}

interface ResponseState {
  readonly headers: Readonly<OutgoingHttpHeaders>
  readonly status: number
  readonly body: unknown
  readonly explicitStatus: boolean | undefined
}
