/**
 * A strict parser of JSON as bytes. It accepts only UTF-8 text that `JSON.parse` accepts. It rejects rare JSON too (numbers with an
 * exponent, deep nesting); the caller then uses `JSON.parse`.
 */
import {
  BACKSLASH,
  BRACE_CLOSE,
  BRACE_OPEN,
  BRACKET_CLOSE,
  BRACKET_OPEN,
  COLON,
  COMMA,
  QUOTE,
  skipPlain,
  skipScalar,
  skipSpace,
  tableOf,
} from './json-bytes.ts'

/** Levels of objects and arrays inside a value. */
const MAX_DEPTH = 32

/** Returned instead of an end: the JSON is invalid or too rare. */
export const UNREAD = -1

/** Bytes that may follow a backslash, except `u`. */
const ESCAPED = tableOf('"\\/bfnrt')
const LITERALS = ['true', 'false', 'null'].map(text => Buffer.from(text))

const [ZERO, NINE, MINUS, POINT, SMALL_U] = [0x30, 0x39, 0x2d, 0x2e, 0x75]

let textBytes = 0

/** The UTF-8 length of the last string read, decoded. */
export const lastTextBytes = (): number => textBytes

/** Reads a string. Returns the byte after the closing quote. */
export function readString(bytes: Buffer, from: number): number {
  const { length } = bytes
  if (from >= length || bytes[from] !== QUOTE) return UNREAD
  let at = from + 1
  let saved = 0
  for (;;) {
    at = skipPlain(bytes, at)
    if (at >= length) return UNREAD
    const byte = bytes[at]!
    if (byte === QUOTE) {
      textBytes = at - from - 1 - saved
      return at + 1
    }
    if (byte !== BACKSLASH || at + 1 >= length) return UNREAD
    const next = bytes[at + 1]!
    if (ESCAPED[next] === 1) {
      saved++
      at += 2
      continue
    }
    const unit = next === SMALL_U ? unitAt(bytes, at + 2) : UNREAD
    if (unit === UNREAD) return UNREAD
    at += 6
    if (unit >= 0xd800 && unit < 0xdc00 && bytes[at] === BACKSLASH && bytes[at + 1] === SMALL_U) {
      const second = unitAt(bytes, at + 2)
      if (second >= 0xdc00 && second < 0xe000) {
        saved += 12 - 4
        at += 6
        continue
      }
    }
    // An unpaired surrogate becomes U+FFFD, which has three bytes too.
    saved += 6 - (unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3)
  }
}

/** Decodes four hexadecimal digits to a code unit. */
function unitAt(bytes: Buffer, from: number): number {
  if (from + 4 > bytes.length) return UNREAD
  let unit = 0
  for (let at = from; at < from + 4; at++) {
    const byte = bytes[at]!
    const digit = byte <= NINE ? byte - ZERO : (byte | 0x20) - 0x61 + 10
    if (digit < 0 || digit > 15 || (byte > NINE && digit < 10)) return UNREAD
    unit = unit * 16 + digit
  }
  return unit
}

/** Reads a number without an exponent, or a literal. */
function readScalar(bytes: Buffer, from: number): number {
  const end = skipScalar(bytes, from)
  if (end === from) return UNREAD
  if (bytes[from]! > NINE) {
    for (const literal of LITERALS) {
      if (literal.length === end - from && literal.compare(bytes, from, end) === 0) return end
    }
    return UNREAD
  }
  const first = bytes[from] === MINUS ? from + 1 : from
  let at = skipDigits(bytes, first)
  if (at === first || (bytes[first] === ZERO && at > first + 1)) return UNREAD
  if (at < end && bytes[at] === POINT) {
    const fraction = at + 1
    at = skipDigits(bytes, fraction)
    if (at === fraction) return UNREAD
  }
  return at === end ? end : UNREAD
}

function skipDigits(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && bytes[at]! >= ZERO && bytes[at]! <= NINE) at++
  return at
}

export function readValue(bytes: Buffer, from: number, depth: number = MAX_DEPTH): number {
  const first = from < bytes.length ? bytes[from]! : 0
  if (first === QUOTE) return readString(bytes, from)
  if (first === BRACE_OPEN) return depth === 0 ? UNREAD : readMembers(bytes, from, depth - 1)
  if (first === BRACKET_OPEN) return depth === 0 ? UNREAD : readItems(bytes, from, depth - 1)
  return readScalar(bytes, from)
}

/** Reads an item of a list, or the value of a member whose key is between two bytes. Returns its end. */
export type ReadItem = (bytes: Buffer, from: number, depth: number) => number
export type ReadMember = (bytes: Buffer, from: number, depth: number, keyStart: number, keyEnd: number) => number

/** Reads an object. If `read` is given, keys with escapes are rejected, so that keys can be compared as bytes. */
export function readMembers(bytes: Buffer, from: number, depth: number, read: ReadMember = readValue): number {
  let at = skipSpace(bytes, from + 1)
  if (bytes[at] === BRACE_CLOSE) return at + 1
  for (;;) {
    const keyEnd = readString(bytes, at)
    if (keyEnd === UNREAD || (read !== readValue && textBytes !== keyEnd - at - 2)) return UNREAD
    const colon = skipSpace(bytes, keyEnd)
    if (bytes[colon] !== COLON) return UNREAD
    const end = read(bytes, skipSpace(bytes, colon + 1), depth, at + 1, keyEnd - 1)
    if (end === UNREAD) return UNREAD
    at = skipSpace(bytes, end)
    if (bytes[at] === BRACE_CLOSE) return at + 1
    if (bytes[at] !== COMMA) return UNREAD
    at = skipSpace(bytes, at + 1)
  }
}

export function readItems(bytes: Buffer, from: number, depth: number, read: ReadItem = readValue): number {
  let at = skipSpace(bytes, from + 1)
  if (bytes[at] === BRACKET_CLOSE) return at + 1
  for (;;) {
    const end = read(bytes, at, depth)
    if (end === UNREAD) return UNREAD
    at = skipSpace(bytes, end)
    if (bytes[at] === BRACKET_CLOSE) return at + 1
    if (bytes[at] !== COMMA) return UNREAD
    at = skipSpace(bytes, at + 1)
  }
}
