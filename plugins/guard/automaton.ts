/**
 * A pattern as an automaton. It reads a text once, from left to right, and is in one state at a time, so what it costs grows
 * with the text and with nothing else: there is no text on which it has to try back and forth. States are worked out when
 * they are met first, and forgotten when they have become too many.
 *
 * Whether a match ends before a character is known when that character has been read: it decides whether the edge of a word
 * is there.
 */
import type { Node, Pattern } from './pattern.ts'

/** What a step says: the next state, times two, plus one when a match ends before the character that was read. */
export type Step = number

/** From here no match can come any more. */
export const DEAD = 0

/** More characters beyond 16 bits than this are not remembered. */
const MOST_CHARACTERS = 4_000
/** More states than this are not remembered. */
const MOST_STATES = 2_000

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

interface State {
  readonly places: readonly number[]
  readonly afterWord: boolean
  /** By class of character. */
  readonly steps: (Step | undefined)[]
  atEnd: boolean | undefined
}

export class Automaton {
  /** Whether its states have become too many to be remembered: then reading is dear. */
  isTooLarge = false
  readonly #alphabet: Alphabet
  readonly #places: Places
  readonly #anywhere: boolean
  #states: State[] = []
  #byName = new Map<string, number>()
  #starts: [number, number] = [-1, -1]

  /** @param anywhere whether a match may begin behind any character, or at the first one only */
  constructor(pattern: Pattern, alphabet: Alphabet, anywhere: boolean) {
    this.#alphabet = alphabet
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
  step(state: number, kind: number): Step {
    const from = this.#states[state]!
    return from.steps[kind] ?? this.#work(from, kind)
  }

  /** Works out every state that texts of these characters can lead to, up to so many. Returns whether these are all. */
  unfold(characters: readonly number[], most: number): boolean {
    for (const character of characters) this.#alphabet.kindOf(character)
    this.start(false)
    this.start(true)
    for (let state = 0; state < this.#states.length; state++) {
      if (this.#states.length > most) return false
      for (const kind of this.#alphabet.kinds.keys()) this.step(state, kind)
    }
    return true
  }

  /** Whether a match ends where the text does. */
  endsAt(state: number): boolean {
    const from = this.#states[state]!
    from.atEnd ??= this.#reach(from, false).matched
    return from.atEnd
  }

  #work(from: State, kind: number): Step {
    const { fits, isWord } = this.#alphabet.kinds[kind]!
    const { reached, matched } = this.#reach(from, isWord)
    const { atoms, next, first } = this.#places
    const places = new Set<number>()
    for (const place of reached) if (fits[atoms[place]!]) places.add(next[place]![0]!)
    if (this.#anywhere) places.add(first)
    const remembers = this.#states.length < MOST_STATES
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
    if (remembers) from.steps[kind] = step
    return step
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
    // What comes before nothing does not matter.
    if (places.length === 0) return DEAD
    const name = `${afterWord ? 'w' : ''}${places.join()}`
    let state = this.#byName.get(name)
    if (state === undefined) {
      state = this.#states.push({ places, afterWord, steps: [], atEnd: undefined }) - 1
      this.#byName.set(name, state)
    }
    return state
  }

  #forget(): void {
    this.#states = [{ places: [], afterWord: false, steps: [], atEnd: false }]
    this.#byName = new Map()
    this.#starts = [-1, -1]
  }
}

/** Characters by what the pattern's tests say of them: those that all tests treat alike are of one kind. */
export class Alphabet {
  readonly kinds: { readonly fits: readonly boolean[]; readonly isWord: boolean }[] = []
  readonly #atoms: readonly RegExp[]
  readonly #known = new Int16Array(0x10000).fill(-1)
  /** Those beyond 16 bits. */
  readonly #others = new Map<number, number>()
  readonly #byName = new Map<string, number>()

  constructor({ atoms }: Pattern) {
    this.#atoms = atoms
  }

  kindOf(character: number): number {
    if (character > 0xffff) return this.#otherKindOf(character)
    const known = this.#known[character]!
    return known >= 0 ? known : (this.#known[character] = this.#work(character))
  }

  #otherKindOf(character: number): number {
    let kind = this.#others.get(character)
    if (kind === undefined) {
      if (this.#others.size >= MOST_CHARACTERS) this.#others.clear()
      kind = this.#work(character)
      this.#others.set(character, kind)
    }
    return kind
  }

  #work(character: number): number {
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

/** What `\w` means: a letter of ASCII, a digit, or an underscore. */
export function isWordCode(code: number): boolean {
  if (code < 48 || code > 122) return false
  return code <= 57 || (code >= 65 && code <= 90) || code === 95 || code >= 97
}

/** Writes a pattern out from its end to its beginning: whoever is written knows what comes behind it. */
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
