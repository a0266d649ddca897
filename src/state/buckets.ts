/**
 * Token buckets in memory, for one gateway process. The arithmetic is pure and takes the time as an argument; the rest
 * is two bounded maps: a name that was not seen for 65,536 other names of its map starts full again. Addresses have a map of their
 * own, so that a flood from many of them refills no bucket of a key or an account.
 */

import type { BucketShape, Buckets, Clock, Grant } from '#contract'
import { boundedMap } from '../common/bounded.ts'

/** A bucket at a moment. Below 0 it is in debt. */
export interface Level {
  readonly units: number
  readonly atMs: number
}

const MAX_NAMES = 65_536

/** Whether a bucket belongs to an address. A client without a key can use any number of addresses. */
export const isOfAddress = (name: string): boolean => name.includes('/address:')

/** Two bounded maps: names of addresses push no other name out. Answers with the one where a name belongs. */
export function createApart<V extends {}>(most: number): (name: string) => ReturnType<typeof boundedMap<V>> {
  const addresses = boundedMap<V>(most)
  const others = boundedMap<V>(most)
  return name => (isOfAddress(name) ? addresses : others)
}

/** Refills come in fractions, and their sums are off by less than this: a promised wait must be enough. */
const ROUNDING = 1e-12

/** Buckets that answer at once. */
export interface LocalBuckets extends Buckets {
  take(name: string, shape: BucketShape, amount: number): Grant
  give(name: string, shape: BucketShape, amount: number): void
  /** Puts the level of a bucket in place of what is known. */
  put(name: string, units: number): void
}

export function createBuckets(clock: Clock, mostNames: number = MAX_NAMES): LocalBuckets {
  const levelsOf = createApart<Level>(mostNames)
  return {
    take(name, shape, amount) {
      const levels = levelsOf(name)
      const { level, grant } = take(levels.get(name), shape, amount, clock.now())
      levels.set(name, level)
      return grant
    },
    give(name, shape, amount) {
      const levels = levelsOf(name)
      levels.set(name, give(levels.get(name), shape, amount, clock.now()))
    },
    put(name, units) {
      levelsOf(name).set(name, { units, atMs: clock.now() })
    },
  }
}

/**
 * Takes `amount` units, or none. More than the capacity can never be granted: the wait is then the time in which an
 * empty bucket fills, so that a caller is told something finite.
 */
export function take(
  before: Level | undefined,
  shape: BucketShape,
  amount: number,
  nowMs: number,
): { readonly level: Level; readonly grant: Grant } {
  checkTake(amount)
  const level = refill(before, shape, nowMs)
  const taken = level.units + ROUNDING * shape.capacity >= amount
  const after = taken ? { units: level.units - amount, atMs: nowMs } : level
  return { level: after, grant: grantOf(taken, after.units, shape, amount) }
}

/** @param units what is in the bucket afterwards */
export function grantOf(taken: boolean, units: number, shape: BucketShape, amount: number): Grant {
  return {
    taken,
    remaining: Math.max(0, Math.floor(units + ROUNDING * shape.capacity)),
    retryAfterMs: taken ? 0 : msToGain(amount > shape.capacity ? shape.capacity : amount - units, shape),
    resetMs: msToGain(shape.capacity - units, shape),
  }
}

/** Nonsense is a bug of the caller. */
export function checkTake(amount: number): void {
  if (!(amount >= 0)) throw new RangeError(`buckets.take: the amount ${amount} is not 0 or more`)
}

export function checkGive(amount: number): void {
  if (!Number.isFinite(amount)) throw new RangeError(`buckets.give: the amount ${amount} is not a number`)
}

/** Gives units back, at most to the brim; a negative amount takes more, also into debt. */
export function give(before: Level | undefined, shape: BucketShape, amount: number, nowMs: number): Level {
  checkGive(amount)
  const level = refill(before, shape, nowMs)
  return { units: Math.min(shape.capacity, level.units + amount), atMs: nowMs }
}

/**
 * The bucket as it is now: full when new, never above a capacity that a reload has lowered. When the clock steps back
 * nothing refills, and time counts from there: the other choice would stop refills until the clock has caught up.
 */
function refill(before: Level | undefined, shape: BucketShape, nowMs: number): Level {
  if (before === undefined) return { units: shape.capacity, atMs: nowMs }
  const gained = Math.max(0, nowMs - before.atMs) * shape.refillPerMs
  return { units: Math.min(shape.capacity, before.units + gained), atMs: nowMs }
}

function msToGain(units: number, shape: BucketShape): number {
  if (units <= 0) return 0
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(units / shape.refillPerMs))
}
