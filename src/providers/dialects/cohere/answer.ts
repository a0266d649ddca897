/** Decodes a whole answer of Cohere to a chat completion; parts are shared with the stream. */

import type { AnswerView, WireUsage } from '#contract'
import { isEmptyValue } from '../failure.ts'
import { finishOf } from '../finish-words.ts'
import {
  countOf,
  type DecodeResult,
  invalid,
  type TranslatedCall,
  translatedAnswer,
  UNNAMED_STOP_SEQUENCE,
  wireUsage,
} from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { ErrorReader } from './failures.ts'

export function decodeAnswer(body: Buffer, view: AnswerView, errors: ErrorReader): DecodeResult {
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    return invalid('the answer is not JSON')
  }
  if (!isFields(parsed)) return invalid('the answer is not an object')
  const { id, message, finish_reason: reason, usage } = parsed
  // An error has its sentence in `message`, where an answer has an object.
  if (!isFields(message)) {
    if (typeof message === 'string' || !isEmptyValue(parsed['error'])) return { failure: errors.inside(parsed) }
    return invalid('the answer has no message')
  }
  const calls = listOf(message['tool_calls']).filter(isFields).map(callIn)
  const finish = finishOf(reason, calls.length > 0)
  if (typeof finish !== 'string') return { failure: errors.ended(finish, parsed['error']) }
  const { text, thought } = contentIn(message['content'])
  const choice = {
    // An empty answer is '' and not null, because clients read its length.
    text: text || (calls.length > 0 ? null : ''),
    reasoning: [thought, textIn(message['tool_plan'])].filter(piece => piece !== '').join(BETWEEN),
    calls,
    finish,
    stopReason: stopReasonOf(reason),
  }
  return translatedAnswer(view, { id: textIn(id) || null }, [choice], usageOf(usage))
}

/** Between reasoning and the plan of a call: both are prose before the answer. */
export const BETWEEN = '\n\n'

function contentIn(content: unknown): { readonly text: string; readonly thought: string } {
  let text = textIn(content)
  let thought = ''
  for (const block of listOf(content).filter(isFields)) {
    text += textIn(block['text'])
    thought += textIn(block['thinking'])
  }
  return { text, thought }
}

function callIn({ id, function: made }: Fields): TranslatedCall {
  const { name, arguments: args } = isFields(made) ? made : {}
  return { id: textIn(id) || null, name: textIn(name), arguments: isNothing(textIn(args)) ? '{}' : textIn(args) }
}

/** The model may write `null` for a tool without arguments. */
export function isNothing(args: string): boolean {
  const text = args.trim()
  return text === '' || text === 'null'
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** The provider reports that a stop sequence ended the answer, but not which. */
export function stopReasonOf(reason: unknown): string | undefined {
  return reason === 'STOP_SEQUENCE' ? UNNAMED_STOP_SEQUENCE : undefined
}

/**
 * Uses `tokens`, not `billed_units`, which omit the provider's own instructions for tools. The input includes cached tokens. Null if
 * the prompt was not counted: the gateway then estimates the usage.
 */
export function usageOf(usage: unknown): WireUsage | null {
  if (!isFields(usage)) return null
  const { tokens, billed_units: billed, cached_tokens } = usage
  // `billed_units` only for a missing count: it must not replace an impossible count, because it is smaller.
  const count = (name: string) => {
    const counted = isFields(tokens) ? tokens[name] : undefined
    return countOf(counted ?? (isFields(billed) ? billed[name] : undefined))
  }
  const prompt = count('input_tokens')
  const completion = count('output_tokens')
  if (prompt === undefined) return null
  const cached = countOf(cached_tokens)
  const reasoning = count('reasoning_tokens')
  return wireUsage({
    prompt,
    completion: completion ?? 0,
    ...(cached === undefined ? {} : { cached }),
    ...(reasoning === undefined ? {} : { reasoning }),
  })
}
