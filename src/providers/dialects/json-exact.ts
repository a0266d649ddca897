/**
 * Parses JSON of the user and the model so that `JSON.stringify` writes each number with its original digits. 12345678901234567890 is
 * not a double, and 1.0 would become 1. Such a number is kept as a raw JSON value (`JSON.rawJSON`). Texts without such a number are
 * parsed as usual.
 */

interface RawJson {
  readonly rawJSON: string
}

type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source: string }) => unknown

// Not yet in TypeScript's library.
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

/** Parses a text that belongs to the user or the model, such as the arguments of a call. Throws as `JSON.parse` does. */
export function parseExact(text: string): unknown {
  const value = parse(text)
  return isWithoutNumbers(value, 0) || hasOnlyUsualNumbers(text) ? value : exactly(text, value => value)
}

/** The longest arguments have only strings, so their text need not be searched. */
function isWithoutNumbers(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'number'
  if (depth === DEEPEST) return false
  for (const each of Object.values(value)) if (!isWithoutNumbers(each, depth + 1)) return false
  return true
}

/** In levels. Deeper values: the text is searched instead. */
const DEEPEST = 32

/**
 * Parses a provider's answer. Arguments keep their digits; everything else has ordinary numbers.
 *
 * @param member the name of the member with a call's arguments. An answer without it has none
 */
export function parseAnswer(text: string, member: 'args' | 'arguments' | 'input'): unknown {
  return text.includes(`"${member}"`) && !hasOnlyUsualNumbers(text) ? exactly(text, withUsualNumbers) : parse(text)
}

/** Parses a request. Arguments and schemas keep their digits; the gateway's own parameters are ordinary numbers. */
export function parseRequest(text: string, hasUsualNumbers: boolean): unknown {
  return hasUsualNumbers ? parse(text) : exactly(text, withUsualNumbers)
}

/** Whether `JSON.stringify` writes the number in the same way. */
function isUsualNumber(text: string): boolean {
  return (text.length <= 16 && USUAL.test(text)) || String(Number(text)) === text
}

/** Numbers of at most 15 digits, which a double represents exactly. Others are compared. */
const USUAL = /^(?!-0$)-?(?:0|[1-9]\d{0,14})(?:\.(?!0{6})\d*[1-9])?$/

/** The same for a scalar's bytes; a literal is usual. Most numbers of a request have few digits and need no string. */
export function isUsualScalar(bytes: Buffer, from: number, to: number): boolean {
  if (bytes[from]! > NINE) return true
  let at = from
  while (at < to && bytes[at]! >= ZERO && bytes[at]! <= NINE) at++
  return (at === to && to - from <= 15) || isUsualNumber(bytes.toString('latin1', from, to))
}

/** Skips strings, because most arguments are long strings. */
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

function isInNumber(code: number): boolean {
  return (code >= ZERO && code <= NINE) || code === 0x2e || (code | 0x20) === 0x65 || code === 0x2b || code === MINUS
}

function exactly(text: string, settle: (value: unknown) => unknown): unknown {
  try {
    return settle(parse(text, keepDigits))
  } catch (error) {
    // Nested too deeply for a reviver. The encoder refuses it later.
    if (error instanceof RangeError) return parse(text)
    throw error
  }
}

const keepDigits: Reviver = (_, value, { source }) =>
  typeof value === 'number' && !isUsualNumber(source) ? rawJSON(source) : value

/** Members with the arguments of a call. */
const ARGUMENTS: ReadonlySet<string> = new Set(['input', 'args', 'arguments'])
/** Members with a schema. */
const SCHEMAS: ReadonlySet<string> = new Set(['parameters', 'schema', 'input_schema'])

/** Converts raw values to numbers in the parts that the gateway reads itself. */
function withUsualNumbers(value: unknown): unknown {
  return withNumbers(value, false)
}

/** @param isSchema then a number stays raw only if a double would change its value: code that reads schemas expects numbers */
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

/** A double represents all decimal numbers of at most 15 digits. */
function isDouble(source: string): boolean {
  const value = Number(source)
  const digits = source
    .replace(/e.*/i, '')
    .replace(/\D/g, '')
    .replace(/^0+|0+$/g, '')
  return Number.isFinite(value) && digits.length <= 15 && (value !== 0 || digits === '')
}
