/**
 * A text that comes in pieces goes through a rule: what matches is replaced, what may still become a match waits, and all
 * else passes at once. However the text is cut into pieces, what comes out is the same.
 */
import type { Sliced } from '#contract'
import { isWordCode } from './automaton.ts'
import { JsonPlace } from './json-place.ts'
import type { Matcher } from './matcher.ts'

/** Characters that a rule reads in one go: a tenth of a millisecond, and a few tenths on a text made for it. */
const PIECE = 8192

export class Sieve {
  /** Whether anything was replaced by something else. */
  hasChanged = false
  readonly #matcher: Matcher
  readonly #replace: (match: string, isBare: boolean) => string
  readonly #place: JsonPlace | null
  #held = ''
  /** So much at the begin of what is held has left already. */
  #left = 0
  #afterWord = false

  /**
   * @param replace what takes a match's place; it may throw to refuse the whole text. It is told whether the match stands
   * outside of every string of a JSON text
   */
  constructor(matcher: Matcher, replace: (match: string, isBare: boolean) => string, isJson = false) {
    this.#matcher = matcher
    this.#replace = replace
    this.#place = isJson ? new JsonPlace() : null
  }

  /** Takes a piece; returns what may leave now. */
  push(piece: string): string {
    return this.#sift(this.#held + piece, 'goes on')
  }

  /** Takes a piece as `push` does, however long; yields between parts of it. */
  *pushInSlices(piece: string): Sliced<string> {
    let out = ''
    for (let at = 0; at < piece.length; ) {
      // Its cost is known only once it has read.
      const to = at + Math.max(1, Math.floor(PIECE / this.#matcher.stepsACharacter))
      out += this.push(piece.slice(at, to))
      at = to
      yield
    }
    return out
  }

  /**
   * Something else comes between: returns what waits, as at the end. If the text goes on behind it, a match that has begun
   * before is found all the same. Of such a one the begin has left; the rest does not.
   */
  pause(): string {
    return this.#sift(this.#held, 'pauses')
  }

  /** The text is over: returns what is left of it. */
  end(): string {
    return this.#sift(this.#held, 'ends')
  }

  #sift(text: string, then: 'goes on' | 'pauses' | 'ends'): string {
    if (text === '') return ''
    const [afterWord, left] = [this.#afterWord, this.#left]
    const fresh = (from: number, to: number) => text.slice(Math.max(from, left), Math.max(to, left))
    let out = ''
    for (let from = 0; ; ) {
      const found = this.#matcher.find({ text, from, afterWord, isLast: then !== 'goes on' })
      if (found.what === 'open') {
        const keepFrom = then === 'pauses' ? from : found.from
        if (keepFrom > 0) this.#afterWord = isWordCode(text.charCodeAt(keepFrom - 1))
        this.#place?.pass(text.slice(from, keepFrom))
        this.#held = text.slice(keepFrom)
        this.#left = then === 'pauses' ? this.#held.length : Math.max(0, left - keepFrom)
        return out + fresh(from, found.from)
      }
      this.#place?.pass(text.slice(from, found.start))
      const match = text.slice(found.start, found.end)
      const replacement = this.#replace(match, this.#place?.isBare ?? false)
      if (replacement !== match) this.hasChanged = true
      out += fresh(from, found.start) + replacement
      this.#place?.pass(match)
      from = found.end
    }
  }
}

/** Several rules, each looking at what the one before has left. */
export class Sieves {
  readonly #sieves: readonly Sieve[]

  constructor(sieves: readonly Sieve[]) {
    this.#sieves = sieves
  }

  push(piece: string): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)), piece)
  }

  /** The same as `push`, or with `isLast` as `all`; yields often enough for a text of any length. */
  *inSlices(text: string, isLast: boolean): Sliced<string> {
    let out = ''
    for (let at = 0; at < text.length; at += PIECE) {
      let piece = text.slice(at, at + PIECE)
      for (const sieve of this.#sieves) if (piece !== '') piece = yield* sieve.pushInSlices(piece)
      out += piece
    }
    return isLast ? out + this.end() : out
  }

  /** Whether a rule has replaced anything. */
  get hasChanged(): boolean {
    return this.#sieves.some(sieve => sieve.hasChanged)
  }

  /** What waits, as at the end; the text may go on. */
  pause(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.pause(), '')
  }

  end(): string {
    return this.#sieves.reduce((text, sieve) => (text === '' ? '' : sieve.push(text)) + sieve.end(), '')
  }

  /** A whole text. */
  all(text: string): string {
    return this.push(text) + this.end()
  }
}
