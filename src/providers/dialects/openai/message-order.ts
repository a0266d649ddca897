/**
 * The message order that Mistral requires. Between tool results and a user message is an assistant message (else 400, code 3230).
 * Assistant messages are not empty. If the last message is the assistant's, it has `prefix`, and the model continues it.
 */
import type { ChatMessage, ContentPart } from '#contract'

/** The assistant message that is inserted if the client omitted one. */
const IN_BETWEEN: ChatMessage = { role: 'assistant', content: 'OK.' }

/** Reorders messages, whose roles are already the provider's. Returns the same list if the order is right. */
export function ordered(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const filled = messages.filter(message => message.role !== 'assistant' || hasContent(message))
  const list: ChatMessage[] = []
  for (const [index, message] of filled.entries()) {
    const isAfterTool = filled[index - 1]?.role === 'tool'
    if (isAfterTool && (message.role === 'user' || message.role === 'system')) list.push(IN_BETWEEN)
    // An instruction in the middle keeps its place, as a user message.
    if (message.role === 'system' && list.at(-1)?.role === 'assistant') {
      list.push({ ...message, role: 'user' })
      continue
    }
    const isLast = index === filled.length - 1 && message.role === 'assistant'
    list.push(isLast && !hasCalls(message) && message['prefix'] !== true ? { ...message, prefix: true } : message)
  }
  const isSame = list.length === messages.length && list.every((message, index) => message === messages[index])
  return isSame ? messages : list
}

/**
 * Makes a refusal of the assistant its content, also in parts; the same message if it has none. A refusal beside other content is left
 * to the list of dropped fields.
 */
export function refusalAsContent(message: ChatMessage): ChatMessage {
  const { role, content } = message
  if (role !== 'assistant') return message
  if (Array.isArray(content)) {
    const parts = content as readonly { readonly type?: unknown; readonly refusal?: unknown }[]
    if (!parts.some(isRefusal)) return message
    const texts = parts.map(part => (isRefusal(part) ? { type: 'text', text: part.refusal } : part))
    return { ...message, content: texts as unknown as readonly ContentPart[] }
  }
  const { refusal, ...rest } = message
  if (content || typeof refusal !== 'string' || refusal === '') return message
  return { ...rest, role, content: refusal }
}

function isRefusal(part: { readonly type?: unknown; readonly refusal?: unknown } | null): boolean {
  return part?.type === 'refusal' && typeof part.refusal === 'string'
}

function hasContent(message: ChatMessage): boolean {
  const { content } = message
  return hasCalls(message) || (typeof content === 'string' ? content !== '' : content != null && content.length > 0)
}

function hasCalls(message: ChatMessage): boolean {
  const calls = message['tool_calls']
  return Array.isArray(calls) && calls.length > 0
}
