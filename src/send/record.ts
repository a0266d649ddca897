/** A trip that is over, as the log and the metrics want it. */
import { type Clock, costOf, formatMoney, type NanoUsd, type Refusal } from '#contract'
import { countOr0 } from '../answer/meter.ts'
import type { ExchangeRecord } from '../observe/exchange-line.ts'
import type { RecentExchange } from '../observe/recent.ts'
import type { Trip } from './trip.ts'

export interface TripEnding {
  readonly status: number
  readonly refusal: Refusal | null
  /** The step that refused, failed or answered; `send` or `gateway` where no step did; null: answered by a provider. */
  readonly decidedBy: string | null
}

/** What the answer cost the house: of the target that gave it, when its cost is known. */
export function houseCost({ exchange }: Trip): { readonly target: string; readonly amount: NanoUsd } | null {
  const last = exchange.attempts.at(-1)
  const price = exchange.targets?.find(({ id }) => id === last?.target)?.cost
  if (!price || !exchange.usage) return null
  const { promptTokens, cachedTokens, cacheWriteTokens, completionTokens } = exchange.usage
  const [prompt, cached, cacheWrite] = [countOr0(promptTokens), countOr0(cachedTokens), countOr0(cacheWriteTokens)]
  const tokens = { prompt, cached, cacheWrite, completion: countOr0(completionTokens) }
  return { target: last!.target, amount: costOf(price, tokens) }
}

export function recordOf(trip: Trip, { status, refusal, decidedBy }: TripEnding, clock: Clock): ExchangeRecord {
  const { exchange, route, ctx, client, stopped } = trip
  return {
    id: exchange.id,
    route: route.config.path,
    kind: route.config.kind,
    policy: route.plan.name,
    method: ctx.method,
    model: exchange.model?.id,
    target: exchange.attempts.at(-1)?.target,
    account: exchange.account?.id,
    key: exchange.key?.id,
    // Who has left got no status, whatever was prepared.
    status: stopped === 'client_left' && exchange.outcome === 'client_left' ? null : status,
    outcome: exchange.outcome,
    code: refusal?.code,
    decidedBy,
    stream: exchange.chat?.stream,
    ms: clock.now() - exchange.startedAt,
    firstChunkMs: client.firstWriteMs === null ? null : client.firstWriteMs - client.openedMs,
    usage: exchange.usage,
    attempts: exchange.attempts.length,
    charged: exchange.charge && formatMoney(exchange.charge.amount),
    address: exchange.address,
    bytesIn: exchange.bytes.length,
  }
}

/** What is remembered of a trip when it is over. Nothing of it may lead to the request: it would live on with this. */
export function recentOf({ exchange, route, ctx }: Trip, record: ExchangeRecord): RecentExchange {
  const { account, key, chat } = exchange
  return {
    id: exchange.id,
    at: exchange.startedAt,
    ms: record.ms,
    route: route.config.path,
    kind: route.config.kind,
    policy: route.plan.name,
    method: ctx.method,
    model: exchange.model?.id ?? null,
    stream: chat?.stream ?? null,
    accountId: account?.id ?? null,
    account: account?.name ?? null,
    keyId: key?.id ?? null,
    key: key?.name ?? null,
    status: record.status ?? null,
    outcome: exchange.outcome,
    code: record.code ?? null,
    decidedBy: record.decidedBy ?? null,
    trail: exchange.trail,
    attempts: exchange.attempts,
  }
}
