/**
 * A streamed answer. Its one peculiarity: an event with a finish reason is kept back, and everything after it, until
 * a choice goes on, or the pipeline has unwound. So what the client sees last (finish, usage, `[DONE]`) leaves only
 * after its charge is committed, and an answer that could not be charged never looks finished.
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

/** How chunks are written to a client: as they are, or in a format of its own. `raw` is the chunk as the provider wrote it. */
export interface StreamFormat extends Omit<StreamEncoder, 'chunk'> {
  chunk(chunk: Chunk, raw: Buffer | null): Buffer
}

const CHAT_FORMAT: StreamFormat = {
  chunk: (chunk, raw) => frameOf(raw ?? Buffer.from(JSON.stringify(chunk))),
  finish: () => DONE,
  fail: failureFrame,
}

/**
 * The last event of a stream that went wrong. Some typed clients (Spring AI, langchain4j) do not know `error` in a chunk, and take an
 * answer that ends there for a whole one. So `created`, a number in every chunk, is the message here: those clients fail with it.
 */
export function failureFrame(refusal: Refusal): Buffer {
  const { error } = envelope(refusal)
  return frameOf(Buffer.from(JSON.stringify({ error, created: error.message })))
}

/** More than this behind a finish reason is no tail but an attack. */
const MAX_TAIL_BYTES = 256 * 1024
/** About the size of the object around a frame, in bytes. */
const FRAME_BYTES = 128

/** A chunk that waits to be written, and its bytes as the provider wrote it. */
interface Kept {
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
  /** It has ended: what a tap still makes of earlier chunks goes nowhere. */
  #isOver = false
  #busy: Promise<boolean> | null = null
  #tail: Kept[] | null = null
  #tailBytes = 0
  /** The choices of which something, and those of which a finish reason, has gone to the client or into the tail. */
  readonly #begun = new Set<number>()
  readonly #finished = new Set<number>()
  /** The first chunk that has left, or is kept back: a further one has the same head. */
  #first: Chunk | null = null
  /** By choice: its finish as it came, for the case that an edit swallows it, or that the choice goes on. */
  readonly #due = new Map<number, Chunk>()

  /** @param onContent told once, when the first piece that has content has gone to the client */
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

  /** Whether text for a choice that has begun leaves as it is: nobody looks at it, and nothing is kept back. */
  get passesText(): boolean {
    return this.#first !== null && this.#tail === null && this.#taps.length === 0 && this.#format === CHAT_FORMAT
  }

  /**
   * Hands on what `passesText`.
   * @returns false when the client does not keep up
   */
  text({ event }: TextPiece): boolean {
    return this.#write(event, true)
  }

  /**
   * Hands a chunk to the client, or keeps it back behind a finish reason.
   * @returns false when the client does not keep up, or when a tap is `busy`
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
   * While a tap has promised what it makes of a chunk: resolves when that chunk and those behind it, as far as they have come,
   * are through, with whether the client keeps up; rejects with what a tap has thrown. Otherwise null.
   */
  get busy(): Promise<boolean> | null {
    return this.#busy
  }

  #wait(through: Promise<boolean>): void {
    const busy = through.finally(() => {
      if (this.#busy === busy) this.#busy = null
    })
    // Whether anybody waits for it is the caller's to say.
    busy.catch(() => {})
    this.#busy = busy
  }

  #tapped(chunk: Chunk, raw: Buffer | null): boolean | Promise<boolean> {
    if (this.#isOver) return true
    if (!this.#rawPasses) this.#noteFinishes(chunk)
    const out = throughTaps(this.#taps, chunk)
    return isPromise(out) ? out.then(chunks => this.#leave(chunks, chunk, raw)) : this.#leave(out, chunk, raw)
  }

  /** @param out what the taps have made of the chunk */
  #leave(out: readonly Chunk[], chunk: Chunk, raw: Buffer | null): boolean {
    if (this.#isOver) return true
    if (this.#rawPasses) return this.#emit(chunk, raw)
    let keepsUp = true
    for (const each of out) keepsUp = this.#emit(each, null) && keepsUp
    // The finish may still come from the edit; its usage does not leave before it.
    if (this.#swallowed().length > 0) this.#tail ??= []
    return keepsUp
  }

  /**
   * The end of a stream that went well: what was kept back, and what says that it is over (`[DONE]`).
   * @param usage told in one more chunk, which no step has seen
   */
  finish(usage: WireUsage | null = null): void {
    this.#isOver = true
    const swallowed = this.#swallowed().map(chunk => ({ chunk, raw: null }))
    const head = this.#first ?? swallowed[0]?.chunk
    const more = usage && head ? [{ chunk: usageChunk(head, usage), raw: null }] : []
    // In the order in which they leave: a format may say with the first what belongs to the beginning.
    const frames = [...swallowed, ...(this.#tail ?? []), ...more].map(({ chunk, raw }) =>
      this.#format.chunk(chunk, raw),
    )
    this.#client.endStream(Buffer.concat([...frames, this.#format.finish()]))
    this.#tail = null
  }

  /**
   * The end of one that did not: one error event; no finish reason, no `[DONE]`. The body ends properly behind it, as at OpenAI and
   * Anthropic: clients whose connection breaks lose the event (Spring AI) or throw a second error (AI SDK).
   */
  fail(refusal: Refusal): void {
    this.#isOver = true
    this.#tail = null
    this.#client.endStream(this.#format.fail(refusal))
  }

  /** Whether what is kept back has grown beyond reason. */
  get tailTooLong(): boolean {
    return this.#tailBytes > MAX_TAIL_BYTES
  }

  #emit(chunk: Chunk, raw: Buffer | null): boolean {
    this.#first ??= chunk
    const goesOn = this.#follow(chunk)
    if (this.#tail === null) {
      if (!finishes(chunk)) return this.#write(this.#format.chunk(chunk, raw), this.#delivered || hasContent(chunk))
      this.#tail = [{ chunk, raw }]
      // Its own size says nothing: in another format the first frame may repeat the whole request.
      this.#tailBytes = 0
      return true
    }
    if (!goesOn) {
      this.#tail.push({ chunk, raw })
      this.#tailBytes += (raw?.length ?? JSON.stringify(chunk).length) + FRAME_BYTES
      return true
    }
    // The finish was one choice's and not the answer's, or none at all.
    const before = this.#tail
    this.#tail = finishes(chunk) ? [{ chunk, raw }] : null
    this.#tailBytes = 0
    const released = this.#tail ? before : [...before, { chunk, raw }]
    // A finish that was taken back leaves at the end, and the usage behind it.
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

  /** Notes which choices begin and finish in a chunk that leaves. Returns whether it has content that what is kept back waits for. */
  #follow(chunk: Chunk): boolean {
    let goesOn = false
    for (const choice of chunk.choices) {
      const index = indexOf(choice?.index)
      // Only an edit can swallow a finish, and only then is it asked who has begun.
      if (!this.#rawPasses) this.#begun.add(index)
      if (this.#tail !== null && carries(choice?.delta)) {
        goesOn = true
        if (this.#finished.delete(index)) this.#takeFinishBack(index)
      }
      if (choice?.finish_reason) this.#finished.add(index)
    }
    return goesOn
  }

  /** A choice goes on behind its finish reason, which then leaves behind all of it. */
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

  /** Before the edits, which may change the chunk in its place. */
  #noteFinishes({ choices, usage: _, ...head }: Chunk): void {
    for (const choice of choices) {
      if (!choice?.finish_reason) continue
      const { index, finish_reason } = choice
      this.#due.set(indexOf(index), { ...head, choices: [{ index, delta: {}, finish_reason }] })
    }
  }

  /**
   * The finishes that came and that no edit has let out: of choices that the client has seen begin, or one at least. A
   * stream that says that it went well says how it ended.
   */
  #swallowed(): readonly Chunk[] {
    const missing = [...this.#due].filter(([index]) => !this.#finished.has(index))
    const seen = missing.filter(([index]) => this.#begun.has(index))
    const told = seen.length > 0 || this.#finished.size > 0 ? seen : missing.slice(0, 1)
    return told.map(([, chunk]) => chunk)
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

/** Whether a chunk carries a finish reason. Providers send null, leave it out, or (some) send an empty string. */
export function finishes(chunk: Chunk): boolean {
  for (const choice of chunk.choices) if (choice?.finish_reason) return true
  return false
}

/** Whether a chunk carries anything of an answer: text, thinking, a refusal, a tool call, sound, pictures. */
export function hasContent(chunk: Chunk): boolean {
  for (const choice of chunk.choices) if (carries(choice?.delta)) return true
  return false
}

/** The same of one choice's delta. */
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

/** More choices than this no request can ask for. */
const MAX_CHOICES = 128

/** A choice's index; one that is none counts as the first. */
export function indexOf(index: unknown): number {
  return Number.isInteger(index) && (index as number) > 0 && (index as number) < MAX_CHOICES ? (index as number) : 0
}
