/** The charge of an exchange, for each of its endings. The table "What is charged" of the README has the same rules in words. */
import {
  type ChargeSource,
  type Cost,
  type Counts,
  cost,
  fitted,
  MAX_COUNT,
  type MeteredUsage,
  type NanoUsd,
  NO_COST,
  type Outcome,
  type Price,
  type Progress,
  UNIT_NAMES,
  type Unit,
  type Usage,
  WHOLES,
} from '#contract'

export interface EndedExchange {
  readonly outcome: Outcome | null
  readonly usage: MeteredUsage | null
  readonly progress: Progress
  /** Whether the answer was a stream: only then has a client received a part when the end fails. */
  readonly stream: boolean
  /** Whether the model reasons: the gateway cannot count its hidden tokens. */
  readonly reasoning: boolean
  /** Whether the prompt is free if the client disconnects before the first token. */
  readonly forgivesPrompt?: boolean
  /** The price of an answer that a step has made (`cache`); null or left out: free. */
  readonly answerPrice?: Price | null
}

/** The largest usage that this request can have. */
export interface Bounds {
  readonly hold: NanoUsd
  /** By unit. A part is bounded by its whole; the bound of a missing unit is 0. */
  readonly most: Counts
  /** Searches to charge if the provider does not count them. */
  readonly leastSearches: number
}

export interface Charge {
  readonly amount: NanoUsd
  /** The cost of the usage above the hold: the operator's loss. */
  readonly overrun: NanoUsd
  readonly source: ChargeSource
  readonly usage: Usage
  /** The cost of the usage. It exceeds the charge if less was held. */
  readonly cost: Cost
}

export function chargeFor(ending: EndedExchange, price: Price, bounds: Bounds): Charge {
  const { outcome, usage, progress, stream } = ending
  if (usage === null) return nothing(outcome === 'answered' ? 'insurance' : 'released')
  if (usage.source === 'cached') return cachedCharge(ending, usage, bounds)
  if (isPromptOnly(ending)) return promptCharge(ending, usage, price, bounds)
  // An undelivered answer is not charged. But a client that disconnected, and whose answer is read on (`drain`), pays for the
  // tokens that it did not wait for.
  const hasCome = progress.delivered || (progress.left && progress.countedTokens > 0)
  const streamed = stream && hasCome && outcome !== 'refused'
  const delivered = outcome === 'answered' || outcome === 'client_left' || streamed
  if (!delivered) return nothing('released')
  // No token and no finish reason: not charged, even if the provider bills it.
  if (!progress.finished && !usage.output && progress.countedTokens === 0) return nothing('insurance')
  const charge = fromUsage(usage, price, bounds)
  if (usage.source === 'reported') return charge
  return { ...charge, overrun: 0n, source: ending.reasoning ? 'estimated_low' : 'estimated' }
}

/** Whether the request was sent, and cancelled before its first token because the client had disconnected. */
function isPromptOnly({ outcome, progress }: EndedExchange): boolean {
  const wasStopped = outcome === 'client_left' || outcome === 'cut'
  return wasStopped && progress.abandoned && progress.countedTokens === 0
}

/** The provider bills the prompt that it has read. Without a charge a client could send long prompts for nothing. */
function promptCharge(ending: EndedExchange, usage: MeteredUsage, price: Price, bounds: Bounds): Charge {
  if (ending.forgivesPrompt) return nothing('released')
  const charge = fromUsage(usage, price, bounds)
  return usage.source === 'reported' ? charge : { ...charge, overrun: 0n, source: 'prompt_estimated' }
}

/** The step's own price, at most the hold. The rest is not a loss, because no provider was paid. An undelivered answer is free. */
function cachedCharge(
  { outcome, stream, answerPrice = null }: EndedExchange,
  usage: MeteredUsage,
  bounds: Bounds,
): Charge {
  const delivered = outcome === 'answered' || (outcome === 'client_left' && stream)
  if (answerPrice === null || !delivered) return nothing('cached')
  const withoutSearches = { ...bounds, most: { ...bounds.most, search: 0 }, leastSearches: 0 }
  return { ...fromUsage(usage, answerPrice, withoutSearches), overrun: 0n, source: 'cached' }
}

/** The charge for a usage, which is first limited to what is possible, then to the hold. */
function fromUsage(reported: MeteredUsage, price: Price, { hold, most, leastSearches }: Bounds): Charge {
  const counts = countsOf(reported, leastSearches)
  let isClamped = false
  const bounded: { -readonly [field in keyof Usage]: Usage[field] } = {}
  for (const unit of UNIT_NAMES) {
    const count = counts[unit]
    if (count === undefined) continue
    const { value, clamped } = within(count, WHOLES.includes(unit) ? (most[unit] ?? 0) : MAX_COUNT)
    bounded[unit] = value
    isClamped ||= clamped && unit !== 'reasoning'
  }
  if (reported.tier !== undefined) bounded.tier = reported.tier
  const usage = fitted(bounded)
  isClamped ||= UNIT_NAMES.some(unit => unit !== 'reasoning' && (usage[unit] ?? 0) !== (bounded[unit] ?? 0))
  const ofUsage = cost(usage, price)
  const full = ofUsage.total
  const amount = full > hold ? hold : full
  return {
    amount,
    overrun: isClamped ? beyond(counts, price, amount, usage) : full - amount,
    source: isClamped ? 'clamped' : 'reported',
    usage,
    cost: ofUsage,
  }
}

function countsOf(reported: MeteredUsage, leastSearches: number): Counts {
  const searches = Math.max(reported.search ?? 0, leastSearches)
  return { ...reported, search: searches }
}

/** The cost of the provider's own figures, minus the charge. */
function beyond(counts: Counts, price: Price, amount: NanoUsd, charged: Usage): NanoUsd {
  const claimed: { -readonly [unit in Unit]?: number } = {}
  for (const unit of WHOLES) {
    const most = unit === 'search' ? MAX_CLAIMED_SEARCHES : MAX_COUNT
    claimed[unit] = Math.max(within(counts[unit] ?? 0, most).value, charged[unit] ?? 0)
  }
  const { tier } = charged
  const claim = cost({ ...claimed, ...(tier === undefined ? {} : { tier }) }, price).total
  const more = claim > amount ? claim - amount : 0n
  return more < LARGEST ? more : LARGEST
}

/** The largest amount in a 64-bit column. No account has more, so a larger hold is refused for lack of credit. */
export const LARGEST: NanoUsd = 2n ** 63n - 1n
/** The most searches in a loss. A larger count is a mistake of the provider, and each search costs a cent. */
const MAX_CLAIMED_SEARCHES = 1_000

function within(count: number, most: number): { value: number; clamped: boolean } {
  if (!Number.isFinite(count)) return { value: count > 0 ? most : 0, clamped: true }
  const value = Math.min(Math.max(Math.ceil(count), 0), Math.max(most, 0))
  return { value, clamped: value !== count }
}

function nothing(source: ChargeSource): Charge {
  return { amount: 0n, overrun: 0n, source, usage: {}, cost: NO_COST }
}
