/**
 * Converts the canonical messages to a conversation for other formats: separate system text, alternating turns, and tool results with
 * the name of their call. Rules of single providers are in their folders.
 */
import { type ChatMessage, type ChatRequest, type ContentPart, refuse } from '#contract'
import { wholeOf, wholeResult } from './as-sent.ts'
import { type CacheMark, cacheMarkOf, markedWith } from './cache.ts'
import { CallHistory, signatureIn, type ToolCall } from './calls.ts'
import { type Reasoning, reasoningOf } from './reasoning-details.ts'
import type { Fields } from './value.ts'

export type { ToolCall } from './calls.ts'
export type { Reasoning } from './reasoning-details.ts'

/** Inline bytes, or a URL that the provider may fetch. */
export type Source =
  | { readonly kind: 'inline'; readonly mediaType: string; readonly base64: string }
  | { readonly kind: 'url'; readonly url: string }

export interface ToolResult {
  readonly kind: 'result'
  readonly id: string
  /** Name of the call that it answers. */
  readonly name: string
  readonly text: string
  /** Fields of the Messages API, sent instead of the text. */
  readonly whole?: Fields
  readonly cache?: CacheMark
}

export interface Text {
  readonly kind: 'text'
  readonly text: string
  /** Google's signature of the reasoning before the text, see `extra_content` in completion.ts. */
  readonly signature?: string
  /** Web citations from Anthropic's search. */
  readonly citations?: readonly unknown[]
  readonly cache?: CacheMark
}

/** A block that only the Messages API has, unchanged. */
export interface Native {
  readonly kind: 'native'
  readonly block: Readonly<Record<string, unknown>>
  readonly cache?: CacheMark
}

/** `cache`: a mark after this part. */
export type Part =
  | Text
  | { readonly kind: 'image'; readonly source: Source; readonly cache?: CacheMark }
  | { readonly kind: 'audio'; readonly format: string; readonly base64: string; readonly cache?: CacheMark }
  | { readonly kind: 'file'; readonly name: string | null; readonly source: Source; readonly cache?: CacheMark }
  | Native
  | Reasoning
  | ToolCall
  | ToolResult

/** A turn of one side. `place`: where it begins in the request, for errors: `messages[2]`. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly parts: readonly Part[]
  readonly place: string
  /** Instructions between the assistant's turn and this user turn, see `isInPlace`. */
  readonly before?: readonly Text[]
  /** Instructions after this user turn. */
  readonly after?: readonly Text[]
  /** Unsigned reasoning of the assistant that came back as text (`reasoning_content`). */
  readonly reasoningText?: string
}

export interface Conversation {
  /** The texts of system and developer messages, in order; none is blank. */
  readonly system: readonly string[]
  /** The same, split after every mark, for providers with cache marks. */
  readonly markedSystem: readonly Text[]
  /** Roles alternate; no turn is empty. Tool results come first in their turn. */
  readonly turns: readonly Turn[]
  /** Instructions after a last turn of the assistant. */
  readonly ending: readonly Text[]
}

interface OpenTurn extends Turn {
  readonly parts: Part[]
  before?: Text[]
  after?: Text[]
  reasoningText?: string
}

/** URLs that most providers can fetch. */
const WEB = /^https?:\/\//i

/**
 * Reads the messages. Omits blank texts: they have no meaning, and most providers refuse them. Throws a refusal with the place of
 * invalid content. Invalid are arguments that are not a JSON object, the result of a missing call, and a part of an unknown type.
 * @param urls which URLs of images and files the provider accepts
 * @param takesNative whether the provider accepts a block of the Messages API; null for providers that accept none, for
 * which `lostIn` lists them
 * @param isInPlace whether later instructions keep their place; otherwise all are moved to the front
 */
export function readConversation(
  { messages }: Pick<ChatRequest, 'messages'>,
  urls = WEB,
  takesNative: TakesNative | null = null,
  isInPlace = false,
): Conversation {
  const system: string[] = []
  const markedSystem: Text[] = []
  const turns: OpenTurn[] = []
  let waiting: Text[] = []
  const calls = new CallHistory(messages)
  for (const [index, message] of messages.entries()) {
    const place = `messages[${index}]`
    if (message.role === 'system' || message.role === 'developer') {
      const text = textOf(message.content)
      if (isBlank(text)) continue
      const pieces = cutAtMarks(message.content)
      const last = isInPlace ? turns.at(-1) : undefined
      if (last?.role === 'user') (last.after ??= []).push(...pieces)
      else if (last) waiting.push(...pieces)
      else {
        system.push(text)
        markedSystem.push(...pieces)
      }
      continue
    }
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const parts =
      role === 'assistant'
        ? [...assistantParts(message, takesNative), ...calls.read(message, index)]
        : userParts(message, place, { messages, calls, urls, takesNative })
    if (parts.length === 0) continue
    if (turns.at(-1)?.role === role) turns.at(-1)!.parts.push(...parts)
    else turns.push({ role, parts, place })
    const turn = turns.at(-1)!
    if (role === 'user' && waiting.length > 0) {
      turn.before = waiting
      waiting = []
    }
    const reasoningText = message['reasoning_content']
    if (role === 'assistant' && typeof reasoningText === 'string' && !isBlank(reasoningText))
      turn.reasoningText = turn.reasoningText === undefined ? reasoningText : `${turn.reasoningText}\n${reasoningText}`
  }
  for (const turn of turns) if (turn.role === 'user') resultsFirst(turn.parts)
  return { system, markedSystem, turns, ending: waiting }
}

/** Converts instructions that kept their place to user texts, for providers with no other form for them. */
export function instructedByUser(conversation: Conversation): Conversation {
  const { turns, ending } = conversation
  const written = turns.map(({ before = [], after = [], ...turn }): Turn => {
    const results = turn.parts.filter(({ kind }) => kind === 'result')
    return { ...turn, parts: [...results, ...before, ...turn.parts.slice(results.length), ...after] }
  })
  if (ending.length === 0) return { ...conversation, turns: written }
  return {
    ...conversation,
    turns: [...written, { role: 'user', parts: ending, place: turns.at(-1)!.place }],
    ending: [],
  }
}

/**
 * Content of the messages that a conversation does not have. This is author names, the detail of images, earlier audio by id, and
 * images in places for text. As paths without indices, for the list of dropped parameters.
 */
export function lostIn({ messages }: Pick<ChatRequest, 'messages'>): readonly string[] {
  const lost = new Set<string>()
  for (const message of messages) {
    if (message['name'] != null && message.role !== 'function') lost.add('messages.name')
    if (message['audio'] != null) lost.add('messages.audio')
    if (Array.isArray(message['images']) && message['images'].length > 0) lost.add('messages.images')
    if (typeof message.content === 'string') continue
    for (const part of message.content ?? []) {
      const detail = (part.image_url as { detail?: unknown } | undefined)?.detail
      if (detail != null && detail !== 'auto') lost.add('messages.content.image_url.detail')
      if (message.role !== 'user' && !TEXTS.has(part.type)) lost.add(`messages.content.${part.type}`)
    }
  }
  return [...lost]
}

/** The parts that `textOf` reads. Except in user messages, no others are used. */
const TEXTS: ReadonlySet<string> = new Set(['text', 'refusal'])

/** The text of a message's content; parts are joined without a separator. */
export function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(part => part.text ?? (part['refusal'] as string | undefined) ?? '').join('')
}

export const isBlank = (text: string): boolean => text.trim() === ''

/** All parts except calls. */
function assistantParts(message: ChatMessage, takesNative: TakesNative | null): Part[] {
  const parts: Part[] = reasoningOf(message)
  const content = contentIn(message, takesNative)
  const signature = signatureIn(message)
  for (const [index, part] of content.entries()) {
    const last = index === content.length - 1
    parts.push(last && signature !== null && part.kind === 'text' ? { ...part, signature } : part)
  }
  const refusal = message['refusal']
  if (typeof refusal === 'string' && !isBlank(refusal)) parts.push({ kind: 'text', text: refusal })
  return parts
}

type TakesNative = (block: Fields) => boolean

function contentIn(message: ChatMessage, takesNative: TakesNative | null): (Text | Native)[] {
  const { content } = message
  const quoted = takesNative ? wholeOf(message, 'assistant')?.citations : undefined
  const quotes = (index: number) => (quoted?.has(index) ? { citations: quoted.get(index)! } : {})
  if (typeof content === 'string') return isBlank(content) ? [] : [{ kind: 'text', text: content, ...quotes(0) }]
  const result: (Text | Native)[] = []
  for (const [index, part] of (content ?? []).entries()) {
    const marks = { ...quotes(index), ...markedWith(cacheMarkOf(part)) }
    const { citations, anthropic } = part as { readonly citations?: unknown; readonly anthropic?: Native['block'] }
    if (part.type === 'anthropic') {
      // Marks are counted separately, so the block must not have its own.
      const { cache_control: _, ...block } = anthropic!
      if (takesNative) result.push({ kind: 'native', block, ...marks })
      continue
    }
    const text = textOf([part])
    if (!isBlank(text))
      result.push({ kind: 'text', text, ...(Array.isArray(citations) ? { citations } : {}), ...marks })
  }
  return result
}

/** Whether a turn has blocks of the Messages API, so that the provider can continue a paused turn. */
export function hasNative({ parts }: Pick<Turn, 'parts'>): boolean {
  return parts.some(({ kind }) => kind === 'native')
}

/** Splits the text of a content after each mark. Only the last piece may have no mark; none is blank. */
function cutAtMarks(content: ChatMessage['content']): Text[] {
  if (typeof content === 'string') return [{ kind: 'text', text: content }]
  const pieces: Text[] = []
  let open = ''
  for (const part of content ?? []) {
    open += textOf([part])
    const cache = cacheMarkOf(part)
    if (cache === undefined || isBlank(open)) continue
    pieces.push({ kind: 'text', text: open, cache })
    open = ''
  }
  return isBlank(open) ? pieces : [...pieces, { kind: 'text', text: open }]
}

/** A result is one piece, so a mark anywhere in it applies to all of it. */
function lastMarkIn(content: ChatMessage['content']): CacheMark | undefined {
  if (typeof content === 'string') return undefined
  return content?.map(cacheMarkOf).findLast(mark => mark !== undefined)
}

interface Reading {
  readonly messages: readonly ChatMessage[]
  readonly calls: CallHistory
  readonly urls: RegExp
  readonly takesNative: TakesNative | null
}

function userParts(message: ChatMessage, place: string, reading: Reading): Part[] {
  if (message.role === 'tool' || message.role === 'function') return [resultOf(message, place, reading)]
  const { content } = message
  const whole = reading.takesNative ? wholeOf(message, 'user') : undefined
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  const readFrom = (start: number, end: number) =>
    parts.slice(start, end).flatMap((part, at) => readPart(part, `${place}.content[${start + at}]`, reading.urls))
  if (whole === undefined) return readFrom(0, parts.length)
  let end = 0
  return whole.pieces.flatMap(({ block, parts: count, result }): readonly Part[] => {
    const start = end
    end += count
    // The result itself contains it.
    if (result !== undefined && wholeResult(result, reading.messages, reading.takesNative!)) return []
    if (block === null || !reading.takesNative!(block)) return readFrom(start, end)
    return [{ kind: 'native', block, ...markedWith(cacheMarkOf(parts[end - 1]!)) }]
  })
}

function resultOf(message: ChatMessage, place: string, { messages, calls, takesNative }: Reading): ToolResult {
  const { content, role } = message
  const whole = takesNative ? wholeResult(message, messages, takesNative) : undefined
  const shownIn = whole && wholeOf(message, 'result')!.shownIn
  const mark = lastMarkIn(content) ?? (shownIn ? lastMarkIn((shownIn as ChatMessage).content) : undefined)
  return {
    kind: 'result',
    ...calls.answered(message, place),
    text: textOf(content),
    ...(whole === undefined ? {} : { whole }),
    ...(role === 'function' ? {} : markedWith(mark)),
  }
}

interface WireFile {
  readonly file_data?: string
  readonly file_id?: string
  readonly filename?: string
}

function readPart(part: ContentPart, place: string, urls: RegExp): Part[] {
  const marked = markedWith(cacheMarkOf(part))
  switch (part.type) {
    case 'text':
      return isBlank(part.text ?? '') ? [] : [{ kind: 'text', text: part.text!, ...marked }]
    case 'image_url': {
      const source = sourceOf(part.image_url!.url, `${place}.image_url.url`, urls)
      return [{ kind: 'image', source, ...marked }]
    }
    case 'input_audio': {
      const { format, data } = part['input_audio'] as { format: string; data: string }
      return [{ kind: 'audio', format, base64: data, ...marked }]
    }
    case 'file': {
      const file = part['file'] as WireFile
      if (file.file_data === undefined) {
        const message = `${place} names an uploaded file by its id, which this model's provider cannot read. Send 'file_data'.`
        throw refuse('unsupported_parameter', { message, param: `${place}.file` })
      }
      const source = sourceOf(file.file_data, `${place}.file.file_data`, urls)
      return [{ kind: 'file', name: file.filename || null, source, ...marked }]
    }
    default: {
      const message = `${place} is a part of the type '${part.type}', which this model's provider does not support.`
      throw refuse('unsupported_parameter', { message, param: `${place}.type` })
    }
  }
}

const DATA_URL = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9=._-]+)*?)(;base64)?,/i

/** A data URL (RFC 2397) or another URL. */
function sourceOf(url: string, place: string, urls: RegExp): Source {
  if (urls.test(url)) return { kind: 'url', url }
  const head = DATA_URL.exec(url)
  if (head) {
    const data = url.slice(head[0].length)
    const mediaType = head[1]!.toLowerCase()
    if (head[3]) return { kind: 'inline', mediaType, base64: data }
    return { kind: 'inline', mediaType, base64: Buffer.from(unescaped(data, place)).toString('base64') }
  }
  const message = `Invalid value for '${place}': it is neither a data URL (data:image/png;base64,…) nor an http(s) URL.`
  throw refuse('invalid_value', { message, param: place })
}

function unescaped(data: string, place: string): string {
  try {
    return decodeURIComponent(data)
  } catch {
    const message = `Invalid value for '${place}': the data URL has a '%' that does not begin a valid escape of UTF-8.`
    throw refuse('invalid_value', { message, param: place })
  }
}

function resultsFirst(parts: Part[]): void {
  const isResult = (part: Part) => part.kind === 'result'
  parts.splice(0, parts.length, ...parts.filter(isResult), ...parts.filter(part => !isResult(part)))
}

/**
 * Whether the conversation ends within calls whose reasoning the client did not keep. Models with a budget refuse to reason then: they
 * require the reasoning that precedes the first of the calls.
 */
export function hasLostReasoning({ turns }: Pick<Conversation, 'turns'>): boolean {
  let lost = false
  for (let at = turns.length - 1; at > 0; at -= 2) {
    const [answer, results] = [turns[at - 1]!, turns[at]!]
    if (results.role !== 'user' || results.parts[0]?.kind !== 'result') break
    lost = !answer.parts.some(
      part => part.kind === 'reasoning' || (part.kind === 'native' && part.block['type'] === 'thinking'),
    )
  }
  return lost
}
