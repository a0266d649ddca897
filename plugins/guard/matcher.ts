/** Finds the matches of a pattern in a text that may continue: the leftmost, then the longest. */
import { Alphabet, Automaton, type Effort } from './automaton.ts'
import { type Pattern, PatternError } from './pattern.ts'
import { isFirstHalf, isSecondHalf, NONE, type Search } from './search.ts'

export type MatchResult =
  /** A match that more text cannot change. */
  | { readonly what: 'match'; readonly start: number; readonly end: number }
  /** No match begins before `from`; one may begin there. */
  | { readonly what: 'open'; readonly from: number }

export class Matcher {
  readonly #alphabet: Alphabet
  readonly #here: Automaton
  readonly #anywhere: Automaton
  readonly #reach: number
  readonly #needed: RegExp | null
  readonly #check: (match: string) => boolean

  /**
   * Throws `PatternError` for a pattern that would be expensive.
   * @param check a further test of a match: its checksum
   */
  constructor(pattern: Pattern, check: (match: string) => boolean = () => true) {
    this.#alphabet = new Alphabet(pattern)
    this.#here = new Automaton(pattern, this.#alphabet, false)
    this.#anywhere = new Automaton(pattern, this.#alphabet, true)
    // A character has one or two UTF-16 units.
    this.#reach = 2 * pattern.longest
    this.#needed = pattern.needed
    this.#check = check
    if (this.#here.unfold(SAMPLE, MAX_STATES)) return
    throw new PatternError('can be read in too many ways at once: make its repetitions begin with different characters')
  }

  /** The cost of reading so far. The caller adds its own work for a match. */
  get effort(): Effort {
    return this.#alphabet.effort
  }

  /**
   * Finds the next match in two passes. The first finds where it ends, at one step a character. The second finds its start among the
   * few places from which a match can reach that end. If the first would be expensive, the second tries every place: each costs at
   * most the length of the longest match.
   * @param stopAt the effort at which the search pauses: it returns null, and continues when it is called again
   */
  find(search: Search, stopAt = Number.POSITIVE_INFINITY): MatchResult | null {
    const { text, until, isLast } = search
    for (;;) {
      if (search.last === NONE) {
        const end = this.#firstEnd(search, stopAt)
        if (end === null) return null
        if (end === NONE && isLast) return { what: 'open', from: until }
        search.last = end === NONE ? until : end
        search.start = this.#anywhere.isTooLarge
          ? search.from
          : whole(text, Math.max(search.from, search.last - this.#reach), search.from)
      }
      for (; search.start < search.last; search.start += sizeAt(text, search.start)) {
        if (this.effort.steps >= stopAt) return null
        const { start } = search
        const { ends, isOpen } = this.#here.endsFrom(search, start)
        // Even if there is a match: it may become longer.
        if (isOpen) return { what: 'open', from: start }
        for (let i = ends.length - 1; i >= 0; i--) {
          const end = ends[i]!
          this.effort.steps += CHECK
          if (this.#check(text.slice(start, end))) return { what: 'match', start, end }
        }
      }
      if (search.last === until) return { what: 'open', from: until }
      // The matches that end here failed the check.
      search.restartAt(search.last)
    }
  }

  /** Returns the end of the first match, `NONE` without one, `until` if the automaton is too large, null if interrupted. */
  #firstEnd(search: Search, stopAt: number): number | null {
    const { until } = search
    const anywhere = this.#anywhere
    for (;;) {
      // An automaton that is too large has dropped its states, including those of a paused search.
      if (anywhere.isTooLarge) return until
      const to = this.#readTo(search)
      if (search.state === NONE) search.state = anywhere.start(search.isAfterWord(search.at))
      const end = anywhere.firstEnd(search, to, stopAt)
      if (anywhere.isTooLarge) return until
      if (end !== NONE || search.at >= until) return end
      if (search.at < to || this.effort.steps >= stopAt) return null
    }
  }

  /**
   * Returns how far to read next. Skips text that cannot be part of a match: a match contains a needed character, within the length
   * of the longest match.
   */
  #readTo(search: Search): number {
    const { text, until, at, isLast } = search
    const needed = this.#needed
    if (needed === null) return until
    if (at < search.readTo) return search.readTo
    needed.lastIndex = Math.max(search.from, at - this.#reach)
    const next = needed.exec(text)?.index ?? until
    this.effort.steps += (Math.max(next, at) - at) >> SEARCH_SHIFT
    // At the end of a text that continues, a match may have begun.
    const begin = next >= until && isLast ? until : next - this.#reach
    if (begin > at) search.skipTo(whole(text, begin, at))
    search.readTo = Math.min(until, search.at + BLOCK + this.#reach)
    return search.readTo
  }
}

/** Characters to read before the next search for a needed one: each search costs some hundred steps. */
const BLOCK = 256
/** The characters that such a search reads in the time of a step, as a power of two. */
const SEARCH_SHIFT = 2

/** The cost of checking a match, in steps. */
const CHECK = 32

/** The usual characters and some of all others: nearly always one of each kind that patterns distinguish. */
const SAMPLE: readonly number[] = Array.from({ length: 0x180 + 650 }, (_, i) =>
  i < 0x180 ? i : (i - 0x180) * 97 + 0x180,
)
/** A pattern with more states is expensive on some texts. */
const MAX_STATES = 1_000

/** Returns `at`, or the index before if `at` is in the middle of a surrogate pair. */
function whole(text: string, at: number, least: number): number {
  const isMiddle = at > least && isSecondHalf(text.charCodeAt(at)) && isFirstHalf(text.charCodeAt(at - 1))
  return isMiddle ? at - 1 : at
}

function sizeAt(text: string, at: number): number {
  return text.codePointAt(at)! > 0xffff ? 2 : 1
}
