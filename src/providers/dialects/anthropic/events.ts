/**
 * Converts the events of a streamed message to chunks. Takes parsed events, because hosts frame them differently: the provider sends
 * server-sent events, Bedrock binary frames.
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

/** An open block of the message. */
type Block =
  | { readonly kind: 'thought'; text: string; signature: string }
  | { readonly kind: 'call'; readonly index: number; readonly input: unknown; isArgued: boolean }
  /** A call whose arguments are the answer (`JSON_TOOL`). */
  | { readonly kind: 'json'; readonly input: unknown; isArgued: boolean }
  /** A web search. Its input arrives in pieces. */
  | { readonly kind: 'search'; readonly block: Fields; input: string }
  | { readonly kind: 'text'; length: number; readonly citations: unknown[] }
  /** A block that the client does not get. */
  | { readonly kind: 'other' }

export class MessageEvents {
  readonly #writer: ChunkWriter
  readonly #errors: ErrorReader
  /** By the provider's index. */
  readonly #blocks = new Map<unknown, Block>()
  #usage: Fields = {}
  #isBegun = false
  /** Whether a later event counted the output tokens. The count in `message_start` is only the initial one. */
  #isCounted = false
  #isOver = false
  readonly #showsSearches: boolean
  /** Whether a search has begun. Then the end of each text is reported. */
  #hasSearched = false
  #stopReason: unknown = null
  #stopSequence: unknown = null
  #refusal = ''

  /** @param showsSearches whether the client asked for Anthropic's web search */
  constructor(writer: ChunkWriter, errors: ErrorReader, showsSearches = false) {
    this.#showsSearches = showsSearches
    this.#writer = writer
    this.#errors = errors
  }

  /** Handles the next event and writes the results to the writer. Does nothing after the end or a failure. */
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

  /** Fails the stream: it cannot be decoded further. */
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
        // Compatible APIs omit the type. Pings and unknown events are ignored.
        if (event['type'] === undefined && isFields(event['error'])) this.#fail(event)
    }
  }

  #begin(message: unknown): void {
    // Compatible APIs send it twice; the second one starts anew.
    this.#blocks.clear()
    if (isFields(message)) {
      this.#writer.identify(message['id'], message['model'])
      this.#count(message['usage'])
    }
    this.#writer.begin()
    if (!this.#isBegun && isFields(message)) this.#madeBefore(message)
    this.#isBegun = true
  }

  /** A call made by running code arrives complete in `message_start`, with the stop reason. */
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
        return this.#showsSearches && isSearchBlock(block) ? this.#search(block) : { kind: 'other' }
    }
  }

  /** A search result arrives complete. The input of a search request arrives later. */
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
      // Unknown deltas are not text of the answer.
    }
  }

  #stop(block: Block | undefined): void {
    if (block?.kind === 'search') this.#writer.native({ ...(block.block as AnthropicPiece), input: inputOf(block) })
    else if (block?.kind === 'text') this.#endText(block)
    else if (block?.kind === 'thought' && block.signature !== '') {
      // The whole text is sent again, because clients merge lists by appending.
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

  /** The finish is sent at `message_stop`: an answer that breaks off after its stop reason must not look complete. */
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
    const stopReason = stopReasonOf(this.#stopReason, this.#stopSequence, this.#showsSearches)
    this.#writer.finish(finishOf(this.#stopReason, this.#writer.calls > 0), stopReason)
    this.#writer.done()
  }

  /** The initial count is not the answer's. Without a final count, the gateway counts the answer. */
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

/** The input of a search: the streamed pieces, or the initial input. It may be incomplete because of the cap. */
function inputOf({ block, input }: { readonly block: Fields; readonly input: string }): unknown {
  if (input === '') return block['input']
  try {
    return JSON.parse(input)
  } catch {
    return { INVALID_JSON: input }
  }
}
