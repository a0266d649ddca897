/**
 * Applies a rule to a text that arrives in pieces. Matches are replaced, text that may still become a match is withheld, and all
 * other text passes at once. The output does not depend on how the text is cut.
 */
import type { Sliced } from '#contract'
import { JsonPlace } from './json-place.ts'
import type { Matcher } from './matcher.ts'
import { isWordCode, Search } from './search.ts'

/** The most effort of a rule between two yields, in steps of an automaton: some tenths of a millisecond. */
const EFFORT = 32_768
/** The cost of replacing a match, in such steps. */
const REPLACE = 64

/** A text that a rule is reading. */
interface SieveRun {
  readonly search: Search
  /** Characters at its beginning that were already sent. */
  readonly left: number
  /** The text before this index is done. */
  from: number
  out: string
}

export class Sieve {
  /** Whether a replacement differed from its match. */
  hasChanged = false
  readonly #matcher: Matcher
  readonly #replace: (match: string, isBare: boolean) => string
  readonly #place: JsonPlace | null
  #held = ''
  /** Characters at the beginning of `#held` that were already sent. */
  #left = 0
  #afterWord = false

  /**
   * @param replace returns the replacement of a match; throws to refuse the whole text. `isBare`: the match is in a JSON text, outside
   * of its strings
   */
  constructor(matcher: Matcher, replace: (match: string, isBare: boolean) => string, isJson = false) {
    this.#matcher = matcher
    this.#replace = replace
    this.#place = isJson ? new JsonPlace() : null
  }

  /** Adds a piece; returns the text that may be sent now. */
  push(piece: string): string {
    return this.#run(this.#held + piece, false)
  }

  /** `push` for a long piece: yields in between. */
  *pushInSlices(piece: string, effort = EFFORT): Sliced<string> {
    const text = this.#held + piece
    if (text === '') return ''
    const run = this.#begin(text, false)
    while (!this.#advance(run, this.#matcher.effort.steps + effort)) yield
    return run.out
  }

  /**
   * Ends the text for now: returns the withheld text. If the text continues later, a match that began before is still found. Its
   * beginning was already sent; the rest is not.
   */
  end(): string {
    return this.#run(this.#held, true)
  }

  #run(text: string, isLast: boolean): string {
    if (text === '') return ''
    const run = this.#begin(text, isLast)
    this.#advance(run, Number.POSITIVE_INFINITY)
    return run.out
  }

  #begin(text: string, isLast: boolean): SieveRun {
    return { search: new Search(text, this.#afterWord, isLast), left: this.#left, from: 0, out: '' }
  }

  /** Continues until the effort reaches `stopAt`. Returns whether the text is done. */
  #advance(run: SieveRun, stopAt: number): boolean {
    const { search, left } = run
    const { text, isLast } = search
    for (;;) {
      const found = this.#matcher.find(search, stopAt)
      if (found === null) return false
      const { from } = run
      if (found.what === 'open') {
        const keepFrom = isLast ? from : found.from
        this.#place?.pass(text.slice(from, keepFrom))
        if (keepFrom > 0) this.#afterWord = isWordCode(text.charCodeAt(keepFrom - 1))
        this.#held = text.slice(keepFrom)
        this.#left = isLast ? this.#held.length : Math.max(0, left - keepFrom)
        run.out += fresh(text, from, found.from, left)
        return true
      }
      const match = text.slice(found.start, found.end)
      this.#place?.pass(text.slice(from, found.start))
      const replacement = this.#replace(match, this.#place?.isBare ?? false)
      this.#place?.pass(match)
      if (replacement !== match) this.hasChanged = true
      run.out += fresh(text, from, found.start, left) + replacement
      run.from = found.end
      search.restartAt(found.end)
      this.#matcher.effort.steps += REPLACE
    }
  }
}

/** Returns the part of a range that was not sent before. */
function fresh(text: string, from: number, to: number, left: number): string {
  return text.slice(Math.max(from, left), Math.max(to, left))
}

/** Characters of a long text that pass all rules before the next ones do. Scanning as much JSON takes 0.3 ms. */
const PIECE = 65_536

/** Several rules; each reads the output of the one before. */
export class Sieves {
  readonly #sieves: readonly Sieve[]

  constructor(sieves: readonly Sieve[]) {
    this.#sieves = sieves
  }

  get hasChanged(): boolean {
    return this.#sieves.some(sieve => sieve.hasChanged)
  }

  push(piece: string): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)), piece)
  }

  /**
   * `push` for a text of any length: yields in between.
   * @param size characters that pass all rules before the next ones do
   * @param effort the most effort of a rule between two yields, in steps
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

  /** Ends the text for now: returns the withheld text. */
  end(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.end(), '')
  }

  /** Applies the rules to a whole text. */
  all(text: string): string {
    return this.push(text) + this.end()
  }
}
