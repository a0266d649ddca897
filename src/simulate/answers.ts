/** The answers of a scripted provider, as bytes of the chat-completions format. */

import type { ChatCompletion, Chunk, WireUsage } from '#contract'
import { namesOf } from './known-options.ts'

/** A fault of the provider. */
export type Fault = 'unreachable' | 'reset' | 'silent' | 'garbage'

/** One answer of the provider. By default the provider is healthy. */
export interface ScriptedAnswer {
  /** The text, one token per element; a string is split into words. */
  readonly content?: string | readonly string[]
  /** Default: stop. */
  readonly finish?: string
  /** The reported usage; null: none. Default: 10 prompt tokens, and the tokens of the content. */
  readonly usage?: ScriptedUsage | null
  /** An error status has an error envelope unless `body` is set. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The raw body instead of an answer: a text, or a value that becomes JSON. */
  readonly body?: unknown
  /** The raw events of a stream instead of an answer: texts, or values that become JSON. */
  readonly events?: readonly unknown[]
  /** `unreachable`: no connection; `reset`: the connection breaks; `silent`: no more data; `garbage`: invalid JSON. */
  readonly fault?: Fault
  /** Number of events (or halves of a whole answer) before the fault. */
  readonly after?: number
  /** Delay before the answer, in milliseconds. */
  readonly waitMs?: number
  /** Called after each piece, an event or a half of a whole answer, with its number from 1. */
  readonly onPiece?: (nth: number) => void | Promise<void>
}

export const ANSWER_NAMES = namesOf<ScriptedAnswer>({
  content: true,
  finish: true,
  usage: true,
  status: true,
  headers: true,
  body: true,
  events: true,
  fault: true,
  after: true,
  waitMs: true,
  onPiece: true,
})

/** Tokens in OpenAI's counting: the prompt includes cached tokens, the completion includes reasoning. */
export interface ScriptedUsage {
  readonly prompt: number
  readonly completion: number
  readonly cached?: number
  readonly reasoning?: number
}

/** An answer as it is sent. */
export interface RenderedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly pieces: readonly string[]
}

const STANDARD_CONTENT = 'Hello from the provider.'
const ANSWERED_AT = 1_800_000_000

/** @param request the body of the request to the provider */
export function render(answer: ScriptedAnswer, request: Readonly<Record<string, unknown>> | null): RenderedAnswer {
  const { status = 200, headers = {} } = answer
  if (answer.events) return rendered(status, STREAM, headers, answer.events.map(event))
  if (answer.body !== undefined || status > 299) {
    const body = answer.body ?? { error: { message: `status ${status}`, type: 'error', param: null, code: null } }
    return rendered(status, JSON_TYPE, headers, halves(typeof body === 'string' ? body : JSON.stringify(body)))
  }
  if (request?.['stream'] === true) return rendered(status, STREAM, headers, streamOf(answer, request).map(event))
  return rendered(status, JSON_TYPE, headers, halves(JSON.stringify(wholeOf(answer, request ?? {}))))
}

const JSON_TYPE = 'application/json'
const STREAM = 'text/event-stream'

function rendered(
  status: number,
  type: string,
  headers: RenderedAnswer['headers'],
  pieces: readonly string[],
): RenderedAnswer {
  return { status, headers: { 'content-type': type, ...headers }, pieces }
}

function event(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

/** Splits a whole answer, so that it can break in the middle. */
function halves(text: string): string[] {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)].filter(half => half !== '')
}

function tokensOf({ content = STANDARD_CONTENT }: ScriptedAnswer): readonly string[] {
  return typeof content === 'string' ? (content.match(/\s*\S+\s*$|\s*\S+/g) ?? []) : content
}

function usageOf(answer: ScriptedAnswer, choices: number): WireUsage | null {
  if (answer.usage === null) return null
  const completion = tokensOf(answer).length * choices
  const usage: ScriptedUsage = answer.usage ?? { prompt: 10, completion }
  return {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
  }
}

function wholeOf(answer: ScriptedAnswer, request: Readonly<Record<string, unknown>>): ChatCompletion {
  const indexes = choicesOf(request)
  const usage = usageOf(answer, indexes.length)
  return {
    id: 'chatcmpl-scripted',
    object: 'chat.completion',
    created: ANSWERED_AT,
    model: String(request['model']),
    choices: indexes.map(index => ({
      index,
      message: { role: 'assistant', content: tokensOf(answer).join('') },
      finish_reason: answer.finish ?? 'stop',
    })),
    ...(usage ? { usage } : {}),
  }
}

function streamOf(answer: ScriptedAnswer, request: Readonly<Record<string, unknown>>): unknown[] {
  const indexes = choicesOf(request)
  const head = {
    id: 'chatcmpl-scripted',
    object: 'chat.completion.chunk',
    created: ANSWERED_AT,
    model: String(request['model']),
  }
  const chunk = (choices: Chunk['choices'], more: Partial<Chunk> = {}): Chunk => ({ ...head, choices, ...more })
  const contents = tokensOf(answer).flatMap((content, nth) =>
    indexes.map(index =>
      chunk([{ index, delta: { ...(nth === 0 ? { role: 'assistant' } : {}), content }, finish_reason: null }]),
    ),
  )
  const finishes = indexes.map(index => chunk([{ index, delta: {}, finish_reason: answer.finish ?? 'stop' }]))
  const usage = usageOf(answer, indexes.length)
  return [...contents, ...finishes, ...(usage ? [chunk([], { usage })] : []), '[DONE]']
}

function choicesOf(request: Readonly<Record<string, unknown>>): number[] {
  return Array.from({ length: Number(request['n'] ?? 1) }, (_, index) => index)
}
