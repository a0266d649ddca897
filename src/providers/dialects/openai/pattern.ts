/**
 * Recognizes text chunks of a stream without parsing them. They differ only in their text and in OpenAI's `obfuscation`. So an event
 * with the same bytes as an earlier one around its text has the same meaning.
 */
import type { Chunk, StreamItem, TextPiece } from '#contract'
import { BACKSLASH, QUOTE, skipPlain, skipString } from '../json-bytes.ts'
import { findMember, scanTopLevel } from '../json-splice.ts'

type ChunkItem = Extract<StreamItem, { kind: 'chunk' }>

const NONE: readonly Buffer[] = []
const BEFORE = Buffer.from('data: ')
const AFTER = Buffer.from('\n\n')
const LF = 10

/** After this many unused patterns, none is learned any more: each chunk of this stream has something unique. */
const MAX_UNUSED = 4

/** Bytes of an event. A pattern is kept as long as its stream, and the parser reads a long text faster. */
const MAX_BYTES = 4096

export class TextPattern {
  /** The bytes around the strings that differ, as received. The first of these strings is the text. */
  #received: readonly Buffer[] = NONE
  /** The same as an event for the client. */
  #sent: readonly Buffer[] = NONE
  #sentBytes = 0
  #index = 0
  #unused = 0
  /** Start and end of each string in the current event. */
  readonly #strings: number[] = []

  /** One event with one line of data, as a chunk; null if the SSE parser must read the bytes. */
  matchEvent(bytes: Buffer): ChunkItem | null {
    const end = bytes.length - AFTER.length
    if (end < BEFORE.length || bytes[end] !== LF || bytes[end + 1] !== LF) return null
    if (bytes.compare(BEFORE, 0, BEFORE.length, 0, BEFORE.length) !== 0) return null
    // A pattern has no line end in it, and neither has a text.
    return this.match(bytes, BEFORE.length, end)
  }

  /** The data of an event, from `from` to `to`, as a chunk; null if it must be parsed. */
  match(data: Buffer, from: number, to: number): ChunkItem | null {
    if (to - from > MAX_BYTES) return null
    const received = this.#received
    const strings = this.#strings
    let textBytes = 0
    let at = from
    for (let i = 0; i < received.length; i++) {
      const start = at + received[i]!.length
      if (start > to || data.compare(received[i]!, 0, received[i]!.length, at, start) !== 0) return null
      at = start
      if (i === received.length - 1) break
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
    this.#unused = 0
    return new TextItem(this.#index, textBytes, this.#written(data))
  }

  #written(data: Buffer): Buffer {
    const sent = this.#sent
    const strings = this.#strings
    let size = this.#sentBytes
    for (let i = 0; i < sent.length - 1; i++) size += strings[2 * i + 1]! - strings[2 * i]!
    const event = Buffer.allocUnsafe(size)
    let at = sent[0]!.copy(event, 0)
    for (let i = 1; i < sent.length; i++) {
      at += data.copy(event, at, strings[2 * i - 2], strings[2 * i - 1])
      at += sent[i]!.copy(event, at)
    }
    return event
  }

  /** Learns the pattern of an event that only adds text to a choice. */
  learn(data: Buffer, { chunk, raw, usage }: ChunkItem): void {
    const [choice, ...others] = chunk.choices
    if (this.#unused > MAX_UNUSED || data.length > MAX_BYTES || raw === null || usage !== null) return
    if (!choice || others.length > 0 || choice.finish_reason) return
    const name = textIn(choice.delta)
    if (name === null) return
    const received = around(data, data, 0, name)
    const sent = around(raw, Buffer.concat([BEFORE, raw, AFTER]), BEFORE.length, name)
    if (received === null || sent === null) return
    this.#received = this.#unused++ < MAX_UNUSED ? received : NONE
    this.#sent = sent
    this.#sentBytes = sent.reduce((sum, { length }) => sum + length, 0)
    this.#index = choice.index
  }
}

/** A chunk that is parsed on first use. */
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
    return this.event.subarray(BEFORE.length, -AFTER.length)
  }

  get chunk(): Chunk {
    this.#chunk ??= JSON.parse(this.raw.toString('utf8')) as Chunk
    return this.#chunk
  }
}

/** The length of a string with escapes, decoded; -1 if it is invalid. */
function decodedBytes(data: Buffer, start: number, end: number): number {
  try {
    return Buffer.byteLength(JSON.parse(data.toString('utf8', start - 1, end + 1)) as string)
  } catch {
    return -1
  }
}

/** The only member of a delta with content; null without such a member, or if it is not a text. */
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
 * The bytes around the text of the only choice, and around the obfuscation after it; null if they are not found.
 *
 * @param event the bytes to cut; `json` begins in it at `offset`
 */
function around(json: Buffer, event: Buffer, offset: number, name: string): readonly Buffer[] | null {
  const choices = memberOf(json, 'choices')
  const delta = choices && memberOf(choices.subarray(1, -1), 'delta')
  const text = delta && memberOf(delta, name)
  if (!text) return null
  const obfuscation = memberOf(json, 'obfuscation')
  const strings = obfuscation?.[0] === QUOTE && obfuscation.byteOffset > text.byteOffset ? [text, obfuscation] : [text]
  // Not from Node's pool, because it is kept as long as the stream.
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

/** The value of a member; the last one if the name occurs several times. */
function memberOf(object: Buffer, name: string): Buffer | null {
  const spans = scanTopLevel(object)
  const at = spans ? findMember(object, spans, name) : -1
  return at < 0 ? null : object.subarray(spans![at + 1], spans![at + 2])
}
