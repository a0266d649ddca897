/** Finds the matches of a pattern in a text of which more may come: the leftmost, then the longest, as far as it is known. */
import { Alphabet, Automaton, type Effort } from './automaton.ts'
import { type Pattern, PatternError } from './pattern.ts'
import { isFirstHalf, isSecondHalf, NONE, type Search } from './search.ts'

/** The result of a search from a place on. */
export type Match =
  /** A match, and nothing that may still come changes that. */
  | { readonly what: 'match'; readonly start: number; readonly end: number }
  /** No match before this place; from it on there may be one. */
  | { readonly what: 'open'; readonly from: number }

export class Matcher {
  readonly #alphabet: Alphabet
  readonly #here: Automaton
  readonly #anywhere: Automaton
  readonly #reach: number
  readonly #needed: RegExp | null
  readonly #check: (match: string) => boolean

  /**
   * Throws `PatternError` for a pattern that would be dear.
   * @param check what a match must be beside matching: a checksum
   */
  constructor(pattern: Pattern, check: (match: string) => boolean = () => true) {
    this.#alphabet = new Alphabet(pattern)
    this.#here = new Automaton(pattern, this.#alphabet, false)
    this.#anywhere = new Automaton(pattern, this.#alphabet, true)
    // A character is one or two units of a string.
    this.#reach = 2 * pattern.longest
    this.#needed = pattern.needed
    this.#check = check
    if (this.#here.unfold(SAMPLE, MAX_STATES)) return
    throw new PatternError('can be read in too many ways at once: let its repetitions differ in how they begin')
  }

  /** The cost of reading so far. Callers add their own work for a match. */
  get effort(): Effort {
    return this.#alphabet.effort
  }

  /**
   * Two passes: the first finds the end of the first match, at one step a character for any text. The second tries the few places from
   * which a match can reach that end. If the first pass would be expensive for a pattern, the search starts at every place. A character
   * then costs at most the longest match.
   * @param stopAt the effort at which the search is interrupted: it returns null, and continues at the next call
   */
  find(search: Search, stopAt = Number.POSITIVE_INFINITY): Match | null {
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
        // Also when there is a match: it may become longer.
        if (isOpen) return { what: 'open', from: start }
        for (let i = ends.length - 1; i >= 0; i--) {
          const end = ends[i]!
          this.effort.steps += CHECK
          if (this.#check(text.slice(start, end))) return { what: 'match', start, end }
        }
      }
      if (search.last === until) return { what: 'open', from: until }
      // Those that end here were none by their checksum.
      search.goOnFrom(search.last)
    }
  }

  /** Where the first match ends, `NONE` when none does; `until` when the automaton is too large to decide; null when interrupted. */
  #firstEnd(search: Search, stopAt: number): number | null {
    const { until } = search
    const anywhere = this.#anywhere
    for (;;) {
      // The states of one that has become too large are forgotten, also those of a search that was interrupted.
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
   * How far to read next. Skips what cannot be part of a match: a match has a character that is needed, and reaches only so
   * far from it.
   */
  #readTo(search: Search): number {
    const { text, until, at, isLast } = search
    const needed = this.#needed
    if (needed === null) return until
    if (at < search.readTo) return search.readTo
    needed.lastIndex = Math.max(search.from, at - this.#reach)
    const next = needed.exec(text)?.index ?? until
    this.effort.steps += (Math.max(next, at) - at) >> SEARCH_SHIFT
    // At the end of a text that goes on, a match may have begun.
    const begin = next >= until && isLast ? until : next - this.#reach
    if (begin > at) search.skipTo(whole(text, begin, at))
    search.readTo = Math.min(until, search.at + BLOCK + this.#reach)
    return search.readTo
  }
}

/** Read at least so much before the next search: a search costs some hundred steps, whatever it finds. */
const BLOCK = 256
/** A search reads so many characters, as a power of two, in the time of a step. */
const SEARCH_SHIFT = 2

/** A match is looked at once more: in steps of an automaton. */
const CHECK = 32

/** The usual characters and a sample of the others: nearly always at least one of each class that patterns distinguish. */
const SAMPLE: readonly number[] = Array.from({ length: 0x180 + 650 }, (_, i) =>
  i < 0x180 ? i : (i - 0x180) * 97 + 0x180,
)
/** A pattern that may be in more states than this is dear on some text. */
const MAX_STATES = 1_000

/** The place itself, or the one before when it is in the middle of a character. */
function whole(text: string, at: number, least: number): number {
  const isMiddle = at > least && isSecondHalf(text.charCodeAt(at)) && isFirstHalf(text.charCodeAt(at - 1))
  return isMiddle ? at - 1 : at
}

function sizeAt(text: string, at: number): number {
  return text.codePointAt(at)! > 0xffff ? 2 : 1
}
