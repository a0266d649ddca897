/**
 * The canonical messages as a conversation that other formats can take: system text apart, turns that alternate, each
 * tool's result with the name of the call that it answers. What differs between providers is decided in their folders.
 */
import { type ChatMessage, type ChatRequest, type ContentPart, refuse } from '#contract'
import { type CacheMark, cacheMarkOf, markedWith } from './cache.ts'

/** Bytes that came along, or an address where the provider may fetch them. */
export type Source =
  | { readonly kind: 'inline'; readonly mediaType: string; readonly base64: string }
  | { readonly kind: 'url'; readonly url: string }

/** What a provider wants to have back of its thinking: the text with a signature, or a closed box. */
export interface Reasoning {
  readonly kind: 'reasoning'
  readonly text: string
  readonly signature: string | null
  /** In place of text and signature: thinking that nobody but the provider can read. */
  readonly sealed: string | null
}

export interface ToolCall {
  readonly kind: 'call'
  readonly id: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** Google's signature of the thought that led to it, see `extra_content` in completion.ts. */
  readonly signature: string | null
  readonly cache?: CacheMark
}

export interface ToolResult {
  readonly kind: 'result'
  readonly id: string
  /** Of the call that it answers. */
  readonly name: string
  readonly text: string
  readonly cache?: CacheMark
}

export interface Text {
  readonly kind: 'text'
  readonly text: string
  /** Google's, of the thought behind the text of the assistant, see `extra_content` in completion.ts. */
  readonly signature?: string
  readonly cache?: CacheMark
}

/** `cache`: the prompt up to here is worth keeping. */
export type Part =
  | Text
  | { readonly kind: 'image'; readonly source: Source; readonly cache?: CacheMark }
  | { readonly kind: 'audio'; readonly format: string; readonly base64: string; readonly cache?: CacheMark }
  | { readonly kind: 'file'; readonly name: string | null; readonly source: Source; readonly cache?: CacheMark }
  | Reasoning
  | ToolCall
  | ToolResult

/** One side speaking; `place` is where it begins in the request, for errors: `messages[2]`. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly parts: readonly Part[]
  readonly place: string
}

export interface Conversation {
  /** The texts of system and developer messages, in their order; none is blank. */
  readonly system: readonly string[]
  /** The same, cut behind every mark, for providers that take marks. */
  readonly markedSystem: readonly Text[]
  /** Neighbours have different roles; none is empty. Results of tools come first in their turn. */
  readonly turns: readonly Turn[]
}

/**
 * Reads the messages. Blank texts are left out: they say nothing, and most providers refuse them.
 * Throws a refusal that names the place for what no provider could take: arguments that are no JSON object, the result of
 * a call that nobody made, a part of an unknown kind.
 */
export function readConversation({ messages }: Pick<ChatRequest, 'messages'>): Conversation {
  const system: string[] = []
  const markedSystem: Text[] = []
  const turns: { role: Turn['role']; parts: Part[]; place: string }[] = []
  const names = new Map<string, string>()
  for (const [index, message] of messages.entries()) {
    const place = `messages[${index}]`
    if (message.role === 'system' || message.role === 'developer') {
      const text = textOf(message.content)
      if (isBlank(text)) continue
      system.push(text)
      markedSystem.push(...cutAtMarks(message.content))
      continue
    }
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const parts = role === 'assistant' ? assistantParts(message, place, names) : userParts(message, place, names)
    if (parts.length === 0) continue
    const last = turns.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else turns.push({ role, parts: [...parts], place })
  }
  for (const turn of turns) if (turn.role === 'user') resultsFirst(turn.parts)
  return { system, markedSystem, turns }
}

/**
 * What the messages hold and no conversation has: names of their authors, how closely an image is to be looked at, and
 * earlier sounds by their ids. As paths without indices, for the list of what was dropped.
 */
export function lostIn({ messages }: Pick<ChatRequest, 'messages'>): readonly string[] {
  const lost = new Set<string>()
  for (const message of messages) {
    if (message['name'] != null && message.role !== 'function') lost.add('messages.name')
    if (message['audio'] != null) lost.add('messages.audio')
    if (typeof message.content === 'string') continue
    for (const part of message.content ?? []) {
      const detail = (part.image_url as { detail?: unknown } | undefined)?.detail
      if (detail != null && detail !== 'auto') lost.add('messages.content.image_url.detail')
    }
  }
  return [...lost]
}

/** All text of a message's content, parts joined without anything between. */
export function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(part => part.text ?? (part['refusal'] as string | undefined) ?? '').join('')
}

export const isBlank = (text: string): boolean => text.trim() === ''

function assistantParts(message: ChatMessage, place: string, names: Map<string, string>): Part[] {
  const parts: Part[] = reasoningOf(message)
  const texts = textsOf(message.content)
  const signature = signatureIn(message)
  for (const [index, text] of texts.entries()) {
    const last = index === texts.length - 1
    parts.push(last && signature !== null ? { ...text, signature } : text)
  }
  const refusal = message['refusal']
  if (typeof refusal === 'string' && !isBlank(refusal)) parts.push({ kind: 'text', text: refusal })
  for (const [index, call] of callsOf(message).entries())
    parts.push(readCall(call, `${place}.tool_calls[${index}]`, names))
  const old = message['function_call'] as { name: string; arguments: string } | null | undefined
  if (old) {
    const id = `call_${old.name}_${names.size}`
    parts.push(readCall({ id, type: 'function', function: old }, `${place}.function_call`, names))
  }
  return parts
}

interface WireCall {
  readonly id: string
  readonly type?: string
  readonly function?: { readonly name: string; readonly arguments: string }
  readonly custom?: { readonly name: string; readonly input: string }
  readonly extra_content?: unknown
}

/** Google's signature in a call or a message: it stands in a field that only its own clients fill in. */
function signatureIn(from: object): string | null {
  const { extra_content: extra } = from as {
    readonly extra_content?: { readonly google?: { readonly thought_signature?: unknown } | null } | null
  }
  const signature = extra?.google?.thought_signature
  return typeof signature === 'string' && signature !== '' ? signature : null
}

function callsOf(message: ChatMessage): readonly WireCall[] {
  return (message['tool_calls'] as readonly WireCall[] | null | undefined) ?? []
}

function readCall(call: WireCall, place: string, names: Map<string, string>): ToolCall {
  if (!call.function) {
    const message = `${place} is a call of a custom tool, which this model's provider does not have.`
    throw refuse('unsupported_parameter', { message, param: place })
  }
  const { name } = call.function
  names.set(call.id, name)
  return {
    kind: 'call',
    id: call.id,
    name,
    arguments: readArguments(call.function.arguments, `${place}.function.arguments`),
    signature: signatureIn(call),
    ...markedWith(cacheMarkOf(call)),
  }
}

function readArguments(text: string, place: string): Record<string, unknown> {
  if (isBlank(text ?? '')) return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // Said below: it is the same mistake.
  }
  const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
  const message = `Invalid value for '${place}': ${shown} is no JSON object, and this model's provider takes no other arguments.`
  throw refuse('invalid_value', { message, param: place })
}

/**
 * `reasoning_details` as this gateway (and OpenRouter) gives them out; what has no signature is of no use to anybody, and
 * what OpenRouter says is another maker's than Anthropic's would be refused.
 */
function reasoningOf(message: ChatMessage): Reasoning[] {
  const details = message['reasoning_details']
  if (!Array.isArray(details)) return []
  return details.flatMap((detail: Readonly<Record<string, unknown>> | null): Reasoning[] => {
    const format = detail?.['format']
    if (typeof format === 'string' && !format.startsWith('anthropic-')) return []
    if (detail?.['type'] === 'reasoning.encrypted' && typeof detail['data'] === 'string') {
      return [{ kind: 'reasoning', text: '', signature: null, sealed: detail['data'] }]
    }
    if (detail?.['type'] !== 'reasoning.text' || typeof detail['signature'] !== 'string') return []
    const text = typeof detail['text'] === 'string' ? detail['text'] : ''
    return [{ kind: 'reasoning', text, signature: detail['signature'], sealed: null }]
  })
}

function textsOf(content: ChatMessage['content']): Text[] {
  const texts: Text[] =
    typeof content === 'string'
      ? [{ kind: 'text', text: content }]
      : (content ?? []).map(part => ({ kind: 'text', text: textOf([part]), ...markedWith(cacheMarkOf(part)) }))
  return texts.filter(({ text }) => !isBlank(text))
}

/** The text of a content in pieces, of which every one but the last has a mark. No piece is blank. */
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

/** A result is one piece, so a mark anywhere in it is a mark of the whole. */
function lastMarkIn(content: ChatMessage['content']): CacheMark | undefined {
  if (typeof content === 'string') return undefined
  return content?.map(cacheMarkOf).findLast(mark => mark !== undefined)
}

function userParts(message: ChatMessage, place: string, names: ReadonlyMap<string, string>): Part[] {
  if (message.role === 'tool' || message.role === 'function') return [resultOf(message, place, names)]
  if (typeof message.content === 'string') {
    return isBlank(message.content) ? [] : [{ kind: 'text', text: message.content }]
  }
  return (message.content ?? []).flatMap((part, index) => readPart(part, `${place}.content[${index}]`))
}

function resultOf(message: ChatMessage, place: string, names: ReadonlyMap<string, string>): ToolResult {
  const text = textOf(message.content)
  const marked = markedWith(lastMarkIn(message.content))
  if (message.role === 'function') {
    const wanted = message['name'] as string
    const id = [...names].findLast(([, name]) => name === wanted)?.[0]
    if (id !== undefined) return { kind: 'result', id, name: wanted, text }
    const said = `${place} is the result of the function '${wanted}', which no earlier message calls.`
    throw refuse('invalid_value', { message: said, param: `${place}.name` })
  }
  const id = message['tool_call_id'] as string
  const name = names.get(id)
  if (name !== undefined) return { kind: 'result', id, name, text, ...marked }
  const said = `${place} is the result of the tool call '${id}', which no earlier message makes.`
  throw refuse('invalid_value', { message: said, param: `${place}.tool_call_id` })
}

interface WireFile {
  readonly file_data?: string
  readonly file_id?: string
  readonly filename?: string
}

function readPart(part: ContentPart, place: string): Part[] {
  const marked = markedWith(cacheMarkOf(part))
  switch (part.type) {
    case 'text':
      return isBlank(part.text ?? '') ? [] : [{ kind: 'text', text: part.text!, ...marked }]
    case 'image_url':
      return [{ kind: 'image', source: sourceOf(part.image_url!.url, `${place}.image_url.url`), ...marked }]
    case 'input_audio': {
      const { format, data } = part['input_audio'] as { format: string; data: string }
      return [{ kind: 'audio', format, base64: data, ...marked }]
    }
    case 'file': {
      const file = part['file'] as WireFile
      if (file.file_data === undefined) {
        const message = `${place} names an uploaded file by its id, which this model's provider does not know. Send 'file_data'.`
        throw refuse('unsupported_parameter', { message, param: `${place}.file` })
      }
      const source = sourceOf(file.file_data, `${place}.file.file_data`)
      return [{ kind: 'file', name: file.filename ?? null, source, ...marked }]
    }
    default: {
      const message = `${place} is a part of the type '${part.type}', which this model's provider does not have.`
      throw refuse('unsupported_parameter', { message, param: `${place}.type` })
    }
  }
}

const DATA_URL = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9=._-]+)*?)(;base64)?,/i

/** A data URL (RFC 2397) or an address. */
function sourceOf(url: string, place: string): Source {
  if (/^https?:\/\//i.test(url)) return { kind: 'url', url }
  const head = DATA_URL.exec(url)
  if (head) {
    const data = url.slice(head[0].length)
    const mediaType = head[1]!.toLowerCase()
    if (head[3]) return { kind: 'inline', mediaType, base64: data }
    return { kind: 'inline', mediaType, base64: Buffer.from(decodeURIComponent(data)).toString('base64') }
  }
  const message = `Invalid value for '${place}': it is neither a data URL (data:image/png;base64,…) nor an http(s) address.`
  throw refuse('invalid_value', { message, param: place })
}

function resultsFirst(parts: Part[]): void {
  const isResult = (part: Part) => part.kind === 'result'
  parts.splice(0, parts.length, ...parts.filter(isResult), ...parts.filter(part => !isResult(part)))
}
