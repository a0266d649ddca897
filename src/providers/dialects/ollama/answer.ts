/** A whole answer of Ollama's as a chat completion, and what whole answers and the lines of streams have in common. */
import type { AnswerView, WireUsage } from '#contract'
import { saysNothing } from '../failure.ts'
import { finishOf } from '../finish-words.ts'
import { parseAnswer } from '../json-exact.ts'
import {
  countOf,
  type Decoded,
  invalid,
  type TranslatedCall,
  translatedAnswer,
  wireUsage,
} from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { ErrorReader } from './failures.ts'

export function decodeAnswer(body: Buffer, view: AnswerView, errors: ErrorReader): Decoded {
  try {
    const parsed = parseAnswer(body.toString('utf8'), 'arguments')
    if (!isFields(parsed)) return invalid('the answer is not an object')
    if (!saysNothing(parsed['error'])) return { failure: errors.inside(parsed) }
    if (!isFields(parsed['message'])) return invalid('the answer has no message')
    if (parsed['done'] === false) return invalid('the answer is not done')
    return translated(parsed, parsed['message'], view)
  } catch {
    // No JSON, or JSON so deep that it can't be written again.
    return invalid('the answer is not JSON that can be read')
  }
}

function translated(answer: Fields, message: Fields, view: AnswerView): Decoded {
  const reason = answer['done_reason']
  const calls = callsIn(message)
  const choice = {
    // Empty, not null, where an answer is just empty: clients read its length.
    text: textIn(message['content']) || (calls.length > 0 ? null : ''),
    reasoning: textIn(message['thinking']),
    calls,
    finish: finishOf(reason, calls.length > 0),
  }
  return translatedAnswer(view, { id: null, model: answer['model'] }, [choice], usageOf(answer))
}

/** The calls of a message. Throws a RangeError for arguments that are nested too deeply to be written down. */
export function callsIn({ tool_calls: calls }: Fields): TranslatedCall[] {
  if (!Array.isArray(calls)) return []
  return calls.filter(isFields).map(call => {
    const { name, arguments: args } = isFields(call['function']) ? call['function'] : {}
    // Older servers give no id.
    return { id: textIn(call['id']) || null, name: textIn(name), arguments: argumentsOf(args) }
  })
}

/** An object; some relatives send its text. */
function argumentsOf(args: unknown): string {
  if (isFields(args)) return JSON.stringify(args)
  return textIn(args) || '{}'
}

/**
 * Null when the prompt was not counted, as it happens when the server had all of it in its cache: it was not free for
 * that, so the gateway estimates what the answer took.
 */
export function usageOf({ prompt_eval_count, eval_count }: Fields): WireUsage | null {
  const prompt = countOf(prompt_eval_count)
  const completion = countOf(eval_count)
  if (prompt === undefined) return null
  return wireUsage({ prompt, completion: completion ?? 0 })
}
