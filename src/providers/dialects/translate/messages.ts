/** Builds a list of messages that begins with the instructions, as several providers require. */
import { refuse } from '#contract'
import type { Conversation, Text, Turn } from './conversation.ts'

export type Message = Readonly<Record<string, unknown>> & { readonly role: 'system' | 'user' | 'assistant' | 'tool' }

export interface Messages {
  readonly messages: readonly Message[]
  /** Names of dropped content. */
  readonly dropped: readonly string[]
}

/** Writes the turns of each side for a provider. Either may throw a refusal for unsupported content. */
export interface TurnWriter {
  user(turn: Turn): readonly Message[]
  assistant(turn: Turn): readonly Message[]
}

/** Throws a refusal for an empty conversation. */
export function messagesWith({ system, turns, ending }: Conversation, writer: TurnWriter): Messages {
  const instructions = system.join('\n')
  const spoken = turns.flatMap(turn => (turn.role === 'user' ? instructed(turn, writer) : writer.assistant(turn)))
  if (spoken.length > 0) spoken.push(...instructing(ending))
  const isThoughtful = turns.some(({ parts }) => parts.some(({ kind }) => kind === 'reasoning'))
  // Only the provider that made the reasoning can verify it.
  const dropped = isThoughtful ? ['reasoning_details'] : []
  if (spoken.length > 0) {
    const first: Message[] = instructions === '' ? [] : [{ role: 'system', content: instructions }]
    return { messages: [...first, ...spoken], dropped }
  }
  // The providers require a message, so instructions without any become one.
  if (instructions !== '') return { messages: [{ role: 'user', content: instructions }], dropped }
  throw refuse('invalid_value', { message: "'messages' has no content. Send at least one text.", param: 'messages' })
}

/** Nothing may be between calls and their results. */
function instructed(turn: Turn, writer: TurnWriter): Message[] {
  const written = writer.user(turn)
  const results = written.filter(({ role }) => role === 'tool')
  const rest = written.slice(results.length)
  return [...results, ...instructing(turn.before), ...rest, ...instructing(turn.after)]
}

const instructing = (texts: readonly Text[] = []): Message[] =>
  texts.map(({ text }) => ({ role: 'system', content: text }))
