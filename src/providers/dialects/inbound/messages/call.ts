/** Builds the block of one tool call from its pieces. */
import type { ToolCallDelta } from '#contract'
import type { Block, OpenBlock, Piece } from './blocks.ts'
import { type Fields, isFields } from './fields.ts'

/** A call becomes a block when its name is known; earlier pieces wait. */
export class Call implements OpenBlock {
  readonly kind = 'call'
  readonly waiting: Piece[] = []
  readonly #input = new JsonExtent()
  /** The provider's id; empty until it sends one. */
  #givenId = ''
  #name = ''
  /** Google's signature, which must be sent back with the call; empty without one. */
  #signature = ''
  /** The client's id and name, once the block has begun. */
  #shown: { readonly id: string; readonly name: string } | null = null
  #isReplaced = false

  get givenId(): string {
    return this.#givenId
  }

  /** The tool's name at the provider; empty until it is known. */
  get name(): string {
    return this.#name
  }

  get signature(): string {
    return this.#signature
  }

  get hasBegun(): boolean {
    return this.#shown !== null
  }

  get block(): Block {
    return { type: 'tool_use', id: this.#shown?.id ?? '', name: this.#shown?.name ?? '', input: {} }
  }

  /** Whether a piece belongs to this call. Some providers give all calls one index, so it may begin another. */
  continues({ id, function: called }: ToolCallDelta): boolean {
    const givenId = stringOf(id)
    return givenId === '' || this.#givenId === '' || givenId === this.#givenId || stringOf(called?.name) === ''
  }

  add(delta: ToolCallDelta): void {
    this.#givenId ||= stringOf(delta.id)
    this.#name ||= stringOf(delta.function?.name)
    this.#signature ||= googleSignature(delta)
    const text = stringOf(delta.function?.arguments)
    if (text === '') return
    this.#input.read(text)
    this.waiting.push({ type: 'input_json_delta', partial_json: text })
  }

  begin(id: string, name: string): void {
    this.#shown = { id, name }
  }

  /** Another call took its index, so no more pieces follow. */
  replace(): void {
    this.#isReplaced = true
  }

  isWhole(): boolean {
    return this.#isReplaced || this.#input.isWhole
  }

  /** Empty arguments are sent as `{}`, for clients that parse the pieces themselves. */
  last(): Piece | null {
    return this.#input.isEmpty ? { type: 'input_json_delta', partial_json: '{}' } : null
  }
}

/** Finds the end of the object in streamed JSON. */
class JsonExtent {
  #depth = 0
  #inString = false
  #isEscaped = false
  #isOver = false
  isEmpty = true

  get isWhole(): boolean {
    return this.#isOver
  }

  read(text: string): void {
    if (this.isEmpty && text.trim() !== '') this.isEmpty = false
    for (const letter of text) {
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (letter === '\\') this.#isEscaped = true
        else if (letter === '"') this.#inString = false
      } else if (letter === '"') this.#inString = true
      else if (letter === '{' || letter === '[') this.#depth++
      else if (letter === '}' || letter === ']') this.#isOver = --this.#depth <= 0
    }
  }
}

function googleSignature(call: Fields | ToolCallDelta): string {
  const extra = (call as Fields)['extra_content']
  const google = isFields(extra) ? extra['google'] : null
  return isFields(google) ? stringOf(google['thought_signature']) : ''
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
