/** `mode: shadow`: a step that runs and changes nothing. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Context } from 'koa'
import type { Chunk } from '#contract'
import type { LiveExchange } from './exchange.ts'

/**
 * Lets a step run without effect: what it does to the response is undone when it goes on and when it ends, however it
 * did it; its edits and answers are only recorded, and a watch of its that throws is dropped.
 */
export class Shadow {
  readonly ctx: Context
  wouldAnswer = false
  readonly #deeds = new Set<string>()
  readonly #response: ShadowedResponse
  #seen: ResponseState

  constructor(ctx: Context, exchange: LiveExchange) {
    this.#response = ctx.response as unknown as ShadowedResponse
    this.#seen = this.#state()
    const watch = (fn: (chunk: Chunk) => void) => {
      let works = true
      exchange.watch(chunk => {
        try {
          if (works) fn(chunk)
        } catch {
          works = false
          this.#deeds.add('refused in the middle')
        }
      })
    }
    const shadowExchange = Object.create(exchange, {
      ...membersOf(exchange),
      edit: { value: () => void this.#deeds.add('edited') },
      answer: {
        value: async () => {
          this.wouldAnswer = true
          this.#deeds.add('answered')
        },
      },
      watch: { value: watch },
    })
    this.ctx = Object.create(ctx, { exchange: { value: shadowExchange } }) as Context
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
    for (const name of Object.keys(now.headers)) {
      if (name in before.headers) continue
      res.removeHeader(name)
      this.#deeds.add(`set ${name}`)
    }
    for (const [name, value] of Object.entries(before.headers)) {
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
    return { headers: { ...res.getHeaders() }, status: res.statusCode, body, explicitStatus }
  }
}

/** What touches private fields does so on the exchange itself: an object that only inherits from it has none. */
function membersOf(exchange: LiveExchange): PropertyDescriptorMap {
  const own = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(exchange) as LiveExchange)
  const members = Object.entries(own).flatMap(([name, { get, value }]): [string, PropertyDescriptor][] => {
    if (get) return [[name, { get: () => exchange[name as keyof LiveExchange] }]]
    if (name === 'constructor') return []
    return [[name, { value: (value as (...args: unknown[]) => unknown).bind(exchange) }]]
  })
  return Object.fromEntries(members)
}

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
