/** The conversation as Ollama takes it: texts, pictures beside them, and calls whose arguments are objects. */
import { refuse } from '#contract'
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
  // Instructions and nothing else: without a message the provider only loads the model.
  if (instructions !== '') return { messages: [{ role: 'user', content: instructions }], dropped }
  throw refuse('invalid_value', { message: "'messages' hold no text and nothing else either.", param: 'messages' })
}

/** Results of tools are messages of their own, before what the user adds. */
function userMessages({ parts, place }: Turn): Message[] {
  const results = parts.flatMap((part): Message[] => (part.kind === 'result' ? [resultOf(part)] : []))
  const rest = parts.filter(({ kind }) => kind !== 'result')
  if (rest.length === 0) return results
  const images = rest.flatMap(part => (part.kind === 'text' ? [] : [imageOf(part, place)]))
  return [...results, { role: 'user', content: textIn(rest), ...(images.length > 0 ? { images } : {}) }]
}

/** The name for older servers, the id for newer ones. */
function resultOf({ id, name, text }: Part & { kind: 'result' }): Message {
  return { role: 'tool', content: text, tool_name: name, tool_call_id: id }
}

function assistantMessages({ parts }: Turn): Message[] {
  const calls = parts.filter((part): part is ToolCall => part.kind === 'call')
  const content = textIn(parts)
  if (content === '' && calls.length === 0) return []
  return [{ role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}) }]
}

function callOf({ id, name, arguments: args }: ToolCall, index: number) {
  return { id, function: { index, name, arguments: args } }
}

function textIn(parts: readonly Part[]): string {
  return parts.flatMap(part => (part.kind === 'text' ? [part.text] : [])).join('\n')
}

/** The bytes alone, without their type. */
function imageOf(part: Part, place: string): string {
  if (part.kind === 'audio') throw unsupported(place, "a sound ('input_audio')", 'It takes text and images.')
  if (part.kind !== 'image') throw unsupported(place, 'a file', 'It takes text and images.')
  return base64Of(part.source, place)
}

function base64Of(source: Source, place: string): string {
  if (source.kind === 'inline') return source.base64
  throw unsupported(place, 'an image by its address', 'It does not fetch: send a data URL.')
}

function unsupported(place: string, what: string, instead: string) {
  const message = `${place} holds ${what}, which this model's provider does not take. ${instead}`
  return refuse('unsupported_parameter', { message, param: place })
}
