/** Converts `system` and `messages` to canonical messages. */
import { keepWhole, unmarked, type WholePiece } from '../../translate/as-sent.ts'
import { lastMarked, readMark, type WithCacheMark } from './cache.ts'
import {
  foreignBlock,
  type NativePart,
  type PlacedPart,
  readBlock,
  readContent,
  readTexts,
  type TextPart,
  textPart,
} from './content.ts'
import {
  type Fields,
  fieldsIn,
  isAbsent,
  isFields,
  listIn,
  textIn,
  unknownValue,
  wrongType,
  wrongValue,
} from './fields.ts'
import { type KeptBlock, type ReasoningField, readId, readMark as readThoughtMark } from './kept-reasoning.ts'
import { shortName } from './names.ts'

export type CanonicalMessage = Readonly<Record<string, unknown>>

/** The origin of a canonical message in the client's body, for errors about the canonical one. */
export interface Origin {
  readonly at: string
  /** Place of each part, if the content is a list. */
  readonly parts?: readonly string[]
  /** Place of each tool call. */
  readonly calls?: readonly string[]
}

interface PlacedMessage {
  readonly message: CanonicalMessage
  readonly origin: Origin
}

/**
 * Both lists have the same length. A user turn becomes a `tool` message for each tool result, followed by its other content:
 * providers require that order.
 * @param searches whether blocks of Anthropic's web search may be in the conversation
 */
export function decodeConversation(
  system: unknown,
  messages: unknown,
  searches = false,
): { readonly messages: readonly CanonicalMessage[]; readonly origins: readonly Origin[] } {
  const written: PlacedMessage[] = []
  if (!isAbsent(system)) written.push(...instructions(system))
  const turns = listIn(messages, 'messages')
  if (turns.length === 0) throw wrongValue('messages', 'it has 0 items, and the minimum is 1')
  /** Names of the called tools by call id. */
  const names = new Map<string, string>()
  for (const [index, value] of turns.entries()) {
    const at = `messages[${index}]`
    const turn = fieldsIn(value, at)
    switch (turn['role']) {
      case 'user':
        written.push(...userTurn(turn, at, names))
        break
      case 'assistant':
        written.push(assistantTurn(turn, at, names, searches))
        break
      case 'system':
        written.push({ message: systemOf(readTexts(turn['content'], `${at}.content`)), origin: { at } })
        break
      default:
        throw unknownValue(`${at}.role`, turn['role'], ['user', 'assistant', 'system'])
    }
  }
  return { messages: written.map(({ message }) => message), origins: written.map(({ origin }) => origin) }
}

/** The instructions before the conversation; empty if they are only Claude Code's billing line. */
function instructions(system: unknown): PlacedMessage[] {
  const texts = readTexts(system, 'system')
  const own = texts.map(part => ({ ...part, text: part.text.replace(BILLING, '') }))
  const left = own.filter(({ text }, index) => text !== '' || texts[index]!.text === '')
  return left.length === 0 ? [] : [{ message: systemOf(left), origin: { at: 'system' } }]
}

/**
 * Claude Code's first line, about itself. It differs in each request, so no provider would find the prompt in its cache. It is always
 * removed: it has no meaning for a model, and Claude Code has a setting with the same effect.
 */
const BILLING = /^x-anthropic-billing-header:[^\n]*\n*/

/** One text, with a blank line between blocks, because they are paragraphs. A new part begins after a mark. */
function systemOf(blocks: readonly TextPart[]): CanonicalMessage {
  const parts: TextPart[] = []
  for (const [index, { text, ...mark }] of blocks.entries()) {
    const added = index === 0 ? text : `\n\n${text}`
    const open = parts.at(-1)
    if (open === undefined || open.cache_control !== undefined) parts.push({ ...mark, text: added })
    else parts[parts.length - 1] = { ...mark, text: open.text + added }
  }
  return { role: 'system', ...contentOf(parts) }
}

function userTurn({ content }: Fields, at: string, names: ReadonlyMap<string, string>): PlacedMessage[] {
  const place = `${at}.content`
  if (typeof content === 'string') return [{ message: { role: 'user', content }, origin: { at } }]
  const results: PlacedMessage[] = []
  const shown: PlacedPart[] = []
  const own: PlacedPart[] = []
  const shownPieces: WholePiece[] = []
  const ownPieces: WholePiece[] = []
  const kept: KeptResult[] = []
  const blocks = listIn(content, place)
  if (blocks.length === 0) throw wrongValue(place, 'it has 0 items, and the minimum is 1')
  for (const [index, value] of blocks.entries()) {
    const here = `${place}[${index}]`
    const block = fieldsIn(value, here)
    if (block['type'] !== 'tool_result') {
      const read = readBlock(block, here)
      own.push(...read)
      ownPieces.push({ block: isWhole(block) ? (unmarked(block) as Fields) : null, parts: read.length })
    } else {
      const { result, rest } = toolResult(block, here, names)
      results.push(result)
      shown.push(...rest)
      kept.push({ message: result.message, block, isShown: rest.length > 0 })
      if (rest.length > 0) shownPieces.push({ block: null, parts: rest.length, result: result.message })
    }
  }
  const parts = [...shown, ...own]
  const message = parts.length > 0 ? { role: 'user', ...contentOf(partsOf(parts)) } : null
  if (message) results.push({ message, origin: originOf(at, parts) })
  for (const result of kept) keepResult(result, message)
  const pieces = [...shownPieces, ...ownPieces]
  if (message && pieces.some(({ block, result }) => block !== null || result !== undefined))
    keepWhole(message, { kind: 'user', pieces })
  return results
}

/** Whether the canonical format has the block in another form only. A text document without citations is just text. */
function isWhole({ type, source, citations }: Fields): boolean {
  if (type !== 'document') return type === 'search_result' || type === 'tool_reference'
  if (!isFields(source) || source['type'] !== 'text') return true
  return isFields(citations) && citations['enabled'] === true
}

const isBlankText = (value: unknown) => typeof value === 'string' && value.trim() === ''

interface KeptResult {
  readonly message: object
  readonly block: Fields
  readonly isShown: boolean
}

/** Keeps a result, unless it is plain text, which is the same in both formats. */
function keepResult({ message, block, isShown }: KeptResult, shownIn: object | null): void {
  const { content, is_error: isError } = block
  const isPlain = typeof content === 'string' || isAbsent(content)
  if (isPlain && isError !== true) return
  const fields = {
    ...(isAbsent(content) || isBlankText(content) ? {} : { content: unmarked(content) }),
    ...(isError === true ? { is_error: true } : {}),
  }
  keepWhole(message, { kind: 'result', block: fields, shownIn: isShown ? shownIn : null })
}

/** A result is text, so its other content follows in a user message that names the result. */
function toolResult(block: Fields, place: string, names: ReadonlyMap<string, string>) {
  const { own: id } = readId(textIn(block['tool_use_id'], `${place}.tool_use_id`))
  const parts = readContent(block['content'], `${place}.content`)
  const texts = parts.flatMap(({ part }) => (part.type === 'text' ? [part.text] : []))
  const others = parts.filter(({ part }) => part.type !== 'text')
  const own = readMark(block, place)
  if (block['is_error'] === true) texts.unshift(FAILED)
  if (others.length > 0)
    texts.push(others.length === 1 ? '[An attachment follows.]' : `[${others.length} attachments follow.]`)
  const text = textPart(texts.join('\n'), others.length > 0 ? lastMarkIn(parts) : { ...lastMarkIn(parts), ...own })
  const label = `Attached to the result of the tool '${names.get(id) ?? id}':`
  return {
    result: { message: { role: 'tool', tool_call_id: id, ...contentOf([text]) }, origin: { at: place } },
    rest: others.length > 0 ? [{ part: textPart(label), place }, ...shownMarked(others, own)] : [],
  }
}

/** The mark of a result's texts, which become one text. */
function lastMarkIn(parts: readonly PlacedPart[]): WithCacheMark {
  const last = parts.findLast(({ part }) => part.type === 'text' && part.cache_control !== undefined)
  return last?.part.cache_control === undefined ? {} : { cache_control: last.part.cache_control }
}

/** The attachments are the end of the result, so its mark is put there. */
function shownMarked(others: readonly PlacedPart[], mark: WithCacheMark): PlacedPart[] {
  const parts = lastMarked(partsOf(others), mark)
  return others.map(({ place }, index) => ({ part: parts[index]!, place }))
}

/** Canonical results cannot mark a failed tool, so the text does. */
const FAILED = '[The tool failed.]'

function assistantTurn({ content }: Fields, at: string, names: Map<string, string>, searches: boolean): PlacedMessage {
  if (typeof content === 'string') return { message: { role: 'assistant', content }, origin: { at } }
  const blocks = listIn(content, `${at}.content`)
  // The provider requires search blocks, and the reasoning between them, in order.
  const hasSearched = searches && blocks.some(block => isFields(block) && isSearchBlock(block))
  const texts: PlacedPart[] = []
  const citations = new Map<number, readonly unknown[]>()
  const calls: { readonly call: object; readonly place: string }[] = []
  const thoughts = new TurnReasoning()
  for (const [index, value] of blocks.entries()) {
    const place = `${at}.content[${index}]`
    const block = fieldsIn(value, place)
    if (hasSearched && (isSearchBlock(block) || isOwnThought(block))) {
      texts.push({ part: nativePart(block, place), place })
      continue
    }
    switch (block['type']) {
      case 'text': {
        const text = textIn(block['text'], `${place}.text`)
        const marks = { ...readMark(block, place), ...(hasSearched ? quoted(block) : {}) }
        if (text !== '' && isListed(block['citations']))
          citations.set(texts.length, quotable(block['citations'], hasSearched))
        if (text !== '') texts.push({ part: textPart(text, marks), place })
        break
      }
      case 'thinking':
        thoughts.thinking(
          textIn(block['thinking'], `${place}.thinking`),
          textIn(block['signature'] ?? '', `${place}.signature`),
        )
        break
      case 'redacted_thinking':
        thoughts.sealed(textIn(block['data'], `${place}.data`))
        break
      case 'tool_use':
        calls.push({ call: toolCall(block, place, names, thoughts), place })
        break
      default:
        throw foreignBlock(block['type'], place)
    }
  }
  const message = {
    role: 'assistant',
    ...(texts.length === 0 && calls.length > 0 ? { content: null } : contentOf(partsOf(texts))),
    ...thoughts.fields(calls.length > 0),
    ...(calls.length > 0 ? { tool_calls: calls.map(({ call }) => call) } : {}),
  }
  if (citations.size > 0) keepWhole(message, { kind: 'assistant', citations })
  return {
    message,
    origin: { ...originOf(at, texts), calls: calls.map(({ place }) => place) },
  }
}

/** Without the blocks of its search, a web citation is invalid. */
const quotable = (citations: readonly unknown[], hasSearched: boolean) =>
  hasSearched ? citations : citations.filter(each => !isFields(each) || each['type'] !== WEB_QUOTE)

const WEB_QUOTE = 'web_search_result_location'

const isListed = (value: unknown): value is readonly unknown[] => Array.isArray(value) && value.length > 0

/** Whether a block is of a web search; other tools that Anthropic runs are not supported. */
function isSearchBlock({ type, name }: Fields): boolean {
  return type === 'web_search_tool_result' || (type === 'server_tool_use' && name === 'web_search')
}

/** Whether a block is reasoning that Anthropic signed. */
function isOwnThought({ type, signature, data }: Fields): boolean {
  const sealed = type === 'thinking' ? signature : type === 'redacted_thinking' ? data : null
  return typeof sealed === 'string' && readThoughtMark(sealed).kind === 'own'
}

function nativePart(block: Fields, place: string): NativePart {
  const { cache_control: _, ...anthropic } = block
  return { type: 'anthropic', anthropic, ...readMark(block, place) }
}

/** The web citations of a text. Documents were sent as text, so citations of them have no target. */
function quoted({ citations }: Fields): { readonly citations?: readonly unknown[] } {
  if (!Array.isArray(citations)) return {}
  const ofWeb = citations.filter(each => isFields(each) && each['type'] === WEB_QUOTE)
  return ofWeb.length > 0 ? { citations: ofWeb } : {}
}

function toolCall(block: Fields, place: string, names: Map<string, string>, thoughts: TurnReasoning): object {
  const { own: id, thoughts: kept } = readId(textIn(block['id'], `${place}.id`))
  const name = shortName(textIn(block['name'], `${place}.name`))
  const input = block['input'] ?? {}
  if (!isFields(input)) throw wrongType(`${place}.input`, 'an object', input)
  names.set(id, name)
  thoughts.hidden(kept)
  const signature = thoughts.takeSignature()
  return {
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
    ...readMark(block, place),
    ...(signature === null ? {} : { extra_content: { google: { thought_signature: signature } } }),
  }
}

/** The reasoning of one turn, in the form that its provider requires back. */
class TurnReasoning {
  readonly #details: object[] = []
  readonly #unsigned: Partial<Record<ReasoningField, string>> = {}
  #google: string | null = null

  thinking(text: string, signature: string): void {
    const mark = readThoughtMark(signature)
    if (mark.kind === 'own') this.#details.push({ type: 'reasoning.text', text, signature })
    else if (mark.kind === 'google') this.#google = mark.signature
    else if (mark.kind === 'field') this.#unsigned[mark.field] = (this.#unsigned[mark.field] ?? '') + text
  }

  sealed(data: string): void {
    const mark = readThoughtMark(data)
    if (mark.kind === 'own') this.#details.push({ type: 'reasoning.encrypted', data })
    else if (mark.kind === 'detail') this.#details.push(mark.detail)
  }

  /** Reasoning that the id of a call contains. */
  hidden(kept: readonly KeptBlock[]): void {
    for (const [text, signature] of kept) {
      if (signature === undefined) this.sealed(text)
      else this.thinking(text, signature)
    }
  }

  /** Google's signature, for the next call. */
  takeSignature(): string | null {
    const signature = this.#google
    this.#google = null
    return signature
  }

  /** @param calls whether the turn has tool calls: providers without signatures require their reasoning only then */
  fields(calls: boolean): Readonly<Record<string, unknown>> {
    return {
      ...(this.#details.length > 0 ? { reasoning_details: this.#details } : {}),
      ...(calls ? this.#unsigned : {}),
    }
  }
}

const partsOf = (placed: readonly PlacedPart[]) => placed.map(({ part }) => part)

/** A single text without a mark as a string: some providers accept nothing else. */
function contentOf(parts: readonly PlacedPart['part'][]): { readonly content: unknown } {
  const [first] = parts
  if (first === undefined) return { content: '' }
  const isPlain =
    parts.length === 1 && first.type === 'text' && first.cache_control === undefined && first.citations === undefined
  return { content: isPlain ? first.text : parts }
}

function originOf(at: string, parts: readonly PlacedPart[]): Origin {
  return { at, parts: parts.map(({ place }) => place) }
}
