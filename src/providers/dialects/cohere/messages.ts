/** Encodes the conversation for Cohere: the canonical roles, with a plan before calls. */
import { refuse } from '#contract'
import { argumentsText } from '../translate/body.ts'
import type { Conversation, Part, Source, ToolCall, Turn } from '../translate/conversation.ts'
import { type Message, type Messages, messagesWith } from '../translate/messages.ts'

/** Throws a refusal with the place of unsupported content. */
export function messagesOf(conversation: Conversation): Messages {
  return messagesWith(conversation, { user: userMessages, assistant: assistantMessages })
}

/** Tool results become separate messages, before the user's text. */
function userMessages({ parts, place }: Turn): Message[] {
  const results = parts.flatMap((part): Message[] =>
    part.kind === 'result' ? [{ role: 'tool', tool_call_id: part.id, content: part.text }] : [],
  )
  const content = parts.flatMap(part => (part.kind === 'result' ? [] : [contentOf(part, place)]))
  if (content.length === 0) return results
  const only = content.length === 1 ? content[0]!['text'] : undefined
  return [...results, { role: 'user', content: only ?? content }]
}

function contentOf(part: Part, place: string): Readonly<Record<string, unknown>> {
  switch (part.kind) {
    case 'text':
      return { type: 'text', text: part.text }
    case 'image':
      return { type: 'image_url', image_url: { url: urlOf(part.source) } }
    case 'audio':
      throw unsupported(place, "a sound ('input_audio')")
    default:
      throw unsupported(place, 'a file')
  }
}

function urlOf(source: Source): string {
  return source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.base64}`
}

/** A plan for calls was returned to the client as `reasoning_content`, and is sent back as a plan. */
function assistantMessages({ parts, reasoningText }: Turn): Message[] {
  const texts = parts.flatMap(part => (part.kind === 'text' ? [part.text] : []))
  const calls = parts.filter((part): part is ToolCall => part.kind === 'call')
  if (calls.length > 0) {
    const prose = [...(reasoningText === undefined ? [] : [reasoningText]), ...texts]
    const plan = prose.length > 0 ? { tool_plan: prose.join('\n') } : {}
    return [{ role: 'assistant', ...plan, tool_calls: calls.map(callOf) }]
  }
  if (texts.length === 0) return []
  return [{ role: 'assistant', content: texts.length === 1 ? texts[0] : texts.map(text => ({ type: 'text', text })) }]
}

function callOf({ id, name, arguments: args }: ToolCall) {
  return { id, type: 'function', function: { name, arguments: argumentsText(args) } }
}

function unsupported(place: string, what: string) {
  const message = `${place} has ${what}, which this model's provider does not support. It supports text and images.`
  return refuse('unsupported_parameter', { message, param: place })
}
