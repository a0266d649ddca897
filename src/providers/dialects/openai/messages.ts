/** Adapts a conversation to a compatible provider. */
import { createHash } from 'node:crypto'
import { type ChatMessage, refuse } from '#contract'
import { alternating } from './alternation.ts'
import { CALL_EXTENSIONS, EXTENSIONS } from './extensions.ts'
import { ordered, refusalAsContent } from './message-order.ts'
import { adaptParts } from './parts.ts'
import type { MessageQuirks } from './profile.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * The adapted messages, or null if nothing changes. Throws a refusal with the place of unsupported content.
 * @param model the provider's name for it
 * @param dropped receives the names of dropped fields
 */
export function adaptMessages(
  messages: readonly ChatMessage[],
  quirks: MessageQuirks,
  model: string,
  dropped: Set<string>,
): readonly ChatMessage[] | null {
  const thoughts = quirks.thoughts === undefined ? NO_REASONING : reasoningPlacesIn(messages)
  const isEmptyWanted = quirks.thoughts?.test(model) === true
  let isChanged = false
  const adapted = messages.map((message, index) => {
    const converted = quirks.refusals === 'content' ? refusalAsContent(message) : message
    const fit = adaptMessage(converted, quirks, `messages[${index}]`, thoughts.idle.has(index), dropped)
    const thought = isEmptyWanted && thoughts.missing.has(index) ? { ...fit, reasoning_content: '' } : fit
    if (thought !== message) isChanged = true
    return thought
  })
  const list = inOrder(adapted, quirks)
  return isChanged || list !== adapted ? list : null
}

function inOrder(messages: readonly ChatMessage[], { order }: MessageQuirks): readonly ChatMessage[] {
  if (order === undefined) return messages
  return order === 'strict' ? ordered(messages) : alternating(messages)
}

function adaptMessage(
  message: ChatMessage,
  quirks: MessageQuirks,
  place: string,
  isIdle: boolean,
  dropped: Set<string>,
): ChatMessage {
  if (quirks.functions === 'refused') refuseFunctions(message, place)
  const role = wordFor(quirks.roles, message.role)
  const isAssistant = role === 'assistant'
  const takes = quirks.takes && Object.hasOwn(quirks.takes, role) ? quirks.takes[role] : undefined
  const isClosed = (takes ?? quirks.omits) !== undefined
  const isOmitted = (name: string) =>
    (quirks.omits?.has(name) === true && role !== 'function') ||
    (takes !== undefined && !takes.has(name)) ||
    (quirks.extensions === 'omitted' && isAssistant && EXTENSIONS.has(name) && takes?.has(name) !== true) ||
    (isIdle && name === 'reasoning_content') ||
    (isClosed && name !== 'content' && message[name] === null)
  const changes: Record<string, unknown> = {}
  if (role !== message.role) changes['role'] = role
  if (quirks.callIds === 'nine' && typeof message['tool_call_id'] === 'string') {
    const id = nineOf(message['tool_call_id'])
    if (id !== message['tool_call_id']) changes['tool_call_id'] = id
  }
  const parts = adaptParts(message.content, role, quirks, place)
  if (parts !== null) changes['content'] = parts
  const calls = adaptCalls(message['tool_calls'], quirks, dropped)
  if (calls !== null) changes['tool_calls'] = calls
  const fit = changed(message, changes, isOmitted, name => {
    if (!isAssistant || (!EXTENSIONS.has(name) && !Object.hasOwn(quirks.renamed ?? {}, name)))
      dropped.add(`messages.${name}`)
  })
  return isAssistant && quirks.renamed !== undefined ? renamed(fit, message, quirks.renamed) : fit
}

/** Adds fields under the provider's names that were left out under other names. */
function renamed(fit: ChatMessage, message: ChatMessage, names: Readonly<Record<string, string>>): ChatMessage {
  const present = Object.entries(names).filter(([name, theirs]) => hasValue(message[name]) && fit[theirs] == null)
  if (present.length === 0) return fit
  return { ...fit, ...Object.fromEntries(present.map(([name, theirs]) => [theirs, message[name]])) }
}

function refuseFunctions(message: ChatMessage, place: string): void {
  const isResult = (message.role as string) === 'function'
  if (!isResult && message['function_call'] == null) return
  const param = isResult ? `${place}.role` : `${place}.function_call`
  const text = `${place} is about 'functions', which this model's provider does not support. Use 'tools'.`
  throw refuse('unsupported_parameter', { message: text, param })
}

/** Null if the calls may stay unchanged. */
function adaptCalls(calls: unknown, quirks: MessageQuirks, dropped: Set<string>): Fields[] | null {
  const { callIds, callTakes, extensions } = quirks
  if (!Array.isArray(calls) || (callIds ?? callTakes ?? extensions) === undefined) return null
  const adapted = (calls as Fields[]).map(call => {
    const { id } = call
    const fit = callIds === 'nine' && typeof id === 'string' ? nineOf(id) : id
    const isOmitted = (name: string) =>
      callTakes === undefined ? extensions === 'omitted' && CALL_EXTENSIONS.has(name) : !callTakes.has(name)
    return changed(call, fit === id ? {} : { id: fit }, isOmitted, name => {
      if (!CALL_EXTENSIONS.has(name)) dropped.add(`messages.tool_calls.${name}`)
    })
  })
  return adapted.every((call, index) => call === calls[index]) ? null : adapted
}

/** Applies changes and removes fields; `report` gets removed fields that had a value. The same object if nothing changes. */
function changed<T extends Fields>(
  from: T,
  changes: Fields,
  isOmitted: (name: string) => boolean,
  report: (name: string) => void,
): T {
  const omitted = Object.keys(from).filter(isOmitted)
  if (omitted.length === 0 && Object.keys(changes).length === 0) return from
  for (const name of omitted) if (hasValue(from[name])) report(name)
  return Object.fromEntries(
    Object.entries(from)
      .filter(([name]) => !omitted.includes(name))
      .map(([name, value]) => [name, Object.hasOwn(changes, name) ? changes[name] : value]),
  ) as T
}

function hasValue(value: unknown): boolean {
  return value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)
}

/** The provider's word for a word, often the same. */
export function wordFor(words: Readonly<Record<string, string>> | undefined, word: string): string {
  return words !== undefined && Object.hasOwn(words, word) ? words[word]! : word
}

interface ReasoningPlaces {
  /** Messages with reasoning in a turn without calls. */
  readonly idle: ReadonlySet<number>
  /** Assistant messages without reasoning in a turn with calls. */
  readonly missing: ReadonlySet<number>
}

const NO_REASONING: ReasoningPlaces = { idle: new Set(), missing: new Set() }

/** A turn lasts from one user message to the next. An answer to be continued (`prefix`) also continues its reasoning. */
function reasoningPlacesIn(messages: readonly ChatMessage[]): ReasoningPlaces {
  const [idle, missing] = [new Set<number>(), new Set<number>()]
  let turn: number[] = []
  let hasCalls = false
  const endTurn = () => {
    for (const index of turn) {
      const isMissing = messages[index]!['reasoning_content'] == null
      if (isMissing === hasCalls) (hasCalls ? missing : idle).add(index)
    }
    turn = []
    hasCalls = false
  }
  for (const [index, message] of messages.entries()) {
    if (message.role === 'user') endTurn()
    if (message.role === 'assistant' && message['prefix'] !== true) turn.push(index)
    if (hasValue(message['tool_calls'])) hasCalls = true
  }
  endTurn()
  return { idle, missing }
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * An id of nine letters and digits: the id itself if it has that form, else a hash. So a call and its result still match. With
 * 62^9 values, two ids of a conversation do not collide.
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
