/**
 * Ids of exchanges, accounts and keys: time-ordered, so that the ledger grows at its end, and unguessable, so that
 * nobody can name another's.
 *
 *     req_ 01K9Q3ZB4T 0 03 7Q2M1VXKD80RA
 *          ms         | |  65 random bits
 *                     | a counter within the millisecond
 *                     the lane: which thread of the process made it
 */
import { randomBytes as cryptoRandomBytes } from 'node:crypto'
import type { Clock } from '#contract'

export interface Ids {
  /** The prefix and 26 characters. Larger than every earlier one of this process, also when the clock steps back. */
  next(prefix: string): string
}

/** Crockford's base 32: no I, L, O, U. Its characters sort as their values do. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_CHARACTERS = 10
const COUNTER_LIMIT = 32 ** 2
const RANDOM_CHARACTERS = 13
/** One call for some 300 ids: the call costs more than the bytes. */
const POOL_BYTES = 4096

/** Lanes that there are: threads that make ids at the same time have different ones, from 0. */
export const LANES = 32

/** The lane of the thread that made an id; -1 for a text that is none. */
export function laneOf(id: string): number {
  const character = id.at(-RANDOM_CHARACTERS - 3)
  return character === undefined ? -1 : ALPHABET.indexOf(character)
}

/** The lanes of threads, from 1: each is one thread's until it is given back. */
export class Lanes {
  readonly #used = new Set<number>()
  #last = 0

  /** The next free one in turn, so that none comes again soon; null when all are in use. */
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
  /** Only for tests; must be as good as the default otherwise. */
  readonly randomBytes?: (size: number) => Uint8Array
}

export function createIds(clock: Clock, { lane = 0, randomBytes = cryptoRandomBytes }: IdOptions = {}): Ids {
  let time = -1
  let prefixOfTime = ''
  let counter = 0
  /** Random characters, made many at a time. */
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
