/**
 * A lazy DFA of a pattern. It reads a text once, from left to right, without backtracking, so its cost is linear in the text.
 * States are computed when they are first reached, and dropped when there are too many.
 *
 * The character after a match decides whether a word boundary is there. A match is therefore reported once that character is read.
 *
 * `re2js` (2.10.0) was measured and does not replace this. It does not report whether the end of a text may still become a
 * match, which decides what a stream withholds. Its `test` takes 7 ns a character and returns only whether there is a match.
 * Its `find` uses an NFA: nine rules over 4 MB take 1.1 to 3.3 s (plain words, digits, addresses), and 0.05 to 0.2 s here.
 * For `a{1,200}c` it takes 7,000 ns a character instead of 2. It refuses `\p{Script=Greek}`, and `\s`, `.` and `\uD83D\uDE00` match
 * other characters than in JavaScript. In its favour: nine rules need 60 kB of memory instead of 1.9 MB.
 */
import type { Node, Pattern } from './pattern.ts'
import { isFirstHalf, isWordCode, NONE, type Search } from './search.ts'

/** The next state times two, plus one if a match ends before the character that was read. */
export type Step = number

/** The state from which no match is possible. */
export const DEAD = 0

/** The most states that are cached. */
const MAX_STATES = 2_000

const CHARACTER = 0
const FORK = 1
const EDGE = 2
const WRONG_EDGE = 3
const MATCH = 4

/** The NFA: each place of the pattern with the places that may follow it. */
interface Places {
  readonly kinds: number[]
  readonly atoms: number[]
  readonly next: (readonly number[])[]
  readonly first: number
}

/** The cost of reading with one pattern so far, in steps of a few nanoseconds. */
export interface Effort {
  steps: number
}

/** The ends of the matches that begin at one place. */
export interface Ends {
  readonly ends: readonly number[]
  /** Whether more text may add ends. */
  readonly isOpen: boolean
}

const NOTHING: Ends = { ends: [], isOpen: false }
/** The cost of computing a transition, in steps for each place that is visited. */
const WORK = 8

interface State {
  readonly places: readonly number[]
  readonly afterWord: boolean
  atEnd: boolean | undefined
}

export class Automaton {
  /** Whether there are too many states to cache, which makes reading expensive. */
  isTooLarge = false
  readonly #effort: Effort
  readonly #alphabet: Alphabet
  readonly #places: Places
  readonly #anywhere: boolean
  #states: State[] = []
  #byName = new Map<string, number>()
  #starts: [number, number] = [-1, -1]
  /** Steps by state and kind of character; `NONE` until computed. One flat table is several times faster to read than nested ones. */
  #steps = new Int32Array(0)
  /** Columns of the table: the kinds of characters that it can hold. */
  #width = 16

  /** @param anywhere whether a match may begin at any character, or only at the first */
  constructor(pattern: Pattern, alphabet: Alphabet, anywhere: boolean) {
    this.#alphabet = alphabet
    this.#effort = alphabet.effort
    this.#places = writeOut(pattern.root)
    this.#anywhere = anywhere
    this.#forget()
  }

  /** Returns the state before the first character. */
  start(afterWord: boolean): number {
    const which = afterWord ? 1 : 0
    if (this.#starts[which] < 0) this.#starts[which] = this.#name([this.#places.first], afterWord)
    return this.#starts[which]
  }

  #step(state: number, kind: number): Step {
    const known = kind < this.#width ? this.#steps[state * this.#width + kind]! : NONE
    return known >= 0 ? known : this.#work(state, kind)
  }

  /**
   * Reads until a match ends, and returns that index: before a character, or the end of the last text.
   * Returns `NONE` at `to`, or earlier if the effort reaches `stopAt` or the automaton becomes too large.
   */
  firstEnd(search: Search, to: number, stopAt: number): number {
    const { text, until } = search
    const { known } = this.#alphabet
    const from = search.at
    let { at, state } = search
    let limit = Math.min(to, at + Math.max(1, stopAt - this.#effort.steps))
    let end = NONE
    while (at < limit) {
      let kind = known[text.charCodeAt(at)]!
      let size = 1
      if (kind < 0) {
        // A new character, or half of a surrogate pair.
        const character = text.codePointAt(at)!
        kind = this.#alphabet.kindOf(character)
        if (character > 0xffff) size = 2
        if (this.#effort.steps >= stopAt) limit = at
      }
      let step = kind < this.#width ? this.#steps[state * this.#width + kind]! : NONE
      if (step < 0) {
        step = this.#work(state, kind)
        if (this.#effort.steps >= stopAt || this.isTooLarge) limit = at
      }
      if (step & 1) {
        end = at
        break
      }
      state = step >> 1
      at += size
    }
    this.#effort.steps += at - from
    search.at = at
    search.state = state
    return end === NONE && at === until && search.isLast && !this.isTooLarge && this.#endsAt(state) ? until : end
  }

  /** Returns the ends of the matches that begin at `start`. */
  endsFrom(search: Search, start: number): Ends {
    const { text, until, isLast } = search
    let ends: number[] | null = null
    let state = this.start(search.isAfterWord(start))
    let at = start
    while (at < until) {
      const character = text.codePointAt(at)!
      const step = this.#step(state, this.#alphabet.kindOf(character))
      if (step & 1) (ends ??= []).push(at)
      state = step >> 1
      if (state === DEAD) break
      at += character > 0xffff ? 2 : 1
    }
    this.#effort.steps += at - start + 1
    if (state === DEAD) return ends === null ? NOTHING : { ends, isOpen: false }
    if (isLast && this.#endsAt(state)) (ends ??= []).push(until)
    return { ends: ends ?? [], isOpen: !isLast }
  }

  /** Computes every state that texts of these characters can reach, up to `most`. Returns whether these are all. */
  unfold(characters: readonly number[], most: number): boolean {
    for (const character of characters) this.#alphabet.kindOf(character)
    this.start(false)
    this.start(true)
    for (let state = 0; state < this.#states.length; state++) {
      if (this.#states.length > most) return false
      for (const kind of this.#alphabet.kinds.keys()) this.#step(state, kind)
    }
    return true
  }

  /** Whether a match ends at the end of the text. */
  #endsAt(state: number): boolean {
    const from = this.#states[state]!
    from.atEnd ??= this.#reach(from, false).matched
    return from.atEnd
  }

  #work(state: number, kind: number): Step {
    const from = this.#states[state]!
    const { fits, isWord } = this.#alphabet.kinds[kind]!
    const { reached, matched } = this.#reach(from, isWord)
    const { atoms, next, first } = this.#places
    const places = new Set<number>()
    for (const place of reached) if (fits[atoms[place]!]) places.add(next[place]![0]!)
    if (this.#anywhere) places.add(first)
    this.#effort.steps += WORK * (from.places.length + reached.length)
    const remembers = this.#states.length < MAX_STATES
    if (!remembers) {
      this.isTooLarge = true
      this.#forget()
    }
    const step =
      this.#name(
        [...places].sort((one, other) => one - other),
        isWord,
      ) *
        2 +
      (matched ? 1 : 0)
    if (remembers) this.#remember(state, kind, step)
    return step
  }

  #remember(state: number, kind: number, step: Step): void {
    while (kind >= this.#width) this.#widen()
    this.#steps[state * this.#width + kind] = step
  }

  #widen(): void {
    const width = this.#width
    const wider = new Int32Array(2 * this.#steps.length).fill(NONE)
    for (let at = 0; at < this.#steps.length; at += width) wider.set(this.#steps.subarray(at, at + width), 2 * at)
    this.#steps = wider
    this.#width = 2 * width
  }

  /** Returns the places of the next character, and whether a match ends here. */
  #reach({ places, afterWord }: State, beforeWord: boolean): { reached: number[]; matched: boolean } {
    const { kinds, next } = this.#places
    const isEdge = afterWord !== beforeWord
    const seen = new Set<number>()
    const reached: number[] = []
    const open = [...places]
    let matched = false
    for (let place = open.pop(); place !== undefined; place = open.pop()) {
      if (seen.has(place)) continue
      seen.add(place)
      const kind = kinds[place]
      if (kind === CHARACTER) reached.push(place)
      else if (kind === MATCH) matched = true
      else if (kind === FORK || (kind === EDGE) === isEdge) open.push(...next[place]!)
    }
    return { reached, matched }
  }

  #name(places: readonly number[], afterWord: boolean): number {
    // A state without places is dead, whatever character came before it.
    if (places.length === 0) return DEAD
    const name = `${afterWord ? 'w' : ''}${places.join()}`
    let state = this.#byName.get(name)
    if (state === undefined) {
      state = this.#states.push({ places, afterWord, atEnd: undefined }) - 1
      this.#byName.set(name, state)
      if (this.#states.length * this.#width > this.#steps.length) {
        const longer = new Int32Array(2 * this.#steps.length).fill(NONE)
        longer.set(this.#steps)
        this.#steps = longer
      }
    }
    return state
  }

  #forget(): void {
    this.#states = [{ places: [], afterWord: false, atEnd: false }]
    this.#byName = new Map()
    this.#starts = [-1, -1]
    this.#steps = new Int32Array(16 * this.#width).fill(NONE)
  }
}

/** The character classes of a pattern: characters that pass the same tests are of one kind. */
export class Alphabet {
  readonly kinds: { readonly fits: readonly boolean[]; readonly isWord: boolean }[] = []
  readonly effort: Effort = { steps: 0 }
  readonly #atoms: readonly RegExp[]
  /** Kinds by UTF-16 unit; negative: not computed yet, or the first half of a surrogate pair. */
  readonly known = new Int16Array(0x10000).fill(NONE)
  /** Kinds of characters beyond 16 bits and of lone surrogates, in pages of 256 that are allocated on demand. */
  readonly #others: (Int16Array | undefined)[] = []
  readonly #byName = new Map<string, number>()

  constructor({ atoms }: Pattern) {
    this.#atoms = atoms
  }

  kindOf(character: number): number {
    if (character > 0xffff || isFirstHalf(character)) return this.#otherKindOf(character)
    const known = this.known[character]!
    return known >= 0 ? known : (this.known[character] = this.#work(character))
  }

  #otherKindOf(character: number): number {
    const page = (this.#others[character >> 8] ??= new Int16Array(256).fill(NONE))
    const known = page[character & 255]!
    return known >= 0 ? known : (page[character & 255] = this.#work(character))
  }

  #work(character: number): number {
    this.effort.steps += WORK * this.#atoms.length
    const text = String.fromCodePoint(character)
    const fits = this.#atoms.map(atom => atom.test(text))
    const name = `${isWordCode(character)}${fits.join()}`
    let kind = this.#byName.get(name)
    if (kind === undefined) {
      kind = this.kinds.push({ fits, isWord: isWordCode(character) }) - 1
      this.#byName.set(name, kind)
    }
    return kind
  }
}

/** Builds the NFA from the end of the pattern to its beginning, because each place refers to the places after it. */
function writeOut(root: Node): Places {
  const kinds: number[] = [MATCH]
  const atoms: number[] = [-1]
  const next: (readonly number[])[] = [[]]
  const add = (kind: number, behind: readonly number[], atom = -1): number => {
    kinds.push(kind)
    atoms.push(atom)
    return next.push(behind) - 1
  }
  const write = (node: Node, behind: number): number => {
    if (node.kind === 'character') return add(CHARACTER, [behind], node.atom)
    if (node.kind === 'edge') return add(node.isNegated ? WRONG_EDGE : EDGE, [behind])
    if (node.kind === 'sequence') return node.items.reduceRight((after, item) => write(item, after), behind)
    if (node.kind === 'choice')
      return add(
        FORK,
        node.items.map(item => write(item, behind)),
      )
    let at = behind
    for (let i = node.least; i < node.most; i++) at = add(FORK, [write(node.item, at), behind])
    for (let i = 0; i < node.least; i++) at = write(node.item, at)
    return at
  }
  const first = write(root, 0)
  return { kinds, atoms, next, first }
}
