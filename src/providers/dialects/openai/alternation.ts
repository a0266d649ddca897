/**
 * The message order that Perplexity requires (else 400): after the instructions, user and assistant alternate, and the assistant does
 * not come last.
 */
import type { ChatMessage, ContentPart } from '#contract'
import { prefillRefusal } from '../translate/parameters.ts'

/** The user message before an assistant message that comes first. */
const OPENING: ChatMessage = { role: 'user', content: '(The conversation begins.)' }

/** Reorders messages, whose roles are already the provider's. Returns the same list if the order is right. */
export function alternating(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const at = messages.findIndex(({ role }) => role !== 'system')
  // Only instructions: the last one becomes the user's message.
  const first = at < 0 ? messages.length - 1 : at
  const list = messages.slice(0, first)
  for (const message of messages.slice(first)) {
    // An instruction in the middle keeps its place, as a user message.
    const next = message.role === 'system' ? { ...message, role: 'user' as const } : message
    const before = list.length > first ? list.at(-1)! : null
    if (before === null && next.role === 'assistant') list.push(OPENING)
    if (before?.role === next.role && next.role !== 'tool') list.splice(-1, 1, together(before, next))
    else list.push(next)
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
