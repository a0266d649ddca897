/** An exchange without a client: the real runner runs the steps, and the caller provides the upstream call. */
import type { ChatCompletion, InboundRequest, MeteredUsage, Outcome, Progress, Refusal } from '#contract'
import { factsOf } from '../config/conditions/when.ts'
import { Exchange, type ExchangeParts, NOTHING_USED } from '../request/exchange.ts'
import type { Reply } from '../request/finish.ts'
import { type RunOptions, runPlan } from '../request/pipeline/runner.ts'

type RequiredPart = 'id' | 'route' | 'plan' | 'ctx'

export interface SimulatedParts extends Pick<ExchangeParts, RequiredPart>, Partial<Omit<ExchangeParts, RequiredPart>> {
  /** The body, already read. */
  readonly bytes: Buffer
  /** Default: JSON. */
  parse?(bytes: Buffer): unknown
  /** Translates a request of another format than chat completions. */
  translate?: ((body: unknown) => InboundRequest) | null
  /** Default: the gateway's own facts. */
  facts?(exchange: Exchange): Record<string, unknown>
  send(exchange: Exchange): Promise<Reply | null>
  /** Default: an answer without usage. */
  answer?(exchange: Exchange, completion: ChatCompletion): Promise<Reply>
}

export class SimulatedExchange extends Exchange {
  readonly #parts: SimulatedParts

  constructor(parts: SimulatedParts) {
    const { id, route, plan, ctx, startedAt = 0, address = '127.0.0.1', progress = NOTHING_YET } = parts
    super({ id, startedAt, route, plan, address, idempotencyKey: null, progress, ctx })
    this.#parts = parts
    this.bytes = parts.bytes
  }

  /** Runs the steps; resolves with the thrown error, or null. */
  async play(options: RunOptions): Promise<unknown> {
    try {
      await runPlan(this, options)
      return null
    } catch (error) {
      return error
    }
  }

  async receive(): Promise<void> {}

  send(): Promise<Reply | null> {
    return this.#parts.send(this)
  }

  async answer(completion: ChatCompletion): Promise<Reply> {
    return this.#parts.answer?.(this, completion) ?? simulatedReply('answered', null)
  }

  facts(): Record<string, unknown> {
    return this.#parts.facts?.(this) ?? factsOf(this)
  }

  protected parse(bytes: Buffer): unknown {
    return this.#parts.parse ? this.#parts.parse(bytes) : JSON.parse(bytes.toString())
  }

  protected translate(body: unknown): InboundRequest | null {
    return this.#parts.translate?.(body) ?? null
  }
}

/** A reply that sends nothing. */
export function simulatedReply(outcome: Outcome, usage: MeteredUsage | null, refusal: Refusal | null = null): Reply {
  return { outcome, usage, refusal, commit() {}, fail() {} }
}

const NOTHING_YET: Progress = {
  started: false,
  finished: false,
  delivered: false,
  left: false,
  abandoned: false,
  countedTokens: 0,
  estimate: NOTHING_USED,
}
