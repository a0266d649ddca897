/**
 * A pattern as an automaton. It reads a text once, from left to right, and is in one state at a time. So its cost grows only with the
 * length of the text: it never backtracks. States are computed on first use, and dropped when there are too many.
 *
 * Only the next character shows whether a match has ended, because it decides whether a word boundary is there.
 *
 * `re2js` (2.10.0) was measured and does not replace this. It does not report whether the end of a text may still become a match, which
 * decides what a stream withholds. Its `test` reads 7 ns a character, but does not return the place. Its `find` does, with an NFA.
 * Nine rules over 4 MB (plain words, digits, addresses) take it 1.1 to 3.3 s, and 0.05 to 0.2 s here. `a{1,200}c` takes 7,000 ns a
 * character instead of 2. It refuses `\p{Script=Greek}`, and its `\s`, `.` and `\uD83D\uDE00` differ from JavaScript. In its favour:
 * nine rules need 60 kB of memory instead of 1.9 MB.
 */
import type { Node, Pattern } from './pattern.ts'
import { isFirstHalf, isWordCode, NONE, type Search } from './search.ts'

/** The result of a step: the next state, times two, plus one if a match ends before the character that was read. */
export type Step = number

/** From here no match can come any more. */
export const DEAD = 0

/** More states than this are not remembered. */
const MAX_STATES = 2_000

const CHARACTER = 0
const FORK = 1
const EDGE = 2
const WRONG_EDGE = 3
const MATCH = 4

/** The pattern's characters written out, each with what may come behind it. */
interface Places {
  readonly kinds: number[]
  readonly atoms: number[]
  readonly next: (readonly number[])[]
  readonly first: number
}

/** The cost of reading by one pattern so far, in steps of a few nanoseconds. */
export interface Effort {
  steps: number
}

/** The matches that begin at one place. */
export interface Ends {
  readonly ends: readonly number[]
  /** Whether there may be more. */
  readonly isOpen: boolean
}

const NOTHING: Ends = { ends: [], isOpen: false }
/** To work out a step costs so many steps for each place that it looks at. */
const WORK = 8

interface State {
  readonly places: readonly number[]
  readonly afterWord: boolean
  atEnd: boolean | undefined
}

export class Automaton {
  /** Whether its states have become too many to be remembered: then reading is dear. */
  isTooLarge = false
  readonly #effort: Effort
  readonly #alphabet: Alphabet
  readonly #places: Places
  readonly #anywhere: boolean
  #states: State[] = []
  #byName = new Map<string, number>()
  #starts: [number, number] = [-1, -1]
  /** By state and kind of character: a step, or `NONE` before it was worked out. One flat table reads several times as fast. */
  #steps = new Int32Array(0)
  /** Kinds for which a state has room. */
  #width = 16

  /** @param anywhere whether a match may begin behind any character, or at the first one only */
  constructor(pattern: Pattern, alphabet: Alphabet, anywhere: boolean) {
    this.#alphabet = alphabet
    this.#effort = alphabet.effort
    this.#places = writeOut(pattern.root)
    this.#anywhere = anywhere
    this.#forget()
  }

  /** Before the first character. */
  start(afterWord: boolean): number {
    const which = afterWord ? 1 : 0
    if (this.#starts[which] < 0) this.#starts[which] = this.#name([this.#places.first], afterWord)
    return this.#starts[which]
  }

  /** Reads one character. */
  #step(state: number, kind: number): Step {
    const known = kind < this.#width ? this.#steps[state * this.#width + kind]! : NONE
    return known >= 0 ? known : this.#work(state, kind)
  }

  /**
   * Reads on until a match ends, and returns where: before a character, or at the text's end when nothing comes behind it.
   * Otherwise `NONE`: at `to`, or earlier because the effort has reached `stopAt`, or because it is too large.
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
        // Met for the first time, or half of a character.
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

  /** Where matches that begin at `start` end, and whether there may be more. */
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

  /** Works out every state that texts of these characters can lead to, up to so many. Returns whether these are all. */
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

  /** Whether a match ends where the text does. */
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

  /** The characters that may come now, and whether a match ends here. */
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

/** Characters by what the pattern's tests say of them: those that all tests treat alike are of one kind. */
export class Alphabet {
  readonly kinds: { readonly fits: readonly boolean[]; readonly isWord: boolean }[] = []
  readonly effort: Effort = { steps: 0 }
  readonly #atoms: readonly RegExp[]
  /** By unit of a string; negative: not known yet, or the first half of a character. */
  readonly known = new Int16Array(0x10000).fill(NONE)
  /** Of characters beyond 16 bits, and of halves without their other one: by 256 of them, as they are met. */
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

/** Lists a pattern's places from its end to its beginning, so that each knows its successors. */
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
