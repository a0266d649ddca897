/** Bounds on the usage of requests: for holds, and for the figures of `exposure`. */
import type { Model } from './model.ts'
import type { NanoUsd } from './quantities.ts'
import { type Counts, ceiling, type Price, WHOLES } from './units.ts'

/** Maximum number of choices of one request (`n`): the request schema refuses more, and a hold covers all of them. */
export const MAX_CHOICES = 128

/** The most output tokens that a request may be billed: for each choice the cap, and a target's reasoning outside of it. */
export function mostOutput({ targets }: Pick<Model, 'targets'>, choices: number, cap: number): number {
  const outside = targets.reduce((most, target) => Math.max(most, target.reasoningOutsideCap), 0)
  return choices * (cap + outside)
}

/** Larger counts of any unit are invalid. */
export const MAX_COUNT = 1_000_000_000

const ANY_COUNT: Counts = Object.fromEntries(WHOLES.filter(unit => unit !== 'request').map(unit => [unit, MAX_COUNT]))

/** The most that a raw request can use: its bytes, as tokens and as characters. If the operator has limited the cost: any count. */
export function rawBound(bytes: number, most: NanoUsd | null): Counts {
  return most === null ? { input: bytes, character: bytes } : ANY_COUNT
}

/** The hold of a raw request: the operator's amount, else the most that its bytes can cost. */
export function rawHold(price: Price, bytes: number, most: NanoUsd | null = null): NanoUsd {
  return most ?? ceiling(rawBound(bytes, null), price).total
}
