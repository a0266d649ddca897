/** Blocks and tools of the Messages API that only Anthropic itself has: what of a search of the web others are not sent. */
import { anthropicToolIn, type ChatRequest, isAnthropicSearchType, refuse } from '#contract'
import { toolRefusal } from './parameters.ts'

/** Throws for a block of an earlier answer that is none of the canonical format's own. */
export function refuseNativeBlocks({ messages }: Pick<ChatRequest, 'messages'>): void {
  // By index: an iterator would make an array for each of what may be hundreds.
  for (let index = 0; index < messages.length; index++) {
    const { role, content } = messages[index]!
    if (role !== 'assistant' || !Array.isArray(content)) continue
    const at = content.findIndex(({ type }) => type === 'anthropic')
    if (at < 0) continue
    const place = `messages[${index}].content[${at}]`
    const message = `${place} is a block of Anthropic's search of the web, which this model's provider does not have.`
    throw refuse('unsupported_parameter', { message, param: `${place}.type` })
  }
}

/** Throws for the tool too. */
export function refuseSearches(body: Pick<ChatRequest, 'messages' | 'tools'>): void {
  for (const [index, tool] of (body.tools ?? []).entries()) {
    const native = anthropicToolIn(tool)
    if (isAnthropicSearchType(native?.type)) throw toolRefusal(undefined, native, index)
  }
  refuseNativeBlocks(body)
}
