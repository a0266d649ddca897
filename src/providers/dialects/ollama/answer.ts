/** Decodes a whole answer of Ollama to a chat completion; parts are shared with the lines of streams. */
import type { AnswerView, WireUsage } from '#contract'
import { isEmptyValue } from '../failure.ts'
import { finishOf } from '../finish-words.ts'
import { parseAnswer } from '../json-exact.ts'
import {
  countOf,
  type DecodeResult,
  invalid,
  type TranslatedCall,
  translatedAnswer,
  wireUsage,
} from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { ErrorReader } from './failures.ts'

export function decodeAnswer(body: Buffer, view: AnswerView, errors: ErrorReader): DecodeResult {
  try {
    const parsed = parseAnswer(body.toString('utf8'), 'arguments')
    if (!isFields(parsed)) return invalid('the answer is not an object')
    if (!isEmptyValue(parsed['error'])) return { failure: errors.inside(parsed) }
    if (!isFields(parsed['message'])) return invalid('the answer has no message')
    if (parsed['done'] === false) return invalid('the answer is not done')
    return translated(parsed, parsed['message'], view)
  } catch {
    // Not JSON, or nested too deeply to be written again.
    return invalid('the answer is not valid JSON')
  }
}

function translated(answer: Fields, message: Fields, view: AnswerView): DecodeResult {
  const reason = answer['done_reason']
  const calls = callsIn(message)
  const choice = {
    // An empty answer is '' and not null, because clients read its length.
    text: textIn(message['content']) || (calls.length > 0 ? null : ''),
    reasoning: textIn(message['thinking']),
    calls,
    finish: finishOf(reason, calls.length > 0),
  }
  return translatedAnswer(view, { id: null, model: answer['model'] }, [choice], usageOf(answer))
}

/** The calls of a message. Throws a RangeError for arguments that are nested too deeply to be written. */
export function callsIn({ tool_calls: calls }: Fields): TranslatedCall[] {
  if (!Array.isArray(calls)) return []
  return calls.filter(isFields).map(call => {
    const { name, arguments: args } = isFields(call['function']) ? call['function'] : {}
    // Older servers send no id.
    return { id: textIn(call['id']) || null, name: textIn(name), arguments: argumentsOf(args) }
  })
}

/** The arguments as a text. Some compatible servers send a text instead of an object. */
function argumentsOf(args: unknown): string {
  if (isFields(args)) return JSON.stringify(args)
  return textIn(args) || '{}'
}

/**
 * Null if the prompt was not counted: the gateway then estimates the usage. This happens if the server's cache had the whole prompt.
 */
export function usageOf({ prompt_eval_count, eval_count }: Fields): WireUsage | null {
  const prompt = countOf(prompt_eval_count)
  const completion = countOf(eval_count)
  if (prompt === undefined) return null
  return wireUsage({ prompt, completion: completion ?? 0 })
}
