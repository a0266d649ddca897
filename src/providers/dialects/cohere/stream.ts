/** Decodes a streamed answer: server-sent events whose data has their type. */

import type { AnswerView, StreamDecoder, StreamItem } from '#contract'
import { finishOf } from '../finish-words.ts'
import { type SseEvent, SseReader } from '../sse.ts'
import { ChunkWriter } from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import { BETWEEN, isNothing, stopReasonOf, usageOf } from './answer.ts'
import type { ErrorReader } from './failures.ts'

const NONE: readonly StreamItem[] = []
/** Longer arguments cannot be `null`, even with white space around it. */
const MAX_NOTHING = 16

/** An open tool call. */
interface OpenCall {
  readonly index: number
  /** The beginning of its arguments while they may still be `null`; null: they are not. */
  held: string | null
}

export class CohereStream implements StreamDecoder {
  readonly #errors: ErrorReader
  readonly #reader = new SseReader()
  readonly #writer: ChunkWriter
  /** By the provider's index. */
  readonly #calls = new Map<unknown, OpenCall>()
  #hasThought = false
  #hasPlan = false
  #isOver = false

  constructor(view: AnswerView, errors: ErrorReader) {
    this.#errors = errors
    this.#writer = new ChunkWriter(view)
  }

  push(bytes: Buffer): readonly StreamItem[] {
    return this.#isOver ? NONE : this.#take(this.#reader.push(bytes))
  }

  end(): readonly StreamItem[] {
    return this.#isOver ? NONE : this.#take(this.#reader.end())
  }

  #take(events: readonly SseEvent[]): readonly StreamItem[] {
    for (const event of events) this.#decode(event)
    return events.length === 0 ? NONE : this.#writer.take()
  }

  #decode({ event, data }: SseEvent): void {
    if (this.#isOver) return
    let parsed: unknown
    try {
      parsed = JSON.parse(data.toString('utf8'))
    } catch {
      // [DONE] follows the end of the message; without that end it is ignored.
      if (!isDone(data)) this.#broken('an event of the stream is not JSON')
      return
    }
    if (!isFields(parsed)) this.#broken('an event of the stream is not an object')
    else if (event === 'error' || isError(parsed)) {
      this.#isOver = true
      this.#writer.fail(this.#errors.inside(parsed))
    } else this.#event(parsed)
  }

  #broken(detail: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#writer.fail({ code: 'upstream_invalid', detail })
  }

  #event(event: Fields): void {
    const { type, index, id } = event
    const delta = isFields(event['delta']) ? event['delta'] : {}
    const message = isFields(delta['message']) ? delta['message'] : {}
    switch (type) {
      case 'content-start':
      case 'content-delta':
        this.#content(message['content'])
        break
      case 'tool-plan-delta':
        this.#plan(textIn(message['tool_plan']))
        break
      case 'tool-call-start':
        this.#callStart(index, message['tool_calls'])
        break
      case 'tool-call-delta':
        this.#callDelta(this.#calls.get(index), message['tool_calls'])
        break
      case 'tool-call-end':
        this.#callEnd(index)
        break
      case 'message-start':
        this.#writer.identify(id)
        this.#writer.begin()
        break
      case 'message-end':
        this.#end(delta)
        break
      // Citations and unknown events are not text of the answer.
    }
  }

  #content(content: unknown): void {
    if (!isFields(content)) return
    const thought = textIn(content['thinking'])
    if (thought !== '') this.#hasThought = true
    this.#writer.reasoning(thought)
    this.#writer.text(textIn(content['text']))
  }

  #plan(text: string): void {
    if (text === '') return
    if (this.#hasThought && !this.#hasPlan) this.#writer.reasoning(BETWEEN)
    this.#hasPlan = true
    this.#writer.reasoning(text)
  }

  #callStart(at: unknown, value: unknown): void {
    const call = callIn(value)
    const made = functionIn(call)
    const index = this.#writer.call({ id: textIn(call['id']) || null, name: textIn(made['name']), arguments: '' })
    const open: OpenCall = { index, held: '' }
    this.#calls.set(at, open)
    this.#arguments(open, textIn(made['arguments']))
  }

  #callDelta(open: OpenCall | undefined, value: unknown): void {
    if (open) this.#arguments(open, textIn(functionIn(callIn(value))['arguments']))
  }

  #arguments(open: OpenCall, text: string): void {
    if (open.held === null) {
      this.#writer.callArguments(open.index, text)
      return
    }
    open.held += text
    if (!open.held.includes('{') && open.held.length <= MAX_NOTHING) return
    this.#writer.callArguments(open.index, open.held)
    open.held = null
  }

  #callEnd(at: unknown): void {
    const open = this.#calls.get(at)
    if (!open) return
    this.#calls.delete(at)
    if (open.held !== null && !isNothing(open.held)) this.#writer.callArguments(open.index, open.held)
    this.#writer.callEnd(open.index)
  }

  #end({ finish_reason: reason, usage: used, error }: Fields): void {
    this.#isOver = true
    const usage = usageOf(used)
    if (usage) this.#writer.usage(usage)
    for (const at of [...this.#calls.keys()]) this.#callEnd(at)
    const finish = finishOf(reason, this.#writer.calls > 0)
    if (typeof finish !== 'string') this.#writer.fail(this.#errors.ended(finish, error))
    else {
      this.#writer.finish(finish, stopReasonOf(reason))
      this.#writer.done()
    }
  }
}

function isDone(data: Buffer): boolean {
  return data.length < 16 && data.toString('latin1').trim() === '[DONE]'
}

/** An error has no type, and its sentence in `message`, where an answer has an object. */
function isError({ type, message, error }: Fields): boolean {
  return type === undefined && (typeof message === 'string' || Boolean(error))
}

/** The single call in a field with a plural name. */
function callIn(value: unknown): Fields {
  const call: unknown = Array.isArray(value) ? value[0] : value
  return isFields(call) ? call : {}
}

function functionIn({ function: made }: Fields): Fields {
  return isFields(made) ? made : {}
}
