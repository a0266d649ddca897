/** The facts of a finished exchange, without content and secrets. */
import type { Attempt, ErrorCode, Exchange, MeteredUsage, NanoUsd, Outcome, RouteKind, TrailEntry } from '#contract'

/**
 * Made once for each exchange, all fields in one order. The log line, the metrics and the list of recent exchanges read it.
 * Nothing of it may lead to the request: the list keeps it.
 */
export interface ExchangeSummary {
  readonly id: string
  /** Of its OpenTelemetry trace, 32 hexadecimal digits; null without telemetry. */
  readonly traceId: string | null
  /** Whether a collector gets that trace. */
  readonly isSampled: boolean
  /** When its head came, in milliseconds since the epoch. */
  readonly at: number
  /** From the request's head to the end of the answer. */
  readonly ms: number
  /** From the request's head to the first piece of the answer. */
  readonly firstChunkMs: number | null
  /** From the request's head to the first content of a stream. */
  readonly firstTokenMs: number | null
  /** Of a stream that came whole: from its first content to its end, for each output token after the first. */
  readonly perTokenMs: number | null
  /** The route's path as configured, not what the client asked for. */
  readonly route: string
  readonly kind: RouteKind
  readonly policy: string
  readonly method: string
  readonly model: string | null
  /** The target of the last attempt. */
  readonly target: string | null
  readonly stream: boolean | null
  readonly accountId: string | null
  readonly account: string | null
  readonly keyId: string | null
  readonly key: string | null
  /** Null: its policy gives none. */
  readonly tags: Exchange['tags'] | null
  /** The status that was sent, or would have been; null if the client disconnected before. */
  readonly status: number | null
  readonly outcome: Outcome | null
  readonly code: ErrorCode | null
  /** The step that refused, failed or answered; `send` or `gateway` where no step did; null: answered by a provider. */
  readonly decidedBy: string | null
  readonly usage: MeteredUsage | null
  /** Once committed. */
  readonly charge: Exchange['charge']
  /** The cost of the answer for the operator, if that of its target is known. */
  readonly cost: NanoUsd | null
  /** The client's. */
  readonly address: string
  /** The size of the request's body. */
  readonly bytesIn: number
  readonly trail: readonly TrailEntry[]
  readonly attempts: readonly Attempt[]
  /** Why attempts failed, as the log has it, by the number of the attempt; null: none failed. It may hold secrets. */
  readonly attemptDetails: readonly (string | null)[] | null
}
