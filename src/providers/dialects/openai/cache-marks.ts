/**
 * Marks of what is worth keeping (`cache_control`): OpenAI keeps by itself, and answers 400 to fields of parts that it does
 * not know. A body without any is neither walked nor written anew.
 */
import type { ChatMessage, ChatRequest } from '#contract'
import { isBlank } from '../translate/conversation.ts'

type Fields = Readonly<Record<string, unknown>>

const NAME = 'cache_control'

/**
 * Whether the bytes hold the end of the word at all. It begins with a letter that prose and JSON have few of, which is what
 * makes the search quick: 2 µs for 100 kB, with the whole word 50 µs.
 */
export function mayHaveMarks(bytes: Buffer): boolean {
  return bytes.includes('_control"')
}

/** The same messages and tools without their marks; those that have none are the same objects. */
export function withoutMarks({ messages, tools }: ChatRequest): Pick<ChatRequest, 'messages' | 'tools'> {
  return {
    messages: mapped(messages, unmarkedMessage),
    ...(tools ? { tools: mapped(tools as readonly Fields[], unmarked) } : {}),
  }
}

function unmarkedMessage(message: ChatMessage): ChatMessage {
  const content = unmarkedContent(message)
  const calls = message['tool_calls']
  const left = Array.isArray(calls) ? mapped(calls as readonly Fields[], unmarked) : calls
  if (content === message.content && left === calls) return message
  return {
    ...message,
    ...(content === undefined ? {} : { content }),
    ...(left === undefined ? {} : { tool_calls: left }),
  }
}

/**
 * One text, or texts of the system that a blank joins, are a string again where the mark was why they were parts: some
 * relatives read nothing else.
 */
function unmarkedContent({ role, content }: ChatMessage): ChatMessage['content'] {
  if (!Array.isArray(content)) return content
  const parts = content as readonly Fields[]
  const left = mapped(parts, unmarked)
  if (left === parts) return content
  const texts = left.map(({ type, text, ...more }) =>
    type === 'text' && typeof text === 'string' && Object.keys(more).length === 0 ? text : null,
  )
  const isOne = texts.length === 1 || role === 'system' || role === 'developer'
  if (!isOne || !texts.every((text, index) => text !== null && isSeam(texts[index - 1], text))) {
    return left as unknown as ChatMessage['content']
  }
  return texts.join('')
}

/** Whether two texts may be one: between them there is a blank. The first has nothing before it. */
function isSeam(before: string | null | undefined, text: string): boolean {
  if (before === undefined || before === null || before === '' || text === '') return true
  return isBlank(before.at(-1)!) || isBlank(text[0]!)
}

function unmarked(from: Fields): Fields {
  if (typeof from !== 'object' || from === null || !Object.hasOwn(from, NAME)) return from
  const { [NAME]: _, ...left } = from
  return left
}

/** The same list when nothing in it changes. */
function mapped<T>(list: readonly T[], change: (item: T) => T): readonly T[] {
  const changed = list.map(change)
  return changed.every((item, index) => item === list[index]) ? list : changed
}
