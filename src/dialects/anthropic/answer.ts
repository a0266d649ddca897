/** A whole answer of the Messages API as a chat completion. */
import type { AnswerView, DecodedAnswer } from '#contract'
import {
  type Decoded,
  invalid,
  type ReasoningDetail,
  type TranslatedCall,
  translatedAnswer,
} from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { ErrorReader } from './errors.ts'
import { finishOf, refusalOf } from './finish.ts'
import { JSON_TOOL } from './tools.ts'
import { usageOf } from './usage.ts'

export function decodeMessage(body: Buffer, view: AnswerView, errors: ErrorReader): Decoded {
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'))
    if (!isFields(parsed)) return invalid('the answer is not an object')
    if (parsed['type'] === 'error' || isFields(parsed['error'])) return { failure: errors.inside(parsed) }
    const content = parsed['content']
    if (!Array.isArray(content)) return invalid('the answer has no content')
    return translated(parsed, content.filter(isFields), view)
  } catch {
    // No JSON, or JSON so deep that it can't be written again.
    return invalid('the answer is not JSON that can be read')
  }
}

function translated(message: Fields, blocks: readonly Fields[], view: AnswerView): DecodedAnswer {
  let text = ''
  let reasoning = ''
  const details: ReasoningDetail[] = []
  const calls: TranslatedCall[] = []
  for (const block of blocks) {
    switch (block['type']) {
      case 'text':
        text += textIn(block['text'])
        break
      case 'thinking': {
        const thought = textIn(block['thinking'])
        const signature = textIn(block['signature'])
        reasoning += thought
        if (signature !== '') details.push({ type: 'reasoning.text', text: thought, signature })
        break
      }
      case 'redacted_thinking':
        if (textIn(block['data']) !== '') details.push({ type: 'reasoning.encrypted', data: textIn(block['data']) })
        break
      case 'tool_use':
        if (block['name'] === JSON_TOOL) text += argumentsOf(block['input'])
        else
          calls.push({
            id: textIn(block['id']),
            name: textIn(block['name']),
            arguments: argumentsOf(block['input']),
          })
        break
      // What the provider's own tools did, and kinds to come, are nothing that an OpenAI client could answer.
    }
  }
  const stopReason = message['stop_reason']
  const refusal = refusalOf(stopReason, message['stop_details'])
  const usage = message['usage']
  const choice = {
    text: text || (calls.length > 0 || refusal ? null : ''),
    reasoning,
    details,
    refusal: refusal || null,
    calls,
    finish: finishOf(stopReason, calls.length),
  }
  return translatedAnswer(view, textIn(message['id']) || null, [choice], isFields(usage) ? usageOf(usage) : null)
}

/** A call's arguments as JSON text. */
export function argumentsOf(input: unknown): string {
  return isFields(input) ? JSON.stringify(input) : '{}'
}
