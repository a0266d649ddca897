/**
 * What the pieces of text in one stream have in common. They differ in their text only, and in OpenAI's `obfuscation`: so
 * an event that has the bytes of an earlier one around its text says the same, and nobody has to parse it to know that.
 */
import type { Chunk, StreamItem, TextPiece } from '#contract'
import { BACKSLASH, QUOTE, skipPlain, skipString } from '../json-bytes.ts'
import { findMember, scanTopLevel } from '../json-splice.ts'

type ChunkItem = Extract<StreamItem, { kind: 'chunk' }>

const NONE: readonly Buffer[] = []
const BEFORE = Buffer.from('data: ')
const BEHIND = Buffer.from('\n\n')
const LF = 10

/** After so many patterns that no event has followed, none is looked for: each chunk of this stream has something of its own. */
const MAX_IN_VAIN = 4

/** Of an event. A pattern is kept as long as its stream, and a long text is read quicker by the parser. */
const MAX_BYTES = 4096

export class TextPattern {
  /** What stands around the strings that differ, as it comes. The first of these strings is the text. */
  #came: readonly Buffer[] = NONE
  /** The same as the client is to read it, as an event. */
  #leaves: readonly Buffer[] = NONE
  #leavesBytes = 0
  #index = 0
  #inVain = 0
  /** Of the event that is looked at: where each string begins and ends. */
  readonly #strings: number[] = []

  /** One event with one line of data, as a chunk; null when the reader of events has to read the bytes. */
  matchEvent(bytes: Buffer): ChunkItem | null {
    const end = bytes.length - BEHIND.length
    if (end < BEFORE.length || bytes[end] !== LF || bytes[end + 1] !== LF) return null
    if (bytes.compare(BEFORE, 0, BEFORE.length, 0, BEFORE.length) !== 0) return null
    // A pattern has no line end in it, and neither has a text.
    return this.match(bytes, BEFORE.length, end)
  }

  /** The data of an event, from `from` to `to`, as a chunk; null when it has to be parsed. */
  match(data: Buffer, from: number, to: number): ChunkItem | null {
    if (to - from > MAX_BYTES) return null
    const came = this.#came
    const strings = this.#strings
    let textBytes = 0
    let at = from
    for (let i = 0; i < came.length; i++) {
      const start = at + came[i]!.length
      if (start > to || data.compare(came[i]!, 0, came[i]!.length, at, start) !== 0) return null
      at = start
      if (i === came.length - 1) break
      at = skipPlain(data, start)
      const isPlain = at >= to || data[at] !== BACKSLASH
      if (!isPlain) at = skipString(data, start - 1) - 1
      if (at < 0) return null
      const bytes = isPlain ? at - start : decodedBytes(data, start, at)
      if (bytes < 0) return null
      if (i === 0) textBytes = bytes
      strings[2 * i] = start
      strings[2 * i + 1] = at
    }
    if (textBytes === 0 || at !== to) return null
    this.#inVain = 0
    return new TextItem(this.#index, textBytes, this.#written(data))
  }

  #written(data: Buffer): Buffer {
    const leaves = this.#leaves
    const strings = this.#strings
    let size = this.#leavesBytes
    for (let i = 0; i < leaves.length - 1; i++) size += strings[2 * i + 1]! - strings[2 * i]!
    const event = Buffer.allocUnsafe(size)
    let at = leaves[0]!.copy(event, 0)
    for (let i = 1; i < leaves.length; i++) {
      at += data.copy(event, at, strings[2 * i - 2], strings[2 * i - 1])
      at += leaves[i]!.copy(event, at)
    }
    return event
  }

  /** Takes an event as the pattern for those behind it, when it does nothing but add text to a choice. */
  learn(data: Buffer, { chunk, raw, usage }: ChunkItem): void {
    const [choice, ...others] = chunk.choices
    if (this.#inVain > MAX_IN_VAIN || data.length > MAX_BYTES || raw === null || usage !== null) return
    if (!choice || others.length > 0 || choice.finish_reason) return
    const name = textIn(choice.delta)
    if (name === null) return
    const came = around(data, data, 0, name)
    const leaves = around(raw, Buffer.concat([BEFORE, raw, BEHIND]), BEFORE.length, name)
    if (came === null || leaves === null) return
    this.#came = this.#inVain++ < MAX_IN_VAIN ? came : NONE
    this.#leaves = leaves
    this.#leavesBytes = leaves.reduce((sum, { length }) => sum + length, 0)
    this.#index = choice.index
  }
}

/** A chunk that is parsed only when somebody asks for it. */
class TextItem implements TextPiece {
  readonly kind = 'chunk'
  readonly usage = null
  readonly index: number
  readonly bytes: number
  readonly event: Buffer
  #chunk: Chunk | null = null

  constructor(index: number, bytes: number, event: Buffer) {
    this.index = index
    this.bytes = bytes
    this.event = event
  }

  get text(): TextPiece {
    return this
  }

  get raw(): Buffer {
    return this.event.subarray(BEFORE.length, -BEHIND.length)
  }

  get chunk(): Chunk {
    this.#chunk ??= JSON.parse(this.raw.toString('utf8')) as Chunk
    return this.#chunk
  }
}

/** The bytes of a string with escapes, decoded; -1 when it is none. */
function decodedBytes(data: Buffer, start: number, end: number): number {
  try {
    return Buffer.byteLength(JSON.parse(data.toString('utf8', start - 1, end + 1)) as string)
  } catch {
    return -1
  }
}

/** The only member of a delta that says something; null when there is none, or it is no text. */
function textIn(delta: Readonly<Record<string, unknown>>): string | null {
  let found: string | null = null
  for (const name of Object.keys(delta)) {
    const value = delta[name]
    if (name === 'role' || value == null || (value === '' && name === 'content')) continue
    if (found !== null || typeof value !== 'string' || !TEXTS.has(name)) return null
    found = name
  }
  return found
}

const TEXTS: ReadonlySet<string> = new Set(['content', 'reasoning_content'])

/**
 * What stands around the text of the only choice, and around the obfuscation behind it. Null when they are not found.
 *
 * @param event what is cut; `json` begins in it at `offset`
 */
function around(json: Buffer, event: Buffer, offset: number, name: string): readonly Buffer[] | null {
  const choices = memberOf(json, 'choices')
  const delta = choices && memberOf(choices.subarray(1, -1), 'delta')
  const text = delta && memberOf(delta, name)
  if (!text) return null
  const obfuscation = memberOf(json, 'obfuscation')
  const strings = obfuscation?.[0] === QUOTE && obfuscation.byteOffset > text.byteOffset ? [text, obfuscation] : [text]
  // Not of Node's pool: it stays as long as the stream.
  const own = Buffer.allocUnsafeSlow(event.length)
  event.copy(own)
  const parts: Buffer[] = []
  let from = 0
  for (const { byteOffset, length } of strings) {
    const quote = byteOffset - json.byteOffset + offset
    parts.push(own.subarray(from, quote + 1))
    from = quote + length - 1
  }
  return [...parts, own.subarray(from)]
}

/** The value of an object's member; of several with that name, the last. */
function memberOf(object: Buffer, name: string): Buffer | null {
  const spans = scanTopLevel(object)
  const at = spans ? findMember(object, spans, name) : -1
  return at < 0 ? null : object.subarray(spans![at + 1], spans![at + 2])
}
