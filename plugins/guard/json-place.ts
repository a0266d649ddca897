/** The place of a match in a JSON text: its replacement must leave the text valid JSON. */

const QUOTE = 34
const BACKSLASH = 92

/** Follows a JSON text that comes in pieces. */
export class JsonPlace {
  #inString = false
  #escaped = false

  /** Whether the text is outside of a string. */
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
 * The replacement of a match outside of a string. In a number each digit becomes a 1 (JSON allows no leading 0), so that it stays a
 * number. Any other text cannot be a JSON value, and gets the replacement as it is.
 */
export function bareReplacement(match: string, replacement: string): string {
  return NUMBER.test(match) ? match.replace(/[0-9]/g, '1') : replacement
}
