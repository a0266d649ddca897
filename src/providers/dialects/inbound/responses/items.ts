/** The types of output items: reasoning, messages, images, and calls of functions or custom tools. */
import type { Boxes, ToolCallDelta } from '#contract'
import { parseExact } from '../../json-exact.ts'
import { type ClientTool, callItem, prefixOf } from './client-tools.ts'
import type { ToolNames } from './names.ts'
import type { Fields } from './read.ts'
import { extraOf, joinDetails, seal } from './sealed.ts'

type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

/** How reasoning is sealed in one answer. */
export interface SealOptions {
  readonly boxes: Boxes | undefined
  /** Also unsigned reasoning, because the client asked for it or gets no summary. */
  readonly withText: boolean
  readonly isShown: boolean
}

/** A reasoning item: its text as the summary, which clients show, and the parts that providers require back in `encrypted_content`. */
export class ReasoningItem implements OpenItem {
  readonly #place: ItemPlace
  #text = ''
  readonly #details: unknown[] = []
  #extra: Fields | null = null
  readonly #calls = new Map<string, Fields>()
  readonly #sealing: SealOptions

  constructor(place: ItemPlace, sealing: SealOptions) {
    this.#place = place
    this.#sealing = sealing
  }

  text(text: string): void {
    if (!this.#sealing.isShown) {
      this.#text += text
      return
    }
    if (this.#text === '') {
      this.#place.emit('response.reasoning_summary_part.added', { summary_index: 0, part: summaryOf('') })
    }
    this.#text += text
    this.#place.emit('response.reasoning_summary_text.delta', { summary_index: 0, delta: text })
  }

  details(details: readonly unknown[]): void {
    this.#details.push(...details)
  }

  extra(extra: Fields): void {
    this.#extra = extra
  }

  call(callId: string, extra: Fields): void {
    this.#calls.set(callId, extra)
  }

  close(): void {
    if (this.#text === '' || !this.#sealing.isShown) return
    this.#place.emit('response.reasoning_summary_text.done', { summary_index: 0, text: this.#text })
    this.#place.emit('response.reasoning_summary_part.done', { summary_index: 0, part: summaryOf(this.#text) })
  }

  current(): OutputItem {
    const { boxes, withText, isShown } = this.#sealing
    const details = joinDetails(this.#details)
    const text = withText ? this.#text : null
    const box = seal({ details, extra: this.#extra, calls: this.#calls, text }, boxes)
    return {
      id: this.#place.id,
      type: 'reasoning',
      summary: this.#text === '' || !isShown ? [] : [summaryOf(this.#text)],
      ...(box === null ? {} : { encrypted_content: box }),
    }
  }
}

const summaryOf = (text: string) => ({ type: 'summary_text', text })

/** A text of a message, or a refusal. */
interface MessagePart {
  readonly kind: 'output_text' | 'refusal'
  text: string
  readonly logprobs: unknown[]
  /** Web citations. */
  readonly annotations: Fields[]
}

/** A message. A refusal after text begins another part. */
export class MessageItem implements OpenItem {
  readonly #place: ItemPlace
  readonly #parts: MessagePart[] = []

  constructor(place: ItemPlace) {
    this.#place = place
  }

  text(text: string, logprobs: readonly unknown[]): void {
    const part = this.#part('output_text')
    part.text += text
    part.logprobs.push(...logprobs)
    if (text !== '' || logprobs.length > 0) this.#emit('response.output_text.delta', { delta: text, logprobs })
  }

  /** Citations in the text so far. */
  annotations(annotations: readonly Fields[]): void {
    const part = this.#part('output_text')
    for (const annotation of annotations) {
      const annotation_index = part.annotations.push(annotation) - 1
      this.#emit('response.output_text.annotation.added', { annotation_index, annotation })
    }
  }

  refusal(text: string): void {
    this.#part('refusal').text += text
    this.#emit('response.refusal.delta', { delta: text })
  }

  close(): void {
    const part = this.#parts.at(-1)
    if (!part) return
    const { text, logprobs } = part
    if (part.kind === 'refusal') this.#emit('response.refusal.done', { refusal: text })
    else this.#emit('response.output_text.done', { text, logprobs })
    this.#emit('response.content_part.done', { part: partOf(part) })
  }

  current(status: ItemStatus): OutputItem {
    return { id: this.#place.id, type: 'message', status, role: 'assistant', content: this.#parts.map(partOf) }
  }

  #part(kind: MessagePart['kind']): MessagePart {
    const last = this.#parts.at(-1)
    if (last?.kind === kind) return last
    this.close()
    const part: MessagePart = { kind, text: '', logprobs: [], annotations: [] }
    this.#parts.push(part)
    this.#emit('response.content_part.added', { part: partOf(part) })
    return part
  }

  #emit(type: string, event: Fields): void {
    this.#place.emit(type, { content_index: this.#parts.length - 1, ...event })
  }
}

function partOf({ kind, text, logprobs, annotations }: MessagePart) {
  if (kind === 'refusal') return { type: kind, refusal: text }
  return { type: kind, text, annotations: [...annotations], logprobs: [...logprobs] }
}

/** An image that the model made; it arrives whole. */
export class ImageItem implements OpenItem {
  readonly #place: ItemPlace
  readonly #format: string
  readonly #base64: string

  constructor(place: ItemPlace, { format, base64 }: OutputImage) {
    this.#place = place
    this.#format = format
    this.#base64 = base64
  }

  close(): void {
    this.#place.emit('response.image_generation_call.completed', {})
  }

  current(status: ItemStatus): OutputItem {
    const isDone = status !== 'in_progress'
    return {
      id: this.#place.id,
      type: 'image_generation_call',
      status: isDone ? 'completed' : status,
      output_format: this.#format,
      result: isDone ? this.#base64 : null,
    }
  }
}

export interface OutputImage {
  /** `png`, `jpeg`, ... */
  readonly format: string
  readonly base64: string
}

const PICTURE = /^data:image\/([a-z0-9.+-]+);base64,/i

/** The images in a delta: `images` with data URLs, see `translate/completion.ts`. */
export function imagesOf(images: unknown): OutputImage[] {
  if (!Array.isArray(images)) return []
  return images.flatMap((image: { image_url?: { url?: unknown } | null } | null) => {
    const url = image?.image_url?.url
    const head = typeof url === 'string' ? PICTURE.exec(url) : null
    return head ? [{ format: head[1]!.toLowerCase(), base64: (url as string).slice(head[0].length) }] : []
  })
}

/** A call. It gets a place in the output when its name is known. */
export class CallItem implements OpenItem {
  readonly #names: ToolNames
  #place: ItemPlace | null = null
  #name = ''
  #text = ''
  #isCustom = false
  #extra: Fields | null = null
  /** The provider's id; empty until it sends one. */
  givenId = ''
  /** The client's id. */
  callId = ''

  constructor(names: ToolNames) {
    this.#names = names
  }

  get isNamed(): boolean {
    return this.#name !== ''
  }

  get hasBegun(): boolean {
    return this.#place !== null
  }

  get prefix(): string {
    if (this.#isCustom) return 'ctc'
    const tool = this.#clientTool
    if (tool) return prefixOf(tool)
    return this.#isSearch ? 'tsc' : 'fc'
  }

  /** A search for tools has another form, and is sent only when complete. */
  get #isSearch(): boolean {
    return !this.#isCustom && this.#names.find(this.#name).isSearch === true
  }

  /** A tool of OpenAI has another form, and is sent only when complete. */
  get #clientTool(): ClientTool | undefined {
    return this.#isCustom ? undefined : this.#names.find(this.#name).clientTool
  }

  /** Whether a piece belongs to this call and does not begin another. */
  continues({ id, function: called, custom }: ToolCallDelta): boolean {
    const name = called?.name || (custom as { name?: unknown } | undefined)?.name
    return !id || this.givenId === '' || id === this.givenId || !name
  }

  add(delta: ToolCallDelta): void {
    const custom = delta['custom'] as { name?: unknown; input?: unknown } | null | undefined
    // After the first event, the type of the call must not change.
    if (!this.hasBegun && (custom || delta.type === 'custom')) this.#isCustom = true
    this.#extra = extraOf(delta) ?? this.#extra
    if (typeof delta.id === 'string') this.givenId ||= delta.id
    this.#name ||= wordOf(custom?.name ?? delta.function?.name)
    this.#grow(wordOf(custom?.input ?? delta.function?.arguments))
  }

  /** The call's `extra_content`, which the provider requires back; null after the first call. */
  takeExtra(): Fields | null {
    const extra = this.#extra
    this.#extra = null
    return extra
  }

  begin(place: ItemPlace): void {
    this.#place = place
  }

  /** Sends the arguments that arrived before the call had a place. */
  open(): void {
    if (this.#text !== '') this.#sendDelta(this.#text)
  }

  close(): void {
    // Missing arguments become an empty object, which clients can parse.
    if (!this.#isCustom && this.#text.trim() === '') this.#grow('{}')
    if (this.#isSearch || this.#clientTool) return
    const [type, field] = this.#eventNames
    this.#place?.emit(`${type}.done`, { [field]: this.#text })
  }

  current(status: ItemStatus): OutputItem {
    const { name, namespace } = this.#names.find(this.#name)
    if (this.#isSearch) return this.#search(status)
    const tool = this.#clientTool
    if (tool) {
      const item = callItem(tool, status === 'in_progress' ? undefined : argumentsOf(this.#text, JSON.parse))
      return { id: this.#place?.id, status, call_id: this.callId, ...item }
    }
    return {
      id: this.#place?.id,
      type: this.#isCustom ? 'custom_tool_call' : 'function_call',
      status,
      call_id: this.callId,
      name,
      ...(namespace === null ? {} : { namespace }),
      [this.#eventNames[1]]: status === 'in_progress' ? '' : this.#text,
    }
  }

  #search(status: ItemStatus): OutputItem {
    const id = this.#place?.id
    const found = status === 'in_progress' ? {} : argumentsOf(this.#text, parseExact)
    return { id, type: 'tool_search_call', status, call_id: this.callId, execution: 'client', arguments: found }
  }

  get #eventNames(): readonly [type: string, field: string] {
    if (this.#isCustom) return ['response.custom_tool_call_input', 'input']
    return ['response.function_call_arguments', 'arguments']
  }

  #grow(text: string): void {
    if (text === '') return
    this.#text += text
    if (this.#place) this.#sendDelta(text)
  }

  #sendDelta(delta: string): void {
    if (this.#isSearch || this.#clientTool) return
    this.#place?.emit(`${this.#eventNames[0]}.delta`, { delta })
  }
}

/** The parsed arguments; invalid JSON stays a text. */
function argumentsOf(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch {
    return text
  }
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Sends an event: its type and its members except `sequence_number`. */
export type Emit = (type: string, event: Fields) => void

export type OutputItem = Readonly<Record<string, unknown>>

/** An item in progress. */
export interface OpenItem {
  /** The current state of the item. */
  current(status: 'in_progress' | 'completed' | 'incomplete'): OutputItem
  /** Sends the events that end it, except the last one. */
  close(): void
}

/** The position of an item in the output, and its events. */
export interface ItemPlace {
  readonly index: number
  readonly id: string
  /** Adds `item_id` and `output_index`. */
  emit(type: string, event: Fields): void
}
