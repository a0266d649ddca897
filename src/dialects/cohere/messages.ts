/** The conversation as Cohere takes it: the roles of the canonical format, with a plan in front of calls. */
import { refuse } from '#contract'
import { argumentsText } from '../translate/body.ts'
import type { Conversation, Part, Source, ToolCall, Turn } from '../translate/conversation.ts'

type Message = Readonly<Record<string, unknown>> & { readonly role: 'system' | 'user' | 'assistant' | 'tool' }

export interface Messages {
  readonly messages: readonly Message[]
  /** Names of what could not be carried. */
  readonly dropped: readonly string[]
}

/** Throws a refusal that names the place for what the provider does not take. */
export function messagesOf({ system, turns }: Conversation): Messages {
  const instructions = system.join('\n')
  const spoken = turns.flatMap(turn => (turn.role === 'user' ? userMessages(turn) : assistantMessages(turn)))
  const isThoughtful = turns.some(({ parts }) => parts.some(({ kind }) => kind === 'reasoning'))
  // A thought of another provider's making, in a form that only that one can check.
  const dropped = isThoughtful ? ['reasoning_details'] : []
  if (spoken.length > 0) {
    const first: Message[] = instructions === '' ? [] : [{ role: 'system', content: instructions }]
    return { messages: [...first, ...spoken], dropped }
  }
  // Instructions and nothing else: the provider wants a message, so they are it.
  if (instructions !== '') return { messages: [{ role: 'user', content: instructions }], dropped }
  throw refuse('invalid_value', { message: "'messages' hold no text and nothing else either.", param: 'messages' })
}

/** Results of tools are messages of their own, before what the user adds. */
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

function assistantMessages({ parts }: Turn): Message[] {
  const texts = parts.flatMap(part => (part.kind === 'text' ? [part.text] : []))
  const calls = parts.filter((part): part is ToolCall => part.kind === 'call')
  if (calls.length > 0) {
    const plan = texts.length > 0 ? { tool_plan: texts.join('\n') } : {}
    return [{ role: 'assistant', ...plan, tool_calls: calls.map(callOf) }]
  }
  if (texts.length === 0) return []
  return [{ role: 'assistant', content: texts.length === 1 ? texts[0] : texts.map(text => ({ type: 'text', text })) }]
}

function callOf({ id, name, arguments: args }: ToolCall) {
  return { id, type: 'function', function: { name, arguments: argumentsText(args) } }
}

function unsupported(place: string, what: string) {
  const message = `${place} holds ${what}, which this model's provider does not take. It takes text and images.`
  return refuse('unsupported_parameter', { message, param: place })
}
