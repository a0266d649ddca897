/**
 * Token buckets in memory that the threads of a process share, so that a take needs no message. A keyed digest of the name selects a set of
 * eight places in a table of fixed size; a set has one lock. If all eight are in use, the least recently used one is evicted, or one from
 * before the clock was set back. An evicted bucket starts full again. When a thread dies with a lock, the main thread releases it.
 */
import { hash } from 'node:crypto'
import type { BucketShape, Buckets, Clock, Grant } from '#contract'
import { checkGive, checkTake, give, isOfAddress, type Level, take } from './buckets.ts'
import { type Locks, lock, unlock } from './shared-locks.ts'

/** Sent to other threads: an object of shared buffers. */
export interface BucketMemory {
  /** One for each set. */
  readonly locks: Locks
  /** For each place its units and their time. A place with the time 0 is free. */
  readonly levels: Float64Array<SharedArrayBuffer>
  /** For each place 64 bits of the name's digest. */
  readonly names: Uint32Array<SharedArrayBuffer>
}

const WAYS = 8
/** Before all times. */
const FREE = -1
/** Room for 131,072 buckets of addresses and as many others, in 3 MiB each. With 65,536 in use, one set in 250 is full. */
const SETS = 16_384

/** @param half the number of sets for addresses, and for all others: a power of 2; fewer only for tests */
export function createBucketMemory(half: number = SETS): BucketMemory {
  const sets = 2 * half
  const places = sets * WAYS
  return {
    locks: new Int32Array(new SharedArrayBuffer(4 * sets)),
    levels: new Float64Array(new SharedArrayBuffer(16 * places)),
    names: new Uint32Array(new SharedArrayBuffer(8 * places)),
  }
}

export interface SharedBucketsOptions {
  readonly memory: BucketMemory
  readonly clock: Clock
  /** The thread's number. */
  readonly index: number
  /** Keys the digests of names, so that no one can find two names that share a bucket. */
  readonly secret: string
}

export class SharedBuckets implements Buckets {
  readonly #memory: BucketMemory
  readonly #clock: Clock
  readonly #index: number
  readonly #prefix: string

  constructor({ memory, clock, index, secret }: SharedBucketsOptions) {
    this.#memory = memory
    this.#clock = clock
    this.#index = index
    this.#prefix = hash('sha256', `tollgate:buckets:${secret}`)
  }

  take(name: string, shape: BucketShape, amount: number): Grant {
    checkTake(amount)
    let grant: Grant
    this.#change(name, (before, nowMs) => {
      const after = take(before, shape, amount, nowMs)
      grant = after.grant
      return after.level
    })
    return grant!
  }

  give(name: string, shape: BucketShape, amount: number): void {
    checkGive(amount)
    this.#change(name, (before, nowMs) => give(before, shape, amount, nowMs))
  }

  #change(name: string, change: (before: Level | undefined, nowMs: number) => Level): void {
    const { locks, levels, names } = this.#memory
    const digest = hash('sha256', this.#prefix + name, 'buffer')
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)]
    const half = locks.length / 2
    const set = (digest.readUInt32LE(8) & (half - 1)) + (isOfAddress(name) ? half : 0)
    lock(locks, set, this.#index)
    try {
      const nowMs = this.#clock.now()
      const place = this.#placeOf(set, high, low, nowMs)
      const isKnown = levels[2 * place + 1] !== 0 && names[2 * place] === high && names[2 * place + 1] === low
      const before = isKnown ? { units: levels[2 * place]!, atMs: levels[2 * place + 1]! } : undefined
      const { units, atMs } = change(before, nowMs)
      names[2 * place] = high
      names[2 * place + 1] = low
      levels[2 * place] = units
      levels[2 * place + 1] = atMs
    } finally {
      unlock(locks, set)
    }
  }

  /** The name's own place, else a free one, else one from before the clock was set back, else the least recently used one. */
  #placeOf(set: number, high: number, low: number, nowMs: number): number {
    const { levels, names } = this.#memory
    let oldest = set * WAYS
    let oldestMs = Number.POSITIVE_INFINITY
    for (let place = set * WAYS; place < (set + 1) * WAYS; place++) {
      const atMs = levels[2 * place + 1]!
      if (atMs !== 0 && names[2 * place] === high && names[2 * place + 1] === low) return place
      const usedMs = atMs === 0 ? FREE : atMs > nowMs ? 0 : atMs
      if (usedMs >= oldestMs) continue
      oldest = place
      oldestMs = usedMs
    }
    return oldest
  }
}
