/** An exchange that is over, as the log, the metrics and the list of recent exchanges want it. */
import { type Clock, costOf, type NanoUsd, type Refusal, searchingOf } from '#contract'
import { countOr0 } from '../answer/meter.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import type { Trip } from './trip.ts'

export interface TripEnding {
  readonly status: number
  readonly refusal: Refusal | null
  /** The step that refused, failed or answered; `send` or `gateway` where no step did; null: answered by a provider. */
  readonly decidedBy: string | null
}

export function summaryOf(trip: Trip, { status, refusal, decidedBy }: TripEnding, clock: Clock): ExchangeSummary {
  const { exchange, route, ctx, client, stopped } = trip
  const { account, key, attempts } = exchange
  return {
    id: exchange.id,
    at: exchange.startedAt,
    ms: clock.now() - exchange.startedAt,
    firstChunkMs: client.firstWriteMs === null ? null : client.firstWriteMs - client.openedMs,
    route: route.config.path,
    kind: route.config.kind,
    policy: route.plan.name,
    method: ctx.method,
    model: exchange.model?.id ?? null,
    target: attempts.length === 0 ? null : attempts[attempts.length - 1]!.target,
    stream: exchange.chat?.stream ?? null,
    accountId: account?.id ?? null,
    account: account?.name ?? null,
    keyId: key?.id ?? null,
    key: key?.name ?? null,
    // Who has left got no status, whatever was prepared.
    status: stopped === 'client_left' && exchange.outcome === 'client_left' ? null : status,
    outcome: exchange.outcome,
    code: refusal?.code ?? null,
    decidedBy,
    usage: exchange.usage,
    charge: exchange.charge,
    cost: operatorCost(trip),
    address: exchange.address,
    bytesIn: exchange.bytes.length,
    trail: exchange.trail,
    attempts,
  }
}

function operatorCost({ exchange: { attempts, targets, usage, chat } }: Trip): NanoUsd | null {
  if (!usage || attempts.length === 0) return null
  const { target } = attempts[attempts.length - 1]!
  const price = targets?.find(({ id }) => id === target)?.cost
  if (!price) return null
  const { promptTokens, cachedTokens, cacheWriteTokens, completionTokens } = usage
  const [prompt, cached, cacheWrite] = [countOr0(promptTokens), countOr0(cachedTokens), countOr0(cacheWriteTokens)]
  const searches = countOr0(usage.searches ?? (chat ? searchingOf(chat.body).least : 0))
  return costOf(price, { prompt, cached, cacheWrite, completion: countOr0(completionTokens), searches })
}
