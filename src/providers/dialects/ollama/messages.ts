/** Encodes the conversation for Ollama: texts, images beside them, and calls whose arguments are objects. */
import { refuse } from '#contract'
import type { Conversation, Part, Source, ToolCall, Turn } from '../translate/conversation.ts'
import { type Message, type Messages, messagesWith } from '../translate/messages.ts'

/** Throws a refusal with the place of unsupported content. */
export function messagesOf(conversation: Conversation): Messages {
  return messagesWith(conversation, { user: userMessages, assistant: assistantMessages })
}

/** Tool results become separate messages, before the user's text. */
function userMessages({ parts, place }: Turn): Message[] {
  const results = parts.flatMap((part): Message[] => (part.kind === 'result' ? [resultOf(part)] : []))
  const rest = parts.filter(({ kind }) => kind !== 'result')
  if (rest.length === 0) return results
  const images = rest.flatMap(part => (part.kind === 'text' ? [] : [imageOf(part, place)]))
  return [...results, { role: 'user', content: textIn(rest), ...(images.length > 0 ? { images } : {}) }]
}

/** With the name for older servers, and the id for newer ones. */
function resultOf({ id, name, text }: Part & { kind: 'result' }): Message {
  return { role: 'tool', content: text, tool_name: name, tool_call_id: id }
}

/** Reasoning that led to calls is sent with them; models ignore other reasoning. */
function assistantMessages({ parts, reasoningText }: Turn): Message[] {
  const calls = parts.filter((part): part is ToolCall => part.kind === 'call')
  const content = textIn(parts)
  if (content === '' && calls.length === 0) return []
  if (calls.length === 0) return [{ role: 'assistant', content }]
  const thinking = reasoningText === undefined ? {} : { thinking: reasoningText }
  return [{ role: 'assistant', content, ...thinking, tool_calls: calls.map(callOf) }]
}

function callOf({ id, name, arguments: args }: ToolCall, index: number) {
  return { id, function: { index, name, arguments: args } }
}

function textIn(parts: readonly Part[]): string {
  return parts.flatMap(part => (part.kind === 'text' ? [part.text] : [])).join('\n')
}

/** The bytes without their type. */
function imageOf(part: Part, place: string): string {
  if (part.kind === 'audio') throw unsupported(place, "a sound ('input_audio')", 'It supports text and images.')
  if (part.kind !== 'image') throw unsupported(place, 'a file', 'It supports text and images.')
  return base64Of(part.source, place)
}

function base64Of(source: Source, place: string): string {
  if (source.kind === 'inline') return source.base64
  throw unsupported(place, 'an image by URL', 'It does not fetch URLs: send a data URL.')
}

function unsupported(place: string, what: string, instead: string) {
  const message = `${place} has ${what}, which this model's provider does not support. ${instead}`
  return refuse('unsupported_parameter', { message, param: place })
}
