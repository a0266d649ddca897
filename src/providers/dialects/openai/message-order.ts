/**
 * The order of turns that Mistral keeps to: behind results of tools the assistant speaks (else 400, code 3230), every
 * assistant's turn says something or calls, and one that stands last is to be continued.
 */
import type { ChatMessage, ContentPart } from '#contract'

/** What the assistant is taken to have said where a client leaves it out. */
const IN_BETWEEN: ChatMessage = { role: 'assistant', content: 'OK.' }

/** The messages in such an order, or the same list when they have it. Their roles are the provider's already. */
export function ordered(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const said = messages.filter(message => message.role !== 'assistant' || says(message))
  const list: ChatMessage[] = []
  for (const [index, message] of said.entries()) {
    const isBehindTool = said[index - 1]?.role === 'tool'
    if (isBehindTool && (message.role === 'user' || message.role === 'system')) list.push(IN_BETWEEN)
    // An instruction in the middle keeps its place; in the words of the user it may be there.
    if (message.role === 'system' && list.at(-1)?.role === 'assistant') {
      list.push({ ...message, role: 'user' })
      continue
    }
    const isLast = index === said.length - 1 && message.role === 'assistant'
    list.push(isLast && !hasCalls(message) && message['prefix'] !== true ? { ...message, prefix: true } : message)
  }
  const isSame = list.length === messages.length && list.every((message, index) => message === messages[index])
  return isSame ? messages : list
}

/**
 * A refusal is what the assistant has said, also as a part; the same message when it has none. One beside other words is
 * left for the list of fields to leave out.
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

function says(message: ChatMessage): boolean {
  const { content } = message
  return hasCalls(message) || (typeof content === 'string' ? content !== '' : content != null && content.length > 0)
}

function hasCalls(message: ChatMessage): boolean {
  const calls = message['tool_calls']
  return Array.isArray(calls) && calls.length > 0
}
