/** The skeleton of a list of messages whose first one holds the instructions, as several providers want it. */
import { refuse } from '#contract'
import type { Conversation, Text, Turn } from './conversation.ts'

export type Message = Readonly<Record<string, unknown>> & { readonly role: 'system' | 'user' | 'assistant' | 'tool' }

export interface Messages {
  readonly messages: readonly Message[]
  /** Names of what could not be carried. */
  readonly dropped: readonly string[]
}

/** How a provider writes the turns of each side. Either may throw a refusal for what it does not take. */
export interface TurnWriter {
  user(turn: Turn): readonly Message[]
  assistant(turn: Turn): readonly Message[]
}

/** Throws a refusal where there is nothing to send. */
export function messagesWith({ system, turns, ending }: Conversation, writer: TurnWriter): Messages {
  const instructions = system.join('\n')
  const spoken = turns.flatMap(turn => (turn.role === 'user' ? instructed(turn, writer) : writer.assistant(turn)))
  if (spoken.length > 0) spoken.push(...instructing(ending))
  const isThoughtful = turns.some(({ parts }) => parts.some(({ kind }) => kind === 'reasoning'))
  // A thought of another provider's making, in a form that only that one can check.
  const dropped = isThoughtful ? ['reasoning_details'] : []
  if (spoken.length > 0) {
    const first: Message[] = instructions === '' ? [] : [{ role: 'system', content: instructions }]
    return { messages: [...first, ...spoken], dropped }
  }
  // Instructions and nothing else: the providers want a message, so they are it.
  if (instructions !== '') return { messages: [{ role: 'user', content: instructions }], dropped }
  throw refuse('invalid_value', { message: "'messages' hold no text and nothing else either.", param: 'messages' })
}

/** Nothing may be between calls and their results. */
function instructed(turn: Turn, writer: TurnWriter): Message[] {
  const said = writer.user(turn)
  const results = said.filter(({ role }) => role === 'tool')
  const rest = said.slice(results.length)
  return [...results, ...instructing(turn.before), ...rest, ...instructing(turn.after)]
}

const instructing = (texts: readonly Text[] = []): Message[] =>
  texts.map(({ text }) => ({ role: 'system', content: text }))
