/** Decodes a streamed message: server-sent events whose data has their type. */
import type { AnswerView, StreamDecoder, StreamItem } from '#contract'
import { parseAnswer } from '../json-exact.ts'
import { type SseEvent, SseReader } from '../sse.ts'
import { ChunkWriter } from '../translate/completion.ts'
import { isFields } from '../translate/value.ts'
import type { ErrorReader } from './errors.ts'
import { MessageEvents } from './events.ts'

const NONE: readonly StreamItem[] = []

export function decodeMessageStream(view: AnswerView, errors: ErrorReader): StreamDecoder {
  const reader = new SseReader()
  const writer = new ChunkWriter(view)
  const machine = new MessageEvents(writer, errors, view.searches)
  const take = (events: readonly SseEvent[]): readonly StreamItem[] => {
    for (const event of events) decode(event, machine)
    return events.length === 0 ? NONE : writer.take()
  }
  return { push: bytes => take(reader.push(bytes)), end: () => take(reader.end()) }
}

function decode({ event, data }: SseEvent, machine: MessageEvents): void {
  const parsed = parse(data)
  if (parsed !== undefined) {
    // An error of a proxy may have its type in the `event` field only.
    machine.event(event === 'error' && isFields(parsed) ? { ...parsed, type: 'error' } : parsed)
    return
  }
  // Some compatible APIs send OpenAI's [DONE] after the end of the message.
  if (data.length < 16 && data.toString('latin1').trim() === '[DONE]') return
  machine.broken('an event of the stream is not JSON')
}

function parse(data: Buffer): unknown {
  try {
    return parseAnswer(data.toString('utf8'), 'input')
  } catch {
    return undefined
  }
}
