/** What tokens cost: one sum for customers and for the operator, and the most that it can become. */
import type { Model, Price } from './exchange.ts'
import type { NanoUsd } from './quantities.ts'

/** Token counts by the price that they have. */
export interface PricedTokens {
  /** All of the prompt, what was cached and what was written to a cache included. */
  readonly prompt: number
  readonly cached: number
  readonly cacheWrite: number
  readonly completion: number
  /** Searches of the web; left out: none. */
  readonly searches?: number
}

/** What a million-token price makes of token counts, in nano-dollars: summed first, divided and rounded up once. */
export function costOf(price: Price, tokens: PricedTokens): NanoUsd {
  const plain = Math.max(0, tokens.prompt - tokens.cached - tokens.cacheWrite)
  const total =
    BigInt(plain) * price.input +
    BigInt(tokens.cached) * price.cachedInput +
    BigInt(tokens.cacheWrite) * price.cacheWrite +
    BigInt(tokens.completion) * price.output
  const searches = price.search === undefined ? 0n : BigInt(tokens.searches ?? 0) * price.search
  return (total + 999_999n) / 1_000_000n + price.request + searches
}

/** Answers that one request may ask for (`n`): the schema of requests refuses more, and a hold pays for all of them. */
export const MAX_CHOICES = 128

/** The dearest that a prompt token can be: whether it will be read from a cache is not known before. */
export function dearestInput(price: Price): NanoUsd {
  return [price.cachedInput, price.cacheWrite].reduce((most, each) => (each > most ? each : most), price.input)
}

/** The most that so many tokens and searches can cost: the whole prompt at its dearest. */
export function mostOf(price: Price, prompt: number, completion: number, searches = 0): NanoUsd {
  return costOf({ ...price, input: dearestInput(price) }, { prompt, cached: 0, cacheWrite: 0, completion, searches })
}

/** Output tokens that a request may be billed: for each choice the cap, and what a target thinks outside of it. */
export function mostOutput({ targets }: Pick<Model, 'targets'>, choices: number, cap: number): number {
  const outside = targets.reduce((most, target) => Math.max(most, target.reasoningOutsideCap), 0)
  return choices * (cap + outside)
}

/**
 * What a raw request can cost: what the operator says; else its bytes as prompt tokens, which is a ceiling for text. What it
 * answers has no ceiling of its own, so a price for answers comes with the operator's word.
 */
export function rawHold(price: Price, bytes: number, most: NanoUsd | null = null): NanoUsd {
  return most ?? mostOf(price, bytes, 0)
}
