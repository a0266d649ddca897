/**
 * Compaction: the model summarizes the conversation, and the client sends the summary instead of the conversation afterwards. Codex
 * requests it by an item `compaction_trigger` at the end of the input. It needs exactly one item `compaction` in a completed answer;
 * otherwise it cannot continue.
 */
import type { Boxes, Delta } from '#contract'
import type { PlacedPart } from './content-parts.ts'
import type { Emit, OutputItem } from './items.ts'
import { at, type Fields, textOf, wrongValue } from './read.ts'

/** The number is the version of the format. */
const MARK = 'tollgate-compaction1.'

const PROMPT =
  'Summarize the conversation so far. Another model will continue the work with your summary alone. Include the wishes of the user, what was done and decided, the exact names of files, commands and values that matter, open problems, and the next steps. Answer with the summary only, and call no tools.'

const PREFACE = 'This is a summary of the conversation so far, which it replaces:\n\n'

const textAt = (text: string, place: string): PlacedPart[] => [{ part: { type: 'text', text }, place }]

export const isCompaction = ({ type }: Fields): boolean => type === 'compaction' || type === 'compaction_summary'

/** The last message of a request for a summary. */
export const promptAt = (place: string): PlacedPart[] => textAt(PROMPT, place)

/** Replaces a summary in a replay, which cannot decrypt boxes. */
const SEALED = '(The summary is encrypted.)'

/** The summary in an item. Throws a refusal for an item that was not made here: without it the conversation would be lost. */
export function readCompaction(item: Fields, place: string, boxes: Boxes | undefined): PlacedPart[] {
  const param = at(place, 'encrypted_content')
  const box = textOf(item['encrypted_content'], param)
  if (!boxes) return textAt(PREFACE + SEALED, place)
  const summary = box.startsWith(MARK) ? boxes.open(box.slice(MARK.length)) : null
  if (summary !== null) return textAt(PREFACE + summary, place)
  throw wrongValue(param, 'it was changed, or another service or account made it; send the conversation itself instead')
}

/** The output of a request for a summary, instead of `Output`. */
export class CompactionOutput {
  readonly #id: string
  readonly #boxes: Boxes | undefined
  readonly #emit: Emit
  #summary = ''
  #items: readonly OutputItem[] = []

  constructor(key: string, boxes: Boxes | undefined, emit: Emit) {
    this.#id = `cmp_${key}_0`
    this.#boxes = boxes
    this.#emit = emit
  }

  add({ content }: Delta): void {
    if (typeof content === 'string') this.#summary += content
  }

  /** Without a complete summary there are no items, and the client keeps its conversation. */
  end(isCut: boolean): readonly OutputItem[] {
    if (isCut || this.#summary.trim() === '' || this.#items.length > 0) return this.#items
    const box = this.#boxes?.seal(this.#summary) ?? ''
    const item = { id: this.#id, type: 'compaction', encrypted_content: MARK + box }
    this.#emit('response.output_item.added', { output_index: 0, item })
    this.#emit('response.output_item.done', { output_index: 0, item })
    this.#items = [item]
    return this.#items
  }

  items(): readonly OutputItem[] {
    return this.#items
  }
}
