/**
 * A text that comes in pieces goes through a rule: what matches is replaced, what may still become a match waits, and all
 * else passes at once. However the text is cut into pieces, what comes out is the same.
 */
import type { Sliced } from '#contract'
import { isWordCode } from './automaton.ts'
import { JsonPlace } from './json-place.ts'
import { type Found, Looking, type Matcher } from './matcher.ts'

/** What a rule may spend before others have their turn, in steps of an automaton: some tenths of a millisecond. */
const EFFORT = 32_768
/** What it costs to replace a match, in such steps. */
const REPLACE = 64

/** Characters of JSON that are read in one go. */
const FOLLOWED_IN_ONE_GO = 4096

type Then = 'goes on' | 'pauses' | 'ends'

/** A text on its way through a rule. */
interface Sifting {
  readonly looking: Looking
  readonly then: Then
  /** So much of it has left before. */
  readonly left: number
  /** Up to here it is through. */
  from: number
  /** The place in JSON is known up to here. */
  followed: number
  /** What was found, as long as it has not been dealt with. */
  found: Found | null
  out: string
}

export class Sieve {
  /** Whether anything was replaced by something else. */
  hasChanged = false
  readonly #matcher: Matcher
  readonly #replace: (match: string, isBare: boolean) => string
  readonly #place: JsonPlace | null
  #held = ''
  /** So much at the begin of what is held has left already. */
  #left = 0
  #afterWord = false

  /**
   * @param replace what takes a match's place; it may throw to refuse the whole text. It is told whether the match stands
   * outside of every string of a JSON text
   */
  constructor(matcher: Matcher, replace: (match: string, isBare: boolean) => string, isJson = false) {
    this.#matcher = matcher
    this.#replace = replace
    this.#place = isJson ? new JsonPlace() : null
  }

  /** Takes a piece; returns what may leave now. */
  push(piece: string): string {
    return this.#sift(this.#held + piece, 'goes on')
  }

  /** The same, with yields between, so that a piece may be long. */
  pushInSlices(piece: string, effort = EFFORT): Sliced<string> {
    return this.#siftInSlices(this.#held + piece, 'goes on', effort)
  }

  /**
   * Something else comes between: returns what waits, as at the end. If the text goes on behind it, a match that has begun
   * before is found all the same. Of such a one the begin has left; the rest does not.
   */
  pause(): string {
    return this.#sift(this.#held, 'pauses')
  }

  /** The text is over: returns what is left of it. */
  end(): string {
    return this.#sift(this.#held, 'ends')
  }

  #sift(text: string, then: Then): string {
    if (text === '') return ''
    const sifting = this.#begin(text, then)
    this.#goOn(sifting, Number.POSITIVE_INFINITY)
    return sifting.out
  }

  *#siftInSlices(text: string, then: Then, effort: number): Sliced<string> {
    if (text === '') return ''
    const sifting = this.#begin(text, then)
    while (!this.#goOn(sifting, this.#matcher.effort.steps + effort)) yield
    return sifting.out
  }

  #begin(text: string, then: Then): Sifting {
    const looking = new Looking(text, this.#afterWord, then !== 'goes on')
    return { looking, then, left: this.#left, from: 0, followed: 0, found: null, out: '' }
  }

  /** Goes on until the effort reaches `stopAt`. Returns whether the text is through. */
  #goOn(sifting: Sifting, stopAt: number): boolean {
    const { looking, then, left } = sifting
    const { text } = looking
    for (;;) {
      const found = (sifting.found ??= this.#matcher.find(looking, stopAt))
      if (found === null) return false
      const { from } = sifting
      if (found.what === 'open') {
        const keepFrom = then === 'pauses' ? from : found.from
        if (!this.#follow(sifting, keepFrom, stopAt)) return false
        if (keepFrom > 0) this.#afterWord = isWordCode(text.charCodeAt(keepFrom - 1))
        this.#held = text.slice(keepFrom)
        this.#left = then === 'pauses' ? this.#held.length : Math.max(0, left - keepFrom)
        sifting.out += fresh(text, from, found.from, left)
        return true
      }
      if (!this.#follow(sifting, found.start, stopAt)) return false
      const match = text.slice(found.start, found.end)
      const replacement = this.#replace(match, this.#place?.isBare ?? false)
      if (replacement !== match) this.hasChanged = true
      sifting.out += fresh(text, from, found.start, left) + replacement
      sifting.found = null
      sifting.from = found.end
      looking.goOnFrom(found.end)
      this.#matcher.effort.steps += REPLACE
    }
  }

  /** Follows the place in JSON up to `to`. Returns whether it got there. */
  #follow(sifting: Sifting, to: number, stopAt: number): boolean {
    const { effort } = this.#matcher
    while (this.#place && sifting.followed < to) {
      if (effort.steps >= stopAt) return false
      const until = Math.min(to, sifting.followed + FOLLOWED_IN_ONE_GO)
      this.#place.pass(sifting.looking.text.slice(sifting.followed, until))
      effort.steps += until - sifting.followed
      sifting.followed = until
    }
    return true
  }
}

/** What of a part of a text has not left before. */
function fresh(text: string, from: number, to: number, left: number): string {
  return text.slice(Math.max(from, left), Math.max(to, left))
}

/** Characters of a long text that go through all rules before the next ones do. */
const PIECE = 65_536

/** Several rules, each looking at what the one before has left. */
export class Sieves {
  readonly #sieves: readonly Sieve[]

  constructor(sieves: readonly Sieve[]) {
    this.#sieves = sieves
  }

  /** Whether a rule has replaced anything. */
  get hasChanged(): boolean {
    return this.#sieves.some(sieve => sieve.hasChanged)
  }

  push(piece: string): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)), piece)
  }

  /**
   * The same for a text of any length: yields often enough.
   * @param size characters that go through all rules before the next ones do
   * @param effort what a rule may spend between two yields
   */
  *pushInSlices(text: string, size: number = PIECE, effort?: number): Sliced<string> {
    let out = ''
    for (let at = 0; at < text.length; at += size) {
      let piece = text.slice(at, at + size)
      for (const sieve of this.#sieves) {
        if (piece !== '') piece = yield* sieve.pushInSlices(piece, effort)
        yield
      }
      out += piece
    }
    return out
  }

  /** What waits, as at the end; the text may go on. */
  pause(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.pause(), '')
  }

  end(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.end(), '')
  }

  /** A whole text. */
  all(text: string): string {
    return this.push(text) + this.end()
  }
}
