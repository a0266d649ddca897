/**
 * Splicing: changes members of an object while every other byte stays as it was sent. So a request goes upstream with
 * another `model`, and a chunk to the client with the catalog's, without being encoded again.
 */
import {
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

/** A member of an object: its key, and where it stands. Offsets are bytes; `valueEnd` is the first byte after it. */
export interface Member {
  /** Decoded: `"\u006dodel"` is `model`. */
  readonly key: string
  /** Of the key's opening quote. */
  readonly keyStart: number
  readonly valueStart: number
  readonly valueEnd: number
}

/** The outermost object: where its braces stand, and its members in their order. */
export interface Spans {
  readonly open: number
  readonly close: number
  readonly members: readonly Member[]
}

/**
 * The members of an object that is known to be JSON, such as a chunk of a stream: nothing inside the values is checked,
 * so it is cheaper than a scan (below a microsecond for a usual chunk). Null when it is not an object or breaks off.
 */
export function scanTopLevel(bytes: Buffer): Spans | null {
  const open = skipSpace(bytes, 0)
  if (open >= bytes.length || bytes[open] !== BRACE_OPEN) return null
  const members: Member[] = []
  let at = skipSpace(bytes, open + 1)
  if (at < bytes.length && bytes[at] === BRACE_CLOSE) return endsAfter(bytes, at) ? { open, close: at, members } : null
  while (at < bytes.length) {
    const keyStart = at
    const keyEnd = bytes[at] === QUOTE ? skipString(bytes, at) : -1
    if (keyEnd < 0) return null
    const key = decodeKey(bytes, keyStart + 1, keyEnd - 1)
    at = skipSpace(bytes, keyEnd)
    if (key === undefined || at >= bytes.length || bytes[at] !== COLON) return null
    const valueStart = skipSpace(bytes, at + 1)
    const valueEnd = skipValue(bytes, valueStart)
    if (valueEnd <= valueStart) return null
    members.push({ key, keyStart, valueStart, valueEnd })
    at = skipSpace(bytes, valueEnd)
    if (at >= bytes.length) return null
    if (bytes[at] === BRACE_CLOSE) return endsAfter(bytes, at) ? { open, close: at, members } : null
    if (bytes[at] !== COMMA) return null
    at = skipSpace(bytes, at + 1)
  }
  return null
}

function endsAfter(bytes: Buffer, close: number): boolean {
  return skipSpace(bytes, close + 1) === bytes.length
}

/** Bytes from `start` up to `end` become `replacement`; equal offsets insert. */
export interface Edit {
  readonly start: number
  readonly end: number
  readonly replacement: Buffer | string
}

/** Applies edits, in any order; a new buffer, the old one is left alone. Overlapping edits throw a RangeError. */
export function splice(bytes: Buffer, edits: readonly Edit[]): Buffer {
  const sorted = isSorted(edits) ? edits : [...edits].sort((a, b) => a.start - b.start || a.end - b.end)
  let size = bytes.length
  let previousEnd = 0
  for (const { start, end, replacement } of sorted) {
    if (!(start >= previousEnd && end >= start && end <= bytes.length)) {
      throw new RangeError(`splice: the edit ${start}..${end} overlaps another or leaves the ${bytes.length} bytes`)
    }
    size += (typeof replacement === 'string' ? Buffer.byteLength(replacement) : replacement.length) - (end - start)
    previousEnd = end
  }
  const result = Buffer.allocUnsafe(size)
  let read = 0
  let written = 0
  for (const { start, end, replacement } of sorted) {
    written += bytes.copy(result, written, read, start)
    if (typeof replacement === 'string') written += result.write(replacement, written)
    else written += replacement.copy(result, written)
    read = end
  }
  bytes.copy(result, written, read)
  return result
}

function isSorted(edits: readonly Edit[]): boolean {
  for (let i = 1; i < edits.length; i++) if (edits[i]!.start < edits[i - 1]!.end) return false
  return true
}

/**
 * Sets members of the outermost object to JSON texts: replaces values, adds missing members at the end, and removes those
 * set to undefined, with their comma. A key that stands there twice is changed in both places, so that no reader can
 * see the old value. Returns the same buffer when nothing was to be done.
 *
 * @example
 * setMembers(bytes, spans, { model: '"some-mini"', user: undefined })
 */
export function setMembers(bytes: Buffer, spans: Spans, changes: Readonly<Record<string, string | undefined>>): Buffer {
  const { members } = spans
  const edits: Edit[] = []
  const missing = new Set<string>()
  for (const key of Object.keys(changes)) if (changes[key] !== undefined) missing.add(key)
  let lastKept: Member | undefined
  for (let i = 0; i < members.length; i++) {
    const member = members[i]!
    const changed = Object.hasOwn(changes, member.key)
    const value = changed ? changes[member.key] : undefined
    if (!changed || value !== undefined) {
      lastKept = member
      missing.delete(member.key)
      if (value !== undefined) edits.push({ start: member.valueStart, end: member.valueEnd, replacement: value })
    } else if (lastKept) {
      // The comma before it goes along.
      edits.push({ start: members[i - 1]!.valueEnd, end: member.valueEnd, replacement: '' })
    } else {
      // Nothing is left before it, so the comma after it goes along.
      edits.push({ start: member.keyStart, end: members[i + 1]?.keyStart ?? member.valueEnd, replacement: '' })
    }
  }
  if (missing.size > 0) {
    const added = Array.from(missing, key => `${JSON.stringify(key)}:${changes[key]}`).join(',')
    const start = lastKept?.valueEnd ?? spans.close
    edits.push({ start, end: start, replacement: lastKept ? `,${added}` : added })
  }
  return edits.length === 0 ? bytes : splice(bytes, edits)
}
