/** Summarizes a finished exchange for the log, the metrics and the list of recent exchanges. */
import { type Clock, cost, fitted, type NanoUsd, type Refusal, searchBounds, UNIT_NAMES, type Usage } from '#contract'
import { countOr0 } from '../../common/usage.ts'
import type { ExchangeSummary } from '../../observe/summary.ts'
import { statusAfter } from '../finish.ts'
import type { LiveExchange } from './live-exchange.ts'

/** The error that the client got, and who decided how the exchange ended. */
export interface SentError {
  readonly refusal: Refusal | null
  /** The step that refused, failed or answered; `send` or `gateway` if no step did; null: a provider answered. */
  readonly decidedBy: string | null
}

export function summaryOf(exchange: LiveExchange, { refusal, decidedBy }: SentError, clock: Clock): ExchangeSummary {
  const { live, ctx, client, account, key, attempts, outcome } = exchange
  const { res } = ctx
  return {
    id: exchange.id,
    traceId: exchange.trace === null ? null : exchange.trace.id,
    isSampled: exchange.trace?.isSampled ?? false,
    at: exchange.startedAt,
    ms: clock.now() - exchange.startedAt,
    firstChunkMs: client.firstWriteMs === null ? null : client.firstWriteMs - client.openedMs,
    firstTokenMs: exchange.firstTokenAtMs === null ? null : exchange.firstTokenAtMs - client.openedMs,
    perTokenMs: perTokenMs(exchange),
    route: live.config.path,
    kind: live.config.kind,
    policy: exchange.plan.name,
    method: ctx.method,
    model: exchange.model?.id ?? null,
    target: attempts.length === 0 ? null : attempts[attempts.length - 1]!.target,
    stream: exchange.chat?.stream ?? null,
    accountId: account?.id ?? null,
    account: account?.name ?? null,
    keyId: key?.id ?? null,
    key: key?.name ?? null,
    tags: exchange.tags ?? null,
    status: statusAfter(outcome, exchange.stopped, {
      sent: res.headersSent ? res.statusCode : null,
      refused: refusal?.status ?? null,
      prepared: ctx.status,
    }),
    outcome,
    code: refusal?.code ?? null,
    decidedBy,
    usage: exchange.usage,
    charge: exchange.charge,
    cost: operatorCost(exchange),
    address: exchange.address,
    bytesIn: exchange.bytes.length,
    trail: exchange.trail,
    attempts,
    attemptDetails: exchange.attemptDetails,
  }
}

/**
 * Milliseconds per output token after the first one. Providers count hidden reasoning tokens, which come before the first visible one. So
 * answers with reasoning count the visible tokens only.
 */
function perTokenMs({ firstTokenAtMs, streamedAtMs, usage, meter }: LiveExchange): number | null {
  if (firstTokenAtMs === null || streamedAtMs === null || usage === null) return null
  const { output = 0, reasoning = 0 } = usage
  const tokens = reasoning > 0 ? Math.min(output, meter.countedTokens) : output
  return tokens > 1 ? (streamedAtMs - firstTokenAtMs) / (tokens - 1) : null
}

function operatorCost({ attempts, targets, usage, chat }: LiveExchange): NanoUsd | null {
  if (!usage || attempts.length === 0) return null
  const { target } = attempts[attempts.length - 1]!
  const price = targets?.find(({ id }) => id === target)?.cost
  if (!price) return null
  const counts: { -readonly [field in keyof Usage]: Usage[field] } = { ...usage }
  for (let at = 0; at < UNIT_NAMES.length; at++) {
    const unit = UNIT_NAMES[at]!
    if (counts[unit] !== undefined) counts[unit] = countOr0(counts[unit])
  }
  counts.search ??= chat ? searchBounds(chat.body).least : 0
  return cost(fitted(counts), price).total
}
