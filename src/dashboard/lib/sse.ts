/**
 * Reads a streamed completion: the gateway's server-sent events, with the text in them. The gateway ends a stream in one of two
 * ways: a finish reason and `[DONE]`, or one error event and the end of the connection.
 */
import { createParser } from 'eventsource-parser'

/** An event of a streamed answer. */
export type StreamEvent =
  | { readonly kind: 'text'; readonly text: string }
  /** Reasoning that the model shows. */
  | { readonly kind: 'thought'; readonly text: string }
  | { readonly kind: 'finish'; readonly reason: string }
  | { readonly kind: 'usage'; readonly promptTokens: number; readonly completionTokens: number }
  | { readonly kind: 'error'; readonly code: string; readonly message: string }
  | { readonly kind: 'done' }

/** Yields the events of a body until it ends. An aborted request rejects as `fetch` does. */
export async function* readStream(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const found: StreamEvent[] = []
  const parser = createParser({ onEvent: ({ data }) => void found.push(...eventsOf(data)) })
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      parser.feed(decoder.decode(value, { stream: true }))
      yield* found.splice(0)
    }
  } finally {
    // Ending the iteration cancels the request.
    await reader.cancel().catch(() => {})
  }
}

/** The events in the data of one server-sent event. */
export function eventsOf(data: string): StreamEvent[] {
  if (data === '[DONE]') return [{ kind: 'done' }]
  const chunk = parsed(data)
  if (chunk === null)
    return [{ kind: 'error', code: 'unreadable_answer', message: 'A part of the answer is not JSON.' }]
  const found: StreamEvent[] = []
  const error = object(chunk['error'])
  if (error) {
    found.push({
      kind: 'error',
      code: text(error['code']) || 'unknown',
      message: text(error['message']) || 'The answer ended in an error.',
    })
  }
  const choice = object(Array.isArray(chunk['choices']) ? chunk['choices'][0] : undefined)
  const delta = object(choice?.['delta'])
  const thought = text(delta?.['reasoning_content']) || text(delta?.['reasoning'])
  if (thought !== '') found.push({ kind: 'thought', text: thought })
  // A refusal is text in place of an answer.
  const words = text(delta?.['content']) || text(delta?.['refusal'])
  if (words !== '') found.push({ kind: 'text', text: words })
  if (text(choice?.['finish_reason']) !== '') found.push({ kind: 'finish', reason: text(choice?.['finish_reason']) })
  const usage = object(chunk['usage'])
  if (usage) {
    found.push({
      kind: 'usage',
      promptTokens: count(usage['prompt_tokens']),
      completionTokens: count(usage['completion_tokens']),
    })
  }
  return found
}

/** Splits growing text into whole sentences, because a screen reader that announces every token cannot be followed. */
export class Sentences {
  #rest = ''

  /** The sentences that are complete now; an empty string for none. */
  add(text: string): string {
    this.#rest += text
    // A text without an end of a sentence is announced at this length, so that it is not searched again with every piece.
    const end = lastEnd(this.#rest) || (this.#rest.length > MAX_SENTENCE ? this.#rest.length : 0)
    const whole = this.#rest.slice(0, end)
    this.#rest = this.#rest.slice(end)
    return whole.trim()
  }

  /** The remaining text, at the end. */
  end(): string {
    const rest = this.#rest.trim()
    this.#rest = ''
    return rest
  }
}

const MAX_SENTENCE = 1000

function lastEnd(text: string): number {
  let end = 0
  for (const match of text.matchAll(/[.!?:;…]["')\]»”]*\s|\n|[。！？]/g)) end = match.index + match[0].length
  return end
}

function parsed(data: string): Record<string, unknown> | null {
  try {
    return object(JSON.parse(data)) ?? null
  } catch {
    return null
  }
}

function object(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.round(value) : 0
}
