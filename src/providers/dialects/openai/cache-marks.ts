/**
 * Removes cache marks (`cache_control`): OpenAI caches automatically, and answers 400 to unknown fields of parts. A body without marks
 * is neither traversed nor rewritten.
 */
import type { ChatMessage, ChatRequest } from '#contract'
import { isBlank } from '../translate/conversation.ts'

type Fields = Readonly<Record<string, unknown>>

const NAME = 'cache_control'

/**
 * Whether the bytes may contain a mark. Searches for the end of the name, because prose and JSON have few underscores. This takes 2 µs
 * for 100 kB, against 50 µs for the whole name.
 */
export function mayHaveCacheMarks(bytes: Buffer): boolean {
  return bytes.includes('_control"')
}

/** The messages and tools without their marks; those without marks are the same objects. */
export function withoutMarks({ messages, tools }: ChatRequest): Pick<ChatRequest, 'messages' | 'tools'> {
  return {
    messages: mapped(messages, unmarkedMessage),
    ...(tools ? { tools: mapped(tools as readonly Fields[], unmarked) } : {}),
  }
}

function unmarkedMessage(message: ChatMessage): ChatMessage {
  const content = unmarkedContent(message)
  const calls = message['tool_calls']
  const unmarkedCalls = Array.isArray(calls) ? mapped(calls as readonly Fields[], unmarked) : calls
  if (content === message.content && unmarkedCalls === calls) return message
  return {
    ...message,
    ...(content === undefined ? {} : { content }),
    ...(unmarkedCalls === undefined ? {} : { tool_calls: unmarkedCalls }),
  }
}

/**
 * Makes a single text a string again if only the mark made it a part. The same for system texts with white space between them. Some
 * compatible providers read only strings.
 */
function unmarkedContent({ role, content }: ChatMessage): ChatMessage['content'] {
  if (!Array.isArray(content)) return content
  const parts = content as readonly Fields[]
  const unmarkedParts = mapped(parts, unmarked)
  if (unmarkedParts === parts) return content
  const texts = unmarkedParts.map(({ type, text, ...more }) =>
    type === 'text' && typeof text === 'string' && Object.keys(more).length === 0 ? text : null,
  )
  const isOne = texts.length === 1 || role === 'system' || role === 'developer'
  if (!isOne || !texts.every((text, index) => text !== null && isSeam(texts[index - 1], text))) {
    return unmarkedParts as unknown as ChatMessage['content']
  }
  return texts.join('')
}

/** Whether two texts may be joined: white space is between them, or one is empty or missing. */
function isSeam(before: string | null | undefined, text: string): boolean {
  if (before === undefined || before === null || before === '' || text === '') return true
  return isBlank(before.at(-1)!) || isBlank(text[0]!)
}

function unmarked(from: Fields): Fields {
  if (typeof from !== 'object' || from === null || !Object.hasOwn(from, NAME)) return from
  const { [NAME]: _, ...rest } = from
  return rest
}

/** Maps a list. Returns the same list if no item changes. */
function mapped<T>(list: readonly T[], change: (item: T) => T): readonly T[] {
  const changed = list.map(change)
  return changed.every((item, index) => item === list[index]) ? list : changed
}
