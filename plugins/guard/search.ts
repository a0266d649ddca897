/** No place. */
export const NONE = -1

/** A search for matches in a text of which more may come. It can be interrupted. */
export class Search {
  readonly text: string
  readonly isLast: boolean
  /** Half a character at the end waits for its other half. */
  readonly until: number
  /** Matches are looked for from here on. */
  from = 0
  /** How far the automaton has read, and its state there; `NONE` before it starts. */
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

/** Whether `\w` matches: an ASCII letter, a digit or an underscore. */
export function isWordCode(code: number): boolean {
  if (code < 48 || code > 122) return false
  return code <= 57 || (code >= 65 && code <= 90) || code === 95 || code >= 97
}

/** Whether a unit of a string is the first of the two of a character beyond 16 bits. */
export function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

/** Whether it is the second of the two. */
export function isSecondHalf(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}
