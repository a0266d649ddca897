/** Encodes the conversation for Converse. */

import { createHash } from 'node:crypto'
import { type ChatRequest, refuse } from '#contract'
import {
  hasLostReasoning,
  instructedByUser,
  type Part,
  readConversation,
  type Source,
  type Text,
  type ToolCall,
  type ToolResult,
} from '../translate/conversation.ts'
import { prefillRefusal } from '../translate/parameters.ts'
import { type Block, cachePoint, isCachePoint } from './cache.ts'
import type { Traits } from './traits.ts'

export interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

export interface Messages {
  /** Texts, each followed by its mark. */
  readonly system: readonly Block[]
  readonly messages: readonly Message[]
  /** Names of all tools that were called, as they are sent. */
  readonly called: readonly string[]
  /** Whether the conversation ends with an assistant message to continue. */
  readonly prefilled: boolean
  /** Whether the last message has tool results whose calls came back without their reasoning. */
  readonly lostThought: boolean
}

/** Throws a refusal for content that Converse does not support. */
export function encodeMessages(body: ChatRequest, traits: Traits): Messages {
  const { system, markedSystem, turns } = instructedByUser(
    readConversation(body, undefined, null, traits.bindsReasoning),
  )
  const encoder = new Encoder(traits)
  const messages: Message[] = []
  for (const { role, parts, place } of turns) {
    const content = withText(
      parts.flatMap((part): readonly Block[] => encoder.blocks(part, place)),
      parts,
    )
    // Reasoning without an answer is not a message.
    if (content.every(block => 'reasoningContent' in block)) continue
    const last = messages.at(-1)
    if (last?.role === role) last.content.push(...content)
    else messages.push({ role, content })
  }
  return {
    ...opened(systemBlocks(system, markedSystem, traits), messages, traits, turns.at(-1)?.place ?? 'messages'),
    called: [...encoder.called],
    prefilled: messages.at(-1)?.role === 'assistant',
    lostThought: hasLostReasoning({ turns }),
  }
}

function systemBlocks(plain: readonly string[], cut: readonly Text[], traits: Traits): Block[] {
  if (traits.caching === 'none') return plain.map(text => ({ text }))
  return cut.flatMap(({ text, cache }): Block[] => [{ text }, ...cachePoint(cache, traits)])
}

/** The first message must be the user's. A model without system messages gets their text there too. */
function opened(
  system: Block[],
  messages: Message[],
  traits: Traits,
  lastPlace: string,
): Pick<Messages, 'system' | 'messages'> {
  const folded = !traits.system || messages.length === 0 ? system : []
  if (messages[0]?.role === 'user') messages[0].content.unshift(...folded)
  else if (folded.length > 0) messages.unshift({ role: 'user', content: folded })
  else if (messages.length > 0) messages.unshift({ role: 'user', content: [{ text: OPENING }] })
  else {
    throw refuse('invalid_value', {
      message:
        "Invalid value for 'messages': none of them has any text. This model's provider requires text in at least one.",
      param: 'messages',
    })
  }
  const last = messages.at(-1)!
  if (last.role === 'assistant' && !traits.prefill) throw prefillRefusal(lastPlace)
  const at = last.content.findLastIndex(block => !isCachePoint(block))
  const end = last.content[at]
  // An assistant message to continue: Claude refuses trailing white space.
  if (last.role === 'assistant' && typeof end?.['text'] === 'string') {
    last.content[at] = { text: end['text'].trimEnd() }
  }
  return { system: folded.length > 0 ? [] : system, messages }
}

/** The user message before an assistant message that comes first. */
const OPENING = '(The conversation begins.)'

/** A document needs a text in its message; its name is used. */
function withText(content: Block[], parts: readonly Part[]): Block[] {
  const isAlone = parts.some(part => part.kind === 'file') && !content.some(block => 'text' in block)
  if (isAlone) {
    const document = content.find(block => 'document' in block)?.['document'] as { readonly name: string }
    content.push({ text: document.name })
  }
  return content
}

class Encoder {
  readonly called = new Set<string>()
  readonly #traits: Traits
  readonly #documents = new Set<string>()

  constructor(traits: Traits) {
    this.#traits = traits
  }

  /** A block and its mark; empty for omitted content. */
  blocks(part: Part, place: string): readonly Block[] {
    const block = this.#block(part, place)
    if (block === undefined) return []
    return part.kind === 'reasoning' ? [block] : [block, ...cachePoint(part.cache, this.#traits)]
  }

  #block(part: Part, place: string): Block | undefined {
    switch (part.kind) {
      case 'native':
        return undefined
      case 'text':
        return { text: part.text }
      case 'image':
        return { image: { format: imageFormat(part.source, place), source: bytesOf(part.source, place) } }
      case 'audio':
        return { audio: { format: part.format, source: { bytes: part.base64 } } }
      case 'file':
        return this.#document(part.name, part.source, place)
      case 'reasoning':
        if (!this.#traits.takesReasoning) return undefined
        if (part.sealed !== null) return { reasoningContent: { redactedContent: part.sealed } }
        return { reasoningContent: { reasoningText: { text: part.text, signature: part.signature } } }
      case 'call':
        return this.#call(part)
      case 'result':
        return this.#result(part)
    }
  }

  #call({ id, name, arguments: input }: ToolCall): Block {
    const sent = formerToolName(name)
    this.called.add(sent)
    return { toolUse: { toolUseId: this.#id(id), name: sent, input } }
  }

  #result({ id, text }: ToolResult): Block {
    // A blank text is refused, but a tool may return nothing.
    return { toolResult: { toolUseId: this.#id(id), content: [{ text: text.trim() === '' ? '(no output)' : text }] } }
  }

  /** The id itself, or a hash of it if it has another form. Always the same for the same id. */
  #id(id: string): string {
    const fits = this.#traits.callIds === 'nine' ? /^[A-Za-z0-9]{9}$/ : /^[A-Za-z0-9_.:-]{1,64}$/
    if (fits.test(id)) return id
    return createHash('sha256')
      .update(id)
      .digest('hex')
      .slice(0, this.#traits.callIds === 'nine' ? 9 : 32)
  }

  #document(name: string | null, source: Source, place: string): Block {
    const bytes = bytesOf(source, place)
    const format = documentFormat(name, source, place)
    return { document: { format, name: this.#documentName(name), source: bytes } }
  }

  /** Letters, digits, single spaces, hyphens and brackets only, and unique among the documents. */
  #documentName(name: string | null): string {
    const plain = (name ?? '')
      .replace(/\.[A-Za-z0-9]{1,5}$/, '')
      .replace(/[^A-Za-z0-9()[\]-]+/g, ' ')
      .trim()
      .slice(0, 190)
      .trim()
    const wanted = plain || 'document'
    let unique = wanted
    for (let number = 2; this.#documents.has(unique); number++) unique = `${wanted} ${number}`
    this.#documents.add(unique)
    return unique
  }
}

/** The name of a tool called earlier. It only has to be valid; a valid name stays the same as the tool's. */
function formerToolName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || '_'
}

function bytesOf(source: Source, place: string): { readonly bytes: string } {
  if (source.kind === 'inline') return { bytes: source.base64 }
  const message = `${place} has a part with an http(s) URL. This model's provider does not fetch URLs: send the content itself, as a data URL.`
  throw refuse('unsupported_parameter', { message, param: place })
}

const IMAGE_FORMATS: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

function imageFormat(source: Source, place: string): string {
  if (source.kind === 'url') return 'none'
  return formatIn(IMAGE_FORMATS, source.mediaType) ?? unknownFormat(place, 'an image', source.mediaType, IMAGE_FORMATS)
}

const DOCUMENT_FORMATS: Readonly<Record<string, string>> = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'text/html': 'html',
  'text/plain': 'txt',
  'text/markdown': 'md',
}

/** By the media type, or by the file name's extension if the media type is unknown. */
function documentFormat(name: string | null, source: Source, place: string): string {
  const mediaType = source.kind === 'inline' ? source.mediaType : ''
  const end = name?.toLowerCase().split('.').at(-1) ?? ''
  const byName = Object.values(DOCUMENT_FORMATS).includes(end) ? end : undefined
  return formatIn(DOCUMENT_FORMATS, mediaType) ?? byName ?? unknownFormat(place, 'a file', mediaType, DOCUMENT_FORMATS)
}

const formatIn = (formats: Readonly<Record<string, string>>, mediaType: string) =>
  Object.hasOwn(formats, mediaType) ? formats[mediaType] : undefined

function unknownFormat(
  place: string,
  what: string,
  mediaType: string,
  formats: Readonly<Record<string, string>>,
): never {
  const known = [...new Set(Object.values(formats))].join(', ')
  const message = `${place} has ${what} of the type '${mediaType}', which this model's provider does not support. It supports: ${known}.`
  throw refuse('invalid_value', { message, param: place })
}
