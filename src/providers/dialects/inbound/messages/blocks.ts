/**
 * The blocks of an answer in order: one block is open at a time, and content of later ones waits. Whole answers and streams use the
 * same code, so both give the same message.
 */

/** Receives the blocks. Indices are consecutive. */
export interface BlockSink {
  start(index: number, block: Block): void
  add(index: number, piece: Piece): void
  stop(index: number): void
}

export type Block =
  | { readonly type: 'text'; readonly text: '' }
  | { readonly type: 'thinking'; readonly thinking: ''; readonly signature: '' }
  | { readonly type: 'redacted_thinking'; readonly data: string }
  | {
      readonly type: 'tool_use'
      readonly id: string
      readonly name: string
      readonly input: Readonly<Record<string, never>>
    }
  | SearchBlock

/** A block of Anthropic's web search. The input of a search request arrives in pieces. */
export type SearchBlock = Readonly<Record<string, unknown>> & {
  readonly type: 'server_tool_use' | 'web_search_tool_result'
}

export type Piece =
  | { readonly type: 'text_delta'; readonly text: string }
  | { readonly type: 'thinking_delta'; readonly thinking: string }
  | { readonly type: 'signature_delta'; readonly signature: string }
  | { readonly type: 'input_json_delta'; readonly partial_json: string }
  | { readonly type: 'citations_delta'; readonly citation: unknown }

/** A block that has not ended. */
export interface OpenBlock {
  readonly block: Block
  /** Pieces that were not written yet. */
  readonly waiting: Piece[]
  /** Whether it is complete once another block follows. */
  isWhole(): boolean
  /** The last piece, or null. Called once, before the block ends. */
  last(): Piece | null
}

export class BlockQueue {
  readonly #sink: BlockSink
  /** The first one is being written. */
  readonly #open: OpenBlock[] = []
  #index = 0
  #isStarted = false

  constructor(sink: BlockSink) {
    this.#sink = sink
  }

  /** The last block that began, unless it has ended. */
  get newest(): OpenBlock | undefined {
    return this.#open.at(-1)
  }

  begin(block: OpenBlock): void {
    this.#open.push(block)
  }

  /** Writes everything that can be written. */
  flush(): void {
    while (this.#open.length > 0) {
      this.#write(this.#open[0]!)
      if (this.#open.length === 1 || !this.#open[0]!.isWhole()) return
      this.#stop()
    }
  }

  /** Ends the answer. */
  end(): void {
    while (this.#open.length > 0) {
      this.#write(this.#open[0]!)
      this.#stop()
    }
  }

  #write({ block, waiting }: OpenBlock): void {
    if (!this.#isStarted) this.#sink.start(this.#index, block)
    this.#isStarted = true
    for (const piece of waiting.splice(0)) this.#sink.add(this.#index, piece)
  }

  #stop(): void {
    const last = this.#open.shift()!.last()
    if (last) this.#sink.add(this.#index, last)
    this.#sink.stop(this.#index)
    this.#index++
    this.#isStarted = false
  }
}
