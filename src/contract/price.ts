/** What tokens cost: one sum for customers and for the house. */
import type { Price } from './exchange.ts'
import type { NanoUsd } from './units.ts'

/** Token counts by the price that they have. */
export interface PricedTokens {
  /** All of the prompt, what was cached and what was written to a cache included. */
  readonly prompt: number
  readonly cached: number
  readonly cacheWrite: number
  readonly completion: number
}

/** What a million-token price makes of token counts, in nano-dollars: summed first, divided and rounded up once. */
export function costOf(price: Price, tokens: PricedTokens): NanoUsd {
  const plain = Math.max(0, tokens.prompt - tokens.cached - tokens.cacheWrite)
  const total =
    BigInt(plain) * price.input +
    BigInt(tokens.cached) * price.cachedInput +
    BigInt(tokens.cacheWrite) * price.cacheWrite +
    BigInt(tokens.completion) * price.output
  return (total + 999_999n) / 1_000_000n + price.request
}
