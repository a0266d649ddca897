/** Decodes a whole answer of Converse; stop reason and usage are shared with its stream. */

import type { AnswerView, DecodedAnswer, UpstreamFailure, WireUsage } from '#contract'
import { finishOf } from '../finish-words.ts'
import { parseAnswer } from '../json-exact.ts'
import {
  countOf,
  type ReasoningDetail,
  type TranslatedCall,
  translatedAnswer,
  UNNAMED_STOP_SEQUENCE,
  wireUsage,
} from '../translate/completion.ts'
import { ANSWER_TOOL } from './request.ts'

/** Unchecked JSON. */
export type Json = Readonly<Record<string, unknown>>

export function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function decodeAnswer(body: Buffer, view: AnswerView): DecodedAnswer | { readonly failure: UpstreamFailure } {
  try {
    return translated(parseAnswer(body.toString('utf8'), 'input'), view)
  } catch {
    // Not JSON, or nested too deeply to be written again.
    return invalid(body.length === 0 ? 'the answer is empty' : 'the answer is not valid JSON')
  }
}

function translated(parsed: unknown, view: AnswerView): DecodedAnswer | { readonly failure: UpstreamFailure } {
  const output = isJson(parsed) && isJson(parsed['output']) ? parsed['output']['message'] : undefined
  if (!isJson(parsed) || !isJson(output) || !Array.isArray(output['content']))
    return invalid('the answer has no message')
  const answer = new Answer()
  for (const block of output['content'] as readonly unknown[]) if (isJson(block)) answer.add(block)
  const { stopReason } = parsed
  if (typeof stopReason !== 'string') return invalid('the answer has no stopReason')
  const text = answer.structured ?? answer.text
  const { reasoning, details, calls } = answer
  return translatedAnswer(
    view,
    { id: null },
    [
      {
        text,
        reasoning,
        details,
        calls,
        finish: finishOf(stopReason, calls.length > 0),
        stopReason: stopReasonOf(stopReason),
      },
    ],
    usageOf(parsed['usage'], parsed['serviceTier']),
  )
}

function invalid(detail: string): { readonly failure: UpstreamFailure } {
  return { failure: { code: 'upstream_invalid', detail } }
}

/** Collects the blocks of a message. Blocks of tools that AWS runs itself are omitted. */
class Answer {
  text: string | null = null
  /** The arguments of the tool for structured output, which are the answer then. */
  structured: string | null = null
  reasoning = ''
  readonly details: ReasoningDetail[] = []
  readonly calls: TranslatedCall[] = []

  add({ text, toolUse, reasoningContent, citationsContent }: Json): void {
    if (typeof text === 'string') this.#say(text)
    else if (isClientCall(toolUse)) this.#call(toolUse)
    else if (isJson(reasoningContent)) this.#think(reasoningContent)
    else if (isJson(citationsContent) && Array.isArray(citationsContent['content'])) {
      for (const cited of citationsContent['content'] as readonly unknown[]) {
        if (isJson(cited) && typeof cited['text'] === 'string') this.#say(cited['text'])
      }
    }
  }

  #say(text: string): void {
    if (text !== '') this.text = (this.text ?? '') + text
  }

  #call({ toolUseId, name, input }: ClientCall): void {
    const text = JSON.stringify(input ?? {})
    if (name === ANSWER_TOOL) this.structured ??= text
    else this.calls.push({ id: typeof toolUseId === 'string' ? toolUseId : null, name, arguments: text })
  }

  #think({ reasoningText, redactedContent }: Json): void {
    if (typeof redactedContent === 'string' && redactedContent !== '')
      this.details.push({ type: 'reasoning.encrypted', data: redactedContent })
    if (!isJson(reasoningText)) return
    const text = typeof reasoningText['text'] === 'string' ? reasoningText['text'] : ''
    const { signature } = reasoningText
    this.reasoning += text
    if (typeof signature === 'string' && signature !== '')
      this.details.push({ type: 'reasoning.text', text, signature })
  }
}

export interface ClientCall extends Json {
  readonly name: string
}

/** Whether a `toolUse` is a call for the client. */
export function isClientCall(toolUse: unknown): toolUse is ClientCall {
  return isJson(toolUse) && typeof toolUse['name'] === 'string' && toolUse['type'] !== 'server_tool_use'
}

/** AWS reports that a stop sequence ended the answer, but not which. */
export function stopReasonOf(stopReason: unknown): string | undefined {
  return stopReason === UNNAMED_STOP_SEQUENCE ? UNNAMED_STOP_SEQUENCE : undefined
}

/** AWS counts cache reads and cache writes separately from the input. */
export function usageOf(usage: unknown, tier: unknown): WireUsage | null {
  if (!isJson(usage)) return null
  const input = countOf(usage['inputTokens'])
  const completion = countOf(usage['outputTokens'])
  if (input === undefined || completion === undefined) return null
  const cached = countOf(usage['cacheReadInputTokens'])
  const cacheWrite = countOf(usage['cacheWriteInputTokens'])
  const wire = wireUsage({
    prompt: input + (cached ?? 0) + (cacheWrite ?? 0),
    completion,
    ...(cached === undefined ? {} : { cached }),
    ...(cacheWrite === undefined ? {} : { cacheWrite }),
    cacheWriteHour: writtenForAnHour(usage['cacheDetails']),
  })
  const type = isJson(tier) ? tier['type'] : undefined
  return type === 'flex' || type === 'priority' ? { ...wire, service_tier: type } : wire
}

/** Tokens written to a cache with a TTL of one hour. AWS lists the writes by TTL. */
function writtenForAnHour(details: unknown): number {
  if (!Array.isArray(details)) return 0
  const hours = details.filter(isJson).filter(each => each['ttl'] === '1h')
  return hours.reduce((sum: number, each) => sum + (countOf(each['inputTokens']) ?? 0), 0)
}
