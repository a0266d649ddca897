/** Canonical deltas, or a whole message as one of them, as blocks: thoughts, text, calls. */
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
  readMark,
  type ThoughtField,
} from './kept-thoughts.ts'

interface Thought extends OpenBlock {
  readonly kind: 'thought'
  readonly field: ThoughtField
  text: string
  signature: string
}

interface Words extends OpenBlock {
  readonly kind: 'text' | 'refusal' | 'search'
}

interface Sealed extends OpenBlock {
  readonly kind: 'sealed'
  readonly block: { readonly type: 'redacted_thinking'; readonly data: string }
}

type AnyBlock = Thought | Sealed | Call | Words

/** What the client knows calls by. */
export interface CallNamer {
  /** For a call to which the provider gave no id, or one that another call has. */
  newId(number: number): string
  /** The client's own name of a tool that the model calls. */
  nameOf(called: string): string
}

export class ContentWriter {
  readonly #queue: BlockQueue
  /** By the index of the canonical call, each the newest that has it. */
  readonly #calls = new Map<number, Call>()
  /** Those that the client has seen: a provider that gives one twice must not make two calls look like one. */
  readonly #ids = new Set<string>()
  readonly #namer: CallNamer
  readonly #showsThoughts: boolean
  #newest: AnyBlock | null = null
  /** The thoughts since the last call, where they are not shown. */
  #hidden: (Thought | Sealed)[] = []
  /** The hidden thought that is going on. */
  #newestHidden: Thought | Sealed | null = null
  #refusal = ''

  /** @param showsThoughts whether the client asked for thinking */
  constructor(sink: BlockSink, namer: CallNamer, showsThoughts: boolean) {
    this.#queue = new BlockQueue(sink)
    this.#namer = namer
    this.#showsThoughts = showsThoughts
  }

  /** How many calls the client can run. */
  get calls(): number {
    return this.#ids.size
  }

  /** Why the model refused, in its own words; empty when it did not. */
  get refusal(): string {
    return this.#refusal
  }

  /** @param isWhole whether it is a whole message, of which every call is a call of its own */
  add(delta: Delta, isWhole = false): void {
    const pieces = listOf(delta.anthropic_content).filter(isFields) as AnthropicPiece[]
    if (isWhole && pieces.length > 0) this.#inOrder(delta, pieces)
    else {
      this.#think(delta)
      this.#words('text', textOf(delta.content))
      for (const piece of pieces) this.#piece(piece)
    }
    for (const _image of listOf(delta['images'])) this.#words('text', PICTURE)
    if (typeof delta.refusal === 'string') {
      this.#refusal += delta.refusal
      this.#words('refusal', delta.refusal)
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
   * A whole message with searches: each block where it stood. A step may have changed the words since: then they stand behind
   * the searches, without what they quoted.
   */
  #inOrder(delta: Delta, pieces: readonly AnthropicPiece[]): void {
    const text = textOf(delta.content)
    const isSame = pieces.reduce((sum, { length = 0 }) => sum + length, 0) === text.length
    const details = listOf(delta['reasoning_details']).filter(isFields)
    let [said, thought] = [0, 0]
    for (const piece of pieces) {
      if (piece.type === 'thinking') {
        const detail = details[thought++]
        if (detail) this.#detail(detail, false)
        continue
      }
      if (isSame && piece.type === 'text') {
        this.#words('text', text.slice(said, said + (piece.length ?? 0)))
        said += piece.length ?? 0
      }
      if (isSame || piece.type !== 'text') this.#piece(piece)
    }
    for (const detail of details.slice(thought)) this.#detail(detail, false)
    if (!isSame) this.#words('text', text)
  }

  /** A block of a search, or the end of a text and what that quotes of the web. */
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
   * A whole message has its thoughts twice: as one text, and those that are signed once more in pieces, each with its
   * signature. In a stream the text has passed when its signed piece comes.
   */
  #think(delta: Delta): void {
    const details = listOf(delta['reasoning_details']).filter(isFields)
    const field = delta.reasoning_content ? 'reasoning_content' : 'reasoning'
    let rest = stringOf(delta[field])
    const said = rest !== ''
    for (const [index, detail] of details.entries()) {
      if (!details.slice(index).some(later => begins(rest, later))) {
        this.#thought(rest, field)
        rest = ''
      }
      if (begins(rest, detail)) {
        const text = stringOf(detail['text'])
        this.#thought(text, field)
        rest = rest.slice(text.length)
      }
      this.#detail(detail, said)
    }
    this.#thought(rest, field)
  }

  #thought(text: string, field: ThoughtField): void {
    if (text === '') return
    const thought = this.#unsigned() ?? this.#beginThought(field)
    thought.text += text
    if (this.#showsThoughts) thought.waiting.push({ type: 'thinking_delta', thinking: text })
  }

  /** @param said whether the text of unsigned pieces stands beside them */
  #detail(detail: Fields, said: boolean): void {
    const text = stringOf(detail['text'])
    if (isSigned(detail)) {
      const open = this.#unsigned()
      if (open && text !== '' && open.text !== text) this.#sealed(detailMark(detail))
      else (open ?? this.#signedAlone(text)).signature = stringOf(detail['signature'])
    } else if (detail['type'] === 'reasoning.encrypted') {
      // More than the two members stands there when it comes from elsewhere, which wants all of it back.
      const isPlain = Object.keys(detail).every(name => name === 'type' || name === 'data')
      if (stringOf(detail['data']) !== '') this.#sealed(isPlain ? stringOf(detail['data']) : detailMark(detail))
    } else if (!said) this.#thought(text || stringOf(detail['summary']), 'reasoning')
  }

  /** The thought that is going on, if it has no signature yet. */
  #unsigned(): Thought | null {
    const newest = this.#showsThoughts ? this.#newest : this.#newestHidden
    return newest?.kind === 'thought' && newest.signature === '' ? newest : null
  }

  #signedAlone(text: string): Thought {
    const thought = this.#beginThought('reasoning_content')
    thought.text = text
    if (text !== '') thought.waiting.push({ type: 'thinking_delta', thinking: text })
    return thought
  }

  #beginThought(field: ThoughtField): Thought {
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

  #words(kind: 'text' | 'refusal', text: string): void {
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
    // One that never gets a name is none that the client could run.
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
    if (!this.#showsThoughts && isThought(block)) {
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

/** Assistants of this format make no pictures; the reader shall know that there was one. */
const PICTURE = '[The model made a picture, which this format cannot carry.]'

function isThought(block: AnyBlock): block is Thought | Sealed {
  return block.kind === 'thought' || block.kind === 'sealed'
}

/** Of what Google has signed only the signature goes back. */
function keptBlock(block: Thought | Sealed): KeptBlock {
  if (block.kind === 'sealed') return [block.block.data]
  const signature = block.signature || fieldMark(block.field)
  return [readMark(signature).kind === 'google' ? '' : block.text, signature]
}

const always = () => true
const nothing = () => null

function isSigned(detail: Fields): boolean {
  return detail['type'] === 'reasoning.text' && stringOf(detail['signature']) !== ''
}

/** Whether thoughts begin with a signed piece. */
function begins(thoughts: string, detail: Fields): boolean {
  const text = stringOf(detail['text'])
  return text !== '' && isSigned(detail) && thoughts.startsWith(text)
}

/** Some providers give a list of parts. */
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
