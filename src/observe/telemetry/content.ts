/**
 * Prompts and answers as attributes of spans, in the format of the GenAI conventions. Only for a policy with `telemetry: { content: true }`.
 * Secrets are removed and long texts are cut. Images, audio and files are represented by their kind only.
 */
import type { ChatCompletion, ChatMessage, Delta } from '#contract'
import type { Redactor } from '../redact.ts'

/** The request as it was sent to the provider, and the answer as the client got it, both in the canonical format. */
export interface Content {
  readonly messages: readonly ChatMessage[]
  /** Whether the provider's format separates system messages from the conversation. */
  readonly isSystemApart: boolean
  /** The part that has arrived; null: nothing has arrived. */
  readonly answer: ChatCompletion | null
  /** Whether more has arrived than was kept. */
  readonly isCut: boolean
}

/** Maximum characters of one text. */
export const MAX_TEXT = 16_384
/** Maximum characters of one attribute, and of an answer that is collected while it arrives. */
export const MAX_ATTRIBUTE = 32_768
/** Characters after a cut in which secrets are searched too: a shorter beginning of a secret would match no pattern. */
const OVERLAP = 64
const MAX_NAME = 256
/** Arguments with more brackets stay text, because they may be nested too deeply for `JSON.stringify`. */
const MAX_BRACKETS = 500
/** The approximate size of a message or part without its text. */
const PART_CHARACTERS = 64

export const TRUNCATED = '… [truncated]'

/** The attributes, each as JSON. Empty ones are left out. */
export function contentAttributes(
  { messages, isSystemApart, answer, isCut }: Content,
  redact: Redactor['text'],
): Record<string, string> {
  const isSystem = ({ role }: ChatMessage) => isSystemApart && (role === 'system' || role === 'developer')
  const system = new PartWriter(redact)
  const instructions = messages.filter(isSystem).flatMap(message => (system.isFull ? [] : system.parts(message)))
  const input = inputOf(
    messages.filter(message => !isSystem(message)),
    new PartWriter(redact),
  )
  const output = answer === null ? [] : outputOf(answer, isCut, new PartWriter(redact))
  return {
    ...(instructions.length > 0 ? { 'gen_ai.system_instructions': JSON.stringify(instructions) } : {}),
    ...(input.length > 0 ? { 'gen_ai.input.messages': JSON.stringify(input) } : {}),
    ...(output.length > 0 ? { 'gen_ai.output.messages': JSON.stringify(output) } : {}),
  }
}

interface Message {
  readonly role: string
  readonly parts: readonly Part[]
  readonly finish_reason?: string
}

/** The newest messages are written first, because the spans of earlier requests have the older ones. */
function inputOf(messages: readonly ChatMessage[], writer: PartWriter): Message[] {
  const written: Message[] = []
  for (let index = messages.length - 1; index >= 0; index--) {
    if (writer.isFull) {
      written.push({ role: 'system', parts: missing(`${index + 1} earlier messages`) })
      break
    }
    const message = messages[index]!
    written.push({ role: writer.name(message.role), parts: writer.parts(message) })
  }
  return written.reverse()
}

function outputOf({ choices }: ChatCompletion, isCut: boolean, writer: PartWriter): Message[] {
  const written: Message[] = []
  for (const { message, finish_reason: finish } of choices) {
    if (writer.isFull) {
      const parts = missing(`${choices.length - written.length} more choices`)
      written.push({ role: 'assistant', parts })
      break
    }
    const reason = finish === null ? {} : { finish_reason: FINISHES.get(finish) ?? writer.name(finish) }
    const parts = writer.parts(message, isCut || finish === null)
    if (isCut && !String(parts.at(-1)?.['content']).endsWith(TRUNCATED))
      parts.push({ type: 'text', content: TRUNCATED })
    written.push({ role: 'assistant', parts, ...reason })
  }
  return written
}

const missing = (what: string): Part[] => [
  { type: 'text', content: TRUNCATED.replace('truncated', `${what} truncated`) },
]

const FINISHES: ReadonlyMap<string, string> = new Map([
  ['tool_calls', 'tool_call'],
  ['function_call', 'tool_call'],
])
/** Words of the formats, which are not searched for secrets. */
const WORDS: ReadonlySet<string> = new Set(
  'system developer user assistant tool function text reasoning tool_call tool_call_response blob stop length'.split(
    ' ',
  ),
)

type Part = Readonly<Record<string, unknown>> & { readonly type: string }
type Fields = Readonly<Record<string, unknown>>

/** Writes the parts of one attribute, as long as there is room. */
class PartWriter {
  readonly #redact: Redactor['text']
  #left = MAX_ATTRIBUTE

  constructor(redact: Redactor['text']) {
    this.#redact = redact
  }

  get isFull(): boolean {
    return this.#left <= 0
  }

  /** @param isBroken whether the texts may be incomplete */
  parts(message: ChatMessage | Delta, isBroken = false): Part[] {
    const parts: Part[] = []
    this.#left -= PART_CHARACTERS
    for (const part of partsOf(message)) {
      if (this.isFull) {
        parts.push({ type: 'text', content: TRUNCATED })
        break
      }
      this.#left -= PART_CHARACTERS
      parts.push(this.#written(part, isBroken))
    }
    return parts
  }

  /** Cleans and cuts a name that a client or a provider has chosen. */
  name(value: unknown): string {
    if (typeof value !== 'string') return ''
    return WORDS.has(value) ? value : this.#fitted(value, MAX_NAME)
  }

  #written(part: Part, isBroken: boolean): Part {
    const written: Record<string, unknown> & { type: string } = { ...part, type: this.name(part.type) }
    for (const name of ['id', 'name', 'mime_type']) if (name in part) written[name] = this.name(part[name])
    for (const name of ['content', 'response', 'arguments']) {
      if (!(name in part)) continue
      const text = this.#fitted(part[name] as string, Math.min(MAX_TEXT, Math.max(0, this.#left)), isBroken)
      written[name] = name === 'arguments' ? this.#parsed(text) : text
    }
    return written
  }

  /** Removes secrets and cuts the text. A secret at the cut is removed too, although no pattern matches a half of it. */
  #fitted(text: string, most: number, isBroken = false): string {
    const isLong = text.length > most + OVERLAP
    const clean = this.#redact(isLong ? text.slice(0, most + OVERLAP) : text, isLong || isBroken)
    this.#left -= Math.min(most, clean.length)
    return isLong || clean.length > most ? `${clean.slice(0, most).toWellFormed()}${TRUNCATED}` : clean
  }

  /** Parses arguments that are JSON. Escapes may hide a secret, so JSON with escapes is written again without them, and cleaned. */
  #parsed(text: string): unknown {
    const value = parsed(text)
    if (value === text || !text.includes('\\')) return value
    const plain = JSON.stringify(value)
    const clean = this.#redact(plain)
    return clean === plain ? value : parsed(clean)
  }
}

function parsed(text: string): unknown {
  try {
    return (text.match(/[[{]/g)?.length ?? 0) > MAX_BRACKETS ? text : JSON.parse(text)
  } catch {
    return text
  }
}

function* partsOf(message: ChatMessage | Delta): Generator<Part> {
  const { role, content, refusal, ...more } = message as Fields
  const thought = more['reasoning_content'] ?? more['reasoning']
  if (isText(thought)) yield { type: 'reasoning', content: thought }
  if (role === 'tool' || role === 'function') {
    yield { type: 'tool_call_response', ...given('id', more['tool_call_id']), response: textIn(content) }
    return
  }
  if (isText(content)) yield { type: 'text', content }
  else if (Array.isArray(content)) for (const part of content) if (isFields(part)) yield partOf(part)
  if (isText(refusal)) yield { type: 'text', content: refusal }
  if (isFields(more['audio'])) yield blob('audio')
  if (Array.isArray(more['images'])) for (const _ of more['images']) yield blob('image')
  if (Array.isArray(more['tool_calls'])) for (const call of more['tool_calls']) yield callOf(call)
  if (isFields(more['function_call'])) yield callOf({ function: more['function_call'] })
}

function partOf({ type, text, refusal, image_url: image, input_audio: sound }: Fields): Part {
  const words = text ?? refusal
  if (isText(words)) return { type: 'text', content: words }
  switch (type) {
    case 'image_url':
      return blob(
        'image',
        /^data:([\w.+-]+\/[\w.+-]+)/.exec(String((image as Fields | null | undefined)?.['url']))?.[1],
      )
    case 'input_audio': {
      const format = (sound as Fields | null | undefined)?.['format']
      return blob('audio', isText(format) ? `audio/${format}` : undefined)
    }
    case 'file':
      return blob('document')
    default:
      return { type: isText(type) ? type : 'other' }
  }
}

/** Data, an address or an id, without its value. */
function blob(modality: 'image' | 'audio' | 'document', type?: string): Part {
  return { type: 'blob', modality, ...given('mime_type', type), content: '' }
}

function callOf(call: unknown): Part {
  const { id, function: called, custom } = (isFields(call) ? call : {}) as Record<string, Fields | undefined>
  const { name, arguments: text, input } = called ?? custom ?? {}
  return { type: 'tool_call', ...given('id', id), name, ...given('arguments', text ?? input) }
}

const given = (name: string, value: unknown) => (isText(value) ? { [name]: value } : {})

function textIn(content: unknown): string {
  if (isText(content)) return content
  if (!Array.isArray(content)) return ''
  return content.map(part => (isFields(part) && isText(part['text']) ? part['text'] : '')).join('')
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
