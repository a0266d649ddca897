/** The one line that the log has of an exchange: who asked for what, how it ended, how long it took. No words of it. */
import type { ErrorCode, Outcome, RouteKind, Usage } from '#contract'

/** What is known of an exchange at its end; what is null or undefined is left out of the line. */
export interface ExchangeRecord {
  readonly id: string
  /** The route's path as configured, not what the client asked for. */
  readonly route: string
  readonly kind?: RouteKind | undefined
  readonly policy?: string | undefined
  readonly method?: string | undefined
  readonly model?: string | null | undefined
  /** The target of the last attempt. */
  readonly target?: string | null | undefined
  /** Ids, never names or tokens. */
  readonly account?: string | null | undefined
  readonly key?: string | null | undefined
  /** What the client got, or would have got; null when it left before there was one. */
  readonly status?: number | null | undefined
  readonly outcome?: Outcome | null | undefined
  readonly code?: ErrorCode | null | undefined
  /** The step that refused, failed or answered; `send` or `gateway` where no step did. */
  readonly decidedBy?: string | null | undefined
  readonly stream?: boolean | undefined
  /** From the request's head to the end of the answer. */
  readonly ms: number
  /** From the request's head to the first piece of the answer. */
  readonly firstChunkMs?: number | null | undefined
  readonly usage?: Usage | null | undefined
  readonly attempts?: number | undefined
  /** Dollars, once committed. */
  readonly charged?: string | null | undefined
  /** The client's. */
  readonly address?: string | undefined
  /** The size of the request's body. */
  readonly bytesIn?: number | undefined
}

/** The fields of the line, in the order in which people read them. */
export function exchangeLine(record: ExchangeRecord): Record<string, string | number | boolean> {
  const { usage } = record
  const fields: Record<string, string | number | boolean | null | undefined> = {
    id: record.id,
    route: record.route,
    kind: record.kind,
    policy: record.policy,
    method: record.method,
    model: record.model,
    target: record.target,
    account: record.account,
    key: record.key,
    status: record.status,
    outcome: record.outcome,
    code: record.code,
    decided_by: record.decidedBy,
    stream: record.stream,
    ms: rounded(record.ms),
    first_chunk_ms: rounded(record.firstChunkMs),
    prompt_tokens: usage?.promptTokens,
    completion_tokens: usage?.completionTokens,
    usage_source: usage?.source,
    charged: record.charged,
    attempts: record.attempts,
    address: record.address,
    bytes_in: record.bytesIn,
  }
  const line: Record<string, string | number | boolean> = {}
  for (const name in fields) {
    const value = fields[name]
    if (value != null) line[name] = value
  }
  return line
}

/** Tenths of a millisecond: more is noise. */
function rounded(ms: number | null | undefined): number | null | undefined {
  return ms == null ? ms : Math.round(ms * 10) / 10
}
