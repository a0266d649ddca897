/** Bounds on what requests can use: for holds, and for the figures of `exposure`. */
import type { Model } from './model.ts'
import type { NanoUsd } from './quantities.ts'
import { type Counts, ceiling, type Price, WHOLES } from './units.ts'

/** Answers that one request may ask for (`n`): the schema of requests refuses more, and a hold pays for all of them. */
export const MAX_CHOICES = 128

/** Output tokens that a request may be billed: for each choice the cap, and what a target thinks outside of it. */
export function mostOutput({ targets }: Pick<Model, 'targets'>, choices: number, cap: number): number {
  const outside = targets.reduce((most, target) => Math.max(most, target.reasoningOutsideCap), 0)
  return choices * (cap + outside)
}

/** A larger count of any unit is nonsense. */
export const MAX_COUNT = 1_000_000_000

const ANY_COUNT: Counts = Object.fromEntries(WHOLES.filter(unit => unit !== 'request').map(unit => [unit, MAX_COUNT]))

/** The most that a raw request can use: its bytes, as tokens and as characters. Where the operator has bounded the cost: any count. */
export function rawBound(bytes: number, most: NanoUsd | null): Counts {
  return most === null ? { input: bytes, character: bytes } : ANY_COUNT
}

/** The hold of a raw request: as the operator says, else the most that its bytes can cost. */
export function rawHold(price: Price, bytes: number, most: NanoUsd | null = null): NanoUsd {
  return most ?? ceiling(rawBound(bytes, null), price).total
}
