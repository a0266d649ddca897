/** Shadow mode (`mode: shadow`): a step runs without effect. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Context } from 'koa'
import { type Chunk, type ErrorCode, isRefusal, type TrailDeed } from '#contract'
import { isPromise } from '../../common/promises.ts'
import type { Exchange } from '../exchange.ts'
import type { StepHandle } from './handle.ts'

/**
 * Runs a step without effect. Its changes to the response are undone when it calls `next()` and when it ends. Its answers and rewritings
 * are only recorded. Its edits see copies, and their results are discarded. An error of a watch or an edit would have stopped the answer:
 * it is recorded, and the step sees no more of the answer.
 */
export class Shadow {
  readonly ctx: Context
  wouldAnswer = false
  /** The code of the error that would have stopped the answer. */
  wouldStop: ErrorCode | null = null
  /** The step's suppressed actions; undefined: none. */
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
      // Recorded at once, because the receipt may be written before the step ends.
      exchange.record(index, 'would_refuse', this.wouldStop, 'in_answer', this.would)
    }
    const shadowed = new Proxy(handle, new ShadowedExchange(this, onStop))
    this.ctx = Object.create(ctx) as Context
    this.ctx['exchange'] = shadowed
  }

  /** Remembers the response. Later changes are the step's. */
  look(): void {
    this.#seen = this.#state()
  }

  /** Restores the remembered response. */
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

  /** Records an action, once. @param header for `set_header` */
  did(deed: TrailDeed['deed'], header?: string): void {
    if (deed === 'answer') this.wouldAnswer = true
    const before = this.would ?? []
    if (before.some(each => each.deed === deed && each.header === header)) return
    // A new list: a stored trail may hold the old one.
    this.would = [...before, header === undefined ? { deed } : { deed, header }]
  }

  #state(): ResponseState {
    const { res, _body: body, _explicitStatus: explicitStatus } = this.#response
    return { headers: res.getHeaders(), status: res.statusCode, body, explicitStatus }
  }
}

/**
 * The exchange as a step in shadow sees it: reads pass through; changes are recorded, or stay with the step. One proxy per request: a
 * copy of all members would cost twenty times as much.
 */
class ShadowedExchange implements ProxyHandler<StepHandle> {
  readonly #shadow: Shadow
  readonly #onStop: (error: unknown) => void
  #stopped = false
  /** The members that the step has assigned. */
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
    // Methods that use private fields need the exchange itself as `this`.
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

/** Throws if an edit returned an invalid value; for an async edit when it resolves. */
function edited(returned: unknown): unknown {
  if (isPromise(returned)) return Promise.resolve(returned).then(edited)
  if (typeof returned !== 'object') throw new TypeError('an edit must return a chunk, a list of chunks, or null')
}

const ignore = () => {}

/** The parts of Koa's response that a step can change. */
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
