/** A conversation as a relative of the OpenAI dialect takes it. */
import { createHash } from 'node:crypto'
import type { ChatMessage } from '#contract'
import { CALL_EXTENSIONS, EXTENSIONS } from './extensions.ts'
import { ordered, refusalAsContent } from './message-order.ts'
import type { MessageQuirks } from './quirks.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * The messages with what differs changed, or null when nothing does.
 * @param dropped takes the names of what could not be carried
 */
export function adaptMessages(
  messages: readonly ChatMessage[],
  quirks: MessageQuirks,
  dropped: Set<string>,
): readonly ChatMessage[] | null {
  const idle = quirks.thoughts === 'called' ? idleThoughts(messages) : NOWHERE
  let isChanged = false
  const adapted = messages.map((message, index) => {
    const said = quirks.order === 'strict' ? refusalAsContent(message) : message
    const fit = adaptMessage(said, quirks, idle.has(index), dropped)
    if (fit !== message) isChanged = true
    return fit
  })
  const list = quirks.order === 'strict' ? ordered(adapted) : adapted
  return isChanged || list !== adapted ? list : null
}

const NOWHERE: ReadonlySet<number> = new Set()

function adaptMessage(message: ChatMessage, quirks: MessageQuirks, isIdle: boolean, dropped: Set<string>): ChatMessage {
  const role = wordFor(quirks.roles, message.role)
  const takes = quirks.takes && Object.hasOwn(quirks.takes, role) ? quirks.takes[role] : undefined
  const isLeft = (name: string) =>
    quirks.leaves?.has(name) === true ||
    (takes !== undefined && !takes.has(name)) ||
    (quirks.extensions === 'left' && role === 'assistant' && EXTENSIONS.has(name)) ||
    (isIdle && name === 'reasoning_content')
  const changes: Record<string, unknown> = {}
  if (role !== message.role) changes['role'] = role
  if (quirks.callIds === 'nine' && typeof message['tool_call_id'] === 'string') {
    const id = nineOf(message['tool_call_id'])
    if (id !== message['tool_call_id']) changes['tool_call_id'] = id
  }
  const parts = quirks.files === 'document_url' ? withDocuments(message.content) : null
  if (parts !== null) changes['content'] = parts
  const calls = adaptCalls(message['tool_calls'], quirks, dropped)
  if (calls !== null) changes['tool_calls'] = calls
  return changed(message, changes, isLeft, name => {
    if (role !== 'assistant' || !EXTENSIONS.has(name)) dropped.add(`messages.${name}`)
  })
}

/** Null when there is no file with its data; one that is only named, by an id, is the provider's to refuse. */
function withDocuments(content: ChatMessage['content']): Fields[] | null {
  if (!Array.isArray(content)) return null
  const adapted = (content as Fields[]).map(part => {
    const { file_data: data, filename } = (part['file'] ?? {}) as {
      readonly file_data?: unknown
      readonly filename?: unknown
    }
    if (part['type'] !== 'file' || typeof data !== 'string') return part
    return {
      type: 'document_url',
      document_url: data,
      ...(typeof filename === 'string' ? { document_name: filename } : {}),
    }
  })
  return adapted.every((part, index) => part === content[index]) ? null : adapted
}

/** Null when the calls may stay as they are. */
function adaptCalls(calls: unknown, quirks: MessageQuirks, dropped: Set<string>): Fields[] | null {
  const { callIds, callTakes, extensions } = quirks
  if (!Array.isArray(calls) || (callIds ?? callTakes ?? extensions) === undefined) return null
  const adapted = (calls as Fields[]).map(call => {
    const { id } = call
    const fit = callIds === 'nine' && typeof id === 'string' ? nineOf(id) : id
    const isLeft = (name: string) =>
      callTakes === undefined ? extensions === 'left' && CALL_EXTENSIONS.has(name) : !callTakes.has(name)
    return changed(call, fit === id ? {} : { id: fit }, isLeft, name => {
      if (!CALL_EXTENSIONS.has(name)) dropped.add(`messages.tool_calls.${name}`)
    })
  })
  return adapted.every((call, index) => call === calls[index]) ? null : adapted
}

/** The same object when there is nothing to change; what is left out without having said anything is not told. */
function changed<T extends Fields>(
  from: T,
  changes: Fields,
  isLeft: (name: string) => boolean,
  tell: (name: string) => void,
): T {
  const left = Object.keys(from).filter(isLeft)
  if (left.length === 0 && Object.keys(changes).length === 0) return from
  for (const name of left) if (saysSomething(from[name])) tell(name)
  return Object.fromEntries(
    Object.entries(from)
      .filter(([name]) => !left.includes(name))
      .map(([name, value]) => [name, Object.hasOwn(changes, name) ? changes[name] : value]),
  ) as T
}

function saysSomething(value: unknown): boolean {
  return value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)
}

/** The word that it has for this one, mostly the same. */
export function wordFor(words: Readonly<Record<string, string>> | undefined, word: string): string {
  return words !== undefined && Object.hasOwn(words, word) ? words[word]! : word
}

/**
 * Where thinking stands in a turn without calls. A turn goes from one message of the user to the next; an answer that is
 * to be continued (`prefix`) continues its thinking too.
 */
function idleThoughts(messages: readonly ChatMessage[]): ReadonlySet<number> {
  const idle = new Set<number>()
  let [turn, hasCalls]: [number[], boolean] = [[], false]
  const endTurn = () => {
    if (!hasCalls) for (const index of turn) idle.add(index)
    turn = []
    hasCalls = false
  }
  for (const [index, message] of messages.entries()) {
    if (message.role === 'user') endTurn()
    if (message['reasoning_content'] !== undefined && message['prefix'] !== true) turn.push(index)
    if (saysSomething(message['tool_calls'])) hasCalls = true
  }
  endTurn()
  return idle
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * An id of nine letters and digits for any id: its own when it is one already, else always the same for the same, so
 * that the call and its result still belong together. 62^9 of them: two ids of a conversation never meet.
 */
export function nineOf(id: string): string {
  if (/^[a-zA-Z0-9]{9}$/.test(id)) return id
  let rest = createHash('sha256').update(id).digest().readBigUInt64BE()
  let nine = ''
  while (nine.length < 9) {
    nine += ALPHABET[Number(rest % 62n)]
    rest /= 62n
  }
  return nine
}
