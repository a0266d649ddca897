/**
 * Reads a pattern: JavaScript's regular expressions (with its flag `u`), without the parts that need backtracking. It becomes an automaton
 * (see automaton.ts), so that no pattern is slow on any text. It has a longest match, which limits the part of a stream that is withheld.
 */

/** A pattern as a tree. `atom` is the place of a test for one character in `Pattern.atoms`. */
export type Node =
  | { readonly kind: 'character'; readonly atom: number }
  | { readonly kind: 'edge'; readonly isNegated: boolean }
  | { readonly kind: 'sequence'; readonly items: readonly Node[] }
  | { readonly kind: 'choice'; readonly items: readonly Node[] }
  | { readonly kind: 'repeat'; readonly item: Node; readonly least: number; readonly most: number }

export interface Pattern {
  readonly root: Node
  /** One for each kind of character that the pattern names; each is asked about one character at a time. */
  readonly atoms: readonly RegExp[]
  /** The characters of the longest match. */
  readonly longest: number
  /** Finds the next of the characters of which each match has at least one; null where these are frequent ones. */
  readonly needed: RegExp | null
}

/** The reason why a pattern is refused, for its author. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

/** Maximum number of characters in a pattern; repetitions count one by one. */
const MAX_PLACES = 10_000

/** Reads a pattern. Throws `PatternError` if it is invalid, has no longest match, or can match an empty text. */
export function readPattern(text: string, ignoreCase = false): Pattern {
  const control = CONTROL.exec(text)?.[0]
  if (control !== undefined) throw new PatternError(controlMessage(control))
  try {
    new RegExp(text, 'u')
  } catch (error) {
    throw new PatternError(`is not a regular expression: ${(error as Error).message.replace(/^.*\/u?: /, '')}`)
  }
  const reader = new Reader(text, ignoreCase ? 'ui' : 'u')
  const root = reader.choice()
  const { least, most, places } = measure(root)
  if (least === 0) throw new PatternError('matches an empty text, so it would match everywhere')
  if (places > MAX_PLACES) throw new PatternError(`is too large: ${places} characters, repetitions counted`)
  const { atoms } = reader
  return { root, atoms, longest: most, needed: finder(neededBy(root, atoms), atoms) }
}

/** Those that no editor shows, and line ends. A pattern that means one of them names it by an escape. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/u

/** The characters that YAML 1.2 (5.7) writes in double quotes as a backslash and the letter at the same index. */
const ESCAPED = '\0\u0007\b\t\n\v\f\r\u001b\u0085\u2028\u2029'
const LETTERS = '0abtnvfreNLP'

function controlMessage(control: string): string {
  const code = control.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')
  const written = `\\${LETTERS[ESCAPED.indexOf(control)] ?? `x${code.slice(2)}`}`
  if (control === '\n') {
    return 'has a line end: a block scalar adds one, and "\\n" in double quotes is one. Write the pattern in single quotes on one line'
  }
  return `has the control character U+${code}: in double quotes YAML reads "${written}" as that character. Write the pattern in single quotes, where a backslash stays one`
}

/** A backslash and what belongs to it; a character beyond 16 bits may be written as two. */
const ESCAPE = /^\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u.{4}|x..|c.|.)/su

class Reader {
  readonly atoms: RegExp[] = []
  readonly #text: string
  readonly #flags: string
  readonly #known = new Map<string, number>()
  #at = 0

  constructor(text: string, flags: string) {
    this.#text = text
    this.#flags = flags
  }

  choice(): Node {
    const items = [this.#sequence()]
    while (this.#text[this.#at] === '|') {
      this.#at++
      items.push(this.#sequence())
    }
    return items.length === 1 ? items[0]! : { kind: 'choice', items }
  }

  #sequence(): Node {
    const items: Node[] = []
    while (this.#at < this.#text.length && !'|)'.includes(this.#text[this.#at]!)) items.push(this.#repeated())
    return items.length === 1 ? items[0]! : { kind: 'sequence', items }
  }

  #repeated(): Node {
    const from = this.#at
    const item = this.#item()
    const found = /^(?:([*+?])|\{(\d+)(,)?(\d*)\})(\??)/.exec(this.#text.slice(this.#at))
    if (!found) return item
    const [all, sign, low, comma, high, lazy] = found
    this.#at += all.length
    const said = this.#text.slice(from, this.#at)
    if (lazy) throw new PatternError(`says "${said}", but the longest match counts always: leave out the last "?"`)
    if (sign === '?') return { kind: 'repeat', item, least: 0, most: 1 }
    const least = sign === undefined ? Number(low) : sign === '+' ? 1 : 0
    if (sign !== undefined || (comma && high === '')) {
      const bounded = `${this.#text.slice(from, this.#at - all.length)}{${least},64}`
      throw new PatternError(`says "${said}", which has no end: say how many at most, as in "${bounded}"`)
    }
    return { kind: 'repeat', item, least, most: comma ? Number(high) : least }
  }

  #item(): Node {
    const rest = this.#text.slice(this.#at)
    if (rest[0] === '(') return this.#group(rest)
    if (rest[0] === '^' || rest[0] === '$') {
      throw new PatternError(`says "${rest[0]}": a text has no beginning and no end here; "\\b" is the edge of a word`)
    }
    if (rest[0] === '[') return this.#atom(/^\[(?:\\.|[^\]\\])*\]/su.exec(rest)![0])
    if (rest[0] !== '\\') return this.#atom(String.fromCodePoint(rest.codePointAt(0)!))
    if (/^\\[1-9k]/.test(rest))
      throw new PatternError(`says "${rest.slice(0, 2)}": it cannot look back at what was matched`)
    const [escaped] = ESCAPE.exec(rest)!
    if (escaped === '\\b' || escaped === '\\B') {
      this.#at += 2
      return { kind: 'edge', isNegated: escaped === '\\B' }
    }
    return this.#atom(escaped)
  }

  #group(rest: string): Node {
    const [start] = /^\((?:\?:|\?<[^=!>][^>]*>)?/.exec(rest)!
    if (rest[start.length] === '?') {
      throw new PatternError(`says "${rest.slice(0, 4)}": groups are "(…)" or "(?:…)", it cannot look around`)
    }
    this.#at += start.length
    const inside = this.choice()
    this.#at++
    return inside
  }

  #atom(source: string): Node {
    this.#at += source.length
    let atom = this.#known.get(source)
    if (atom === undefined) {
      atom = this.atoms.push(new RegExp(`^(?:${source})$`, this.#flags)) - 1
      this.#known.set(source, atom)
    }
    return { kind: 'character', atom }
  }
}

interface Measure {
  /** Characters of the shortest and of the longest match. */
  readonly least: number
  readonly most: number
  /** Characters of the pattern, repetitions written out. */
  readonly places: number
}

function measure(node: Node): Measure {
  if (node.kind === 'character') return { least: 1, most: 1, places: 1 }
  if (node.kind === 'edge') return { least: 0, most: 0, places: 1 }
  if (node.kind === 'repeat') {
    const { least, most, places } = measure(node.item)
    return { least: least * node.least, most: most * node.most, places: places * Math.max(1, node.most) + 1 }
  }
  const items = node.items.map(measure)
  const sum = (of: keyof Measure) => items.reduce((total, item) => total + item[of], 0)
  if (node.kind === 'sequence') return { least: sum('least'), most: sum('most'), places: sum('places') }
  return {
    least: Math.min(...items.map(item => item.least)),
    most: Math.max(...items.map(item => item.most)),
    places: sum('places') + 1,
  }
}

/** Characters as they are frequent in prose, code and data: to estimate how often a test succeeds. */
const SAMPLE =
  'The quick answer is that most of it can be done in one pass, and that the rest was written down by 12 people in 2024. ' +
  "Going through it again doesn't matter (or only slightly): what they have in common is a list, a name and a number such as 37. " +
  'const result = items.filter(item => item.isOpen && item.count > 0).map(toName); // {"id": 5, "ok": true, "unit-price": 9.5}\n'

interface Needed {
  readonly atoms: ReadonlySet<number>
  /** How many characters of the sample are among them. */
  readonly weight: number
}

/** The rarest set of characters of which each match has at least one. Null if no set exists. */
function neededBy(node: Node, tests: readonly RegExp[]): Needed | null {
  const weighed = (atoms: ReadonlySet<number>): Needed => ({
    atoms,
    weight: [...SAMPLE].filter(character => [...atoms].some(atom => tests[atom]!.test(character))).length,
  })
  if (node.kind === 'character') return weighed(new Set([node.atom]))
  if (node.kind === 'edge') return null
  if (node.kind === 'repeat') return node.least > 0 ? neededBy(node.item, tests) : null
  const items = node.items.map(item => neededBy(item, tests))
  if (node.kind === 'choice') {
    return items.includes(null) ? null : weighed(new Set(items.flatMap(item => [...item!.atoms])))
  }
  return items.reduce((least, item) => (item && (!least || item.weight < least.weight) ? item : least), null)
}

/** Looking for what is frequent saves nothing. */
const RARE = SAMPLE.length / 8

function finder(needed: Needed | null, tests: readonly RegExp[]): RegExp | null {
  if (needed === null || needed.weight > RARE) return null
  const [first] = tests
  const sources = [...needed.atoms].map(atom => tests[atom]!.source.slice(1, -1))
  return new RegExp(sources.join('|'), `g${first!.flags}`)
}
