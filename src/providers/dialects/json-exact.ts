/**
 * JSON that belongs to the user and the model, parsed so that `JSON.stringify` writes each number with the digits that it came
 * with: 12345678901234567890 is not a double, and 1.0 would become 1. Such a number is a raw JSON value (`JSON.rawJSON`).
 * Texts without one are parsed as usual.
 */

interface RawJson {
  readonly rawJSON: string
}

type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source: string }) => unknown

// TypeScript's library does not describe them yet.
const { parse, rawJSON, isRawJSON } = JSON as unknown as {
  parse(text: string, reviver?: Reviver): unknown
  rawJSON(text: string): RawJson
  isRawJSON(value: unknown): value is RawJson
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39

/** Parses a text that belongs to the user or the model as a whole, such as the arguments of a call. Throws as `JSON.parse` does. */
export function parseExact(text: string): unknown {
  const value = parse(text)
  return isWithoutNumbers(value, 0) || hasOnlyUsualNumbers(text) ? value : exactly(text, value => value)
}

/** The longest arguments hold strings only, so that their text need not be searched. */
function isWithoutNumbers(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'number'
  if (depth === DEEPEST) return false
  for (const each of Object.values(value)) if (!isWithoutNumbers(each, depth + 1)) return false
  return true
}

/** In levels. Below it the text is searched all the same. */
const DEEPEST = 32

/**
 * Parses a provider's answer: arguments keep their digits, all else has usual numbers.
 *
 * @param member the name of the member that has a call's arguments. Without it the answer has none
 */
export function parseAnswer(text: string, member: 'args' | 'arguments' | 'input'): unknown {
  return text.includes(`"${member}"`) && !hasOnlyUsualNumbers(text) ? exactly(text, settled) : parse(text)
}

/** Parses a request: arguments and schemas keep their digits, the gateway's own parameters are usual numbers. */
export function parseRequest(text: string, hasUsualNumbers: boolean): unknown {
  return hasUsualNumbers ? parse(text) : exactly(text, settled)
}

/** Whether `JSON.stringify` would write the number like this. */
function isUsualNumber(text: string): boolean {
  return (text.length <= 16 && USUAL.test(text)) || String(Number(text)) === text
}

/** Of at most 15 digits, which a double keeps. The rest are compared. */
const USUAL = /^(?!-0$)-?(?:0|[1-9]\d{0,14})(?:\.(?!0{6})\d*[1-9])?$/

/** The same of a scalar's bytes; a literal is usual. Most numbers of a request are a few digits, for which no text is made. */
export function isUsualScalar(bytes: Buffer, from: number, to: number): boolean {
  if (bytes[from]! > NINE) return true
  let at = from
  while (at < to && bytes[at]! >= ZERO && bytes[at]! <= NINE) at++
  return (at === to && to - from <= 15) || isUsualNumber(bytes.toString('latin1', from, to))
}

/** Steps over strings, because most arguments are long ones. */
function hasOnlyUsualNumbers(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return true
    } else if ((code >= ZERO && code <= NINE) || code === MINUS) {
      const from = at
      while (isInNumber(text.charCodeAt(at + 1))) at++
      if (!isUsualNumber(text.slice(from, at + 1))) return false
    }
  }
  return true
}

/** The place of the closing quote, or -1. */
function endOfString(text: string, opening: number): number {
  let quote = opening
  for (;;) {
    const from = quote + 1
    quote = text.indexOf('"', from)
    let slashes = 0
    while (quote - slashes > from && text.charCodeAt(quote - slashes - 1) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return quote
  }
}

/** Digits, and `.eE+-`. */
function isInNumber(code: number): boolean {
  return (code >= ZERO && code <= NINE) || code === 0x2e || (code | 0x20) === 0x65 || code === 0x2b || code === MINUS
}

function exactly(text: string, settle: (value: unknown) => unknown): unknown {
  try {
    return settle(parse(text, keepDigits))
  } catch (error) {
    // Nested too deeply for a reviver. The code that writes it refuses it.
    if (error instanceof RangeError) return parse(text)
    throw error
  }
}

const keepDigits: Reviver = (_, value, { source }) =>
  typeof value === 'number' && !isUsualNumber(source) ? rawJSON(source) : value

/** Members that hold the arguments of a call. */
const ARGUMENTS: ReadonlySet<string> = new Set(['input', 'args', 'arguments'])
/** Members that hold a schema. */
const SCHEMAS: ReadonlySet<string> = new Set(['parameters', 'schema', 'input_schema'])

/** Takes raw values out of what the gateway reads itself. */
function settled(value: unknown): unknown {
  return withNumbers(value, false)
}

/** @param isSchema then a number stays raw if a double has another value: code that reads schemas looks for numbers */
function withNumbers(value: unknown, isSchema: boolean): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (isRawJSON(value)) return isSchema && !isDouble(value.rawJSON) ? value : Number(value.rawJSON)
  if (Array.isArray(value)) return value.map(each => withNumbers(each, isSchema))
  const members = value as Record<string, unknown>
  for (const [name, inner] of Object.entries(members)) {
    const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner)
    if (!isSchema && isObject && ARGUMENTS.has(name)) continue
    members[name] = withNumbers(inner, isSchema || (isObject && SCHEMAS.has(name)))
  }
  return members
}

/** A double has all decimal numbers of at most 15 digits. */
function isDouble(source: string): boolean {
  const value = Number(source)
  const digits = source
    .replace(/e.*/i, '')
    .replace(/\D/g, '')
    .replace(/^0+|0+$/g, '')
  return Number.isFinite(value) && digits.length <= 15 && (value !== 0 || digits === '')
}
