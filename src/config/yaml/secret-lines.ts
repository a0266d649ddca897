/**
 * Finds secrets that are written in a YAML file, so that no message repeats one and no excerpt prints its line. It searches
 * the text, because such a file often cannot be parsed.
 */
import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  type Pair,
  parseDocument,
  type Scalar,
  visit,
} from 'yaml'
import { nearest } from './problem.ts'
import { MAX_FILE_BYTES } from './text-file.ts'

/** The secrets in a text. */
export interface WrittenSecrets {
  /** Offsets in the text, from and to. */
  readonly ranges: readonly (readonly [from: number, to: number])[]
  /** The values that messages must not repeat, without those too short to distinguish from other words. */
  readonly values: readonly string[]
}

const SECRET_KEYS = [
  'api_key',
  'api_keys',
  'secret',
  'service_account',
  'access_key_id',
  'secret_access_key',
  'session_token',
]
const SECRET_ENDING = /(^|[-_.])(api[-_]?key|authorization|cookie|credential|passwd|password|secret|token)s?$/i
/** Numbers of tokens are not secrets. */
const COUNTED = /tokens$/i
/** A map whose keys are names of steps, such as `api-key`. */
const BY_STEP = 'trail'
/** In a provider, `key` and `token` are always secrets. */
const SECRET_OF_PROVIDER = /(^|[-_.])(key|token)s?$/i
const ADDRESS_KEYS = ['base_url', 'store', 'endpoint']
/** Credentials, a query or a fragment. */
const SECRET_ADDRESS = /[@?#]/
const CREDENTIALS = /\/\/[^\s/]+@/
/** The forms of large providers' keys, and of tokens. */
const LOOKS_SECRET = /(?<![\w-])(?:sk-|gsk_|xai-|hf_|AKIA|AIza|eyJ)[\w.-]{12,}/g
const REFERENCE = /\$\{[^}\n]*\}/g
const SHORTEST = 8

/** Finds the secrets. `document` is the parsed text; null if it could not be parsed. */
export function writtenSecrets(text: string, document: Document | null): WrittenSecrets {
  const found = new SecretRanges(text)
  for (const match of text.matchAll(LOOKS_SECRET)) found.add(match.index, match.index + match[0].length)
  if (document !== null) inNodes(document, found)
  else {
    inBroken(text, found)
    inLines(text, found)
  }
  return { ranges: found.ranges, values: [...found.values].sort((a, b) => b.length - a.length) }
}

class SecretRanges {
  readonly ranges: [number, number][] = []
  readonly values = new Set<string>()
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  add(from: number, to: number, value: string = this.#text.slice(from, to), { rangeOnly = false } = {}): void {
    this.ranges.push([from, to])
    if (!rangeOnly && value.length >= SHORTEST) this.values.add(value)
  }
}

/** Searches the parts that the parser understands of a broken text. */
function inBroken(text: string, found: SecretRanges): void {
  if (text.length > MAX_FILE_BYTES) return
  // References are the most common reason for broken text, and are not secrets.
  const rest = text.replace(REFERENCE, reference => ' '.repeat(reference.length))
  try {
    inNodes(parseDocument(rest, { prettyErrors: false, schema: 'core', stringKeys: true, logLevel: 'silent' }), found)
  } catch (error) {
    // Nested too deeply: only `inLines` searches it.
    if (!(error instanceof RangeError)) throw error
  }
}

function isSecretKey(name: string, inProvider: boolean): boolean {
  if (COUNTED.test(name)) return false
  return SECRET_ENDING.test(name) || (inProvider && SECRET_OF_PROVIDER.test(name)) || isNear(name, SECRET_KEYS)
}

const isNear = (name: string, known: readonly string[]) => known.includes(name) || nearest(name, known) !== undefined

function inNodes(document: Document, found: SecretRanges): void {
  visit(document, {
    Pair(_, pair, ancestors) {
      const name = nameOf(pair)
      const path = ancestors.filter(isPair).map(nameOf)
      if (path.at(-1) === BY_STEP) return
      const inProvider = isIn(path, 'providers', 1) || isIn(path, 'telemetry', 0)
      const isAll = isSecretKey(name, inProvider) || (name === 'aws' && isScalar(pair.value))
      if (isAll) take(pair.value, document, found)
      else if (inProvider && isNear(name, ['headers'])) take(pair.value, document, found, true)
      else if (isNear(name, ADDRESS_KEYS)) takeAddress(pair.value, document, found)
      else takeJoined(pair, inProvider, found)
    },
    Scalar(_, node) {
      if (CREDENTIALS.test(String(node.value))) add(node, found)
    },
  })
}

/** Whether a path is in a section of the file, below this depth. */
const isIn = (path: readonly string[], section: string, depth: number) =>
  path.length > depth && isNear(path[0]!, [section])

const nameOf = (pair: Pair) => (isScalar(pair.key) ? String(pair.key.value) : '')

/** Adds everything at and below a node. For headers with harmless names, adds only the ranges, not the values. */
function take(
  node: unknown,
  document: Document,
  found: SecretRanges,
  harmless = false,
  seen = new Set<unknown>(),
): void {
  if (seen.has(node)) return
  seen.add(node)
  if (isAlias(node)) {
    const target = node.resolve(document)
    if (target !== undefined) take(target, document, found, harmless, seen)
    else if (node.range) found.add(node.range[0], node.range[1], node.source)
  } else if (isMap(node)) {
    for (const pair of node.items as Pair[]) {
      take(pair.value, document, found, harmless && !isSecretKey(nameOf(pair), true), seen)
    }
  } else if (isSeq(node)) {
    for (const item of node.items) take(item, document, found, harmless, seen)
  } else if (isScalar(node)) {
    add(node, found, harmless)
  }
}

function takeAddress(node: unknown, document: Document, found: SecretRanges): void {
  const target = isAlias(node) ? node.resolve(document) : node
  if (isScalar(target) && SECRET_ADDRESS.test(String(target.value))) add(target, found)
}

/** In braces, YAML reads `api_key:sk-…` without a blank as one key without a value. */
function takeJoined({ key }: Pair, inProvider: boolean, found: SecretRanges): void {
  if (!isScalar(key) || !key.range) return
  const [, name, rest] = /^([\w-]+):(.+)$/s.exec(String(key.value)) ?? []
  if (name === undefined || rest === undefined || !isSecretKey(name, inProvider)) return
  found.add(key.range[0], key.range[1], rest)
}

function add({ range, value, source, tag }: Scalar, found: SecretRanges, rangeOnly = false): void {
  if (!range) return
  // A secret that begins with an exclamation mark is read as a tag.
  const tagged = tag?.startsWith('!') ? tag : ''
  if (tagged !== '') found.add(Math.max(0, range[0] - tagged.length - 1), range[1], tagged, { rangeOnly })
  if (value === null || typeof value === 'boolean' || isOnlyReference(String(value))) return
  for (const form of new Set([String(value), source ?? ''])) found.add(range[0], range[1], form, { rangeOnly })
}

/** Whether a text is only references, with at most the kind of credential beside them. */
function isOnlyReference(text: string): boolean {
  const rest = text.replace(REFERENCE, '')
  return rest.trim() === '' || (rest !== text && /^\s*(basic|bearer|token)\s*$/i.test(rest))
}

/** Searches text that cannot be parsed: `word: rest of the line`, and the more indented lines below it. */
function inLines(text: string, found: SecretRanges): void {
  let start = 0
  /** The indentation of the last secret key, while lines are indented deeper. */
  let open: number | null = null
  for (const line of text.split('\n')) {
    const indent = /^[ \t]*/.exec(line)![0].length
    const blank = line.trim() === ''
    if (open !== null && (blank || indent > open || (indent === open && line[indent] === '-'))) {
      if (!blank) takeWords(line, start, found)
    } else {
      open = null
      for (const match of line.matchAll(/(?<![\w.-])([A-Za-z][\w.-]*)["']?[ \t]*:/g)) {
        const name = match[1]!
        if (!isSecretKey(name, true) && !isNear(name, ['headers'])) continue
        const from = match.index + match[0].length
        const rest = line.slice(from)
        if (/^\s*["']?\$\{[^}\n]*\}["']?\s*($|[,}#])/.test(rest)) continue
        open = indent
        takeWords(rest, start + from, found)
        break
      }
    }
    start += line.length + 1
  }
}

function takeWords(text: string, offset: number, found: SecretRanges): void {
  for (const match of text.matchAll(/\$\{[^}\n]*\}?|[^\s,[\]{}"']+/g)) {
    const [word] = match
    // Skip references, block indicators, and further keys.
    if (/^(\$\{|[|>]|[\w.-]+:$)/.test(word)) continue
    found.add(offset + match.index, offset + match.index + word.length)
  }
}
