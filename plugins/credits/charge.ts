/**
 * What an exchange is charged, for every way in which it can end: one function, one table, no ledger. The README's table
 * "What is charged" says the same in words.
 */
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

export interface Ending {
  readonly outcome: Outcome | null
  readonly usage: MeteredUsage | null
  readonly progress: Progress
  /** Whether the client got it piece by piece: only then has it something when the end is bad. */
  readonly stream: boolean
  /** A thinking model: its hidden tokens cannot be counted from outside. */
  readonly reasoning: boolean
  /** Whether the prompt costs nothing when the client left before the first token. */
  readonly forgivesPrompt?: boolean
  /** What an answer of a step's own (a cache's) is charged by; null or left out: nothing. */
  readonly answerPrice?: Price | null
}

/** The most that the usage can honestly be. */
export interface Bounds {
  readonly hold: NanoUsd
  /** By unit; of a part the count of its whole is the bound, and of what is left out there is none. */
  readonly most: Counts
  /** Searches that are charged where the provider does not count them. */
  readonly leastSearches: number
}

export interface Charge {
  readonly amount: NanoUsd
  /** What the usage would have cost beyond the hold: the operator's loss. */
  readonly overrun: NanoUsd
  readonly source: ChargeSource
  readonly usage: Usage
  /** Of the usage; more than the charge where less was held. */
  readonly cost: Cost
}

export function chargeFor(ending: Ending, price: Price, bounds: Bounds): Charge {
  const { outcome, usage, progress, stream } = ending
  if (usage === null) return nothing(outcome === 'answered' ? 'insurance' : 'released')
  if (usage.source === 'cached') return cachedCharge(ending, usage, bounds)
  if (isPromptOnly(ending)) return promptCharge(ending, usage, price, bounds)
  // An answer of which nothing reached the client is worth nothing to it, whatever it cost the operator. But for one that has
  // left while the operator reads on for it: it did not wait for what has come since.
  const hasCome = progress.delivered || (progress.left && progress.countedTokens > 0)
  const streamed = stream && hasCome && outcome !== 'refused'
  const delivered = outcome === 'answered' || outcome === 'client_left' || streamed
  if (!delivered) return nothing('released')
  // Not a token and no finish reason: the provider may bill it, the client is not.
  if (!progress.finished && !usage.output && progress.countedTokens === 0) return nothing('insurance')
  const charge = fromUsage(usage, price, bounds)
  if (usage.source === 'reported') return charge
  return { ...charge, overrun: 0n, source: ending.reasoning ? 'estimated_low' : 'estimated' }
}

/** Sent, and given up before a token of it had come, because its client had left. */
function isPromptOnly({ outcome, progress }: Ending): boolean {
  const wasStopped = outcome === 'client_left' || outcome === 'cut'
  return wasStopped && progress.abandoned && progress.countedTokens === 0
}

/** The provider has read the prompt and bills it; without a charge anyone could have long prompts read for nothing. */
function promptCharge(ending: Ending, usage: MeteredUsage, price: Price, bounds: Bounds): Charge {
  if (ending.forgivesPrompt) return nothing('released')
  const charge = fromUsage(usage, price, bounds)
  return usage.source === 'reported' ? charge : { ...charge, overrun: 0n, source: 'prompt_estimated' }
}

/**
 * The step's own price, within the hold. What goes beyond the hold is nobody's loss: no provider was paid. Nor is an
 * answer charged that has not reached its client.
 */
function cachedCharge({ outcome, stream, answerPrice = null }: Ending, usage: MeteredUsage, bounds: Bounds): Charge {
  const delivered = outcome === 'answered' || (outcome === 'client_left' && stream)
  if (answerPrice === null || !delivered) return nothing('cached')
  const withoutSearches = { ...bounds, most: { ...bounds.most, search: 0 }, leastSearches: 0 }
  return { ...fromUsage(usage, answerPrice, withoutSearches), overrun: 0n, source: 'cached' }
}

/** Usage brought into the range of the possible, and charged within the hold. */
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

/** By how much the cost of the provider's own figures exceeds the charge, as far as they are figures. */
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

/** The largest amount in a 64-bit column. No account has more, so a larger hold is refused as short of credit. */
export const LARGEST: NanoUsd = 2n ** 63n - 1n
/** A larger count of searches is no claim: each of them costs a cent. */
const MAX_CLAIMED_SEARCHES = 1_000

function within(count: number, most: number): { value: number; clamped: boolean } {
  if (!Number.isFinite(count)) return { value: count > 0 ? most : 0, clamped: true }
  const value = Math.min(Math.max(Math.ceil(count), 0), Math.max(most, 0))
  return { value, clamped: value !== count }
}

function nothing(source: ChargeSource): Charge {
  return { amount: 0n, overrun: 0n, source, usage: {}, cost: NO_COST }
}
