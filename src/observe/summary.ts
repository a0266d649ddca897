/** The summary of a completed exchange, without its texts and without secrets. */
import type { Attempt, ErrorCode, Exchange, MeteredUsage, NanoUsd, Outcome, RouteKind, TrailEntry } from '#contract'

/**
 * Built once per exchange, for the log line, the metrics and the list of recent exchanges. All have the same order of fields.
 * It must not refer to the request, because the list would keep the request alive.
 */
export interface ExchangeSummary {
  readonly id: string
  /** The id of its OpenTelemetry trace, 32 hexadecimal digits; null without telemetry. */
  readonly traceId: string | null
  /** Whether a collector gets that trace. */
  readonly isSampled: boolean
  /** When its head arrived, in milliseconds since the epoch. */
  readonly at: number
  /** From the request's head to the end of the answer. */
  readonly ms: number
  /** From the request's head to the first piece of the answer. */
  readonly firstChunkMs: number | null
  /** From the request's head to the first content of a stream. */
  readonly firstTokenMs: number | null
  /** For a complete stream: from its first content to its end, per output token after the first. */
  readonly perTokenMs: number | null
  /** The path of the route as configured, not the path of the request. */
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
  /** Null if the policy sets none. */
  readonly tags: Exchange['tags'] | null
  /** The status that the client received or would have received; null if it disconnected before. */
  readonly status: number | null
  readonly outcome: Outcome | null
  readonly code: ErrorCode | null
  /** The step that refused, failed or answered; `send` or `gateway` without such a step; null: a provider answered. */
  readonly decidedBy: string | null
  readonly usage: MeteredUsage | null
  /** Set after the commit. */
  readonly charge: Exchange['charge']
  /** The answer's cost to the operator, by the cost of its target; null if that is unknown. */
  readonly cost: NanoUsd | null
  /** The address of the client. */
  readonly address: string
  /** The size of the request body. */
  readonly bytesIn: number
  readonly trail: readonly TrailEntry[]
  readonly attempts: readonly Attempt[]
  /** Reasons of failed attempts as in the log, by the index of the attempt; null: none failed. May contain secrets. */
  readonly attemptDetails: readonly (string | null)[] | null
}
