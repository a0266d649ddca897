/**
 * Token buckets in the memory of one gateway process. The arithmetic is pure and takes the time as an argument. The rest is two
 * bounded maps. Each drops its least recently used name above 65,536 names, and the bucket of a dropped name starts full again. Addresses
 * have a map of their own, so that a flood from many of them does not refill buckets of keys and accounts.
 */

import type { BucketShape, Buckets, Clock, Grant } from '#contract'
import { boundedMap } from '../common/bounded.ts'

/** The content of a bucket at a time. Below 0 it is in debt. */
export interface Level {
  readonly units: number
  readonly atMs: number
}

const MAX_NAMES = 65_536

/** Whether a bucket belongs to an address. A client without a key can use any number of addresses. */
export const isOfAddress = (name: string): boolean => name.includes('/address:')

/** Returns a function that finds the map for a name. Addresses have their own one, so that they evict no other names. */
export function createApart<V extends {}>(most: number): (name: string) => ReturnType<typeof boundedMap<V>> {
  const addresses = boundedMap<V>(most)
  const others = boundedMap<V>(most)
  return name => (isOfAddress(name) ? addresses : others)
}

/** Refills are fractions, and their sums are off by less than this; a promised wait must be long enough. */
const ROUNDING = 1e-12

/** Buckets with synchronous results. */
export interface LocalBuckets extends Buckets {
  take(name: string, shape: BucketShape, amount: number): Grant
  give(name: string, shape: BucketShape, amount: number): void
  /** Replaces the level of a bucket. */
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
 * Takes `amount` units, or none. More than the capacity is never granted; the wait is then the time to fill an empty bucket, so that it is
 * finite.
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

/** @param units in the bucket afterwards */
export function grantOf(taken: boolean, units: number, shape: BucketShape, amount: number): Grant {
  return {
    taken,
    remaining: Math.max(0, Math.floor(units + ROUNDING * shape.capacity)),
    retryAfterMs: taken ? 0 : msToGain(amount > shape.capacity ? shape.capacity : amount - units, shape),
    resetMs: msToGain(shape.capacity - units, shape),
  }
}

/** Throws, because an invalid amount is a bug of the caller. */
export function checkTake(amount: number): void {
  if (!(amount >= 0)) throw new RangeError(`buckets.take: the amount ${amount} must be at least 0`)
}

export function checkGive(amount: number): void {
  if (!Number.isFinite(amount)) throw new RangeError(`buckets.give: the amount ${amount} must be a finite number`)
}

/** Returns units, at most up to the capacity. A negative amount takes units, also into debt. */
export function give(before: Level | undefined, shape: BucketShape, amount: number, nowMs: number): Level {
  checkGive(amount)
  const level = refill(before, shape, nowMs)
  return { units: Math.min(shape.capacity, level.units + amount), atMs: nowMs }
}

/**
 * The level now: full for a new bucket, and at most a capacity that a reload has lowered. If the clock steps back, nothing refills and time
 * counts from there. Otherwise refills would stop until the clock has caught up.
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
