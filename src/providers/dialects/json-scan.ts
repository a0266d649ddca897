/**
 * Scans JSON as bytes before `JSON.parse` and refuses dangerous bodies.
 *
 * `JSON.parse` has no limits. It accepts any depth, but `JSON.stringify` and `structuredClone` fail at a few thousand levels. An object
 * of 400,000 keys blocks the event loop for a quarter of a second. Keys are checked because parsers differ. Of two members with one name
 * some take the first and some the last, and some accept `Model` for `model`. A body that the gateway and a provider read
 * differently could evade a price.
 *
 * The scan checks the structure (brackets, commas, colons, keys, UTF-8) and leaves the inside of numbers, literals and
 * strings to `JSON.parse`. Besides equal keys and the key `__proto__`, it refuses as invalid only JSON that `JSON.parse` refuses too.
 */
import { visible } from '#contract'
import {
  BACKSLASH,
  BRACE_CLOSE,
  BRACE_OPEN,
  BRACKET_CLOSE,
  BRACKET_OPEN,
  CHAT_PARAMETERS,
  COLON,
  COMMA,
  decodeKey,
  notUtf8,
  QUOTE,
  skipScalar,
  skipSpace,
  skipString,
  tableOf,
} from './json-bytes.ts'
import { isUsualScalar } from './json-exact.ts'

export interface ScanLimits {
  /** Levels of objects and arrays. */
  readonly depth: number
  /** Maximum number of `{ } [ ] , :` outside strings. A backslash in a key counts too. */
  readonly structural: number
}

/** The first problem of a body; `code`, `message` and `param` are arguments for `refuse()`. */
export interface ScanProblem {
  readonly code: 'invalid_json' | 'request_too_complex' | 'unknown_parameter'
  readonly message: string
  /** The byte where it was found. */
  readonly offset: number
  /** The place of the problem, if it has one: `messages[1].role`. */
  readonly param: string | null
}

export type ScanResult =
  | { readonly ok: true; readonly hasUsualNumbers: boolean }
  | { readonly ok: false; readonly problem: ScanProblem }

/** The limits for a body. A chat with hundreds of tools stays far below them. */
export const SCAN_LIMITS: ScanLimits = { depth: 64, structural: 50_000 }

/**
 * Scans a whole body in one pass. Never throws. Takes a few nanoseconds a byte at worst, so 4 MiB of any content block the
 * event loop for milliseconds only.
 *
 * @param spans empty; filled with the positions of the body's members if the body is an object
 */
export function scanJson(bytes: Buffer, limits: ScanLimits = SCAN_LIMITS, spans: number[] = []): ScanResult {
  const broken = notUtf8(bytes)
  if (broken) return { ok: false, problem: { code: 'invalid_json', ...broken, param: null } }
  const scanner = new Scanner(bytes, limits, spans)
  try {
    scanner.body()
    return { ok: true, hasUsualNumbers: scanner.hasUsualNumbers }
  } catch (error) {
    if (error instanceof Stop) return { ok: false, problem: error.problem }
    throw error
  }
}

/** Ends the scan at the first problem. Not an Error: an attacker could make the gateway create many stack traces. */
class Stop {
  readonly problem: ScanProblem
  constructor(problem: ScanProblem) {
    this.problem = problem
  }
}

/** Up to this number, the keys of an object are compared pairwise; above it, they are sorted by hash first. */
const FEW_KEYS = 16

/** In bytes. Looking up a key hashes and compares all of it. Real keys are much shorter. */
const MAX_KEY_LENGTH = 4096

/**
 * Working memory of a scan, reused by the next one (a scan is synchronous, so there is one at a time). It has the path to the current
 * place, by level. It also has the keys of the open objects, outermost first, as hash, first byte and end.
 */
class Scratch {
  readonly depth: number
  /** By level: the first byte of the current key in an object, -1 in an array. */
  readonly keyStarts: Int32Array
  /** By level: the byte after the current key in an object, the current index in an array. */
  readonly keyEnds: Int32Array
  hashes = new Int32Array(1024)
  starts = new Int32Array(1024)
  ends = new Int32Array(1024)

  constructor(depth: number) {
    this.depth = depth
    this.keyStarts = new Int32Array(depth + 1)
    this.keyEnds = new Int32Array(depth + 1)
  }

  /** The limit on structural characters bounds this, because every key has a colon. */
  grow(): void {
    for (const name of ['hashes', 'starts', 'ends'] as const) {
      const larger = new Int32Array(this[name].length * 2)
      larger.set(this[name])
      this[name] = larger
    }
  }
}

let scratch = new Scratch(SCAN_LIMITS.depth)

class Scanner {
  readonly bytes: Buffer
  readonly limits: ScanLimits
  readonly scratch: Scratch
  readonly spans: number[]
  at = 0
  depth = 0
  structural = 0
  hasUsualNumbers = true
  /** Number of keys in the scratch. */
  top = 0
  /** The first backslash at or after the start of the last search. */
  backslash = -1
  /** The decoded current key, if it has escapes. */
  name: string | undefined

  constructor(bytes: Buffer, limits: ScanLimits, spans: number[]) {
    this.bytes = bytes
    this.limits = limits
    this.spans = spans
    if (scratch.depth < limits.depth) scratch = new Scratch(limits.depth)
    this.scratch = scratch
  }

  body(): void {
    this.space()
    this.value()
    this.space()
    if (this.at < this.bytes.length) this.expected('the end of the body')
  }

  value(): void {
    const first = this.at < this.bytes.length ? this.bytes[this.at]! : 0
    if (first === QUOTE) {
      const end = skipString(this.bytes, this.at)
      if (end < 0) this.unclosed()
      this.at = end
    } else if (first === BRACE_OPEN) this.object()
    else if (first === BRACKET_OPEN) this.array()
    else if (STARTS_SCALAR[first] === 1) {
      const start = this.at
      this.at = skipScalar(this.bytes, start)
      this.hasUsualNumbers &&= isUsualScalar(this.bytes, start, this.at)
    } else this.expected('a value')
  }

  array(): void {
    const { keyStarts, keyEnds } = this.scratch
    const level = this.enter()
    keyStarts[level] = -1
    keyEnds[level] = 0
    if (this.next() !== BRACKET_CLOSE) {
      for (;;) {
        this.value()
        if (this.next() !== COMMA) break
        this.mark()
        keyEnds[level]!++
        this.space()
      }
      if (this.next() !== BRACKET_CLOSE) this.expected('"," or "]"')
    }
    this.mark()
    this.depth--
  }

  object(): void {
    const level = this.enter()
    const base = this.top
    const { spans } = this
    if (level === 1) spans.push(this.at - 1, 0)
    let escaped: Set<string> | null = null
    if (this.next() !== BRACE_CLOSE) {
      for (;;) {
        const keyStart = this.at
        this.key()
        if (this.name !== undefined) escaped = this.collect(escaped, this.name)
        if (level === 1) this.parameter()
        if (this.next() !== COLON) this.expected('":"')
        this.mark()
        this.space()
        const valueStart = this.at
        this.value()
        if (level === 1) spans.push(keyStart, valueStart, this.at)
        if (this.next() !== COMMA) break
        this.mark()
        this.space()
      }
      if (this.next() !== BRACE_CLOSE) this.expected('"," or "}"')
      this.distinct(base, escaped)
    }
    if (level === 1) spans[1] = this.at
    this.mark()
    this.depth--
    this.top = base
  }

  /** Enters a level and skips its opening bracket. */
  enter(): number {
    if (this.depth >= this.limits.depth) {
      this.stop('request_too_complex', `The body is nested more than ${this.limits.depth} levels deep`, 2)
    }
    this.mark()
    return ++this.depth
  }

  space(): void {
    this.at = skipSpace(this.bytes, this.at)
  }

  /** The next byte that is not white space, or 0 at the end. */
  next(): number {
    this.at = skipSpace(this.bytes, this.at)
    return this.at < this.bytes.length ? this.bytes[this.at]! : 0
  }

  /** Skips a structural character and counts it. */
  mark(): void {
    this.count(1)
    this.at++
  }

  count(structural: number): void {
    if ((this.structural += structural) <= this.limits.structural) return
    const most = this.limits.structural.toLocaleString('en-US')
    this.stop('request_too_complex', `The body has more than ${most} brackets, commas and colons`, 2)
  }

  /** Skips a key. A key without escapes is recorded in the scratch with its hash; one with escapes is decoded. */
  key(): void {
    const { bytes } = this
    if (this.at >= bytes.length || bytes[this.at] !== QUOTE) this.expected('a key in double quotes')
    const start = this.at + 1
    const near = Math.min(start + 24, bytes.length)
    let at = start
    let hash = 0
    while (at < near && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) hash = Math.imul(hash ^ bytes[at++]!, PRIME)
    if (at < bytes.length && bytes[at] === QUOTE) {
      this.keep(start, at, hash, false)
      return
    }
    at = skipString(bytes, at - 1) - 1
    if (at < 0) this.unclosed()
    if (at - start > MAX_KEY_LENGTH) this.stop('request_too_complex', `A key is longer than ${MAX_KEY_LENGTH} bytes`, 0)
    const escapes = this.backslashes(start, at)
    this.count(escapes)
    // Long keys usually differ at the beginning or at the end.
    for (let i = Math.max(near, at - 8); i < at; i++) hash = Math.imul(hash ^ bytes[i]!, PRIME)
    this.keep(start, at, hash, escapes > 0)
  }

  keep(start: number, end: number, hash: number, escaped: boolean): void {
    const { scratch, top } = this
    this.at = end + 1
    scratch.keyStarts[this.depth] = start
    scratch.keyEnds[this.depth] = end
    this.name = escaped ? this.decode(start, end) : undefined
    if (escaped || hash === PROTO_HASH) this.refuseProto(this.name ?? this.decode(start, end))
    if (escaped) return
    if (top === scratch.hashes.length) scratch.grow()
    scratch.hashes[top] = hash
    scratch.starts[top] = start
    scratch.ends[top] = end
    this.top = top + 1
  }

  /** The number of backslashes in a range. The position of the next one is cached, because most keys have none. */
  backslashes(start: number, end: number): number {
    if (this.backslash < start) {
      const found = this.bytes.indexOf(BACKSLASH, start)
      this.backslash = found < 0 ? this.bytes.length : found
    }
    let count = 0
    if (this.backslash < end) for (let at = start; at < end; at++) if (this.bytes[at] === BACKSLASH) count++
    return count
  }

  collect(escaped: Set<string> | null, name: string): Set<string> {
    if (escaped?.has(name)) this.duplicate(name)
    return (escaped ?? new Set<string>()).add(name)
  }

  /** Refuses an object with two equal keys; keys with escapes are compared decoded. */
  distinct(base: number, escaped: Set<string> | null): void {
    const { hashes, starts, ends } = this.scratch
    if (escaped || this.top - base > FEW_KEYS) {
      if (!escaped && !repeats(hashes.slice(base, this.top).sort())) return
      const names = escaped ?? new Set<string>()
      for (let i = base; i < this.top; i++) {
        const name = this.decode(starts[i]!, ends[i]!)
        if (names.has(name)) this.duplicate(name, i)
        names.add(name)
      }
      return
    }
    for (let i = base + 1; i < this.top; i++) {
      for (let j = base; j < i; j++) {
        if (hashes[i] !== hashes[j] || ends[i]! - starts[i]! !== ends[j]! - starts[j]!) continue
        const same = this.bytes.compare(this.bytes, starts[i], ends[i], starts[j], ends[j]) === 0
        if (same) this.duplicate(this.decode(starts[i]!, ends[i]!), i)
      }
    }
  }

  /** Refuses a top-level key that is a known parameter in another case. */
  parameter(): void {
    const { keyStarts, keyEnds } = this.scratch
    const key = this.name ?? this.decode(keyStarts[1]!, keyEnds[1]!)
    if (key.length > 64 || CHAT_PARAMETERS.has(key)) return
    // Upper-case first: parsers that fold case take the Kelvin sign for k and the long s for s.
    const folded = key.toUpperCase().toLowerCase()
    if (folded === key || !CHAT_PARAMETERS.has(folded)) return
    const sentence = `Unknown parameter: ${shown(key)}. Did you mean '${folded}'? Names are in lower case`
    this.stop('unknown_parameter', sentence, 1)
  }

  decode(start: number, end: number): string {
    const key = decodeKey(this.bytes, start, end)
    return key ?? this.stop('invalid_json', 'The body is not valid JSON: a key has a bad escape', 0)
  }

  refuseProto(key: string): void {
    if (key === '__proto__') this.stop('invalid_json', 'The key "__proto__" is not allowed', this.depth)
  }

  /** `index`: the second key's place in the scratch, if it is not the current key. */
  duplicate(name: string, index?: number): never {
    const { scratch, depth } = this
    if (index !== undefined) {
      scratch.keyStarts[depth] = scratch.starts[index]!
      scratch.keyEnds[depth] = scratch.ends[index]!
    }
    this.at = scratch.keyStarts[depth]! - 1
    return this.stop('invalid_json', `The key ${shown(name)} occurs twice in one object`, depth)
  }

  unclosed(): never {
    return this.stop('invalid_json', 'The body is not valid JSON: a string is not closed', 0)
  }

  expected(what: string): never {
    const found = this.at < this.bytes.length ? '' : ', and the body ends'
    return this.stop('invalid_json', `The body is not valid JSON: expected ${what}${found}`, 0)
  }

  /** `levels`: the number of levels of the path that `param` contains. */
  stop(code: ScanProblem['code'], sentence: string, levels: number): never {
    const param = this.path(Math.min(this.depth, levels))
    throw new Stop({ code, message: `${sentence} (byte ${this.at}).`, offset: this.at, param })
  }

  path(levels: number): string | null {
    const { keyStarts, keyEnds } = this.scratch
    let path = ''
    for (let level = 1; level <= levels; level++) {
      if (keyStarts[level]! < 0) path += `[${keyEnds[level]}]`
      else {
        const key = decodeKey(this.bytes, keyStarts[level]!, keyEnds[level]!) ?? ''
        path += /^[\w$-]{1,64}$/.test(key) ? `${level > 1 ? '.' : ''}${key}` : `[${shown(key)}]`
      }
    }
    return path === '' ? null : path
  }
}

/** Bytes that begin a number or a literal. */
const STARTS_SCALAR = tableOf('-0123456789tfn')

const PRIME = 0x01000193
const PROTO_HASH = Buffer.from('__proto__').reduce((hash, byte) => Math.imul(hash ^ byte, PRIME), 0)

function repeats(sorted: Int32Array): boolean {
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) return true
  return false
}

/** A key for a message: as JSON, shortened, with control characters made visible. */
function shown(key: string): string {
  return visible(JSON.stringify(key.length > 60 ? `${key.slice(0, 57)}...` : key))
}
