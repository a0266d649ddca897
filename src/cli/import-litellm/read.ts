/**
 * Parses LiteLLM's config.yaml to values with their lines, and records which values were read: the others were not converted.
 * Numbers stay text, because a price must not pass through a float.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

/** A file that cannot be read as YAML. */
export class UnreadableYaml extends Error {
  override readonly name = 'CommandError'
}

interface Common {
  readonly line: number
  /** `model_list[0].litellm_params.api_key`. */
  readonly path: string
}
export interface TextValue extends Common {
  readonly kind: 'text'
  /** The text in the file, without quotes. */
  readonly text: string
}
export interface ListValue extends Common {
  readonly kind: 'list'
  readonly items: readonly Value[]
}
export type Value = TextValue | ListValue | Fields

/** A map. It records which entries were taken; `rest()` returns the others. */
export class Fields {
  readonly kind = 'map'
  readonly line: number
  readonly path: string
  readonly #entries: ReadonlyMap<string, Value>
  readonly #taken = new Set<string>()
  readonly #wanted = new Map<string, Value['kind']>()

  constructor(line: number, path: string, entries: ReadonlyMap<string, Value>) {
    this.line = line
    this.path = path
    this.#entries = entries
  }

  keys(): string[] {
    return [...this.#entries.keys()]
  }

  /** Takes a value of any kind; null if it is missing or empty. */
  take(key: string): Value | null {
    this.#taken.add(key)
    return this.#entries.get(key) ?? null
  }

  /** Returns a value without taking it. */
  peek(key: string): Value | null {
    return this.#entries.get(key) ?? null
  }

  text(key: string): TextValue | null {
    return this.#ofKind(key, 'text')
  }

  map(key: string): Fields | null {
    return this.#ofKind(key, 'map')
  }

  list(key: string): ListValue | null {
    return this.#ofKind(key, 'list')
  }

  /** The entries that were not taken. For those of the wrong kind, with the expected kind. */
  rest(): [key: string, value: Value, wanted: Value['kind'] | null][] {
    return [...this.#entries]
      .filter(([key]) => !this.#taken.has(key))
      .map(([key, value]) => [key, value, this.#wanted.get(key) ?? null])
  }

  /** These entries, completed by those of another map. */
  over(other: Fields | null): Fields {
    if (other === null) return this
    return new Fields(this.line, this.path, new Map([...other.#entries, ...this.#entries]))
  }

  #ofKind<Kind extends Value['kind']>(key: string, kind: Kind): Extract<Value, { kind: Kind }> | null {
    const value = this.#entries.get(key)
    if (value?.kind !== kind) {
      this.#wanted.set(key, kind)
      return null
    }
    this.#taken.add(key)
    return value as Extract<Value, { kind: Kind }>
  }
}

/** Includes the words of YAML 1.1, which LiteLLM's parser uses. */
export function isTrue(value: TextValue | null): boolean {
  return value !== null && /^(true|yes|on)$/i.test(value.text)
}

/** Parses the whole file. Throws `UnreadableYaml` with the position of an error. */
export function readYaml(text: string, file: string): Fields {
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    schema: 'core',
    // Merge keys stay ordinary keys, so that merged values keep their lines.
    merge: false,
    uniqueKeys: false,
    prettyErrors: false,
  })
  const [error] = document.errors
  if (error) {
    const { line, col } = lines.linePos(error.pos[0])
    throw new UnreadableYaml(`${file}:${line}:${col}: this is not YAML: ${error.message}`)
  }
  const value = convert(document.contents as Node | null, { document, lines, path: '', depth: 0 })
  if (value?.kind !== 'map')
    throw new UnreadableYaml(`${file}:1:1: this is not a LiteLLM configuration: it is not a map`)
  return value
}

interface Place {
  readonly document: Document
  readonly lines: LineCounter
  readonly path: string
  readonly depth: number
}

const MAX_DEPTH = 40

/** Null: an empty value. */
function convert(node: Node | null | undefined, place: Place): Value | null {
  if (place.depth > MAX_DEPTH) throw new UnreadableYaml(`${place.path.slice(0, 80)}: this is nested too deeply`)
  if (isAlias(node)) return convert(node.resolve(place.document), { ...place, depth: place.depth + 1 })
  const { path } = place
  const line = place.lines.linePos(node?.range?.[0] ?? 0).line
  if (isScalar(node)) {
    if (node.value === null || node.value === '') return null
    const text = node.type === 'PLAIN' && typeof node.source === 'string' ? node.source : String(node.value)
    return { kind: 'text', line, path, text }
  }
  if (isSeq(node)) {
    const items = node.items.flatMap((item, index) => {
      const value = convert(item as Node, { ...place, path: `${path}[${index}]`, depth: place.depth + 1 })
      return value === null ? [] : [value]
    })
    return { kind: 'list', line, path, items }
  }
  if (!isMap(node)) return null
  const own = new Map<string, Value>()
  const merged = new Map<string, Value>()
  for (const pair of node.items) {
    const key = isScalar(pair.key) ? String(pair.key.value) : ''
    const at = key === '<<' ? path : path === '' ? key : `${path}.${key}`
    const value = convert(pair.value as Node | null, { ...place, path: at, depth: place.depth + 1 })
    if (key === '<<') for (const [name, each] of mergedFrom(value)) merged.set(name, each)
    else if (value !== null) own.set(key, value)
  }
  return new Fields(line, path, new Map([...merged, ...own]))
}

/** `<<: *defaults`, or a list of them, in which the first has precedence. */
function mergedFrom(value: Value | null): [string, Value][] {
  if (value?.kind === 'list') return value.items.toReversed().flatMap(mergedFrom)
  return value?.kind === 'map' ? value.keys().map(key => [key, value.peek(key)!]) : []
}
