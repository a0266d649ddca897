/**
 * Slots in memory that the threads of a process share, so that a free one needs no message. Requests that wait for one queue in
 * the main thread, in order of arrival. A thread that gives a slot back tells the main thread if somebody waits for it.
 */
import { hash } from 'node:crypto'
import { isOfAddress } from './buckets.ts'
import { type Locks, lock, releaseLocks, unlock } from './shared-locks.ts'
import type { SlotCounter } from './slots.ts'

/** For workers: an object of shared buffers. The places of a set are used from its first one on. */
export interface SlotMemory {
  /** One for each set. */
  readonly locks: Locks
  /** How many places of each set are used. */
  readonly used: Int32Array<SharedArrayBuffer>
  /** For each place 64 bits of the name's digest. */
  readonly names: Uint32Array<SharedArrayBuffer>
  /** For each place 1 while somebody waits, then how many slots each thread has, the main thread first. */
  readonly counts: Int32Array<SharedArrayBuffer>
  /** Words of `counts` for each place. */
  readonly width: number
}

/** Room for 32,768 addresses at once and as many others, in 1 MiB each with four threads: with 16,384 of them no set is full. */
const SETS = 512
const WAYS = 64
const MAIN = 0
/** The main thread must not wait for a thread that has died: it could not hear of the death. */
const MAIN_PAUSES = 5
const AGAIN_MS = 50

/**
 * @param threads how many serve
 * @param half how many sets there are for addresses, and for all others: a power of 2; fewer only for tests
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
  /** The thread's; 0: the main thread. */
  readonly index: number
  /** Under which names are digested: nobody can find two names that share their slots. */
  readonly secret: string
}

/** The slots of one thread among those of all. */
export class SharedSlots implements SlotCounter {
  readonly #memory: SlotMemory
  readonly #index: number
  readonly #prefix: string

  constructor({ memory, index, secret }: SharedSlotsOptions) {
    this.#memory = memory
    this.#index = index
    this.#prefix = hash('sha256', `tollgate:slots:${secret}`)
  }

  /** How many are taken with this one; 0: there is none, or others wait. Only the main thread asks for those who wait. */
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

  /** Answers whether somebody waits for the slot that is given back. */
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

  /** Nobody waits any more. */
  over(name: string): void {
    this.#surely(() =>
      this.#change(name, first => {
        this.#memory.counts[first] = 0
      }),
    )
  }

  /** Every slot is counted for all, whatever happens. */
  share(limit: number): number {
    return limit
  }

  /** Gives back what a thread had that has died. Only for the main thread. @param dead its index */
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

  /** Answers whether it was done. A set that is full has no place for one more name: `change` is not called. */
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

  /** Tries again until it is done. */
  #surely(isDone: () => boolean): void {
    if (!isDone()) setTimeout(() => this.#surely(isDone), AGAIN_MS).unref()
  }

  /** Null: all are used. */
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
    // Last: a thread may die at any point.
    used[set]!++
    return end
  }

  /** The last place of the set takes its place. */
  #removeUnused(set: number, place: number): void {
    const { used, names, counts, width } = this.#memory
    for (let word = place * width; word < (place + 1) * width; word++) if (counts[word] !== 0) return
    const last = set * WAYS + used[set]! - 1
    names.copyWithin(2 * place, 2 * last, 2 * (last + 1))
    counts.copyWithin(place * width, last * width, (last + 1) * width)
    used[set]!--
  }
}
