/** Finds the matches of a pattern in a text of which more may come: the leftmost, then the longest, as far as it is known. */
import { Alphabet, Automaton, DEAD, isWordCode } from './automaton.ts'
import { type Pattern, PatternError } from './pattern.ts'

/** What was found from a place on. */
export type Found =
  /** A match, and nothing that may still come changes that. */
  | { readonly what: 'match'; readonly start: number; readonly end: number }
  /** No match before this place; from it on there may be one. */
  | { readonly what: 'open'; readonly from: number }

/** A text, from where it is looked at. */
export interface Look {
  readonly text: string
  readonly from: number
  /** Whether the character before the text is one of a word. */
  readonly afterWord: boolean
  /** Whether nothing more will come. */
  readonly isLast: boolean
}

const NONE = -1
const UNKNOWN = -2

export class Matcher {
  readonly #alphabet: Alphabet
  readonly #here: Automaton
  readonly #anywhere: Automaton
  readonly #longest: number
  readonly #reach: number
  readonly #check: (match: string) => boolean

  /**
   * Throws `PatternError` for a pattern that would be dear.
   * @param check what a match must be beside matching: a checksum
   */
  constructor(pattern: Pattern, check: (match: string) => boolean = () => true) {
    this.#alphabet = new Alphabet(pattern)
    this.#here = new Automaton(pattern, this.#alphabet, false)
    this.#anywhere = new Automaton(pattern, this.#alphabet, true)
    this.#longest = pattern.longest
    // A character is one or two units of a string.
    this.#reach = 2 * pattern.longest
    this.#check = check
    if (this.#here.unfold(SAMPLE, MOST_STATES)) return
    throw new PatternError('can be read in too many ways at once: let its repetitions differ in how they begin')
  }

  /** Steps of an automaton that a character of a text may cost. */
  get stepsACharacter(): number {
    return this.#anywhere.isTooLarge ? this.#longest : 1
  }

  /**
   * Two passes: one asks where the first match ends, and costs one step a character whatever the text; the other asks the
   * few places from which a match can reach there where it begins. A pattern for which the first would be dear is looked for
   * from every place: that costs its longest match a character, and not more.
   */
  find(look: Look): Found {
    const { text, isLast } = look
    const until = usable(look)
    for (let { from } = look; ; ) {
      const end = this.#firstEnd(look, from, until)
      if (end === NONE && isLast) return { what: 'open', from: until }
      const last = end === NONE || end === UNKNOWN ? until : end
      const first = end === UNKNOWN ? from : whole(text, Math.max(from, last - this.#reach), from)
      for (let start = first; start < last; start += sizeAt(text, start)) {
        const { ends, isOpen } = this.#from(look, start, until)
        // Also when there is a match: it may become longer.
        if (isOpen) return { what: 'open', from: start }
        for (let i = ends.length - 1; i >= 0; i--) {
          const end = ends[i]!
          if (this.#check(text.slice(start, end))) return { what: 'match', start, end }
        }
      }
      if (last === until) return { what: 'open', from: until }
      // Those that end here were none by their checksum.
      from = last
    }
  }

  /** Where the first match ends: a place, `NONE`, or `UNKNOWN`. */
  #firstEnd(look: Look, from: number, until: number): number {
    const { text, isLast } = look
    let state = this.#anywhere.start(isAfterWord(look, from))
    for (let at = from; at < until; ) {
      if (this.#anywhere.isTooLarge) return UNKNOWN
      const character = text.codePointAt(at)!
      const step = this.#anywhere.step(state, this.#alphabet.kindOf(character))
      if (step & 1) return at
      state = step >> 1
      at += character > 0xffff ? 2 : 1
    }
    return isLast && this.#anywhere.endsAt(state) ? until : NONE
  }

  /** Where matches that begin here end, and whether more may. */
  #from(look: Look, start: number, until: number): Begun {
    const { text, isLast } = look
    let ends: number[] | null = null
    let state = this.#here.start(isAfterWord(look, start))
    for (let at = start; at < until; ) {
      const character = text.codePointAt(at)!
      const step = this.#here.step(state, this.#alphabet.kindOf(character))
      if (step & 1) (ends ??= []).push(at)
      state = step >> 1
      if (state === DEAD) return ends === null ? NOTHING : { ends, isOpen: false }
      at += character > 0xffff ? 2 : 1
    }
    if (isLast && this.#here.endsAt(state)) (ends ??= []).push(until)
    return { ends: ends ?? [], isOpen: !isLast }
  }
}

interface Begun {
  readonly ends: readonly number[]
  readonly isOpen: boolean
}

const NOTHING: Begun = { ends: [], isOpen: false }

/** The usual characters, and some of all others: one of each kind that patterns tell apart, nearly always. */
const SAMPLE: readonly number[] = Array.from({ length: 0x180 + 650 }, (_, i) =>
  i < 0x180 ? i : (i - 0x180) * 97 + 0x180,
)
/** A pattern that may be in more states than this is dear on some text. */
const MOST_STATES = 1_000

function isAfterWord({ text, afterWord }: Look, at: number): boolean {
  return at > 0 ? isWordCode(text.charCodeAt(at - 1)) : afterWord
}

/** Half a character at the end waits for its other half. */
function usable({ text, isLast }: Look): number {
  return !isLast && isFirstHalf(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length
}

/** The place itself, or the one before when it is in the middle of a character. */
function whole(text: string, at: number, least: number): number {
  const isMiddle = at > least && isSecondHalf(text.charCodeAt(at)) && isFirstHalf(text.charCodeAt(at - 1))
  return isMiddle ? at - 1 : at
}

function sizeAt(text: string, at: number): number {
  return text.codePointAt(at)! > 0xffff ? 2 : 1
}

const isFirstHalf = (unit: number) => unit >= 0xd800 && unit <= 0xdbff
const isSecondHalf = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff
