/**
 * The content of an answer as blocks in their order: one is open at a time, and what belongs to a later one waits. A whole
 * answer and a stream are written by the same machine, so both come to the same message however the stream was cut.
 */

/** Takes what the machine writes. Indices are dense. */
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

/** What a search of the web did, as its provider told it: of its call the words come in pieces. */
export type SearchBlock = Readonly<Record<string, unknown>> & {
  readonly type: 'server_tool_use' | 'web_search_tool_result'
}

export type Piece =
  | { readonly type: 'text_delta'; readonly text: string }
  | { readonly type: 'thinking_delta'; readonly thinking: string }
  | { readonly type: 'signature_delta'; readonly signature: string }
  | { readonly type: 'input_json_delta'; readonly partial_json: string }
  | { readonly type: 'citations_delta'; readonly citation: unknown }

/** A block that has not ended yet. */
export interface OpenBlock {
  readonly block: Block
  /** What of it was not written yet. */
  readonly waiting: Piece[]
  /** Nothing that belongs to it can come any more, once another block stands behind it. */
  isWhole(): boolean
  /** Called once, before it ends. */
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

  /** The block that was begun last, unless it has ended. */
  get newest(): OpenBlock | undefined {
    return this.#open.at(-1)
  }

  begin(block: OpenBlock): void {
    this.#open.push(block)
  }

  /** Writes what can be written. */
  flush(): void {
    while (this.#open.length > 0) {
      this.#write(this.#open[0]!)
      if (this.#open.length === 1 || !this.#open[0]!.isWhole()) return
      this.#stop()
    }
  }

  /** The answer is over. */
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
