/**
 * Ids of exchanges, accounts and keys: time-ordered, so that the ledger grows at its end, and impossible to guess.
 *
 *     req_ 01K9Q3ZB4T 0 03 7Q2M1VXKD80RA
 *          ms         | |  65 random bits
 *                     | a counter within the millisecond
 *                     the lane: the thread of the process that made it
 */
import { randomBytes as cryptoRandomBytes } from 'node:crypto'
import type { Clock } from '#contract'

export interface Ids {
  /**
   * The prefix and 26 characters. Larger than every earlier id of this generator with the same prefix, even when the clock steps back.
   */
  next(prefix: string): string
}

/** Crockford's base 32: no I, L, O, U. Its characters sort as their values do. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_CHARACTERS = 10
const COUNTER_LIMIT = 32 ** 2
const RANDOM_CHARACTERS = 13
/** Enough for about 300 ids: a call of the random source costs more than its bytes. */
const POOL_BYTES = 4096

/** The number of lanes, from 0. Threads that make ids at the same time have different ones. */
export const LANES = 32

/** The lane of the thread that made an id; -1 if the text is not an id. */
export function laneOf(id: string): number {
  const character = id.at(-RANDOM_CHARACTERS - 3)
  return character === undefined ? -1 : ALPHABET.indexOf(character)
}

/** Assigns lanes to threads, from 1. A lane belongs to one thread until it is given back. */
export class Lanes {
  readonly #used = new Set<number>()
  #last = 0

  /** The next free lane in turn, so that a lane is not reused soon; null when all are in use. */
  take(): number | null {
    if (this.#used.size === LANES - 1) return null
    do this.#last = (this.#last % (LANES - 1)) + 1
    while (this.#used.has(this.#last))
    this.#used.add(this.#last)
    return this.#last
  }

  give(lane: number): void {
    this.#used.delete(lane)
  }
}

export interface IdOptions {
  readonly lane?: number
  /** Only for tests. Ids are as hard to guess as these bytes. */
  readonly randomBytes?: (size: number) => Uint8Array
}

export function createIds(clock: Clock, { lane = 0, randomBytes = cryptoRandomBytes }: IdOptions = {}): Ids {
  let time = -1
  let prefixOfTime = ''
  let counter = 0
  let pool = ''
  let used = 0

  function tick(): void {
    const now = Math.trunc(clock.now())
    if (now > time) startMillisecond(now)
    else if (++counter === COUNTER_LIMIT) startMillisecond(time + 1)
  }

  function startMillisecond(ms: number): void {
    time = ms
    counter = 0
    prefixOfTime = encodeTime(ms) + ALPHABET[lane]!
  }

  return {
    next(prefix) {
      tick()
      if (used + RANDOM_CHARACTERS > pool.length) {
        pool = charactersOf(randomBytes(POOL_BYTES))
        used = 0
      }
      const random = pool.slice(used, (used += RANDOM_CHARACTERS))
      return prefix + prefixOfTime + ALPHABET[counter >> 5]! + ALPHABET[counter & 31]! + random
    },
  }
}

function charactersOf(random: Uint8Array): string {
  return Buffer.from(random.map(byte => ALPHABET.charCodeAt(byte & 31))).toString('latin1')
}

function encodeTime(ms: number): string {
  let text = ''
  for (let rest = ms; text.length < TIME_CHARACTERS; rest = Math.floor(rest / 32)) {
    text = ALPHABET[rest % 32] + text
  }
  return text
}
