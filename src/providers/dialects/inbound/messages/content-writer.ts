/** Converts canonical deltas, or a whole message as one delta, to blocks: reasoning, text, calls. */
import type { AnthropicPiece, Delta, ToolCallDelta } from '#contract'
import { BlockQueue, type BlockSink, type OpenBlock, type Piece, type SearchBlock } from './blocks.ts'
import { Call } from './call.ts'
import { type Fields, isFields } from './fields.ts'
import {
  detailMark,
  fieldMark,
  googleMark,
  idWith,
  type KeptBlock,
  type ReasoningField,
  readMark,
} from './kept-reasoning.ts'

interface ReasoningBlock extends OpenBlock {
  readonly kind: 'thought'
  readonly field: ReasoningField
  text: string
  signature: string
}

interface TextBlock extends OpenBlock {
  readonly kind: 'text' | 'refusal' | 'search'
}

interface SealedBlock extends OpenBlock {
  readonly kind: 'sealed'
  readonly block: { readonly type: 'redacted_thinking'; readonly data: string }
}

type AnyBlock = ReasoningBlock | SealedBlock | Call | TextBlock

/** Names of calls for the client. */
export interface CallNamer {
  /** An id for a call without one, or with one that another call has. */
  newId(number: number): string
  /** The client's name of a tool that the model calls. */
  nameOf(called: string): string
}

export class ContentWriter {
  readonly #queue: BlockQueue
  /** The newest call of each canonical index. */
  readonly #calls = new Map<number, Call>()
  /** Ids sent to the client. A provider may send one twice, but two calls must not have the same id. */
  readonly #ids = new Set<string>()
  readonly #namer: CallNamer
  readonly #showsReasoning: boolean
  #newest: AnyBlock | null = null
  /** The reasoning since the last call, if it is hidden. */
  #hidden: (ReasoningBlock | SealedBlock)[] = []
  /** The hidden reasoning block that is growing. */
  #newestHidden: ReasoningBlock | SealedBlock | null = null
  #refusal = ''

  /** @param showsReasoning whether the client asked for reasoning */
  constructor(sink: BlockSink, namer: CallNamer, showsReasoning: boolean) {
    this.#queue = new BlockQueue(sink)
    this.#namer = namer
    this.#showsReasoning = showsReasoning
  }

  /** Number of calls that the client can run. */
  get calls(): number {
    return this.#ids.size
  }

  /** The text of a refusal; empty if the model did not refuse. */
  get refusal(): string {
    return this.#refusal
  }

  /** @param isWhole whether it is a whole message, in which every item is a separate call */
  add(delta: Delta, isWhole = false): void {
    const pieces = listOf(delta.anthropic_content).filter(isFields) as AnthropicPiece[]
    if (isWhole && pieces.length > 0) this.#inOrder(delta, pieces)
    else {
      this.#addReasoning(delta)
      this.#text('text', textOf(delta.content))
      for (const piece of pieces) this.#piece(piece)
    }
    for (const _image of listOf(delta['images'])) this.#text('text', PICTURE)
    if (typeof delta.refusal === 'string') {
      this.#refusal += delta.refusal
      this.#text('refusal', delta.refusal)
    }
    for (const [position, call] of listOf(delta.tool_calls).entries()) {
      if (isFields(call)) this.#call(call, isWhole ? position : ((call as ToolCallDelta).index ?? position))
    }
    this.#queue.flush()
  }

  end(): void {
    this.#queue.end()
  }

  /**
   * A whole message with searches: each block in its place. If a step changed the text, the text follows the searches, without
   * citations.
   */
  #inOrder(delta: Delta, pieces: readonly AnthropicPiece[]): void {
    const text = textOf(delta.content)
    const isSame = pieces.reduce((sum, { length = 0 }) => sum + length, 0) === text.length
    const details = listOf(delta['reasoning_details']).filter(isFields)
    let [end, thought] = [0, 0]
    for (const piece of pieces) {
      if (piece.type === 'thinking') {
        const detail = details[thought++]
        if (detail) this.#detail(detail, false)
        continue
      }
      if (isSame && piece.type === 'text') {
        this.#text('text', text.slice(end, end + (piece.length ?? 0)))
        end += piece.length ?? 0
      }
      if (isSame || piece.type !== 'text') this.#piece(piece)
    }
    for (const detail of details.slice(thought)) this.#detail(detail, false)
    if (!isSame) this.#text('text', text)
  }

  /** A block of a search, or the end of a text with its web citations. */
  #piece(piece: AnthropicPiece): void {
    if (piece.type === 'text') {
      const newest = this.#newest?.kind === 'text' ? this.#newest : null
      for (const citation of listOf(piece.citations)) newest?.waiting.push({ type: 'citations_delta', citation })
      if (newest) this.#newest = null
    } else if (piece.type === 'web_search_tool_result') this.#search(piece as SearchBlock, [])
    else if (piece.type === 'server_tool_use') {
      const partial_json = JSON.stringify(piece['input'] ?? {})
      this.#search({ ...(piece as SearchBlock), input: {} }, [{ type: 'input_json_delta', partial_json }])
    }
  }

  #search(block: SearchBlock, waiting: Piece[]): void {
    this.#begin({ kind: 'search', block, waiting, isWhole: always, last: nothing })
  }

  /**
   * A whole message has its reasoning twice: as one text, and the signed parts again with their signatures. In a stream, a signed part
   * arrives after its text.
   */
  #addReasoning(delta: Delta): void {
    const details = listOf(delta['reasoning_details']).filter(isFields)
    const field = delta.reasoning_content ? 'reasoning_content' : 'reasoning'
    let rest = stringOf(delta[field])
    const hasText = rest !== ''
    for (const [index, detail] of details.entries()) {
      if (!details.slice(index).some(later => begins(rest, later))) {
        this.#addReasoningText(rest, field)
        rest = ''
      }
      if (begins(rest, detail)) {
        const text = stringOf(detail['text'])
        this.#addReasoningText(text, field)
        rest = rest.slice(text.length)
      }
      this.#detail(detail, hasText)
    }
    this.#addReasoningText(rest, field)
  }

  #addReasoningText(text: string, field: ReasoningField): void {
    if (text === '') return
    const thought = this.#unsigned() ?? this.#beginThought(field)
    thought.text += text
    if (this.#showsReasoning) thought.waiting.push({ type: 'thinking_delta', thinking: text })
  }

  /** @param hasText whether the delta also has the text of unsigned pieces */
  #detail(detail: Fields, hasText: boolean): void {
    const text = stringOf(detail['text'])
    if (isSigned(detail)) {
      const open = this.#unsigned()
      if (open && text !== '' && open.text !== text) this.#sealed(detailMark(detail))
      else (open ?? this.#signedAlone(text)).signature = stringOf(detail['signature'])
    } else if (detail['type'] === 'reasoning.encrypted') {
      // A detail with more members is another provider's, which requires all of it back.
      const isPlain = Object.keys(detail).every(name => name === 'type' || name === 'data')
      if (stringOf(detail['data']) !== '') this.#sealed(isPlain ? stringOf(detail['data']) : detailMark(detail))
    } else if (!hasText) this.#addReasoningText(text || stringOf(detail['summary']), 'reasoning')
  }

  /** The open reasoning block, if it has no signature yet. */
  #unsigned(): ReasoningBlock | null {
    const newest = this.#showsReasoning ? this.#newest : this.#newestHidden
    return newest?.kind === 'thought' && newest.signature === '' ? newest : null
  }

  #signedAlone(text: string): ReasoningBlock {
    const thought = this.#beginThought('reasoning_content')
    thought.text = text
    if (text !== '') thought.waiting.push({ type: 'thinking_delta', thinking: text })
    return thought
  }

  #beginThought(field: ReasoningField): ReasoningBlock {
    return this.#begin({
      kind: 'thought',
      field,
      text: '',
      signature: '',
      block: { type: 'thinking', thinking: '', signature: '' },
      waiting: [],
      isWhole: always,
      last(): Piece {
        return { type: 'signature_delta', signature: this.signature || fieldMark(this.field) }
      },
    })
  }

  #sealed(data: string): void {
    this.#begin({
      kind: 'sealed',
      block: { type: 'redacted_thinking', data },
      waiting: [],
      isWhole: always,
      last: nothing,
    })
  }

  #text(kind: 'text' | 'refusal', text: string): void {
    if (text === '') return
    this.#newestHidden = null
    const block =
      this.#newest?.kind === kind
        ? this.#newest
        : this.#begin({ kind, block: { type: 'text', text: '' }, waiting: [], isWhole: always, last: nothing })
    block.waiting.push({ type: 'text_delta', text })
  }

  #call(delta: ToolCallDelta, index: number): void {
    let call = this.#calls.get(index)
    if (!call?.continues(delta)) {
      call?.replace()
      call = new Call()
      this.#calls.set(index, call)
    }
    call.add(delta)
    // A call without a name cannot be run by the client.
    if (call.name !== '' && !call.hasBegun) this.#beginCall(call)
  }

  #beginCall(call: Call): void {
    if (call.signature !== '')
      (this.#unsigned() ?? this.#beginThought('reasoning_content')).signature = googleMark(call.signature)
    const id = this.#idOf(call)
    this.#ids.add(id)
    call.begin(idWith(id, this.#hidden.map(keptBlock)), this.#namer.nameOf(call.name))
    this.#hidden = []
    this.#begin(call)
  }

  #idOf({ givenId }: Call): string {
    if (givenId !== '' && !this.#ids.has(givenId)) return givenId
    let number = this.#ids.size
    while (this.#ids.has(this.#namer.newId(number))) number++
    return this.#namer.newId(number)
  }

  #begin<B extends AnyBlock>(block: B): B {
    if (!this.#showsReasoning && isReasoning(block)) {
      this.#newestHidden = block
      this.#hidden.push(block)
      return block
    }
    this.#newestHidden = null
    this.#newest = block
    this.#queue.begin(block)
    return block
  }
}

/** Assistant messages of this format have no images; the text notes that there was one. */
const PICTURE = '[The model made an image, which this format does not support.]'

function isReasoning(block: AnyBlock): block is ReasoningBlock | SealedBlock {
  return block.kind === 'thought' || block.kind === 'sealed'
}

/** For reasoning that Google signed, only the signature is sent back. */
function keptBlock(block: ReasoningBlock | SealedBlock): KeptBlock {
  if (block.kind === 'sealed') return [block.block.data]
  const signature = block.signature || fieldMark(block.field)
  return [readMark(signature).kind === 'google' ? '' : block.text, signature]
}

const always = () => true
const nothing = () => null

function isSigned(detail: Fields): boolean {
  return detail['type'] === 'reasoning.text' && stringOf(detail['signature']) !== ''
}

/** Whether the reasoning begins with a signed part. */
function begins(thoughts: string, detail: Fields): boolean {
  const text = stringOf(detail['text'])
  return text !== '' && isSigned(detail) && thoughts.startsWith(text)
}

/** Some providers send a list of parts. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return listOf(content)
    .map(part => (isFields(part) && part['type'] === 'text' ? stringOf(part['text']) : ''))
    .join('')
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
