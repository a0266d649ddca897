/**
 * Changes members of a JSON object and leaves every other byte unchanged. So the gateway sets the `model` of requests, answers and
 * chunks without encoding them again.
 */
import type { Spans } from '#contract'
import {
  BACKSLASH,
  BRACE_CLOSE,
  BRACE_OPEN,
  COLON,
  COMMA,
  decodeKey,
  QUOTE,
  skipSpace,
  skipString,
  skipValue,
} from './json-bytes.ts'

/**
 * The members of an object that is known to be JSON, such as a chunk of a stream. Values are not checked, so it is cheaper than a scan
 * (below a microsecond for a usual chunk). Null if it is not an object or incomplete.
 */
export function scanTopLevel(bytes: Buffer): Spans | null {
  const { length } = bytes
  const open = skipSpace(bytes, 0)
  if (open >= length || bytes[open] !== BRACE_OPEN) return null
  const spans = [open, 0]
  let at = skipSpace(bytes, open + 1)
  while (at < length && (bytes[at] !== BRACE_CLOSE || spans.length > 2)) {
    const keyEnd = bytes[at] === QUOTE ? skipString(bytes, at) : -1
    if (keyEnd < 0) return null
    const colon = skipSpace(bytes, keyEnd)
    if (colon >= length || bytes[colon] !== COLON) return null
    const valueStart = skipSpace(bytes, colon + 1)
    const valueEnd = skipValue(bytes, valueStart)
    if (valueEnd <= valueStart) return null
    spans.push(at, valueStart, valueEnd)
    at = skipSpace(bytes, valueEnd)
    if (at >= length || bytes[at] !== COMMA) break
    at = skipSpace(bytes, at + 1)
  }
  if (at >= length || bytes[at] !== BRACE_CLOSE || skipSpace(bytes, at + 1) < length) return null
  spans[1] = at
  return spans
}

/** The one of `names` that the key at this quote is: `"\u006dodel"` is `model`. Most keys are compared byte by byte. */
function nameAt(bytes: Buffer, quote: number, names: readonly string[]): string | undefined {
  let end = quote + 1
  while (bytes[end] !== QUOTE) {
    if (bytes[end] === BACKSLASH || bytes[end]! > 127) {
      const key = decodeKey(bytes, quote + 1, skipString(bytes, quote) - 1)
      return names.find(name => name === key)
    }
    end++
  }
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!
    if (name.length !== end - quote - 1) continue
    let same = 0
    while (same < name.length && name.charCodeAt(same) === bytes[quote + 1 + same]) same++
    if (same === name.length) return name
  }
  return undefined
}

/** The index in the spans of the last member with that name; -1 if it does not exist. */
export function findMember(bytes: Buffer, spans: Spans, name: string): number {
  const names = [name]
  for (let i = spans.length - 3; i >= 2; i -= 3) if (nameAt(bytes, spans[i]!, names) === name) return i
  return -1
}

/**
 * Sets members of the outermost object to JSON texts. Replaces values, adds missing members at the end, and removes those
 * set to undefined, with their comma. A key that occurs twice is changed in both places, so that no parser can read the
 * old value. Returns the same buffer if nothing changes.
 *
 * @param allocate allocates the result
 *
 * @example
 * setMembers(bytes, spans, { model: '"some-mini"', user: undefined })
 */
export function setMembers(
  bytes: Buffer,
  spans: Spans,
  changes: Readonly<Record<string, string | undefined>>,
  allocate: (size: number) => Buffer = Buffer.allocUnsafe,
): Buffer {
  const names = Object.keys(changes)
  const edits: (number | string)[] = []
  let lastKept = 0
  // Members are inserted after this number of entries in `edits`.
  let place = 0
  for (let i = 2; i < spans.length; i += 3) {
    const name = nameAt(bytes, spans[i]!, names)
    const value = name === undefined ? undefined : changes[name]
    if (name === undefined || value !== undefined) {
      lastKept = i
      if (value !== undefined) edits.push(spans[i + 1]!, spans[i + 2]!, value, name!)
      place = edits.length
    } else if (lastKept > 0) {
      // Remove the comma before it too.
      edits.push(spans[i - 1]!, spans[i + 2]!, '', -1)
    } else {
      // Nothing is left before it, so remove the comma after it.
      edits.push(spans[i]!, spans[i + 3] ?? spans[i + 2]!, '', -1)
    }
  }
  let added = ''
  for (const name of names) {
    if (changes[name] === undefined || isSet(edits, name)) continue
    added += `${added !== '' || lastKept > 0 ? ',' : ''}${JSON.stringify(name)}:${changes[name]}`
  }
  if (added !== '') {
    const at = lastKept > 0 ? spans[lastKept + 2]! : spans[1]!
    edits.splice(lastKept > 0 ? place : edits.length, 0, at, at, added, -1)
  }
  return edits.length === 0 ? bytes : splice(bytes, edits, allocate)
}

/** A text as a JSON string. Most names need no escapes. */
export function quoted(text: string): string {
  return /^[ !#-[\]-~]*$/.test(text) ? `"${text}"` : JSON.stringify(text)
}

/** Four entries per edit, in order: start, end, replacement, and the key whose value it is, or -1. */
export type Edits = readonly (number | string)[]

function isSet(edits: Edits, name: string): boolean {
  for (let i = 3; i < edits.length; i += 4) if (edits[i] === name) return true
  return false
}

/** Applies the edits to a copy. */
export function splice(bytes: Buffer, edits: Edits, allocate: (size: number) => Buffer = Buffer.allocUnsafe): Buffer {
  let size = bytes.length
  for (let i = 0; i < edits.length; i += 4) {
    size += Buffer.byteLength(edits[i + 2] as string) - ((edits[i + 1] as number) - (edits[i] as number))
  }
  const result = allocate(size)
  let read = 0
  let written = 0
  for (let i = 0; i < edits.length; i += 4) {
    written += bytes.copy(result, written, read, edits[i] as number)
    if (edits[i + 2] !== '') written += result.write(edits[i + 2] as string, written)
    read = edits[i + 1] as number
  }
  bytes.copy(result, written, read)
  return result
}
