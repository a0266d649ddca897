/** Encodes an answer as events of the Messages API (server-sent events). */
import type { Chunk, Refusal, StreamEncoder, WireUsage } from '#contract'
import { type AnswerContext, endOf, messageOf, namerOf } from './answer.ts'
import type { Block, BlockSink, Piece } from './blocks.ts'
import { ContentWriter } from './content-writer.ts'
import { errorBody } from './errors.ts'
import { firstUsage, messagesUsage } from './usage.ts'

export class MessageStreamEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  readonly #explain: (refusal: Refusal) => Refusal
  readonly #soFar: () => WireUsage | null
  readonly #events = new EventSink()
  readonly #writer: ContentWriter
  #model: string
  #isBegun = false
  #finish: string | null = null
  #stopped: unknown = null
  #usage: WireUsage | null = null

  /**
   * @param model the requested model, until a chunk has the catalog's name
   * @param explain translates a refusal about the canonical body to the client's
   * @param soFar see `InboundRequest`
   */
  constructor(
    context: AnswerContext,
    model: string,
    explain: (refusal: Refusal) => Refusal,
    soFar: () => WireUsage | null = () => null,
  ) {
    this.#context = context
    this.#model = model
    this.#explain = explain
    this.#soFar = soFar
    this.#writer = new ContentWriter(this.#events, namerOf(context), context.showsReasoning)
  }

  chunk(chunk: Chunk): Buffer {
    if (typeof chunk.model === 'string' && chunk.model !== '') this.#model = chunk.model
    this.#begin()
    // The last usage counts.
    if (chunk.usage) this.#usage = chunk.usage
    for (const choice of chunk.choices) {
      // A choice without an index is the only one.
      if ((choice.index ?? 0) !== 0) continue
      this.#writer.add(choice.delta ?? {})
      this.#finish = choice.finish_reason ?? this.#finish
      this.#stopped = choice['stop_reason'] ?? this.#stopped
    }
    return this.#events.take()
  }

  /** The counts and the stop reason are in one event, which is sent at the end. */
  finish(): Buffer {
    this.#begin()
    this.#writer.end()
    const delta = endOf(this.#finish, this.#stopped, this.#writer, this.#context)
    this.#events.event({ type: 'message_delta', delta, usage: messagesUsage(this.#usage) })
    this.#events.event({ type: 'message_stop' })
    return this.#events.take()
  }

  fail(refusal: Refusal): Buffer {
    return Buffer.from(`event: error\ndata: ${errorBody(this.#explain(refusal), this.#context.exchange)}\n\n`)
  }

  #begin(): void {
    if (this.#isBegun) return
    this.#isBegun = true
    const message = messageOf(this.#model, [], null, firstUsage(this.#soFar()), this.#context)
    this.#events.event({ type: 'message_start', message })
  }
}

class EventSink implements BlockSink {
  #text = ''

  take(): Buffer {
    const bytes = Buffer.from(this.#text)
    this.#text = ''
    return bytes
  }

  event(event: { readonly type: string; readonly [field: string]: unknown }): void {
    this.#text += `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
  }

  start(index: number, content_block: Block): void {
    this.event({ type: 'content_block_start', index, content_block })
  }

  add(index: number, delta: Piece): void {
    this.event({ type: 'content_block_delta', index, delta })
  }

  stop(index: number): void {
    this.event({ type: 'content_block_stop', index })
  }
}
