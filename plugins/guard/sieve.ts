/**
 * Applies a rule to a text that arrives in pieces. Matches are replaced, text that may still become a match is withheld, and the rest
 * passes at once. The result does not depend on the division into pieces.
 */
import type { Sliced } from '#contract'
import { JsonPlace } from './json-place.ts'
import type { Matcher } from './matcher.ts'
import { isWordCode, Search } from './search.ts'

/** The steps of an automaton that a rule may take before others have their turn: some tenths of a millisecond. */
const EFFORT = 32_768
/** The cost of replacing a match, in such steps. */
const REPLACE = 64

/** A text on its way through a rule. */
interface Sifting {
  readonly search: Search
  /** So much of it has left before. */
  readonly left: number
  /** Up to here it is through. */
  from: number
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
   * @param replace returns the replacement of a match, and may throw to refuse the whole text. `isBare`: the match is outside of every
   * string of a JSON text
   */
  constructor(matcher: Matcher, replace: (match: string, isBare: boolean) => string, isJson = false) {
    this.#matcher = matcher
    this.#replace = replace
    this.#place = isJson ? new JsonPlace() : null
  }

  /** Takes a piece; returns what may leave now. */
  push(piece: string): string {
    return this.#sift(this.#held + piece, false)
  }

  /** The same, with yields between, so that a piece may be long. */
  *pushInSlices(piece: string, effort = EFFORT): Sliced<string> {
    const text = this.#held + piece
    if (text === '') return ''
    const sifting = this.#begin(text, false)
    while (!this.#goOn(sifting, this.#matcher.effort.steps + effort)) yield
    return sifting.out
  }

  /**
   * Nothing follows for now: returns what waits. If the text goes on all the same, behind something else, a match that has
   * begun before is found. Of such a one the begin has left; the rest does not.
   */
  end(): string {
    return this.#sift(this.#held, true)
  }

  #sift(text: string, isLast: boolean): string {
    if (text === '') return ''
    const sifting = this.#begin(text, isLast)
    this.#goOn(sifting, Number.POSITIVE_INFINITY)
    return sifting.out
  }

  #begin(text: string, isLast: boolean): Sifting {
    return { search: new Search(text, this.#afterWord, isLast), left: this.#left, from: 0, out: '' }
  }

  /** Goes on until the effort reaches `stopAt`. Returns whether the text is through. */
  #goOn(sifting: Sifting, stopAt: number): boolean {
    const { search, left } = sifting
    const { text, isLast } = search
    for (;;) {
      const found = this.#matcher.find(search, stopAt)
      if (found === null) return false
      const { from } = sifting
      if (found.what === 'open') {
        const keepFrom = isLast ? from : found.from
        this.#place?.pass(text.slice(from, keepFrom))
        if (keepFrom > 0) this.#afterWord = isWordCode(text.charCodeAt(keepFrom - 1))
        this.#held = text.slice(keepFrom)
        this.#left = isLast ? this.#held.length : Math.max(0, left - keepFrom)
        sifting.out += fresh(text, from, found.from, left)
        return true
      }
      const match = text.slice(found.start, found.end)
      this.#place?.pass(text.slice(from, found.start))
      const replacement = this.#replace(match, this.#place?.isBare ?? false)
      this.#place?.pass(match)
      if (replacement !== match) this.hasChanged = true
      sifting.out += fresh(text, from, found.start, left) + replacement
      sifting.from = found.end
      search.goOnFrom(found.end)
      this.#matcher.effort.steps += REPLACE
    }
  }
}

/** The part of a text that was not sent before. */
function fresh(text: string, from: number, to: number, left: number): string {
  return text.slice(Math.max(from, left), Math.max(to, left))
}

/** Characters of a long text that go through all rules before the next ones do. To follow so much JSON takes 0.3 ms. */
const PIECE = 65_536

/** Several rules, each search at what the one before has left. */
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

  /** Nothing follows for now: what waits. */
  end(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.end(), '')
  }

  /** A whole text. */
  all(text: string): string {
    return this.push(text) + this.end()
  }
}
