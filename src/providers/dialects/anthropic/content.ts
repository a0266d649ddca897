/** Encodes the conversation for the Messages API. */
import { refuse } from '#contract'
import {
  type Conversation,
  hasNative,
  isBlank,
  type Part,
  type Source,
  type Text,
  type Turn,
} from '../translate/conversation.ts'
import { prefillRefusal } from '../translate/parameters.ts'
import { type Block, marked } from './cache.ts'
import type { Host } from './traits.ts'

export interface Message {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: readonly Block[]
}

export interface ContentRules {
  /** Whether earlier reasoning is sent back. */
  readonly thoughts: boolean
  /** Whether the provider fetches images and documents by URL. The clouds that host the models do not. */
  readonly urls: boolean
  /** Whether the conversation may end with an assistant message. */
  readonly prefill: boolean
}

/** `system`, as one text unless it has marks, and `messages`. Throws a refusal with the place of unsupported content. */
export function writeConversation(
  { markedSystem, turns, ending }: Conversation,
  rules: ContentRules,
): { readonly system: readonly Block[]; readonly messages: readonly Message[] } {
  const messages: { role: Message['role']; content: Block[] }[] = []
  /** Instructions must be between a user and an assistant message, in one message. */
  let waiting: Text[] = []
  const instruct = () => {
    if (waiting.length > 0) messages.push({ role: 'system', content: instructionsOf(waiting) })
    waiting = []
  }
  for (const turn of turns) {
    const content = turn.parts.flatMap(part =>
      writePart(part, turn, rules).map(block => marked(block, part.kind === 'reasoning' ? undefined : part.cache)),
    )
    // Reasoning alone is not a message.
    if (content.every(isReasoning)) continue
    if (turn.role === 'assistant') instruct()
    const last = messages.at(-1)
    if (last?.role === turn.role) last.content.push(...content)
    else messages.push({ role: turn.role, content })
    waiting.push(...(turn.before ?? []), ...(turn.after ?? []))
  }
  const system = instructionsOf(markedSystem)
  if (messages.length === 0) system.push(...instructionsOf(ending))
  else if (messages.at(-1)!.role === 'user') waiting.push(...ending)
  instruct()
  if (messages.length === 0) return { system: [], messages: [{ role: 'user', content: asOnlyMessage(system) }] }
  if (messages[0]!.role === 'assistant') messages.unshift({ role: 'user', content: [textBlock(OPENING)] })
  const last = messages.at(-1)!
  if (last.role === 'assistant' && ending.length > 0) messages.push({ role: 'user', content: instructionsOf(ending) })
  else if (last.role === 'assistant') last.content = prefilled(last.content, turns.at(-1)!, rules)
  return { system, messages }
}

/** The first message must be the user's. */
const OPENING = '(The assistant begins.)'

const textBlock = (text: string): Block => ({ type: 'text', text })

const isReasoning = ({ type }: Block) => type === 'thinking' || type === 'redacted_thinking'

/** One block for all texts; with marks, one up to each mark and one for the rest. */
function instructionsOf(texts: readonly Text[]): Block[] {
  const blocks: Block[] = []
  let open: string[] = []
  const close = (mark?: Text['cache']) => {
    if (open.length > 0) blocks.push(marked(textBlock(open.join('\n')), mark))
    open = []
  }
  for (const { text, cache } of texts) {
    open.push(text)
    if (cache) close(cache)
  }
  close()
  return blocks
}

/** The content of the only message: the provider requires a message, so instructions without any become one. */
function asOnlyMessage(instructions: readonly Block[]): Block[] {
  if (instructions.length > 0) return [...instructions]
  throw refuse('invalid_value', { message: "'messages' has no content. Send at least one text.", param: 'messages' })
}

/** The provider refuses trailing white space in an assistant message that it continues. */
function prefilled(content: readonly Block[], turn: Turn, { prefill }: ContentRules): Block[] {
  // A turn that the provider paused and now continues.
  if (hasNative(turn)) return [...content]
  const { place } = turn
  if (!prefill) throw prefillRefusal(place)
  const last = content.at(-1)!
  if (last['type'] !== 'text') return [...content]
  return [...content.slice(0, -1), { ...last, text: (last['text'] as string).trimEnd() }]
}

function writePart(part: Part, { place }: Turn, rules: ContentRules): Block[] {
  switch (part.kind) {
    case 'text':
      return [part.citations ? { ...textBlock(part.text), citations: part.citations } : textBlock(part.text)]
    case 'native':
      return rules.thoughts || !isReasoning(part.block as Block) ? [part.block as Block] : []
    case 'image':
      return [{ type: 'image', source: imageSource(part.source, place, rules) }]
    case 'file':
      return [
        {
          type: 'document',
          source: documentSource(part.source, place, rules),
          ...(part.name === null ? {} : { title: part.name }),
        },
      ]
    case 'audio':
      throw unsupported(place, "a sound ('input_audio')", 'This model supports text, images and documents.')
    case 'reasoning':
      if (!rules.thoughts) return []
      if (part.sealed !== null) return [{ type: 'redacted_thinking', data: part.sealed }]
      return [{ type: 'thinking', thinking: part.text, signature: part.signature }]
    case 'call':
      return [{ type: 'tool_use', id: callId(part.id), name: part.name, input: part.arguments }]
    case 'result':
      return [
        {
          type: 'tool_result',
          tool_use_id: callId(part.id),
          ...(part.whole ?? (part.text.trim() === '' ? {} : { content: part.text })),
        },
      ]
  }
}

/** Whether a block can be sent as the client of the Messages API wrote it. Other blocks are converted like any part. */
export function isAccepted(block: Block, host: Host): boolean {
  const { type, text, content, source } = block
  if (type === 'text' && isBlank(String(text))) return false
  if (Array.isArray(content) && !content.every(each => isAccepted(each as Block, host))) return false
  if (typeof source !== 'object' || source === null) return true
  const { type: kind, url, media_type: mediaType, content: inner } = source as Block
  if (kind === 'url') return host === 'anthropic' && /^https:/i.test(String(url))
  if (kind === 'base64') return type === 'image' ? IMAGES.has(String(mediaType)) : mediaType === 'application/pdf'
  return !Array.isArray(inner) || inner.every(each => isAccepted(each as Block, host))
}

/** Ids of other providers may have characters that this one refuses. The result is the same for the call and its tool result. */
function callId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/gu, letter => `_${letter.codePointAt(0)!.toString(16)}_`)
}

const IMAGES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

function imageSource(source: Source, place: string, rules: ContentRules): Block {
  if (source.kind === 'url') return urlSource(source.url, 'an image', place, rules)
  const type = source.mediaType === 'image/jpg' ? 'image/jpeg' : source.mediaType
  if (!IMAGES.has(type)) {
    throw unsupported(place, `an image of the type '${type}'`, 'This model supports JPEG, PNG, GIF and WebP.')
  }
  return { type: 'base64', media_type: type, data: source.base64 }
}

function documentSource(source: Source, place: string, rules: ContentRules): Block {
  if (source.kind === 'url') return urlSource(source.url, 'a file', place, rules)
  const { mediaType, base64 } = source
  if (mediaType === 'application/pdf') return { type: 'base64', media_type: mediaType, data: base64 }
  if (mediaType.startsWith('text/') || mediaType === 'application/json') {
    return { type: 'text', media_type: 'text/plain', data: Buffer.from(base64, 'base64').toString('utf8') }
  }
  throw unsupported(place, `a file of the type '${mediaType}'`, 'This model supports PDF and text.')
}

function urlSource(url: string, what: string, place: string, { urls }: ContentRules): Block {
  if (urls && /^https:/i.test(url)) return { type: 'url', url }
  if (urls) throw unsupported(place, `${what} by a plain http URL`, "This model's provider fetches https URLs only.")
  throw unsupported(place, `${what} by URL`, "This model's provider does not fetch URLs: send a data URL.")
}

function unsupported(place: string, what: string, instead: string) {
  return refuse('unsupported_parameter', { message: `${place} has ${what}. ${instead}`, param: place })
}
