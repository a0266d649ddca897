/** Records an attempt, for receipts, the log and the list of exchanges in progress. */
import type { ErrorCode, UpstreamFailure } from '#contract'
import type { TracedAttempt } from '../../observe/telemetry/trace-context.ts'
import type { LiveExchange } from './live-exchange.ts'

/** Failures that only the operator can fix: a key, a quota, a base_url, a target's model. */
const OPERATORS: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_quota',
  'model_not_found',
  'loop_detected',
])

/** Created when an attempt begins; the exchange's current target is set from then on. */
export class AttemptRecord {
  readonly #exchange: LiveExchange
  readonly #target: string
  readonly #startedMs: number
  /** Null without telemetry. */
  readonly #traced: TracedAttempt | null
  #isWritten = false

  constructor(exchange: LiveExchange, target: string, startedMs: number = exchange.host.deadlineClock.now()) {
    this.#exchange = exchange
    this.#target = target
    this.#startedMs = startedMs
    this.#traced = exchange.trace === null ? null : exchange.trace.begin(target, this.#startedMs)
    exchange.currentTarget = target
  }

  /** With telemetry: adds the trace headers for the provider. */
  propagate(headers: Record<string, string>): void {
    if (this.#traced !== null) this.#exchange.trace!.propagate(headers, this.#traced)
  }

  /** With telemetry: the answer is over, or the attempt was given up. */
  over(): void {
    if (this.#traced !== null) this.#traced.endedMs ??= this.#exchange.host.deadlineClock.now()
  }

  /**
   * Records the result: the head has arrived, the attempt failed before that, or it was given up (both null). Later calls are ignored.
   */
  head(status: number | null, failure: UpstreamFailure | null, atMs?: number): void {
    if (this.#isWritten) return
    this.#isWritten = true
    this.#exchange.currentTarget = null
    this.#exchange.attempts.push({
      target: this.#target,
      status,
      code: failure?.code ?? null,
      ms: Math.round((atMs ?? this.#exchange.host.deadlineClock.now()) - this.#startedMs),
    })
  }

  /** Records a failure, and logs it for the operator. It may come after a good head. */
  failed(status: number | null, failure: UpstreamFailure): void {
    this.head(status, failure)
    const { attempts, id, host } = this.#exchange
    const { code, detail } = failure
    const last = attempts.at(-1)!
    if (last.code === null) attempts[attempts.length - 1] = { ...last, code }
    const details = (this.#exchange.attemptDetails ??= [])
    while (details.length < attempts.length) details.push(null)
    details[attempts.length - 1] = detail
    const fields = { exchange: id, target: this.#target, code, detail }
    if (OPERATORS.has(code))
      host.log.error(fields, "an attempt failed: the provider's entry in gateway.yaml may be wrong")
    else host.log.warn(fields, 'an attempt failed')
  }
}
