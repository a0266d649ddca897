/** Where in a JSON text a match stands: what takes its place must leave the text JSON. */

const QUOTE = 34
const BACKSLASH = 92

/** Follows a JSON text that comes in pieces. */
export class JsonPlace {
  #inString = false
  #escaped = false

  /** Whether the text stands outside of a string. */
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
 * What takes the place of a match that stands bare. A number stays one, wherever in it the match is: each digit becomes a 1
 * (a 0 could not stand in front). Anything else is no value of JSON by itself, and gets the replacement.
 */
export function bareReplacement(match: string, replacement: string): string {
  return NUMBER.test(match) ? match.replace(/[0-9]/g, '1') : replacement
}
