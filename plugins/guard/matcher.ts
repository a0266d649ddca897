/** Finds the matches of a pattern in a text of which more may come: the leftmost, then the longest, as far as it is known. */
import { Alphabet, Automaton, type Effort, isFirstHalf, isWordCode, NONE, type Search } from './automaton.ts'
import { type Pattern, PatternError } from './pattern.ts'

/** What was found from a place on. */
export type Found =
  /** A match, and nothing that may still come changes that. */
  | { readonly what: 'match'; readonly start: number; readonly end: number }
  /** No match before this place; from it on there may be one. */
  | { readonly what: 'open'; readonly from: number }

/** A search in a text, which may be interrupted. */
export class Looking implements Search {
  readonly text: string
  readonly isLast: boolean
  /** Half a character at the end waits for its other half. */
  readonly until: number
  /** Matches are looked for from here on. */
  from = 0
  at = 0
  state = NONE
  /** Up to here the automaton has to read before it is known whether it can skip something. */
  readTo = NONE
  /** Where the first match ends, `until` when there may be one or when it is not known; `NONE` while that is looked for. */
  last = NONE
  /** Where a match may begin that ends there. */
  start = 0
  readonly #afterWord: boolean

  /**
   * @param afterWord whether the character before the text is one of a word
   * @param isLast whether nothing more will come
   */
  constructor(text: string, afterWord: boolean, isLast: boolean) {
    this.text = text
    this.#afterWord = afterWord
    this.isLast = isLast
    this.until = !isLast && isFirstHalf(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length
  }

  /** Begins anew from a place on. */
  goOnFrom(from: number): void {
    this.from = from
    this.skipTo(from)
    this.readTo = NONE
    this.last = NONE
  }

  /** Goes on from a place before which no match has begun that goes on behind it. */
  skipTo(at: number): void {
    this.at = at
    this.state = NONE
  }

  isAfterWord(at: number): boolean {
    return at > 0 ? isWordCode(this.text.charCodeAt(at - 1)) : this.#afterWord
  }
}

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

  /** What reading has cost so far; whoever does more for a match adds it. */
  get effort(): Effort {
    return this.#alphabet.effort
  }

  /**
   * Two passes: one asks where the first match ends, and costs one step a character whatever the text; the other asks the
   * few places from which a match can reach there where it begins. A pattern for which the first would be dear is looked for
   * from every place: that costs its longest match a character, and not more.
   * @param stopAt the effort at which the search is interrupted: it returns null, and goes on when it is called again
   */
  find(looking: Looking, stopAt = Number.POSITIVE_INFINITY): Found | null {
    const { text, until, isLast } = looking
    for (;;) {
      if (looking.last === NONE) {
        const end = this.#firstEnd(looking, stopAt)
        if (end === null) return null
        if (end === NONE && isLast) return { what: 'open', from: until }
        looking.last = end === NONE ? until : end
        looking.start = this.#anywhere.isTooLarge
          ? looking.from
          : whole(text, Math.max(looking.from, looking.last - this.#reach), looking.from)
      }
      for (; looking.start < looking.last; looking.start += sizeAt(text, looking.start)) {
        if (this.effort.steps >= stopAt) return null
        const { start } = looking
        const { ends, isOpen } = this.#here.endsFrom(looking, start, until, looking.isAfterWord(start))
        // Also when there is a match: it may become longer.
        if (isOpen) return { what: 'open', from: start }
        for (let i = ends.length - 1; i >= 0; i--) {
          const end = ends[i]!
          this.effort.steps += CHECK
          if (this.#check(text.slice(start, end))) return { what: 'match', start, end }
        }
      }
      if (looking.last === until) return { what: 'open', from: until }
      // Those that end here were none by their checksum.
      looking.goOnFrom(looking.last)
    }
  }

  /** Where the first match ends, `NONE` when none does; `until` when the automaton is too large to tell; null when interrupted. */
  #firstEnd(looking: Looking, stopAt: number): number | null {
    const { until } = looking
    const anywhere = this.#anywhere
    for (;;) {
      // The states of one that has become too large are forgotten, also those of a search that was interrupted.
      if (anywhere.isTooLarge) return until
      const to = this.#readTo(looking)
      if (looking.state === NONE) looking.state = anywhere.start(looking.isAfterWord(looking.at))
      const end = anywhere.firstEnd(looking, to, stopAt)
      if (anywhere.isTooLarge) return until
      if (end !== NONE || looking.at >= until) return end
      if (looking.at < to || this.effort.steps >= stopAt) return null
    }
  }

  /**
   * How far to read next. Skips what cannot be part of a match: a match has a character that is needed, and reaches only so
   * far from it.
   */
  #readTo(looking: Looking): number {
    const { text, until, at, isLast } = looking
    const needed = this.#needed
    if (needed === null) return until
    if (at < looking.readTo) return looking.readTo
    needed.lastIndex = Math.max(looking.from, at - this.#reach)
    const next = needed.exec(text)?.index ?? until
    this.effort.steps += (Math.max(next, at) - at) >> SEARCH_SHIFT
    // At the end of a text that goes on, a match may have begun.
    const begin = next >= until && isLast ? until : next - this.#reach
    if (begin > at) looking.skipTo(whole(text, begin, at))
    looking.readTo = Math.min(until, looking.at + BLOCK + this.#reach)
    return looking.readTo
  }
}

/** Read at least so much before the next search: a search costs some hundred steps, whatever it finds. */
const BLOCK = 256
/** A search reads so many characters, as a power of two, in the time of a step. */
const SEARCH_SHIFT = 2

/** A match is looked at once more: in steps of an automaton. */
const CHECK = 32

/** The usual characters, and some of all others: one of each kind that patterns tell apart, nearly always. */
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

const isSecondHalf = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff
