/** `mode: shadow`: a step that runs and changes nothing. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Context } from 'koa'
import { type Chunk, type ErrorCode, isRefusal, type TrailDeed } from '#contract'
import { isPromise } from '../../common/promises.ts'
import type { Exchange } from '../exchange.ts'
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
  /** What it would have done; undefined: nothing. */
  would: readonly TrailDeed[] | undefined = undefined
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
      // At once: the receipt may be written before the step is over.
      exchange.record(index, 'would_refuse', this.wouldStop, 'in_answer', this.would)
    }
    const shadowed = new Proxy(handle, new ShadowedExchange(this, onStop))
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
      this.did('set_header', name)
    }
    for (const name in before.headers) {
      const value = before.headers[name]
      if (now.headers[name] === value || value === undefined) continue
      res.setHeader(name, value)
      this.did('set_header', name)
    }
    if (now.body !== before.body || now.explicitStatus !== before.explicitStatus) {
      this.did('answer')
      this.#response._body = before.body
      this.#response._explicitStatus = before.explicitStatus
      res.statusCode = before.status
    }
  }

  /** Writes down once what the step would have done. @param header of `set_header` */
  did(deed: TrailDeed['deed'], header?: string): void {
    if (deed === 'answer') this.wouldAnswer = true
    const before = this.would ?? []
    if (before.some(each => each.deed === deed && each.header === header)) return
    // A new list: the old one may be in a trail that somebody keeps.
    this.would = [...before, header === undefined ? { deed } : { deed, header }]
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
  readonly #shadow: Shadow
  readonly #onStop: (error: unknown) => void
  #stopped = false
  /** What the step has assigned. */
  #own: Record<PropertyKey, unknown> | null = null

  constructor(shadow: Shadow, onStop: (error: unknown) => void) {
    this.#shadow = shadow
    this.#onStop = onStop
  }

  get(exchange: StepHandle, name: PropertyKey): unknown {
    if (this.#own !== null && Object.hasOwn(this.#own, name)) return this.#own[name]
    switch (name) {
      case 'edit':
        return (fn: (chunk: Chunk) => unknown) => {
          this.#watch(exchange, chunk => edited(fn(structuredClone(chunk))))
          this.#shadow.did('edit')
        }
      case 'rewrite':
        return () => this.#shadow.did('rewrite')
      case 'answer':
        return async () => this.#shadow.did('answer')
      case 'answered':
        return this.#shadow.wouldAnswer || exchange.answered
      case 'watch':
        return (fn: (chunk: Chunk) => void) => this.#watch(exchange, fn)
    }
    const value = exchange[name as keyof StepHandle] as unknown
    // What touches private fields does so on the exchange itself.
    return typeof value === 'function' ? value.bind(exchange) : value
  }

  set(exchange: StepHandle, name: PropertyKey, value: unknown): boolean {
    const member = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(exchange), name)
    if (member && !member.set) return false
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
