/**
 * A streamed answer. Its one peculiarity: an event with a finish reason is kept back, and everything after it, until
 * more content comes or the pipeline has unwound. So what the client sees last (finish, usage, `[DONE]`) leaves only
 * after its charge is committed, and an answer that could not be charged never looks finished.
 */
import { type Chunk, envelope, type Refusal } from '#contract'
import type { Client } from './client.ts'
import { onlyWatched, type Tap, throughTaps } from './taps.ts'

const DATA = Buffer.from('data: ')
const END = Buffer.from('\n\n')
const DONE = Buffer.from('data: [DONE]\n\n')

/** More than this behind a finish reason is no tail but an attack. */
const LONGEST_TAIL_BYTES = 256 * 1024

export class StreamAnswer {
  readonly #client: Client
  readonly #taps: readonly Tap[]
  readonly #rawPasses: boolean
  #tail: Buffer[] | null = null
  #tailBytes = 0

  constructor(client: Client, taps: readonly Tap[]) {
    this.#client = client
    this.#taps = taps
    this.#rawPasses = onlyWatched(taps)
  }

  /**
   * Hands a chunk to the client, or keeps it back behind a finish reason.
   * @returns false when the client does not keep up
   */
  chunk(chunk: Chunk, raw: Buffer | null): boolean {
    if (this.#taps.length === 0) return this.#emit(chunk, raw)
    const out = throughTaps(this.#taps, chunk)
    if (this.#rawPasses) return this.#emit(chunk, raw)
    let keepsUp = true
    for (const each of out) keepsUp = this.#emit(each, null) && keepsUp
    return keepsUp
  }

  /** The end of a stream that went well: what was kept back, and `[DONE]`. */
  finish(): void {
    this.#client.endStream(Buffer.concat([...(this.#tail ?? []), DONE]))
    this.#tail = null
  }

  /** The end of one that did not: one error event, then the connection's end; no finish reason, no `[DONE]`. */
  fail(refusal: Refusal): void {
    this.#tail = null
    this.#client.breakStream(frameOf(Buffer.from(JSON.stringify(envelope(refusal)))))
  }

  /** Whether what is kept back has grown beyond reason. */
  get tailTooLong(): boolean {
    return this.#tailBytes > LONGEST_TAIL_BYTES
  }

  #emit(chunk: Chunk, raw: Buffer | null): boolean {
    const frame = frameOf(raw ?? Buffer.from(JSON.stringify(chunk)))
    if (this.#tail === null) {
      if (!finishes(chunk)) return this.#client.writeStream(frame)
      this.#tail = [frame]
      this.#tailBytes = frame.length
      return true
    }
    if (!hasContent(chunk)) {
      this.#tail.push(frame)
      this.#tailBytes += frame.length
      return true
    }
    // Another choice goes on: the finish was one choice's, not the answer's.
    const before = this.#tail
    this.#tail = finishes(chunk) ? [frame] : null
    this.#tailBytes = this.#tail ? frame.length : 0
    return this.#client.writeStream(Buffer.concat(this.#tail ? before : [...before, frame]))
  }
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

/** Whether a chunk carries anything of an answer: text, thinking, a refusal, a tool call, sound. */
export function hasContent(chunk: Chunk): boolean {
  for (const choice of chunk.choices) {
    const delta = choice?.delta
    if (!delta) continue
    if (delta.content || delta.reasoning_content || delta.refusal || delta['reasoning'] || delta['audio']) return true
    if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) return true
    if (delta['function_call']) return true
  }
  return false
}
