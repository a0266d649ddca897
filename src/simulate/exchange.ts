/** An exchange that is only played: no client waits for it, and whoever plays it says what stands behind the steps. */
import type { ChatCompletion, InboundRequest, Outcome, Refusal, Usage } from '#contract'
import { Exchange, type ExchangeParts } from '../request/exchange.ts'
import type { Reply } from '../request/finish.ts'

export interface SimulatedParts extends ExchangeParts {
  /** The body, read already. */
  readonly bytes: Buffer
  parse(bytes: Buffer): unknown
  /** Reads a request of another format than chat completions. */
  translate?: ((body: unknown) => InboundRequest) | null
  facts(exchange: Exchange): Record<string, unknown>
  send(exchange: Exchange): Promise<Reply | null>
  answer(exchange: Exchange, completion: ChatCompletion): Promise<Reply>
}

export class SimulatedExchange extends Exchange {
  readonly #parts: SimulatedParts

  constructor(parts: SimulatedParts) {
    super(parts)
    this.#parts = parts
    this.bytes = parts.bytes
  }

  async receive(): Promise<void> {}

  send(): Promise<Reply | null> {
    return this.#parts.send(this)
  }

  answer(completion: ChatCompletion): Promise<Reply> {
    return this.#parts.answer(this, completion)
  }

  facts(): Record<string, unknown> {
    return this.#parts.facts(this)
  }

  protected parse(bytes: Buffer): unknown {
    return this.#parts.parse(bytes)
  }

  protected translate(body: unknown): InboundRequest | null {
    return this.#parts.translate?.(body) ?? null
  }
}

/** A reply of which nothing leaves. */
export function simulatedReply(outcome: Outcome, usage: Usage | null, refusal: Refusal | null = null): Reply {
  return { outcome, usage, refusal, commit() {}, fail() {} }
}
