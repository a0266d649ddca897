/** Matches tool results with the calls of earlier turns, also if clients omit ids or names. */
import { type ChatMessage, type ChatRequest, refuse } from '#contract'
import { parseExact } from '../json-exact.ts'
import { type CacheMark, cacheMarkOf, markedWith } from './cache.ts'
import { argumentsFor, type WireCustomCall } from './custom-tools.ts'

export interface ToolCall {
  readonly kind: 'call'
  readonly id: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** Google's signature of the reasoning that led to the call, see `extra_content` in completion.ts. */
  readonly signature: string | null
  readonly cache?: CacheMark
}

/** The call of a result: the id to send, and the name of the tool. */
export interface AnsweredCall {
  readonly id: string
  readonly name: string
}

interface WireCall {
  readonly id: string
  readonly type?: string
  readonly function?: { readonly name: string; readonly arguments: string }
  readonly custom?: WireCustomCall
  readonly extra_content?: unknown
}

/** Reads the calls of one conversation, message by message, and finds the call of a result. */
export class CallHistory {
  /** Names by id, in the order of the calls. */
  readonly #names = new Map<string, string>()
  /** Ids from the client. An invented id must not equal one of them. */
  readonly #given: ReadonlySet<string>
  /** Invented ids of the last message with calls that have no result yet. */
  #open: string[] = []

  constructor(messages: ChatRequest['messages']) {
    this.#given = new Set(messages.flatMap(message => callsOf(message).map(({ id }) => id)))
  }

  /**
   * The calls of an assistant message. Throws a refusal for arguments that are JSON but not an object.
   * @param index the index of the message; invented ids depend on it, so they stay the same as the conversation grows
   */
  read(message: ChatMessage, index: number): ToolCall[] {
    const place = `messages[${index}]`
    const calls = callsOf(message).map((call, at) => ({ call, place: `${place}.tool_calls[${at}]` }))
    const old = message['function_call'] as NonNullable<WireCall['function']> | null | undefined
    if (old) {
      const { extra_content } = old as { readonly extra_content?: unknown }
      calls.push({ call: { id: '', function: old, extra_content }, place: `${place}.function_call` })
    }
    if (calls.length > 0) this.#open = []
    return calls.map(({ call, place }, at) => {
      const read = readCall(call, call.id || this.#invent(index, at), place)
      this.#names.set(read.id, read.name)
      return read
    })
  }

  /** The call that a tool or function message answers. Throws a refusal if no message has that call. */
  answered(message: ChatMessage, place: string): AnsweredCall {
    return message.role === 'function' ? this.#byName(message, place) : this.#byId(message, place)
  }

  #byName(message: ChatMessage, place: string): AnsweredCall {
    const name = message['name'] as string
    const id = [...this.#names].findLast(([, called]) => called === name)?.[0]
    if (id !== undefined) return { id, name }
    const sentence = `${place} is the result of the function '${name}', which no earlier message calls.`
    throw refuse('invalid_value', { message: sentence, param: `${place}.name` })
  }

  /** A result without an id answers the first call without an id that has no result yet. */
  #byId(message: ChatMessage, place: string): AnsweredCall {
    const given = message['tool_call_id'] as string
    const id = given || this.#open.shift() || ''
    const name = this.#names.get(id)
    if (name !== undefined) return { id, name }
    const sentence = `${place} is the result of the tool call '${given}', which no earlier message makes.`
    throw refuse('invalid_value', { message: sentence, param: `${place}.tool_call_id` })
  }

  #invent(index: number, at: number): string {
    let id = `call_${index}_${at}`
    while (this.#given.has(id)) id += '_'
    this.#open.push(id)
    return id
  }
}

/** Google's signature in a call or a message, in a field that only Google's clients use. */
export function signatureIn(from: object): string | null {
  const { extra_content: extra } = from as {
    readonly extra_content?: { readonly google?: { readonly thought_signature?: unknown } | null } | null
  }
  const signature = extra?.google?.thought_signature
  return typeof signature === 'string' && signature !== '' ? signature : null
}

function callsOf(message: ChatMessage): readonly WireCall[] {
  return (message['tool_calls'] as readonly WireCall[] | null | undefined) ?? []
}

function readCall(call: WireCall, id: string, place: string): ToolCall {
  const { custom, function: called } = call
  return {
    kind: 'call',
    id,
    name: (custom ?? called!).name,
    arguments: custom ? argumentsFor(custom) : readArguments(called!.arguments ?? '', `${place}.function.arguments`),
    signature: signatureIn(call),
    ...markedWith(cacheMarkOf(call)),
  }
}

/**
 * Incomplete arguments (a call cut by the cap, which the client sends back) are sent to the model as text. A refusal would end the
 * conversation for good.
 */
function readArguments(text: string, place: string): Record<string, unknown> {
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = parseExact(text)
  } catch {
    return { INVALID_JSON: text }
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
  const message = `Invalid value for '${place}': ${shown} is not a JSON object. This model's provider requires an object.`
  throw refuse('invalid_value', { message, param: place })
}
