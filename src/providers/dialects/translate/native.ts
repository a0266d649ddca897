/** Refuses blocks and tools of Anthropic's web search for other providers. */
import { anthropicToolIn, type ChatRequest, isAnthropicSearchType, refuse } from '#contract'
import { toolRefusal } from './parameters.ts'

/** Throws for a block of an earlier answer that the canonical format does not have. */
export function refuseNativeBlocks({ messages }: Pick<ChatRequest, 'messages'>): void {
  // By index, because an iterator would allocate an array for each of up to hundreds of messages.
  for (let index = 0; index < messages.length; index++) {
    const { role, content } = messages[index]!
    if (role !== 'assistant' || !Array.isArray(content)) continue
    const at = content.findIndex(({ type }) => type === 'anthropic')
    if (at < 0) continue
    const place = `messages[${index}].content[${at}]`
    const message = `${place} is a block of Anthropic's search of the web, which this model's provider does not support.`
    throw refuse('unsupported_parameter', { message, param: `${place}.type` })
  }
}

/** Throws for such a block or for the tool. */
export function refuseSearches(body: Pick<ChatRequest, 'messages' | 'tools'>): void {
  for (const [index, tool] of (body.tools ?? []).entries()) {
    const native = anthropicToolIn(tool)
    if (isAnthropicSearchType(native?.type)) throw toolRefusal(undefined, native, index)
  }
  refuseNativeBlocks(body)
}
