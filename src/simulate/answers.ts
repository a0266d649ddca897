/** What a scripted provider says, as the bytes of the chat-completions format. */

import type { ChatCompletion, Chunk, WireUsage } from '#contract'
import { namesOf } from './known-options.ts'

/** What went wrong at the provider. */
export type Fault = 'unreachable' | 'reset' | 'silent' | 'garbage'

/** One answer of the provider. Everything left out is as with a provider that is well. */
export interface ScriptedAnswer {
  /** What it says, a token an element; a text is cut into words. */
  readonly content?: string | readonly string[]
  /** Default: stop. */
  readonly finish?: string
  /** What it reports; null: nothing. Default: 10 tokens of prompt, and those of the content. */
  readonly usage?: ScriptedUsage | null
  /** An error status comes with an envelope unless `body` says otherwise. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The body as it is, in place of an answer: text, or what becomes JSON. */
  readonly body?: unknown
  /** The events of a stream as they are, in place of an answer: text, or what becomes JSON. */
  readonly events?: readonly unknown[]
  /** `unreachable`: no connection; `reset`: it breaks off; `silent`: nothing more comes; `garbage`: what is no JSON. */
  readonly fault?: Fault
  /** So many events (or halves of a whole answer) come before the fault. */
  readonly after?: number
  /** So much time passes before it begins to answer, in milliseconds. */
  readonly waitMs?: number
  /** Called behind each piece of it, an event or a half of a whole answer; the first is 1. */
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

/** Tokens, as providers count them: prompt with what was cached, completion with reasoning. */
export interface ScriptedUsage {
  readonly prompt: number
  readonly completion: number
  readonly cached?: number
  readonly reasoning?: number
}

/** An answer as it leaves. */
export interface Rendered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly pieces: readonly string[]
}

const STANDARD_CONTENT = 'Hello from the provider.'
const ANSWERED_AT = 1_800_000_000

/** @param request the body that was sent to the provider */
export function render(answer: ScriptedAnswer, request: Readonly<Record<string, unknown>> | null): Rendered {
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

function rendered(status: number, type: string, headers: Rendered['headers'], pieces: readonly string[]): Rendered {
  return { status, headers: { 'content-type': type, ...headers }, pieces }
}

function event(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

/** So that a whole answer can break in its middle. */
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
