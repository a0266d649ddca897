/** No index. */
export const NONE = -1

/** The state of a search in a text that may continue. It can be paused. */
export class Search {
  readonly text: string
  readonly isLast: boolean
  /** The end of the search: excludes half of a surrogate pair at the end until its other half arrives. */
  readonly until: number
  /** The first index at which a match may begin. */
  from = 0
  /** The index up to which the automaton has read, and its state there; `NONE` before it starts. */
  at = 0
  state = NONE
  /** The automaton reads to this index before it can skip again. */
  readTo = NONE
  /** The end of the first match; `until` if unknown or if the match may continue; `NONE` while searching. */
  last = NONE
  /** The next index at which a match that ends at `last` may begin. */
  start = 0
  readonly #afterWord: boolean

  /**
   * @param afterWord whether the character before the text is a word character
   * @param isLast whether the text is complete
   */
  constructor(text: string, afterWord: boolean, isLast: boolean) {
    this.text = text
    this.#afterWord = afterWord
    this.isLast = isLast
    this.until = !isLast && isFirstHalf(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length
  }

  /** Restarts the search at an index. */
  restartAt(from: number): void {
    this.from = from
    this.skipTo(from)
    this.readTo = NONE
    this.last = NONE
  }

  /** Continues at an index that no match crosses. */
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

/** Whether a UTF-16 unit is a high surrogate. */
export function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

/** Whether a UTF-16 unit is a low surrogate. */
export function isSecondHalf(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}
