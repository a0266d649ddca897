/**
 * Converts a conversation of items to canonical messages. One turn of the model (reasoning, text, calls) is many items but one message.
 * Only canonical messages of the user can have images and files.
 */
import type { Call } from './content-parts.ts'
import { contentOf, type Part, type PlacedPart } from './content-parts.ts'
import type { MessagePlace } from './places.ts'
import type { Fields } from './read.ts'
import type { ToolList } from './tools.ts'

type Message = Record<string, unknown>

export interface ReadInput {
  readonly messages: readonly Readonly<Message>[]
  readonly places: readonly MessagePlace[]
  /** Tools that the conversation adds. */
  readonly toolLists: readonly ToolList[]
  /** The last effort that an item sets, with its place; null if no item sets one. */
  readonly effort: PlacedEffort | null
  /** Names of settings in items that have no effect here, with their places. */
  readonly unused: ReadonlyMap<string, string>
}

export interface PlacedEffort {
  /** Unchecked; a later step checks it. */
  readonly value: unknown
  readonly place: string
}

export interface ReadReasoning {
  /** The text; null if `details` or `calls` contain it. */
  readonly text: string | null
  readonly details: readonly Fields[]
  readonly extra: Fields | null
  readonly calls: ReadonlyMap<string, Fields>
}

/** The items of the model until the next item of the user or a tool. */
class AnswerTurn {
  readonly texts: PlacedPart[] = []
  refusal = ''
  readonly calls: { readonly call: Call; readonly place: string }[] = []
  /** Reasoning without any signature; null if there is a signature. */
  thinking: string | null = ''
  readonly details: Fields[] = []
  extra: Fields | null = null
  place = ''

  get isEmpty(): boolean {
    return this.texts.length === 0 && this.refusal === '' && this.calls.length === 0
  }
}

const NO_CALLS: ReadonlySet<string> = new Set()

/** Builds the canonical messages from the client's items, one by one. */
export class Conversation {
  readonly #messages: Message[] = []
  readonly #places: MessagePlace[] = []
  #turn: AnswerTurn | null = null
  /** Images and files that only a user message can have. Those of results follow all results of a turn. */
  #shown: PlacedPart[] = []
  /** Messages that only show images or files: the user asks nothing in them. */
  readonly #showing = new Set<Message>()
  /** Google's signature of each call, by call id. */
  readonly #signatures = new Map<string, Fields>()
  readonly #toolLists: ToolList[] = []
  /** Call ids of the last message that is not a result. */
  #calls: ReadonlySet<string> = NO_CALLS
  /** Whether each result follows the message with its call, or another result of it, as chat providers require. */
  #isInOrder = true
  #effort: PlacedEffort | null = null
  readonly #unused = new Map<string, string>()

  say(role: 'user' | 'system', parts: readonly PlacedPart[], place: string): void {
    this.#close()
    const [first] = parts
    this.#push(
      { role, content: contentOf(parts) },
      {
        base: place || (first?.place ?? ''),
        content: place === '' ? '' : 'content',
        parts: parts.map(p => p.place),
        calls: [],
      },
    )
  }

  answer(texts: readonly PlacedPart[], refusal: string, place: string): void {
    const turn = this.#answering(place)
    turn.texts.push(...texts)
    turn.refusal += refusal
  }

  call(call: Call, place: string): void {
    this.#answering(place).calls.push({ call, place })
  }

  addReasoning({ text, details, extra, calls }: ReadReasoning): void {
    const turn = this.#answering('')
    turn.thinking = text === null || turn.thinking === null ? null : turn.thinking + text
    turn.details.push(...details)
    turn.extra = extra ?? turn.extra
    for (const [id, signature] of calls) this.#signatures.set(id, signature)
  }

  /** A result is text in the canonical format; other content follows all results in a user message. */
  result(callId: string, parts: readonly PlacedPart[], place: string): void {
    this.#flushTurn()
    this.#isInOrder &&= this.#calls.has(callId)
    const texts = parts.map(one => (one.part.type === 'text' ? one : { ...one, part: this.#show(one, callId) }))
    this.#push(
      { role: 'tool', tool_call_id: callId, content: texts.length === 0 ? '' : contentOf(texts) },
      { base: place, content: 'output', parts: texts.map(one => one.place), calls: [] },
    )
  }

  tools(list: ToolList): void {
    this.#toolLists.push(list)
  }

  /** Applies to the whole request, wherever the item is: providers have one effort for a request. */
  setEffort(effort: PlacedEffort | null): void {
    this.#effort = effort
  }

  leaveOut(name: string, place: string): void {
    this.#unused.set(name, place)
  }

  /** Only user messages can have images in the canonical format. */
  addImage(url: string, place: string): void {
    this.#flushTurn()
    const label = { type: 'text', text: 'A picture that the assistant made:' }
    this.#shown.push({ part: label, place }, { part: { type: 'image_url', image_url: { url } }, place })
  }

  #show(one: PlacedPart, callId: string): Part {
    const label = `Result of ${callId}, part ${this.#shown.length / 2 + 1}`
    this.#shown.push({ part: { type: 'text', text: `${label}:` }, place: one.place }, one)
    return { type: 'text', text: `(${label}: see the next message.)` }
  }

  end(): ReadInput {
    this.#close()
    if (!this.#isInOrder) this.#moveResults()
    this.#finish()
    const [toolLists, effort, unused] = [this.#toolLists, this.#effort, this.#unused]
    return { messages: this.#messages, places: this.#places, toolLists, effort, unused }
  }

  #answering(place: string): AnswerTurn {
    if (!this.#turn) {
      this.#flushShown()
      this.#turn = new AnswerTurn()
    }
    this.#turn.place ||= place
    return this.#turn
  }

  #close(): void {
    this.#flushTurn()
    this.#flushShown()
  }

  #flushTurn(): void {
    const turn = this.#turn
    this.#turn = null
    // Reasoning alone is not a message.
    if (!turn || turn.isEmpty) return
    const { texts, refusal, calls, thinking, details, extra } = turn
    this.#push(
      {
        role: 'assistant',
        content: texts.length === 0 ? null : contentOf(texts),
        ...(refusal === '' ? {} : { refusal }),
        ...(thinking ? { reasoning_content: thinking } : {}),
        ...(details.length > 0 ? { reasoning_details: details } : {}),
        ...(extra === null ? {} : { extra_content: extra }),
        ...(calls.length > 0 ? { tool_calls: calls.map(({ call }) => call) } : {}),
      },
      {
        base: turn.place,
        content: 'content',
        parts: texts.map(one => one.place),
        calls: calls.map(({ place }) => place),
      },
    )
  }

  #flushShown(): void {
    const shown = this.#shown
    if (shown.length === 0) return
    this.#shown = []
    const message = { role: 'user', content: contentOf(shown) }
    this.#showing.add(message)
    this.#push(message, { base: shown[0]!.place, content: '', parts: shown.map(one => one.place), calls: [] })
  }

  #push(message: Message, place: MessagePlace): void {
    if (message['role'] !== 'tool') {
      const calls = message['tool_calls'] as readonly Call[] | undefined
      this.#calls = calls ? new Set(calls.map(({ id }) => id)) : NO_CALLS
    }
    this.#messages.push(message)
    this.#places.push(place)
  }

  /** Moves each result after the message with its call and its earlier results. A result without a call stays in its place. */
  #moveResults(): void {
    const groups = this.#messages.map((message, index) => [{ message, place: this.#places[index]! }])
    const byCall = new Map<string, (typeof groups)[number]>()
    const enter = (index: number) => {
      const calls = (this.#messages[index]!['tool_calls'] ?? []) as readonly Call[]
      for (const { id } of calls) byCall.set(id, groups[index]!)
    }
    // Backwards, for results before their calls: those belong to the first call with their id.
    for (let index = groups.length - 1; index >= 0; index--) enter(index)
    for (const [index, message] of this.#messages.entries()) {
      const group = byCall.get(message['tool_call_id'] as string)
      if (group) group.push(...groups[index]!.splice(0))
      else enter(index)
    }
    for (const [index, { message, place }] of groups.flat().entries()) {
      this.#messages[index] = message
      this.#places[index] = place
    }
  }

  /**
   * Runs at the end, because it needs the whole conversation. Adds signatures to their calls. Removes unsigned reasoning outside of the
   * tool calls in progress, because some providers refuse it elsewhere.
   */
  #finish(): void {
    const lastQuestion = this.#messages.findLastIndex(
      message => message['role'] === 'user' && !this.#showing.has(message),
    )
    for (const [index, message] of this.#messages.entries()) {
      const calls = message['tool_calls'] as readonly Call[] | undefined
      if (!calls || index < lastQuestion) delete message['reasoning_content']
      if (!calls) continue
      message['tool_calls'] = calls.map(call => {
        const extra = this.#signatures.get(call.id)
        return extra ? { ...call, extra_content: extra } : call
      })
    }
  }
}
