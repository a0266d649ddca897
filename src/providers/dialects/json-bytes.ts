/** Skips parts of JSON as bytes, for the scan and for splicing. Checks only what these need. */
import { isUtf8 } from 'node:buffer'

export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const BACKSLASH = 0x5c
export const BRACKET_OPEN = 0x5b
export const BRACKET_CLOSE = 0x5d
export const BRACE_OPEN = 0x7b
export const BRACE_CLOSE = 0x7d

/**
 * Names of the request's own parameters. A top-level key that differs from one of these only in case is refused. A provider that
 * ignores case would use a value that this gateway did not see.
 */
export const CHAT_PARAMETERS: ReadonlySet<string> = new Set(
  (
    'audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages ' +
    'metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key ' +
    'prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed ' +
    'service_tier stop store stream stream_options temperature tool_choice tools top_k top_logprobs top_p user verbosity ' +
    'web_search_options'
  ).split(' '),
)

/** Skips white space: space, tab, LF, CR (RFC 8259, section 2). */
export function skipSpace(bytes: Buffer, from: number): number {
  const { length } = bytes
  let at = from
  while (at < length && SPACE[bytes[at]!] === 1) at++
  return at
}

/** A lookup table: 1 for each byte of the text. Twice as fast as comparing. */
export function tableOf(text: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const byte of Buffer.from(text)) table[byte] = 1
  return table
}

const SPACE = tableOf(' \t\n\r')
/** Bytes that end a number or a literal. */
const ENDS_SCALAR = tableOf(' \t\n\r,:[]{}"')

/** 1 for bytes that are not plain text in a string: quotes, backslashes and control characters. */
const STOPS = Uint8Array.from({ length: 256 }, (_, byte) => Number(byte < 0x20 || byte === QUOTE || byte === BACKSLASH))

/** Inside a string: skips to the first byte that is not plain text. */
export function skipPlain(bytes: Buffer, from: number): number {
  const { length } = bytes
  let at = from
  while (at < length && STOPS[bytes[at]!] === 0) at++
  return at
}

/** Skips a number or a literal without checking it. */
export function skipScalar(bytes: Buffer, from: number): number {
  const { length } = bytes
  let at = from
  while (at < length && ENDS_SCALAR[bytes[at]!] === 0) at++
  return at
}

/** Short strings are read byte by byte; a native search pays off only after this many bytes. */
const NEAR = 32

/**
 * Skips from the opening quote to the byte after the closing one; -1 without one. A long string is searched natively for its next
 * quote, which ends the string if an even number of backslashes precedes it. There is at most one such search per `NEAR` bytes. So a
 * string full of escaped quotes costs no more than reading it.
 */
export function skipString(bytes: Buffer, from: number): number {
  const { length } = bytes
  let at = from + 1
  for (;;) {
    const near = at + NEAR < length ? at + NEAR : length
    for (; at < near; at++) {
      const byte = bytes[at]!
      if (byte === QUOTE) return at + 1
      if (byte === BACKSLASH) at++
    }
    if (at >= length) return -1
    const quote = bytes.indexOf(QUOTE, at)
    if (quote < 0) return -1
    let slashes = 0
    while (quote - slashes > at && bytes[quote - slashes - 1] === BACKSLASH) slashes++
    at = quote + 1
    if (slashes % 2 === 0) return at
  }
}

/** Skips any value, only counting brackets; -1 if it is incomplete. */
export function skipValue(bytes: Buffer, from: number): number {
  const { length } = bytes
  if (from >= length) return -1
  const first = bytes[from]!
  if (first === QUOTE) return skipString(bytes, from)
  if (first !== BRACE_OPEN && first !== BRACKET_OPEN) return skipScalar(bytes, from)
  let depth = 0
  for (let at = from; at < length; at++) {
    const byte = bytes[at]!
    if (byte === QUOTE) {
      const end = skipString(bytes, at)
      if (end < 0) return -1
      at = end - 1
    } else if (byte > 0x5a) {
      if (byte === BRACE_OPEN || byte === BRACKET_OPEN) depth++
      else if ((byte === BRACE_CLOSE || byte === BRACKET_CLOSE) && --depth === 0) return at + 1
    }
  }
  return -1
}

/** Keys of requests and chunks, by length and first byte: comparing bytes is faster than making a string. */
const COMMON_KEYS: { text: string; bytes: Uint8Array }[][] = Array.from({ length: 32 * 128 }, () => [])
const CHUNK_KEYS = ['id', 'object', 'created', 'choices', 'usage', 'system_fingerprint', 'obfuscation']
for (const text of [...CHAT_PARAMETERS, ...CHUNK_KEYS]) {
  COMMON_KEYS[text.length * 128 + text.charCodeAt(0)]!.push({ text, bytes: new Uint8Array(Buffer.from(text)) })
}

/** Decodes the key between its quotes; undefined if its escapes are invalid. */
export function decodeKey(bytes: Buffer, start: number, end: number): string | undefined {
  const length = end - start
  if (length > 0 && length < 32 && bytes[start]! < 128) {
    for (const common of COMMON_KEYS[length * 128 + bytes[start]!]!) {
      let i = 1
      while (i < length && bytes[start + i] === common.bytes[i]) i++
      if (i === length) return common.text
    }
  }
  const raw = bytes.toString('utf8', start, end)
  if (!raw.includes('\\')) return raw
  try {
    return JSON.parse(`"${raw}"`) as string
  } catch {
    return undefined
  }
}

/** Why the bytes are not JSON text (RFC 8259, 8.1: UTF-8 without a byte order mark); null if they are. */
export function notUtf8(bytes: Buffer): { readonly message: string; readonly offset: number } | null {
  if (bytes.length === 0) return { message: 'The body is empty; it must be a JSON object.', offset: 0 }
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    return { message: 'The body begins with a byte order mark; JSON has none.', offset: 0 }
  }
  // A decoder would silently replace invalid UTF-8 with U+FFFD, and two different keys would become one.
  if (isUtf8(bytes)) return null
  const offset = firstBadByte(bytes)
  return { message: `The body is not valid UTF-8 (near byte ${offset}).`, offset }
}

/** Finds the first invalid UTF-8 character by binary search. Each probe begins at a character, after valid text. */
function firstBadByte(bytes: Buffer): number {
  let good = 0
  let bad = bytes.length
  while (bad - good > 4) {
    let middle = (good + bad) >>> 1
    while (middle > good && (bytes[middle]! & 0xc0) === 0x80) middle--
    if (middle === good) break
    if (isUtf8(bytes.subarray(good, middle))) good = middle
    else bad = middle
  }
  return good
}
