/**
 * Decodes ConverseStream. Text and reasoning have no start event, calls do. Usage comes last, after the stop reason, and marks the
 * answer as complete.
 */

import type { AnswerView, StreamDecoder, StreamItem } from '#contract'
import { ByteCollector } from '../../../common/bytes.ts'
import { finishOf } from '../finish-words.ts'
import { ChunkWriter } from '../translate/completion.ts'
import { isClientCall, isJson, type Json, stopReasonOf, usageOf } from './answer.ts'
import { EventStreamBroken, type EventStreamMessage, EventStreamReader } from './event-stream.ts'
import type { AwsError, FailAws } from './failures.ts'
import { ANSWER_TOOL } from './request.ts'

export function decodeConverseStream(view: AnswerView, fail: FailAws): StreamDecoder {
  const writer = new ChunkWriter(view)
  const answer = new ConverseStream(writer, fail)
  return decodeFrames(writer, message => answer.message(message))
}

/** A decoder of frames. `take` handles each message and writes to the writer. */
export function decodeFrames(writer: ChunkWriter, take: (message: EventStreamMessage) => void): StreamDecoder {
  const reader = new EventStreamReader()
  let isBroken = false
  return {
    push(bytes) {
      if (isBroken) return NONE
      try {
        for (const message of reader.push(bytes)) take(message)
      } catch (error) {
        if (!(error instanceof EventStreamBroken)) throw error
        isBroken = true
        for (const message of error.messages) take(message)
        writer.fail({ code: 'upstream_invalid', detail: error.message })
      }
      return writer.take()
    },
    // An incomplete frame is ignored; the pump checks whether the answer was complete.
    end: () => NONE,
  }
}

const NONE: readonly StreamItem[] = []
const NO_HEADERS = {}

/** The open blocks of the answer by index, except text. */
type Block =
  /** Arguments of the client's call with this index in the gateway's stream. */
  | { readonly kind: 'call'; readonly index: number }
  /** Arguments of `ANSWER_TOOL`, which are the answer. */
  | { readonly kind: 'answer'; hasText: boolean }
  /** A call of a tool that AWS runs itself. */
  | { readonly kind: 'skipped' }
  | { readonly kind: 'thought'; text: string; signature: string; readonly sealed: ByteCollector }

class ConverseStream {
  readonly #writer: ChunkWriter
  readonly #fail: FailAws
  readonly #blocks = new Map<unknown, Block>()
  #hasStructured = false
  #hasUsage = false
  #isStopped = false

  constructor(writer: ChunkWriter, fail: FailAws) {
    this.#writer = writer
    this.#fail = fail
  }

  message({ headers, payload }: EventStreamMessage): void {
    if (isEvent(headers)) {
      const event = jsonIn(payload)
      if (event) this.#event(headers.get(':event-type'), event)
      else this.#writer.fail({ code: 'upstream_invalid', detail: 'an event of the stream is not a JSON object' })
      return
    }
    this.#writer.fail(this.#fail(awsErrorOf({ headers, payload })))
  }

  #event(type: string | undefined, event: Json): void {
    switch (type) {
      case 'messageStart':
        this.#writer.begin()
        break
      case 'contentBlockStart':
        this.#start(event['contentBlockIndex'], event['start'])
        break
      case 'contentBlockDelta':
        if (isJson(event['delta'])) this.#delta(event['contentBlockIndex'], event['delta'])
        break
      case 'contentBlockStop':
        this.#stop(event['contentBlockIndex'])
        break
      case 'messageStop':
        this.#finish(event['stopReason'])
        break
      case 'metadata':
        this.#usage(event['usage'], event['serviceTier'])
    }
  }

  #start(at: unknown, start: unknown): void {
    if (!isJson(start)) return
    const { toolUse } = start
    if (!isClientCall(toolUse)) {
      if ('toolUse' in start || 'toolResult' in start) this.#blocks.set(at, { kind: 'skipped' })
    } else if (toolUse.name === ANSWER_TOOL) {
      this.#blocks.set(at, this.#hasStructured ? { kind: 'skipped' } : { kind: 'answer', hasText: false })
      this.#hasStructured = true
    } else {
      const { toolUseId, name } = toolUse
      const id = typeof toolUseId === 'string' ? toolUseId : null
      this.#blocks.set(at, { kind: 'call', index: this.#writer.call({ id, name, arguments: '' }) })
    }
  }

  #delta(at: unknown, { text, toolUse, reasoningContent }: Json): void {
    if (typeof text === 'string') this.#writer.text(text)
    else if (isJson(toolUse)) this.#arguments(this.#blocks.get(at), toolUse['input'])
    else if (isJson(reasoningContent)) this.#think(at, reasoningContent)
  }

  #arguments(block: Block | undefined, text: unknown): void {
    if (typeof text !== 'string') return
    if (block?.kind === 'call') this.#writer.callArguments(block.index, text)
    else if (block?.kind === 'answer') {
      block.hasText ||= text !== ''
      this.#writer.text(text)
    } else if (block?.kind !== 'skipped') {
      this.#writer.fail({ code: 'upstream_invalid', detail: 'the stream has arguments of a call that never began' })
    }
  }

  #think(at: unknown, { text, signature, redactedContent }: Json): void {
    let block = this.#blocks.get(at)
    if (block?.kind !== 'thought') {
      block = { kind: 'thought', text: '', signature: '', sealed: new ByteCollector() }
      this.#blocks.set(at, block)
    }
    if (typeof text === 'string') {
      block.text += text
      this.#writer.reasoning(text)
    }
    if (typeof signature === 'string') block.signature += signature
    // Each piece is encoded separately in base64, so the decoded bytes are joined.
    if (typeof redactedContent === 'string') block.sealed.add(Buffer.from(redactedContent, 'base64'))
  }

  #stop(at: unknown): void {
    const block = this.#blocks.get(at)
    this.#blocks.delete(at)
    if (block?.kind === 'call') this.#writer.callEnd(block.index)
    else if (block?.kind === 'answer' && !block.hasText) this.#writer.text('{}')
    else if (block?.kind === 'thought') this.#thought(block)
  }

  /** The complete reasoning, for the next request: a signature is valid for the whole text only. */
  #thought({ text, signature, sealed }: Extract<Block, { kind: 'thought' }>): void {
    if (sealed.size > 0) {
      this.#writer.detail({ type: 'reasoning.encrypted', data: sealed.take().toString('base64') })
    }
    if (signature !== '') this.#writer.detail({ type: 'reasoning.text', text, signature })
  }

  #finish(stopReason: unknown): void {
    if (this.#isStopped) return
    this.#isStopped = true
    for (const at of [...this.#blocks.keys()]) this.#stop(at)
    if (typeof stopReason !== 'string')
      this.#writer.fail({ code: 'upstream_invalid', detail: 'the answer has no stopReason' })
    else this.#writer.finish(finishOf(stopReason, this.#writer.calls > 0), stopReasonOf(stopReason))
    if (this.#hasUsage) this.#writer.done()
  }

  #usage(counts: unknown, tier: unknown): void {
    const usage = usageOf(counts, tier)
    if (usage) this.#writer.usage(usage)
    this.#hasUsage = true
    if (this.#isStopped) this.#writer.done()
  }
}

/** Some front ends omit `:message-type` and send only `:event-type`. */
export function isEvent(headers: EventStreamMessage['headers']): boolean {
  return (headers.get(':message-type') ?? (headers.has(':event-type') ? 'event' : null)) === 'event'
}

/** The error in a message that is not an event: an exception with a payload, or an error in the headers. */
export function awsErrorOf({ headers, payload }: EventStreamMessage): AwsError {
  const text = jsonIn(payload)?.['message'] ?? headers.get(':error-message')
  const type = headers.get(':exception-type') ?? headers.get(':error-code') ?? headers.get(':message-type') ?? null
  return { status: null, headers: NO_HEADERS, type, message: typeof text === 'string' ? text : null }
}

export function jsonIn(payload: Buffer): Json | null {
  try {
    const parsed: unknown = JSON.parse(payload.toString('utf8'))
    return isJson(parsed) ? parsed : null
  } catch {
    return null
  }
}
