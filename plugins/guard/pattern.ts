/**
 * Parses patterns: JavaScript's regular expressions with the flag `u`, without features that need backtracking. The result is compiled
 * into an automaton (automaton.ts), so no text is slow. Each pattern has a longest match, which limits what a stream withholds.
 */

/** The syntax tree of a pattern. `atom` is an index of `Pattern.atoms`. */
export type Node =
  | { readonly kind: 'character'; readonly atom: number }
  | { readonly kind: 'edge'; readonly isNegated: boolean }
  | { readonly kind: 'sequence'; readonly items: readonly Node[] }
  | { readonly kind: 'choice'; readonly items: readonly Node[] }
  | { readonly kind: 'repeat'; readonly item: Node; readonly least: number; readonly most: number }

export interface Pattern {
  readonly root: Node
  /** Tests of one character: one for each class of characters in the pattern. */
  readonly atoms: readonly RegExp[]
  /** The length of the longest match, in characters. */
  readonly longest: number
  /** Finds characters that every match contains at least once. Null if they are too frequent to help. */
  readonly needed: RegExp | null
}

/** Why a pattern cannot be used: a sentence for its author. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

/** The most characters of a pattern, with repetitions written out. */
const MAX_PLACES = 10_000

/** Parses a pattern. Throws `PatternError` if it is invalid, has no longest match, or matches the empty text. */
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
  if (places > MAX_PLACES)
    throw new PatternError(
      `is too large: ${places} characters with its repetitions written out, at most ${MAX_PLACES} are allowed`,
    )
  const { atoms } = reader
  return { root, atoms, longest: most, needed: finder(neededBy(root, atoms), atoms) }
}

/** Invisible characters and line ends. A pattern writes them as escapes. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/u

/** Escapes of YAML 1.2 (5.7) in double quotes: the characters, and at the same index the letter after the backslash. */
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

/** A whole escape; a character beyond 16 bits may be written as two. */
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
    const written = this.#text.slice(from, this.#at)
    if (lazy) throw new PatternError(`contains "${written}", but the longest match always counts: remove the last "?"`)
    if (sign === '?') return { kind: 'repeat', item, least: 0, most: 1 }
    const least = sign === undefined ? Number(low) : sign === '+' ? 1 : 0
    if (sign !== undefined || (comma && high === '')) {
      const bounded = `${this.#text.slice(from, this.#at - all.length)}{${least},64}`
      throw new PatternError(`contains "${written}", which has no upper bound: write one, as in "${bounded}"`)
    }
    return { kind: 'repeat', item, least, most: comma ? Number(high) : least }
  }

  #item(): Node {
    const rest = this.#text.slice(this.#at)
    if (rest[0] === '(') return this.#group(rest)
    if (rest[0] === '^' || rest[0] === '$') {
      throw new PatternError(`contains "${rest[0]}", but anchors are not supported: use "\\b" for the edge of a word`)
    }
    if (rest[0] === '[') return this.#atom(/^\[(?:\\.|[^\]\\])*\]/su.exec(rest)![0])
    if (rest[0] !== '\\') return this.#atom(String.fromCodePoint(rest.codePointAt(0)!))
    if (/^\\[1-9k]/.test(rest))
      throw new PatternError(
        `contains "${rest.slice(0, 2)}", but back-references are not supported: write the text again`,
      )
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
      throw new PatternError(
        `contains "${rest.slice(0, 4)}", but look-around is not supported: write groups as "(…)" or "(?:…)"`,
      )
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
  /** The lengths of the shortest and the longest match, in characters. */
  readonly least: number
  readonly most: number
  /** Characters of the pattern with repetitions written out. */
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

/** Prose, code and data with typical frequencies of characters, to estimate how often a test succeeds. */
const SAMPLE =
  'The quick answer is that most of it can be done in one pass, and that the rest was written down by 12 people in 2024. ' +
  "Going through it again doesn't matter (or only slightly): what they have in common is a list, a name and a number such as 37. " +
  'const result = items.filter(item => item.isOpen && item.count > 0).map(toName); // {"id": 5, "ok": true, "unit-price": 9.5}\n'

interface NeededCharacters {
  readonly atoms: ReadonlySet<number>
  /** The number of characters of the sample that pass one of the tests. */
  readonly weight: number
}

/** Returns the rarest set of characters such that every match contains one of them. Null without such a set. */
function neededBy(node: Node, tests: readonly RegExp[]): NeededCharacters | null {
  const weighed = (atoms: ReadonlySet<number>): NeededCharacters => ({
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

/** Above this weight, a search for needed characters saves nothing. */
const RARE = SAMPLE.length / 8

function finder(needed: NeededCharacters | null, tests: readonly RegExp[]): RegExp | null {
  if (needed === null || needed.weight > RARE) return null
  const [first] = tests
  const sources = [...needed.atoms].map(atom => tests[atom]!.source.slice(1, -1))
  return new RegExp(sources.join('|'), `g${first!.flags}`)
}
