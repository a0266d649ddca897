/** A conversation in the playground: the questions, the answers so far, and the next request. */
import type { AccountView, ReceiptView } from '../../api/views.ts'
import type { StreamEvent } from './sse.ts'

/** `failed`: ended with an error; `broken`: the connection closed without an error and without `[DONE]`. */
export type AnswerState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed' | 'broken'

/** The error of an answer, as the gateway reported it. */
export interface AnswerError {
  readonly code: string
  readonly message: string
}

/** An answer, as far as it has arrived. */
export interface Answer {
  readonly state: AnswerState
  readonly model: string
  readonly text: string
  readonly thoughts: string
  readonly finish: string | null
  readonly error: AnswerError | null
  /** Milliseconds from the click to the first piece, and to the end. */
  readonly firstMs: number | null
  readonly totalMs: number | null
  /** The number of received pieces: about the number of tokens, until the provider reports that. */
  readonly pieces: number
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  /** The id of the receipt. */
  readonly requestId: string | null
  /** The output cap that the gateway set, because the balance covers no more. */
  readonly cap: number | null
  readonly receipt: ReceiptView | null
  /** Whether the answer has ended and its receipt is not settled yet. */
  readonly settling: boolean
  /** The account after the charge. */
  readonly account: AccountView | null
}

/** A question and its answer. */
export interface Turn {
  readonly id: number
  readonly question: string
  readonly answer: Answer
}

/** The settings of a request. */
export interface Settings {
  readonly model: string
  /** Whether the model is free: its requests have no receipt. */
  readonly free: boolean
  readonly system: string
  readonly longest?: number | undefined
  readonly temperature?: number | undefined
  readonly effort?: string | undefined
}

/** An answer before its first event. */
export function newAnswer(model: string): Answer {
  return {
    state: 'waiting',
    model,
    text: '',
    thoughts: '',
    finish: null,
    error: null,
    firstMs: null,
    totalMs: null,
    pieces: 0,
    promptTokens: null,
    completionTokens: null,
    requestId: null,
    cap: null,
    receipt: null,
    settling: false,
    account: null,
  }
}

/** Whether more events may arrive. */
export function isOpen({ state }: Answer): boolean {
  return state === 'waiting' || state === 'streaming'
}

/** The answer with one more event; `ms`: since the click. */
export function withEvent(answer: Answer, event: StreamEvent, ms: number): Answer {
  switch (event.kind) {
    case 'text':
      return { ...began(answer, ms), text: answer.text + event.text, pieces: answer.pieces + 1 }
    case 'thought':
      return { ...began(answer, ms), thoughts: answer.thoughts + event.text, pieces: answer.pieces + 1 }
    case 'finish':
      return { ...answer, finish: event.reason }
    case 'usage':
      return { ...answer, promptTokens: event.promptTokens, completionTokens: event.completionTokens }
    case 'error':
      return { ...answer, state: 'failed', error: { code: event.code, message: event.message }, totalMs: ms }
    case 'done':
      // `[DONE]` after an error does not make the answer complete.
      return answer.state === 'failed' ? answer : { ...answer, state: 'done', totalMs: ms }
  }
}

/** The answer at the end of its stream: without `[DONE]` and without an error it is broken. */
export function withEnd(answer: Answer, ms: number): Answer {
  if (!isOpen(answer)) return answer
  return {
    ...answer,
    state: 'broken',
    totalMs: ms,
    error: { code: 'connection_lost', message: 'The connection closed before the answer was complete.' },
  }
}

/** The request's body for the playground's route. */
export function requestOf(turns: readonly Turn[], question: string, settings: Settings): object {
  const { model, system, longest, temperature, effort } = settings
  return {
    model,
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
      ...turns.flatMap(messagesOf),
      { role: 'user', content: question },
    ],
    ...(longest === undefined ? {} : { max_completion_tokens: longest }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
  }
}

/** A question without an answer is not sent again: two questions in a row are not a conversation. */
function messagesOf({ question, answer }: Turn): { role: string; content: string }[] {
  if (answer.text === '') return []
  return [
    { role: 'user', content: question },
    { role: 'assistant', content: answer.text },
  ]
}

/** Advice for an error; null: the message is enough. */
export function adviceFor(code: string): string | null {
  return Object.hasOwn(ADVICE, code) ? ADVICE[code]! : null
}

const ADVICE: Readonly<Record<string, string>> = {
  insufficient_quota:
    'Ask the operator of this gateway for credit. A shorter answer, a shorter conversation or a cheaper model may still work.',
  credit_on_hold: 'Requests in progress hold the rest of the credit. Try again when they finish.',
  spending_cap_reached: 'The playground key has reached its spending cap. Raise or remove the cap under API keys.',
  rate_limit_exceeded: 'Wait a little, then try again.',
  upstream_rate_limited: 'Wait a little, then try again, or choose another model.',
  context_length_exceeded: 'Start a new chat, or choose a model with a larger context.',
  model_not_found: 'Choose another model.',
  account_frozen: 'Only an operator of this gateway can change this.',
  plan_not_declared: 'Only an operator of this gateway can change this.',
  unsupported_parameter: 'Remove the setting named in the error.',
  content_filter: 'Rephrase the message.',
  upstream_overloaded: 'Try again in a moment, or choose another model.',
  upstream_unreachable: 'Try again in a moment, or choose another model.',
  upstream_timeout: 'Try again, or choose another model.',
  overloaded: 'Try again in a moment.',
  unreachable: 'Check the network, and whether the gateway is running.',
}

/** The explanation of a finish reason, if it needs one. */
export function finishOf(reason: string | null, cap: number | null): string | null {
  switch (reason) {
    case 'length':
      return cap === null
        ? 'The answer reached the maximum output tokens. Raise the limit, or ask the model to continue.'
        : `It stopped at ${cap} tokens: the balance does not cover a longer answer.`
    case 'content_filter':
      return 'A content filter of the provider stopped the answer.'
    case 'tool_calls':
    case 'function_call':
      return 'The model wants to call a tool. The playground does not support tools.'
    default:
      return null
  }
}

function began(answer: Answer, ms: number): Answer {
  return answer.state === 'waiting' ? { ...answer, state: 'streaming', firstMs: ms } : answer
}
