/** Tracks whether a match is inside a string of a JSON text: its replacement must leave valid JSON. */

const QUOTE = 34
const BACKSLASH = 92

/** Scans a JSON text that arrives in pieces. */
export class JsonPlace {
  #inString = false
  #escaped = false

  /** Whether the position is outside of strings. */
  get isBare(): boolean {
    return !this.#inString
  }

  pass(text: string): void {
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      if (this.#escaped) this.#escaped = false
      else if (unit === QUOTE) this.#inString = !this.#inString
      else if (unit === BACKSLASH) this.#escaped = this.#inString
    }
  }
}

const NUMBER = /^[0-9.eE+-]*[0-9][0-9.eE+-]*$/

/**
 * Returns the replacement of a match outside of strings. In a number each digit becomes 1, because a leading 0 is not valid JSON.
 * Anything else is not a JSON value by itself, and gets the replacement.
 */
export function bareReplacement(match: string, replacement: string): string {
  return NUMBER.test(match) ? match.replace(/[0-9]/g, '1') : replacement
}
