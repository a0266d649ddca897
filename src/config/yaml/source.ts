/**
 * One YAML file as plain values with their positions. Checks read the values and report problems here.
 *
 * The values are built from the parser's nodes, not by its `toJS`. Each alias must become a separate value, because checking
 * parses units in place. Building the values also resolves `${…}`.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, type Pair, type Scalar } from 'yaml'
import type { Position } from '../configuration.ts'
import { elsewhere, type Problem, show } from './problem.ts'
import type { Rule } from './rules.ts'
import { indexInFile } from './scalar-offset.ts'
import { type WrittenSecrets, writtenSecrets } from './secret-lines.ts'
import { type ReferenceValues, readReferencedFiles, substitute } from './substitute.ts'
import { parseYaml } from './yaml-text.ts'

export interface Reading {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Reads a text file of at most `most` bytes (default: 1 MiB); rejects as `fs.readFile` does. */
  readonly readFile: (path: string, most?: number) => Promise<string>
}

/** The position of a value, as ranges of offsets in the file's text. */
interface Place {
  readonly key: readonly [number, number] | null
  readonly value: readonly [number, number]
  readonly node: Scalar | null
  /** The value with `${…}` resolved; null without any. */
  readonly resolved: string | null
}

export interface ReportOptions {
  /** Default: `wrong-value`. */
  readonly rule?: Rule
  /** Point at the key instead of the value. */
  readonly key?: boolean
  /** An index in the (text) value. */
  readonly offset?: number
  readonly suggestion?: string | undefined
  /** The line contains a secret and must not be printed. */
  readonly concealed?: boolean
  /** Identifies a mistake that appears in several places. It is reported at the first, with the lines of the others. */
  readonly same?: string | undefined
}

/** A problem with the other lines of the same mistake. */
type RawProblem = Problem & { readonly also?: ReadonlySet<number> }

const MAX_DEPTH = 64
const MAX_NODES = 50_000
const MAX_ALIASES = 100
/** Replaces a secret in a message. */
const HIDDEN = '***'

/** `/models/chat-small/targets/0`: the address of a value in its file (a JSON pointer, as ajv writes it). */
export function pointer(...path: readonly (string | number)[]): string {
  return path.map(part => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** The entries of a value that should be a map; none if it is not. */
export function entriesOf<T>(map: Readonly<Record<string, T>> | undefined): [string, T][] {
  return typeof map === 'object' && map !== null && !Array.isArray(map) ? Object.entries(map) : []
}

/** Reads and parses a file. Problems are in `problems`; `usable` shows whether there is a value. */
export async function readSource(file: string, text: string, reading: Reading): Promise<Source> {
  const source = new Source(file, text)
  const document = parseYaml(text, (offset, rule, message, suggestion) =>
    source.reportAt(offset, rule, message, suggestion),
  )
  if (document === null) return source
  const files = await readReferencedFiles(document, file, reading.readFile)
  source.build(document, { env: reading.env, files })
  return source
}

/** A message with a value hidden, also where `show` has truncated the value. */
function withoutValue(text: string, value: string): string {
  const shown = show(value).slice(1, -1)
  return text.replaceAll(value, HIDDEN).replaceAll(shown, HIDDEN)
}

export class Source {
  readonly file: string
  readonly text: string
  /** Values from `${…}`. */
  readonly secrets = new Set<string>()
  /** The whole file as plain values; undefined if the YAML could not be read. */
  value: unknown = undefined
  /** Offset of each line's first character. */
  readonly #lines: readonly number[]
  readonly #places = new Map<string, Place>()
  readonly #broken = new Set<string>()
  readonly #found: RawProblem[] = []
  /** `same` to the index in `#found`. */
  readonly #same = new Map<string, number>()
  readonly #warned: Problem[] = []
  /** The cached value of `problems`. */
  #reported: readonly Problem[] = []
  #document: Document | null = null
  #writtenOut: WrittenSecrets | null = null
  #nodes = 0
  #aliases = 0
  #tooBig = false

  /** @param isPublic the file contains no secrets, regardless of its keys */
  constructor(file: string, text: string, isPublic = false) {
    this.file = file
    this.text = text
    if (isPublic) this.#writtenOut = { ranges: [], values: [] }
    this.#lines = [0, ...[...text.matchAll(/\n/g)].map(match => match.index + 1)]
  }

  /** The problems of the file. Lines with secrets are concealed, and no message repeats a secret. */
  get problems(): readonly Problem[] {
    if (this.#reported.length !== this.#found.length) this.#reported = this.#withoutSecrets(this.#found)
    return this.#reported
  }

  /** Probable mistakes that do not reject the configuration, and notes (level `note`). */
  get warnings(): readonly Problem[] {
    return this.#withoutSecrets(this.#warned)
  }

  get usable(): boolean {
    return this.value !== undefined
  }

  /** Whether nothing was reported at or below an address, so that its value can be used. */
  sound(address: string): boolean {
    for (const broken of this.#broken) if (broken === address || broken.startsWith(`${address}/`)) return false
    return true
  }

  /**
   * A copy of a map without the entries that have problems, so that one mistake does not hide the next one. Null if the value
   * is not a map.
   */
  remains<T extends object>(address: string, value: T): Partial<T> | null {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
    return this.#remains(address, value) as Partial<T>
  }

  #remains(address: string, value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((item, i) => this.#remains(`${address}/${i}`, item))
    const kept = Object.entries(value).filter(([key]) => !this.#broken.has(address + pointer(key)))
    return Object.fromEntries(kept.map(([key, inner]) => [key, this.#remains(address + pointer(key), inner)]))
  }

  /** Whether something was reported at exactly this address. */
  reported(address: string): boolean {
    return this.#broken.has(address)
  }

  /** Whether the file itself has a value at the address, not only a default. */
  has(address: string): boolean {
    return this.#places.has(address)
  }

  /** Whether the file has a value at the address, or a misspelt key that may mean it. */
  mayHave(address: string): boolean {
    return this.has(address) || this.reported(address)
  }

  /** Whether the value there comes at least partly from `${…}`. */
  substituted(address: string): boolean {
    return this.#places.get(address)?.resolved != null
  }

  /** The text of an unquoted value that is only `${NAME}`, which may also be a number or a boolean; else null. */
  wholly(address: string): string | null {
    const place = this.#places.get(address)
    if (place?.resolved == null || place.node?.type !== 'PLAIN') return null
    return /^\$\{[^}]*\}$/.test(String(place.node.source)) ? place.resolved : null
  }

  /** A value for a message. A value from `${…}` is shown as the reference, and a secret is hidden. */
  show(address: string, value: unknown): string {
    const place = this.#places.get(address)
    if (typeof value === 'object') return show(value)
    // A word of three letters is not a secret, and helps to understand the message.
    if (place !== undefined && String(value).length > 3 && this.#isWrittenOut(place.value)) return HIDDEN
    return place?.resolved == null ? show(value) : this.text.slice(place.value[0], place.value[1])
  }

  /** The position of a value or its key; for a default, the position of its parent. */
  position(address: string, { key = false, offset }: ReportOptions = {}): Position {
    const place = this.#nearestPlace(address)
    if (place === undefined) return this.#at(0)
    const empty = place.value[0] >= place.value[1]
    if (place.key !== null && (key || empty)) return this.#at(place.key[0])
    if (offset !== undefined && place.node !== null && place.resolved === null) {
      return this.#at(indexInFile(this.text, place.node, offset))
    }
    return this.#at(place.value[0])
  }

  report(address: string, message: string, options: ReportOptions = {}): void {
    this.#broken.add(address)
    const problem = this.#problemAt(address, message, options)
    const index = options.same === undefined ? undefined : this.#same.get(options.same)
    if (index === undefined) {
      if (options.same !== undefined) this.#same.set(options.same, this.#found.length)
      this.#found.push(problem)
      return
    }
    const known = this.#found[index]!
    const also = new Set([...(known.also ?? []), known.line, problem.line])
    this.#found[index] = { ...(problem.line < known.line ? problem : known), also }
    this.#reported = []
  }

  /** Marks an address as unusable without a report, because its mistake is reported elsewhere. */
  markUnusable(address: string): void {
    this.#broken.add(address)
  }

  /** Reports a probable mistake in a valid value. */
  warn(address: string, message: string, options: ReportOptions & Pick<Problem, 'rule' | 'level'>): void {
    this.#warned.push({ ...this.#problemAt(address, message, options), level: options.level ?? 'warning' })
  }

  #problemAt(address: string, message: string, options: ReportOptions): Problem {
    return {
      ...this.position(address, options),
      rule: options.rule ?? 'wrong-value',
      message: this.#conceal(address, message),
      ...(options.suggestion === undefined ? {} : { suggestion: this.#conceal(address, options.suggestion) }),
      ...(options.concealed ? { concealed: true } : {}),
    }
  }

  /** Reports a problem of the text itself. */
  reportAt(offset: number, rule: Rule, message: string, suggestion?: string): void {
    this.#found.push({ ...this.#at(offset), rule, message, ...(suggestion === undefined ? {} : { suggestion }) })
  }

  /** Replaces values from `${…}` by the reference, because they may be secrets. */
  #conceal(address: string, message: string): string {
    const place = this.#places.get(address)
    let shown = message
    if (place?.resolved && place.node) {
      shown = shown.replaceAll(place.resolved, this.text.slice(place.value[0], place.value[1]))
    }
    for (const secret of this.secrets) if (secret.length > 7) shown = shown.replaceAll(secret, HIDDEN)
    // A key in the file can contain any character. Remove line breaks and terminal escapes.
    return shown.replace(/[\x00-\x1f\x7f]/g, ' ')
  }

  get #written(): WrittenSecrets {
    this.#writtenOut ??= writtenSecrets(this.text, this.#document)
    return this.#writtenOut
  }

  #isWrittenOut([start, end]: readonly [number, number]): boolean {
    return this.#written.ranges.some(([from, to]) => from < end && to > start)
  }

  #withoutSecrets(found: readonly RawProblem[]): Problem[] {
    const { ranges, values } = this.#written
    const hidden = new Set(found.filter(problem => problem.concealed).map(({ line }) => line))
    for (const [from, to] of ranges) {
      const last = this.#at(Math.max(from, to - 1)).line
      for (let { line } = this.#at(from); line <= last; line++) hidden.add(line)
    }
    // Cached, because many problems have the same message.
    const known = new Map<string, string>()
    const hide = (text: string) => {
      const words = known.get(text) ?? values.reduce(withoutValue, text)
      known.set(text, words)
      return words
    }
    return found.map(({ message, suggestion, concealed: _, also = [], ...place }) => ({
      ...place,
      message: hide(message) + elsewhere([...also].filter(line => line !== place.line)),
      ...(suggestion === undefined ? {} : { suggestion: hide(suggestion) }),
      ...(hidden.has(place.line) ? { concealed: true } : {}),
    }))
  }

  #nearestPlace(address: string): Place | undefined {
    for (let at = address; ; at = at.slice(0, at.lastIndexOf('/'))) {
      const place = this.#places.get(at)
      if (place !== undefined || at === '') return place
    }
  }

  #at(offset: number): Position {
    const line = this.#lines.findLastIndex(start => start <= Math.min(offset, this.text.length))
    return { file: this.file, line: line + 1, column: Math.min(offset, this.text.length) - this.#lines[line]! + 1 }
  }

  build(document: Document, surroundings: ReferenceValues): void {
    this.#document = document
    const value = this.#value(document.contents, '', null, { document, surroundings, open: [] })
    if (!this.#tooBig) this.value = value ?? null
  }

  #value(node: unknown, address: string, key: readonly [number, number] | null, walk: Walk): unknown {
    if (isAlias(node)) return this.#alias(node, address, key, walk)
    const range = (node as { range?: [number, number, number] } | null)?.range ?? [key?.[1] ?? 0, key?.[1] ?? 0]
    const place = { key, value: [range[0], range[1]] as const, node: isScalar(node) ? node : null, resolved: null }
    this.#places.set(address, place)
    if (this.#tooBig) return null
    if (++this.#nodes > MAX_NODES || walk.open.length > MAX_DEPTH) {
      this.#tooBig = true
      this.report(address, 'the file is too large or nested too deeply', { rule: 'yaml' })
      return null
    }
    // The parser reported the unknown tag, which changes the value.
    if ((node as { tag?: string } | null)?.tag?.startsWith('!')) this.#broken.add(address)
    const inner = { ...walk, open: [...walk.open, node] }
    if (isMap(node)) return this.#map(node.items as Pair[], address, inner)
    if (isSeq(node)) return node.items.map((item, i) => this.#value(item, `${address}/${i}`, null, inner))
    if (!isScalar(node)) return null
    return typeof node.value === 'string' ? this.#text(node.value, address, place, walk) : this.#plain(node, address)
  }

  #map(items: readonly Pair[], address: string, walk: Walk): Record<string, unknown> {
    const map: Record<string, unknown> = {}
    for (const { key, value } of items) {
      const name = isScalar(key) ? String(key.value) : ''
      const range = isScalar(key) && key.range ? ([key.range[0], key.range[1]] as const) : null
      const inner = address + pointer(name)
      const built = this.#value(value, inner, range, walk)
      if (name === '<<') {
        this.report(inner, 'merge keys (<<) are not supported', {
          rule: 'yaml',
          key: true,
          suggestion: 'write the entries themselves',
        })
      }
      // `__proto__` must become an ordinary key, which is rejected like any unknown key.
      Object.defineProperty(map, name, { value: built, enumerable: true, configurable: true, writable: true })
    }
    return map
  }

  #alias(node: { source: string; range?: unknown }, address: string, key: Place['key'], walk: Walk): unknown {
    const range = node.range as [number, number, number]
    const target = (node as unknown as { resolve(document: Document): unknown }).resolve(walk.document)
    const place = { key, value: [range[0], range[1]] as const, node: null, resolved: null }
    const complain = (message: string) => {
      this.#places.set(address, place)
      this.report(address, message, { rule: 'yaml' })
      return null
    }
    if (target === undefined) return complain(`*${node.source} names an anchor that is not defined before it`)
    if (walk.open.includes(target)) return complain(`*${node.source} contains itself`)
    if (this.#tooBig) return null
    if (++this.#aliases > MAX_ALIASES) {
      // Report only the first.
      this.#tooBig = true
      return complain(`the file has more than ${MAX_ALIASES} aliases`)
    }
    const value = this.#value(target, address, key, walk)
    const inner = this.#places.get(address)
    if (!isMap(target) && !isSeq(target)) this.#places.set(address, { ...place, resolved: inner?.resolved ?? null })
    return value
  }

  #text(text: string, address: string, place: Place, { surroundings }: Walk): string {
    if (!text.includes('${')) return text
    const result = substitute(text, surroundings)
    for (const { rule, message, suggestion } of result.problems) this.report(address, message, { rule, suggestion })
    for (const value of result.values) this.secrets.add(value)
    if (result.values.length > 0) this.#places.set(address, { ...place, resolved: result.text })
    return result.text
  }

  /** Numbers, booleans, null. A number that the parser had to round is rejected: it may be money. */
  #plain(node: Scalar, address: string): unknown {
    const digits = (node.source ?? '')
      .replace(/[eE].*$/, '')
      .replace(/\D/g, '')
      .replace(/^0+/, '')
    if (typeof node.value === 'number' && digits.length > 15) {
      this.report(address, `${node.source} has more digits than a number can hold`, {
        rule: 'yaml',
        suggestion: 'put it in quotes',
      })
    }
    return node.value
  }
}

interface Walk {
  readonly document: Document
  readonly surroundings: ReferenceValues
  /** The enclosing nodes: an alias to one of them would be endless. */
  readonly open: readonly unknown[]
}
