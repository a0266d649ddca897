/** Decodes a whole answer of the Messages API to a chat completion. */
import type { AnswerView, AnthropicPiece } from '#contract'
import { isEmptyValue } from '../failure.ts'
import { finishOf } from '../finish-words.ts'
import { parseAnswer } from '../json-exact.ts'
import {
  type DecodeResult,
  invalid,
  type ReasoningDetail,
  type TranslatedCall,
  translatedAnswer,
} from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import type { ErrorReader } from './errors.ts'
import { refusalOf, stopReasonOf } from './finish-reason.ts'
import { JSON_TOOL } from './tools.ts'
import { usageOf } from './usage.ts'

export function decodeMessage(body: Buffer, view: AnswerView, errors: ErrorReader): DecodeResult {
  try {
    const parsed = parseAnswer(body.toString('utf8'), 'input')
    if (!isFields(parsed)) return invalid('the answer is not an object')
    if (parsed['type'] === 'error' || !isEmptyValue(parsed['error'])) return { failure: errors.inside(parsed) }
    const content = parsed['content']
    if (!Array.isArray(content)) return invalid('the answer has no content')
    return translated(parsed, content.filter(isFields), view)
  } catch {
    // Not JSON, or nested too deeply to be written again.
    return invalid('the answer is not valid JSON')
  }
}

function translated(message: Fields, blocks: readonly Fields[], view: AnswerView): DecodeResult {
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
      // Blocks of the provider's own tools, and unknown ones: an OpenAI client cannot answer them.
    }
  }
  const native = view.searches ? piecesOf(blocks) : []
  const stopReason = message['stop_reason']
  const refusal = refusalOf(stopReason, message['stop_details'])
  const usage = message['usage']
  const choice = {
    text: text || (calls.length > 0 || refusal ? null : ''),
    reasoning,
    details,
    refusal: refusal || null,
    calls,
    native,
    finish: finishOf(stopReason, calls.length > 0),
    stopReason: stopReasonOf(stopReason, message['stop_sequence'], view.searches === true),
  }
  const identity = { id: textIn(message['id']) || null, model: message['model'] }
  return translatedAnswer(view, identity, [choice], isFields(usage) ? usageOf(usage) : null)
}

/** Whether a block is a search request or a search result. */
export function isSearchBlock({ type, name }: Fields): boolean {
  return type === 'web_search_tool_result' || (type === 'server_tool_use' && name === 'web_search')
}

/** The order of the blocks, if there was a search. Only searches are included whole; texts and reasoning have their own fields. */
function piecesOf(blocks: readonly Fields[]): readonly AnthropicPiece[] {
  if (!blocks.some(isSearchBlock)) return []
  return blocks.flatMap((block): AnthropicPiece[] => {
    if (isSearchBlock(block)) return [block as AnthropicPiece]
    if (block['type'] === 'text') return [textPiece(textIn(block['text']).length, citationsOf(block['citations']))]
    const isKept = textIn(block['signature']) !== '' || textIn(block['data']) !== ''
    return isKept && /thinking$/.test(textIn(block['type'])) ? [{ type: 'thinking' }] : []
  })
}

/** The piece for a complete text. */
export function textPiece(length: number, citations: readonly unknown[]): AnthropicPiece {
  return { type: 'text', length, ...(citations.length > 0 ? { citations } : {}) }
}

/** Citations of the web. Citations of documents are omitted: the client sent these as text. */
function citationsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.filter(isWebCitation) : []
}

export function isWebCitation(value: unknown): boolean {
  return isFields(value) && value['type'] === 'web_search_result_location'
}

export function argumentsOf(input: unknown): string {
  return isFields(input) ? JSON.stringify(input) : '{}'
}
