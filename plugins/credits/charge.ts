/**
 * What an exchange is charged, for every way in which it can end: one function, one table, no ledger. The README's table
 * "What is charged" says the same in words.
 */
import {
  type ChargeSource,
  costOf,
  type NanoUsd,
  NO_SEARCH,
  type Outcome,
  type Price,
  type PricedTokens,
  type Progress,
  type Searching,
  type Usage,
} from '#contract'

export interface Ending {
  readonly outcome: Outcome | null
  readonly usage: Usage | null
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
  readonly promptCeiling: number
  readonly completionCeiling: number
  /** Left out: nothing searches. */
  readonly searching?: Searching
}

export interface Charge {
  readonly amount: NanoUsd
  /** What the usage would have cost beyond the hold: the operator's loss. */
  readonly overrun: NanoUsd
  readonly source: ChargeSource
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly cacheWriteTokens: number
  readonly completionTokens: number
  readonly reasoningTokens: number
  readonly searches: number
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
  if (!progress.finished && usage.completionTokens === 0 && progress.countedTokens === 0) return nothing('insurance')
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
function promptCharge(ending: Ending, usage: Usage, price: Price, bounds: Bounds): Charge {
  if (ending.forgivesPrompt) return nothing('released')
  const charge = fromUsage(usage, price, bounds)
  return usage.source === 'reported' ? charge : { ...charge, overrun: 0n, source: 'prompt_estimated' }
}

/**
 * The step's own price, within the hold. What goes beyond the hold is nobody's loss: no provider was paid. Nor is an
 * answer charged that has not reached its client.
 */
function cachedCharge({ outcome, stream, answerPrice = null }: Ending, usage: Usage, bounds: Bounds): Charge {
  const delivered = outcome === 'answered' || (outcome === 'client_left' && stream)
  if (answerPrice === null || !delivered) return nothing('cached')
  return { ...fromUsage(usage, answerPrice, { ...bounds, searching: NO_SEARCH }), overrun: 0n, source: 'cached' }
}

/** Usage brought into the range of the possible. */
function fromUsage(usage: Usage, price: Price, bounds: Bounds): Charge {
  const prompt = bounded(usage.promptTokens, bounds.promptCeiling)
  const completion = bounded(usage.completionTokens, bounds.completionCeiling)
  const cached = bounded(usage.cachedTokens, prompt.value)
  const cacheWrite = bounded(usage.cacheWriteTokens, prompt.value - cached.value)
  const { least, most } = bounds.searching ?? NO_SEARCH
  const searches = bounded(Math.max(usage.searches ?? 0, least), most)
  const clamped = prompt.clamped || completion.clamped || cached.clamped || cacheWrite.clamped || searches.clamped
  const charge = within(price, bounds, {
    prompt: prompt.value,
    cached: cached.value,
    cacheWrite: cacheWrite.value,
    completion: completion.value,
    searches: searches.value,
  })
  return {
    ...charge,
    overrun: clamped ? beyond(usage, price, charge.amount, searches.value) : charge.overrun,
    source: clamped ? 'clamped' : 'reported',
    reasoningTokens: bounded(usage.reasoningTokens, completion.value).value,
  }
}

/**
 * What the provider's own figures would have cost above the charge, as far as they are figures.
 * @param charged searches that are charged, also where the provider counts none
 */
function beyond(usage: Usage, price: Price, amount: NanoUsd, charged: number): NanoUsd {
  const claimed = costOf(price, {
    prompt: bounded(usage.promptTokens, MOST).value,
    cached: 0,
    cacheWrite: 0,
    completion: bounded(usage.completionTokens, MOST).value,
    searches: Math.max(bounded(usage.searches ?? 0, MAX_CLAIMED_SEARCHES).value, charged),
  })
  return claimed > amount ? claimed - amount : 0n
}

/** Beyond this a count is nonsense and not a claim. */
const MOST = 1_000_000_000
/** The same of searches, of which each costs a cent. */
const MAX_CLAIMED_SEARCHES = 1_000

function bounded(tokens: number, most: number): { value: number; clamped: boolean } {
  if (!Number.isFinite(tokens)) return { value: tokens > 0 ? most : 0, clamped: true }
  const value = Math.min(Math.max(Math.ceil(tokens), 0), Math.max(most, 0))
  return { value, clamped: value !== tokens }
}

function within(
  price: Price,
  bounds: Bounds,
  tokens: Required<PricedTokens>,
): Omit<Charge, 'source' | 'reasoningTokens'> {
  const full = costOf(price, tokens)
  const amount = full > bounds.hold ? bounds.hold : full
  return {
    amount,
    overrun: full - amount,
    promptTokens: tokens.prompt,
    cachedTokens: tokens.cached,
    cacheWriteTokens: tokens.cacheWrite,
    completionTokens: tokens.completion,
    searches: tokens.searches,
  }
}

function nothing(source: ChargeSource): Charge {
  return {
    amount: 0n,
    overrun: 0n,
    source,
    promptTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    completionTokens: 0,
    reasoningTokens: 0,
    searches: 0,
  }
}
