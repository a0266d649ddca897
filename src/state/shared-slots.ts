/**
 * Slots in memory that the threads of a process share, so that taking a free one needs no message. Waiting requests queue in the main
 * thread, in order of arrival. A thread that gives a slot back notifies the main thread if a request waits for it.
 */
import { hash } from 'node:crypto'
import { isOfAddress } from './buckets.ts'
import { type Locks, lock, releaseLocks, unlock } from './shared-locks.ts'
import type { SlotCounter } from './slots.ts'

/** Sent to other threads: an object of shared buffers. The used places of a set are its first ones. */
export interface SlotMemory {
  /** One for each set. */
  readonly locks: Locks
  /** The number of used places of each set. */
  readonly used: Int32Array<SharedArrayBuffer>
  /** For each place 64 bits of the name's digest. */
  readonly names: Uint32Array<SharedArrayBuffer>
  /** For each place a flag that is 1 while a request waits, then the number of slots of each thread, the main thread first. */
  readonly counts: Int32Array<SharedArrayBuffer>
  /** Words of `counts` for each place. */
  readonly width: number
}

/** Room for 32,768 addresses at once and as many others, in 1 MiB each with four threads. With 16,384 of them no set is full. */
const SETS = 512
const WAYS = 64
const MAIN = 0
/** The main thread must not wait for long: if the lock's owner has died, only the main thread can release it. */
const MAIN_PAUSES = 5
const AGAIN_MS = 50

/**
 * @param threads the number of serving threads
 * @param half the number of sets for addresses, and for all others: a power of 2; fewer only for tests
 */
export function createSlotMemory(threads: number, half: number = SETS): SlotMemory {
  const sets = 2 * half
  const places = sets * WAYS
  const width = threads + 2
  return {
    locks: new Int32Array(new SharedArrayBuffer(4 * sets)),
    used: new Int32Array(new SharedArrayBuffer(4 * sets)),
    names: new Uint32Array(new SharedArrayBuffer(8 * places)),
    counts: new Int32Array(new SharedArrayBuffer(4 * places * width)),
    width,
  }
}

export interface SharedSlotsOptions {
  readonly memory: SlotMemory
  /** The thread's number; 0: the main thread. */
  readonly index: number
  /** Keys the digests of names, so that no one can find two names that share their slots. */
  readonly secret: string
}

/** The slots of one thread among those of all threads. */
export class SharedSlots implements SlotCounter {
  readonly #memory: SlotMemory
  readonly #index: number
  readonly #prefix: string

  constructor({ memory, index, secret }: SharedSlotsOptions) {
    this.#memory = memory
    this.#index = index
    this.#prefix = hash('sha256', `tollgate:slots:${secret}`)
  }

  /** The number of taken slots with this one; 0: none is free, or others wait. Only the main thread may take one for a waiting request. */
  enter(name: string, limit: number): number {
    const isForWaiting = this.#index === MAIN
    let inside = 0
    this.#change(name, first => {
      const { counts, width } = this.#memory
      let taken = 0
      for (let word = first + 1; word < first + width; word++) taken += counts[word]!
      const isFree = taken < limit && (isForWaiting || counts[first] === 0)
      if (isFree) {
        counts[first + 1 + this.#index]!++
        inside = taken + 1
      } else if (isForWaiting) counts[first] = 1
    })
    return inside
  }

  /** Returns whether a request waits for the returned slot. */
  leave(name: string): boolean {
    let isAwaited = false
    this.#surely(() =>
      this.#change(name, first => {
        const { counts } = this.#memory
        const own = first + 1 + this.#index
        // A thread that died in the middle of a change may have lost it.
        if (counts[own]! > 0) counts[own]!--
        isAwaited = counts[first] === 1
      }),
    )
    return isAwaited
  }

  /** Records that no request waits any more. */
  over(name: string): void {
    this.#surely(() =>
      this.#change(name, first => {
        this.#memory.counts[first] = 0
      }),
    )
  }

  /** The whole limit, because slots are always counted for all threads. */
  share(limit: number): number {
    return limit
  }

  /** Gives back the slots of a dead thread. Only for the main thread. @param dead its index */
  forget(dead: number): void {
    const { locks, used, counts, width } = this.#memory
    releaseLocks(locks, dead)
    for (let set = 0; set < locks.length; set++) {
      this.#surely(() =>
        this.#locked(set, () => {
          for (let place = set * WAYS + used[set]! - 1; place >= set * WAYS; place--) {
            counts[place * width + 1 + dead] = 0
            this.#removeUnused(set, place)
          }
        }),
      )
    }
  }

  /** Returns whether the lock was taken. A full set has no place for a new name; then `change` is not called. */
  #change(name: string, change: (first: number) => void): boolean {
    const digest = hash('sha256', this.#prefix + name, 'buffer')
    const half = this.#memory.locks.length / 2
    const set = (digest.readUInt32LE(8) & (half - 1)) + (isOfAddress(name) ? half : 0)
    return this.#locked(set, () => {
      const place = this.#placeOf(set, digest.readUInt32LE(0), digest.readUInt32LE(4))
      if (place === null) return
      change(place * this.#memory.width)
      this.#removeUnused(set, place)
    })
  }

  #locked(set: number, change: () => void): boolean {
    const { locks } = this.#memory
    if (!lock(locks, set, this.#index, this.#index === MAIN ? MAIN_PAUSES : undefined)) return false
    try {
      change()
    } finally {
      unlock(locks, set)
    }
    return true
  }

  /** Retries until it is done. */
  #surely(isDone: () => boolean): void {
    if (!isDone()) setTimeout(() => this.#surely(isDone), AGAIN_MS).unref()
  }

  /** Null: all places of the set are used. */
  #placeOf(set: number, high: number, low: number): number | null {
    const { used, names, counts, width } = this.#memory
    const end = set * WAYS + used[set]!
    for (let place = set * WAYS; place < end; place++) {
      if (names[2 * place] === high && names[2 * place + 1] === low) return place
    }
    if (used[set] === WAYS) return null
    names[2 * end] = high
    names[2 * end + 1] = low
    counts.fill(0, end * width, (end + 1) * width)
    // Last, because a thread may die at any point.
    used[set]!++
    return end
  }

  /** Moves the last place of the set to an unused one. */
  #removeUnused(set: number, place: number): void {
    const { used, names, counts, width } = this.#memory
    for (let word = place * width; word < (place + 1) * width; word++) if (counts[word] !== 0) return
    const last = set * WAYS + used[set]! - 1
    names.copyWithin(2 * place, 2 * last, 2 * (last + 1))
    counts.copyWithin(place * width, last * width, (last + 1) * width)
    used[set]!--
  }
}
