/**
 * Converts custom tools, whose input is text, for providers that support only functions: each becomes a function with one text,
 * `input`. Calls are converted back to calls of the custom tool.
 */
import type { ChatRequest } from '#contract'

type Fields = Readonly<Record<string, unknown>>

export interface WireCustomTool {
  readonly name: string
  readonly description?: string | null
  readonly format?: {
    readonly type: string
    readonly grammar?: { readonly syntax?: string; readonly definition?: string } | null
  } | null
}

export interface WireCustomCall {
  readonly name: string
  readonly input: string
}

const PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string', description: 'The whole input of the tool, as text.' } },
  required: ['input'],
} as const

/** The function for a custom tool. Providers cannot enforce the grammar, so it goes into the description. */
export function functionFor({ name, description, format }: WireCustomTool) {
  const { syntax = 'lark', definition } = format?.grammar ?? {}
  const rule = definition === undefined ? '' : `The input must match this grammar (${syntax}):\n${definition}`
  const text = [description, rule].filter(Boolean).join('\n\n')
  return { name, ...(text === '' ? {} : { description: text }), parameters: PARAMETERS }
}

/** The arguments of the function for a custom call. */
export const argumentsFor = ({ input }: WireCustomCall) => ({ input })

/** The names of the custom tools in a request; undefined without any. */
export function customToolsOf({ tools }: Pick<ChatRequest, 'tools'>): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined
  // By index, because an iterator would be allocated for each request.
  for (let index = 0; index < (tools?.length ?? 0); index++) {
    const custom = (tools![index] as { readonly custom?: WireCustomTool } | null | undefined)?.custom
    if (custom) (names ??= new Set()).add(custom.name)
  }
  return names
}

/** The input in complete arguments. A model may use another name, write plain text, or be cut off. */
export function inputOf(text: string): string {
  const value = parsed(text)
  if (typeof value === 'string') return value
  if (value === undefined) {
    const reader = new InputReader()
    const input = reader.push(text)
    return reader.hasBegun && reader.isPlausible ? input + reader.end() : text
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return text
  const { input = Object.keys(value).length === 1 ? Object.values(value)[0] : undefined } = value as Fields
  if (typeof input === 'string') return input
  return Object.keys(value).length === 0 ? '' : text
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The text before the input. Nearly all models write `input` first. */
const HEAD = /^\s*\{\s*"input"\s*:\s*"/
/** Arguments with another beginning are read when they are complete. */
const MAX_HEAD = 256

const ESCAPES: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  '"': '"',
  '\\': '\\',
  '/': '/',
}

const UNIT = /^[\da-f]{4}$/i
/** A prefix of an escape that may match `UNIT`. */
const HALF_UNIT = /^\\(?:u[\da-f]{0,3})?$/i

/** Expected text after the input. Any other text means that a quote in the input was not escaped. */
const AFTER_INPUT = /^\s*(?:$|\}|,\s*(?:"|$))/

/** Extracts the input from streamed arguments. */
export class InputReader {
  /**
   * Before the input: everything received. In it: an incomplete escape or half of a surrogate pair. After it: the rest of the piece in
   * which it ended.
   */
  #rest = ''
  #isOver = false
  hasBegun = false

  /** Whether the text after the input looks like its end. */
  get isPlausible(): boolean {
    return !this.#isOver || AFTER_INPUT.test(this.#rest)
  }

  /** The part of the input in a piece. */
  push(piece: string): string {
    if (this.#isOver) return ''
    const seen = this.#rest.length
    this.#rest += piece
    if (!this.hasBegun) {
      const head = seen > MAX_HEAD ? null : HEAD.exec(this.#rest)
      if (head === null) return ''
      this.hasBegun = true
      this.#rest = this.#rest.slice(head[0].length)
    }
    return this.#decoded()
  }

  /** The whole input if it could not be streamed; otherwise an empty text. */
  end(): string {
    if (this.#isOver) return ''
    this.#isOver = true
    // An incomplete escape of a call that was cut off is dropped.
    return this.hasBegun ? '' : inputOf(this.#rest)
  }

  #decoded(): string {
    const text = this.#rest
    let input = ''
    let at = 0
    for (;;) {
      const next = nextSpecial(text, at)
      input += text.slice(at, next)
      at = next
      if (next === text.length) break
      if (text[next] === '"') {
        this.#isOver = true
        this.#rest = text.slice(next + 1)
        return input
      }
      if (text.length < next + 6 && HALF_UNIT.test(text.slice(next))) break
      const kind = text[next + 1]!
      const unit = kind === 'u' ? text.slice(next + 2, next + 6) : ''
      const isUnit = UNIT.test(unit)
      // An escape that JSON does not have, such as one of a regular expression, is kept as written.
      input += isUnit ? String.fromCharCode(Number.parseInt(unit, 16)) : (ESCAPES[kind] ?? `\\${kind}`)
      at = next + (isUnit ? 6 : 2)
    }
    // JSON parsers of some clients refuse half of a surrogate pair.
    const isHalf = /[\ud800-\udbff]$/.test(input)
    const half = isHalf ? `\\u${input.charCodeAt(input.length - 1).toString(16)}` : ''
    this.#rest = half + text.slice(at)
    return isHalf ? input.slice(0, -1) : input
  }
}

/** The index of the next quote or backslash, or of the end. */
function nextSpecial(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22 || code === 0x5c) return at
  }
  return text.length
}
