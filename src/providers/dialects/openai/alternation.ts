/**
 * Turns that take turns, which Perplexity keeps to (else 400): behind the instructions the user and the assistant, and the
 * last word is not the assistant's.
 */
import type { ChatMessage, ContentPart } from '#contract'
import { prefillRefusal } from '../translate/parameters.ts'

/** The words of the user where a conversation begins with the assistant. */
const OPENING: ChatMessage = { role: 'user', content: '(The conversation begins.)' }

/** The messages in such an order, or the same list when they have it. Their roles are the provider's already. */
export function alternating(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const at = messages.findIndex(({ role }) => role !== 'system')
  // Instructions and nothing else: the last of them is what the user says.
  const first = at < 0 ? messages.length - 1 : at
  const list = messages.slice(0, first)
  for (const message of messages.slice(first)) {
    // An instruction in the middle keeps its place.
    const said = message.role === 'system' ? { ...message, role: 'user' as const } : message
    const before = list.length > first ? list.at(-1)! : null
    if (before === null && said.role === 'assistant') list.push(OPENING)
    if (before?.role === said.role && said.role !== 'tool') list.splice(-1, 1, together(before, said))
    else list.push(said)
  }
  if (list.at(-1)?.role === 'assistant') throw prefillRefusal(`messages[${messages.length - 1}]`)
  const isSame = list.length === messages.length && list.every((message, index) => message === messages[index])
  return isSame ? messages : list
}

function together(one: ChatMessage, other: ChatMessage): ChatMessage {
  const calls = [one, other].flatMap(({ tool_calls: list }) => (Array.isArray(list) ? (list as unknown[]) : []))
  return {
    ...one,
    ...other,
    content: joined(one.content, other.content),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

function joined(one: ChatMessage['content'], other: ChatMessage['content']): string | readonly ContentPart[] | null {
  if (!one || !other) return one || other || null
  if (typeof one === 'string' && typeof other === 'string') return `${one}\n\n${other}`
  return [...partsOf(one), ...partsOf(other)]
}

const partsOf = (content: string | readonly ContentPart[]): readonly ContentPart[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content
