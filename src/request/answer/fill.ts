/** Fills in the finish reasons that a provider omits from its streams (`missing_finish: stop`). */
import type { Chunk, StreamItem } from '#contract'
import { hasCalls, indexOf } from './stream.ts'

/** A chunk of a decoded stream. */
export type ChunkItem = Extract<StreamItem, { kind: 'chunk' }>

/** Creates the omitted finish reasons of one stream. */
export class FinishFiller {
  #last: Chunk | null = null
  /** The choices that call tools. */
  readonly #calling = new Set<number>()
  #held: ChunkItem | null = null

  note(chunk: Chunk): void {
    this.#last = chunk
    for (const choice of chunk.choices) if (hasCalls(choice?.delta)) this.#calling.add(indexOf(choice?.index))
  }

  /** Withholds a chunk that may have to follow the finish: some clients stop reading at the usage. */
  hold(item: ChunkItem): void {
    this.#held = item
  }

  /** Returns the withheld chunk, once. */
  release(): ChunkItem | null {
    const held = this.#held
    this.#held = null
    return held
  }

  /** Returns the chunk that finishes these choices; null if there are none. */
  finish(unfinished: readonly number[]): ChunkItem | null {
    if (this.#last === null || unfinished.length === 0) return null
    const { id, object, created, model } = this.#last
    const choices = unfinished.map(index => ({
      index,
      delta: {},
      finish_reason: this.#calling.has(index) ? 'tool_calls' : 'stop',
    }))
    return { kind: 'chunk', chunk: { id, object, created, model, choices }, raw: null, usage: null }
  }
}
