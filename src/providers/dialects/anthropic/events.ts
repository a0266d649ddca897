/**
 * The events of a streamed message, one after the other, into chunks. It takes events that are parsed already, because
 * not every host frames them alike: the provider itself sends server-sent events, Bedrock binary frames.
 */
import type { AnthropicPiece } from '#contract'
import { finishOf } from '../finish-words.ts'
import type { ChunkWriter } from '../translate/completion.ts'
import { type Fields, isFields, textIn } from '../translate/value.ts'
import { argumentsOf, isSearchBlock, isWebCitation, textPiece } from './answer.ts'
import type { ErrorReader } from './errors.ts'
import { refusalOf, stopReasonOf } from './finish-reason.ts'
import { JSON_TOOL } from './tools.ts'
import { laterUsage, usageOf } from './usage.ts'

/** A block of the message that has begun and not ended. */
type Block =
  | { readonly kind: 'thought'; text: string; signature: string }
  | { readonly kind: 'call'; readonly index: number; readonly input: unknown; isArgued: boolean }
  /** A call whose arguments are the answer. */
  | { readonly kind: 'json'; readonly input: unknown; isArgued: boolean }
  /** A search of the web: its words come in pieces. */
  | { readonly kind: 'search'; readonly block: Fields; input: string }
  | { readonly kind: 'text'; length: number; readonly citations: unknown[] }
  /** What is none of the client's business. */
  | { readonly kind: 'other' }

export class MessageEvents {
  readonly #writer: ChunkWriter
  readonly #errors: ErrorReader
  /** By the provider's index. */
  readonly #blocks = new Map<unknown, Block>()
  #usage: Fields = {}
  #isBegun = false
  /** Whether the answer's tokens were counted behind the start, which can only say how many it begins with. */
  #isCounted = false
  #isOver = false
  readonly #tellsSearches: boolean
  /** From then on it is told where each text ends. */
  #hasSearched = false
  #stopReason: unknown = null
  #stopSequence: unknown = null
  #refusal = ''

  /** @param tellsSearches whether the client asked for Anthropic's search of the web */
  constructor(writer: ChunkWriter, errors: ErrorReader, tellsSearches = false) {
    this.#tellsSearches = tellsSearches
    this.#writer = writer
    this.#errors = errors
  }

  /** Takes the next event; what it comes to lies in the writer then. Nothing counts behind the end or a failure. */
  event(value: unknown): void {
    if (this.#isOver) return
    if (!isFields(value)) {
      this.broken('an event of the stream is not an object')
      return
    }
    try {
      this.#event(value)
    } catch (error) {
      this.broken(`an event of the stream could not be read: ${error}`)
    }
  }

  /** The stream can't be followed any further. */
  broken(detail: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#writer.fail({ code: 'upstream_invalid', detail })
  }

  #event(event: Fields): void {
    switch (event['type']) {
      case 'content_block_delta':
        if (isFields(event['delta'])) this.#delta(this.#blocks.get(event['index']), event['delta'])
        break
      case 'content_block_start':
        if (isFields(event['content_block'])) this.#blocks.set(event['index'], this.#start(event['content_block']))
        break
      case 'content_block_stop':
        this.#stop(this.#blocks.get(event['index']))
        this.#blocks.delete(event['index'])
        break
      case 'message_start':
        this.#begin(event['message'])
        break
      case 'message_delta':
        this.#messageDelta(event)
        break
      case 'message_stop':
        this.#end()
        break
      case 'error':
        this.#fail(event)
        break
      default:
        // Relatives leave the type out. Pings, and kinds to come, mean nothing here.
        if (event['type'] === undefined && isFields(event['error'])) this.#fail(event)
    }
  }

  #begin(message: unknown): void {
    // Relatives say it twice: what was begun then begins anew.
    this.#blocks.clear()
    if (isFields(message)) {
      this.#writer.identify(message['id'], message['model'])
      this.#count(message['usage'])
    }
    this.#writer.begin()
    if (!this.#isBegun && isFields(message)) this.#madeBefore(message)
    this.#isBegun = true
  }

  /** A call that running code makes comes whole, with the start and with the reason for the end. */
  #madeBefore(message: Fields): void {
    const { content } = message
    if (Array.isArray(content)) for (const block of content.filter(isFields)) this.#stop(this.#start(block))
    this.#stopReason = message['stop_reason'] ?? this.#stopReason
  }

  #start(block: Fields): Block {
    switch (block['type']) {
      case 'text': {
        const text = textIn(block['text'])
        this.#writer.text(text)
        return { kind: 'text', length: text.length, citations: [] }
      }
      case 'thinking': {
        const text = textIn(block['thinking'])
        this.#writer.reasoning(text)
        return { kind: 'thought', text, signature: textIn(block['signature']) }
      }
      case 'redacted_thinking': {
        const data = textIn(block['data'])
        if (data !== '') this.#writer.detail({ type: 'reasoning.encrypted', data })
        return { kind: 'other' }
      }
      case 'tool_use': {
        const { id, name, input } = block
        if (name === JSON_TOOL) return { kind: 'json', input, isArgued: false }
        const index = this.#writer.call({ id: textIn(id), name: textIn(name), arguments: '' })
        return { kind: 'call', index, input, isArgued: false }
      }
      default:
        return this.#tellsSearches && isSearchBlock(block) ? this.#search(block) : { kind: 'other' }
    }
  }

  /** What was found comes whole; the call of the search has its words still to come. */
  #search(block: Fields): Block {
    this.#hasSearched = true
    if (block['type'] === 'server_tool_use') return { kind: 'search', block, input: '' }
    this.#writer.native(block as AnthropicPiece)
    return { kind: 'other' }
  }

  #delta(block: Block | undefined, delta: Fields): void {
    switch (delta['type']) {
      case 'text_delta': {
        const text = textIn(delta['text'])
        if (block?.kind === 'text') block.length += text.length
        if (block?.kind !== 'other') this.#writer.text(text)
        break
      }
      case 'input_json_delta': {
        const text = textIn(delta['partial_json'])
        if (block?.kind === 'search') block.input += text
        if (text === '' || (block?.kind !== 'call' && block?.kind !== 'json')) break
        block.isArgued = true
        if (block.kind === 'call') this.#writer.callArguments(block.index, text)
        else this.#writer.text(text)
        break
      }
      case 'thinking_delta': {
        const text = textIn(delta['thinking'])
        if (block?.kind === 'thought') block.text += text
        if (block?.kind !== 'other') this.#writer.reasoning(text)
        break
      }
      case 'signature_delta':
        if (block?.kind === 'thought') block.signature += textIn(delta['signature'])
        break
      case 'citations_delta':
        if (block?.kind === 'text' && isWebCitation(delta['citation'])) block.citations.push(delta['citation'])
        break
      // What is to come is no text of the answer.
    }
  }

  #stop(block: Block | undefined): void {
    if (block?.kind === 'search') this.#writer.native({ ...(block.block as AnthropicPiece), input: inputOf(block) })
    else if (block?.kind === 'text') this.#endText(block)
    else if (block?.kind === 'thought' && block.signature !== '') {
      // Whole, although its text has passed already: clients put lists together by appending.
      this.#writer.detail({ type: 'reasoning.text', text: block.text, signature: block.signature })
    } else if ((block?.kind === 'call' || block?.kind === 'json') && !block.isArgued) {
      const text = argumentsOf(block.input)
      if (block.kind === 'call') this.#writer.callArguments(block.index, text)
      else this.#writer.text(text)
    }
  }

  #endText({ length, citations }: Block & { readonly kind: 'text' }): void {
    if (this.#hasSearched) this.#writer.native(textPiece(length, citations))
  }

  /** The finish waits for the end itself: an answer that breaks off behind its stop reason must not look finished. */
  #messageDelta(event: Fields): void {
    const { delta, usage } = event
    if (isFields(usage) && Number.isFinite(usage['output_tokens'])) this.#isCounted = true
    this.#count(usage)
    if (!isFields(delta)) return
    this.#stopReason = delta['stop_reason'] ?? this.#stopReason
    this.#stopSequence = delta['stop_sequence'] ?? this.#stopSequence
    this.#refusal ||= refusalOf(delta['stop_reason'], delta['stop_details'])
  }

  #count(usage: unknown): void {
    this.#usage = laterUsage(this.#usage, usage)
    const counted = usageOf(this.#usage)
    if (counted) this.#writer.usageSoFar(counted)
  }

  #end(): void {
    if (!this.#isBegun) {
      this.broken('the stream ends without having begun')
      return
    }
    this.#isOver = true
    for (const block of this.#blocks.values()) this.#stop(block)
    if (!this.#isCounted) this.#uncount()
    this.#writer.refusal(this.#refusal)
    const stopReason = stopReasonOf(this.#stopReason, this.#stopSequence, this.#tellsSearches)
    this.#writer.finish(finishOf(this.#stopReason, this.#writer.calls > 0), stopReason)
    this.#writer.done()
  }

  /** The count that the start began with is not taken for the answer's: without one it is counted here. */
  #uncount(): void {
    if (this.#usage['output_tokens'] === undefined) return
    const usage = usageOf({ ...this.#usage, output_tokens: 0 })
    if (usage) this.#writer.usage(usage)
  }

  #fail(event: Fields): void {
    this.#isOver = true
    this.#writer.fail(this.#errors.inside(event))
  }
}

/** The words of a search: what came in pieces, else what the block began with. Some break off at the cap. */
function inputOf({ block, input }: { readonly block: Fields; readonly input: string }): unknown {
  if (input === '') return block['input']
  try {
    return JSON.parse(input)
  } catch {
    return { INVALID_JSON: input }
  }
}
