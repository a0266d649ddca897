/**
 * Writes a streamed answer. From an event with a finish reason on, everything is withheld until a choice continues, or the steps have
 * returned. So the end that the client sees (finish, usage, `[DONE]`) is sent only after its charge is committed. An answer that could
 * not be charged never looks finished.
 */
import {
  type Chunk,
  type Delta,
  envelope,
  type Refusal,
  type StreamEncoder,
  type TextPiece,
  type WireUsage,
} from '#contract'
import { isPromise } from '../../common/promises.ts'
import type { Client } from './client.ts'
import { onlyWatched, type Tap, throughTaps } from './taps.ts'

const DATA = Buffer.from('data: ')
const END = Buffer.from('\n\n')
const DONE = Buffer.from('data: [DONE]\n\n')

/** How chunks are encoded for a client: unchanged, or in another format. `raw` is the chunk as the provider wrote it. */
export interface StreamFormat extends Omit<StreamEncoder, 'chunk'> {
  chunk(chunk: Chunk, raw: Buffer | null): Buffer
}

const CHAT_FORMAT: StreamFormat = {
  chunk: (chunk, raw) => frameOf(raw ?? Buffer.from(JSON.stringify(chunk))),
  finish: () => DONE,
  fail: failureFrame,
}

/**
 * The last event of a failed stream. Some typed clients (Spring AI, langchain4j) ignore `error` in a chunk, and take an answer that ends
 * there for complete. So `created`, a number in every chunk, is the message here: those clients fail on it.
 */
export function failureFrame(refusal: Refusal): Buffer {
  const { error } = envelope(refusal)
  return frameOf(Buffer.from(JSON.stringify({ error, created: error.message })))
}

/** The limit for withheld bytes after a finish reason. More is an attack. */
const MAX_TAIL_BYTES = 256 * 1024
/** About the size of the object around a frame, in bytes. */
const FRAME_BYTES = 128

/** A withheld chunk, and its bytes as the provider wrote it. */
interface HeldChunk {
  readonly chunk: Chunk
  readonly raw: Buffer | null
}

export class StreamAnswer {
  readonly #client: Client
  readonly #taps: readonly Tap[]
  readonly #rawPasses: boolean
  readonly #format: StreamFormat
  readonly #onContent: () => void
  #delivered = false
  /** The stream has ended: late results of taps are discarded. */
  #isOver = false
  #busy: Promise<boolean> | null = null
  #tail: HeldChunk[] | null = null
  #tailBytes = 0
  /** Choices with content or a finish reason that was sent or withheld. */
  readonly #begun = new Set<number>()
  readonly #finished = new Set<number>()
  /** The first chunk that was sent or withheld. Later chunks have the same head. */
  #first: Chunk | null = null
  /** By choice: its finish as it arrived, in case an edit swallows it or the choice continues. */
  readonly #due = new Map<number, Chunk>()

  /** @param onContent called once, when the first content was sent to the client */
  constructor(
    client: Client,
    taps: readonly Tap[],
    format: StreamFormat = CHAT_FORMAT,
    onContent: () => void = () => {},
  ) {
    this.#onContent = onContent
    this.#client = client
    this.#taps = taps
    this.#format = format
    this.#rawPasses = onlyWatched(taps)
  }

  /** Whether text of a choice that has begun is sent unchanged: no tap reads it, and nothing is withheld. */
  get passesText(): boolean {
    return this.#first !== null && this.#tail === null && this.#taps.length === 0 && this.#format === CHAT_FORMAT
  }

  /**
   * Sends text while `passesText`.
   * @returns false if the client does not keep up
   */
  text({ event }: TextPiece): boolean {
    return this.#write(event, true)
  }

  /**
   * Sends a chunk to the client, or withholds it after a finish reason.
   * @returns false if the client does not keep up, or a tap is `busy`
   */
  chunk(chunk: Chunk, raw: Buffer | null): boolean {
    if (this.#taps.length === 0) return this.#emit(chunk, raw)
    if (this.#busy) {
      this.#wait(this.#busy.then(() => this.#tapped(chunk, raw)))
      return false
    }
    const keepsUp = this.#tapped(chunk, raw)
    if (!isPromise(keepsUp)) return keepsUp
    this.#wait(keepsUp)
    return false
  }

  /**
   * Set while a tap's promise is pending. Resolves when the taps have returned its chunk and those queued behind it, with whether the
   * client keeps up. Rejects with a tap's error.
   */
  get busy(): Promise<boolean> | null {
    return this.#busy
  }

  #wait(through: Promise<boolean>): void {
    const busy = through.finally(() => {
      if (this.#busy === busy) this.#busy = null
    })
    // The caller decides whether to await it.
    busy.catch(() => {})
    this.#busy = busy
  }

  #tapped(chunk: Chunk, raw: Buffer | null): boolean | Promise<boolean> {
    if (this.#isOver) return true
    if (!this.#rawPasses) this.#noteFinishes(chunk)
    const out = throughTaps(this.#taps, chunk)
    return isPromise(out) ? out.then(chunks => this.#emitTapped(chunks, chunk, raw)) : this.#emitTapped(out, chunk, raw)
  }

  /** @param out the chunk after the taps */
  #emitTapped(out: readonly Chunk[], chunk: Chunk, raw: Buffer | null): boolean {
    if (this.#isOver) return true
    if (this.#rawPasses) return this.#emit(chunk, raw)
    let keepsUp = true
    for (const each of out) keepsUp = this.#emit(each, null) && keepsUp
    // The edit may still send the finish; the usage must follow it.
    if (this.#swallowed().length > 0) this.#tail ??= []
    return keepsUp
  }

  /**
   * Ends a successful stream: sends the withheld chunks and the end marker (`[DONE]`).
   * @param usage sent in one more chunk, which no step has seen
   */
  finish(usage: WireUsage | null = null): void {
    this.#isOver = true
    const swallowed = this.#swallowed().map(chunk => ({ chunk, raw: null }))
    const head = this.#first ?? swallowed[0]?.chunk
    const more = usage && head ? [{ chunk: usageChunk(head, usage), raw: null }] : []
    // In sending order: a format may write the beginning of the answer with its first chunk.
    const frames = [...swallowed, ...(this.#tail ?? []), ...more].map(({ chunk, raw }) =>
      this.#format.chunk(chunk, raw),
    )
    this.#client.endStream(Buffer.concat([...frames, this.#format.finish()]))
    this.#tail = null
  }

  /**
   * Ends a failed stream: one error event; no finish reason, no `[DONE]`. The body then ends properly, as at OpenAI and Anthropic. If the
   * connection breaks instead, clients lose the event (Spring AI) or throw a second error (AI SDK).
   */
  fail(refusal: Refusal): void {
    this.#isOver = true
    this.#tail = null
    this.#client.endStream(this.#format.fail(refusal))
  }

  /** Whether the withheld chunks exceed the limit. */
  get tailTooLong(): boolean {
    return this.#tailBytes > MAX_TAIL_BYTES
  }

  #emit(chunk: Chunk, raw: Buffer | null): boolean {
    this.#first ??= chunk
    const goesOn = this.#follow(chunk)
    if (this.#tail === null) {
      if (!finishes(chunk)) return this.#write(this.#format.chunk(chunk, raw), this.#delivered || hasContent(chunk))
      this.#tail = [{ chunk, raw }]
      // The size of the finish itself does not count: in another format the first frame may repeat the whole request.
      this.#tailBytes = 0
      return true
    }
    if (!goesOn) {
      this.#tail.push({ chunk, raw })
      this.#tailBytes += (raw?.length ?? JSON.stringify(chunk).length) + FRAME_BYTES
      return true
    }
    // The finish ended only one choice, or none.
    const before = this.#tail
    this.#tail = finishes(chunk) ? [{ chunk, raw }] : null
    this.#tailBytes = 0
    const released = this.#tail ? before : [...before, { chunk, raw }]
    // A revoked finish is sent at the end, followed by the usage.
    if (this.#swallowed().length > 0) this.#tail ??= []
    if (released.length === 0) return true
    const frames = released.map(kept => this.#format.chunk(kept.chunk, kept.raw))
    return this.#write(Buffer.concat(frames), this.#delivered || released.some(kept => hasContent(kept.chunk)))
  }

  #write(frame: Buffer, isContent: boolean): boolean {
    const keepsUp = this.#client.writeStream(frame)
    if (isContent && !this.#delivered) {
      this.#delivered = true
      this.#onContent()
    }
    return keepsUp
  }

  /** Records which choices begin and finish in a chunk that is sent. Returns whether its content releases the withheld chunks. */
  #follow(chunk: Chunk): boolean {
    let goesOn = false
    for (const choice of chunk.choices) {
      const index = indexOf(choice?.index)
      // Only an edit can swallow a finish, and only then `#begun` is read.
      if (!this.#rawPasses) this.#begun.add(index)
      if (this.#tail !== null && carries(choice?.delta)) {
        goesOn = true
        if (this.#finished.delete(index)) this.#takeFinishBack(index)
      }
      if (choice?.finish_reason) this.#finished.add(index)
    }
    return goesOn
  }

  /** A choice continues after its finish reason, which is then sent after the rest. */
  #takeFinishBack(index: number): void {
    this.#begun.add(index)
    this.#tail = this.#tail!.map(kept => {
      const isIts = (choice: Chunk['choices'][number]) => indexOf(choice?.index) === index && choice?.finish_reason
      if (!kept.chunk.choices.some(isIts)) return kept
      if (this.#rawPasses) this.#noteFinishes(kept.chunk)
      const choices = kept.chunk.choices.map(choice => (isIts(choice) ? { ...choice, finish_reason: null } : choice))
      return { chunk: { ...kept.chunk, choices }, raw: null }
    })
  }

  /** Called before the edits, which may change the chunk in place. */
  #noteFinishes({ choices, usage: _, ...head }: Chunk): void {
    for (const choice of choices) {
      if (!choice?.finish_reason) continue
      const { index, finish_reason } = choice
      this.#due.set(indexOf(index), { ...head, choices: [{ index, delta: {}, finish_reason }] })
    }
  }

  /**
   * Finishes that an edit dropped, of choices whose beginning the client has. If no choice has finished, at least one finish: a successful
   * stream states how it ended.
   */
  #swallowed(): readonly Chunk[] {
    const missing = [...this.#due].filter(([index]) => !this.#finished.has(index))
    const seen = missing.filter(([index]) => this.#begun.has(index))
    const due = seen.length > 0 || this.#finished.size > 0 ? seen : missing.slice(0, 1)
    return due.map(([, chunk]) => chunk)
  }
}

function usageChunk({ id, object, created, model }: Chunk, usage: WireUsage): Chunk {
  return { id, object, created, model, choices: [], usage }
}

function frameOf(json: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(DATA.length + json.length + END.length)
  DATA.copy(frame, 0)
  json.copy(frame, DATA.length)
  END.copy(frame, DATA.length + json.length)
  return frame
}

/** Whether a chunk has a finish reason. Providers send null, omit it, or (some) send an empty string. */
export function finishes(chunk: Chunk): boolean {
  for (const choice of chunk.choices) if (choice?.finish_reason) return true
  return false
}

/** Whether a chunk has content: text, reasoning, a refusal, a tool call, sound, pictures. */
export function hasContent(chunk: Chunk): boolean {
  for (const choice of chunk.choices) if (carries(choice?.delta)) return true
  return false
}

/** Whether one choice's delta has content. */
export function carries(delta: Delta | null | undefined): boolean {
  if (!delta) return false
  if (delta.content || delta.reasoning_content || delta.refusal || delta['reasoning'] || delta['audio']) return true
  if (hasCalls(delta)) return true
  if (Array.isArray(delta['images']) && delta['images'].length > 0) return true
  if (delta.anthropic_content !== undefined) return true
  return Boolean(delta['function_call'])
}

/** Whether a delta, or a whole message, calls a tool. */
export function hasCalls(delta: Delta | null | undefined): boolean {
  return Array.isArray(delta?.tool_calls) && delta.tool_calls.length > 0
}

/** No request can ask for more choices. */
const MAX_CHOICES = 128

/** A choice's index; an invalid one counts as the first. */
export function indexOf(index: unknown): number {
  return Number.isInteger(index) && (index as number) > 0 && (index as number) < MAX_CHOICES ? (index as number) : 0
}
