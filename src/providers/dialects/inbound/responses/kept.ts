/**
 * What is kept of earlier answers, where the route keeps any: found by `previous_response_id` and `item_reference`, and
 * handed over to be kept. An item's id names the response that it came with, so no item needs a place of its own.
 */

import { type InboundView, type KeptAnswer, type KeptAnswers, refuse, type Sliced } from '#contract'
import { isCompaction } from './compaction.ts'
import type { OutputItem } from './items.ts'
import { type Fields, optionalTextOf, shown, unsupported, wrongValue } from './read.ts'
import { isKept, keyOf, responseId } from './response.ts'

/** An item of a conversation, and where the client's body names it. */
export interface PlacedItem {
  readonly item: Fields
  readonly place: string
}

/** So many responses take some ten milliseconds to read. */
const MAX_CHAIN = 1000

const PREVIOUS = 'previous_response_id'

const REMEDY =
  'ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route'

/**
 * The items before the client's own: of each earlier response what was asked, then what was answered. Where one has a summary,
 * the responses before it are not wanted.
 */
export function earlierItems(asked: Fields, kept: KeptAnswers | undefined): PlacedItem[] {
  const previous = optionalTextOf(asked[PREVIOUS], PREVIOUS)
  if (previous === null) return []
  if (!kept) {
    const message = `Unsupported parameter: '${PREVIOUS}'. This route keeps no responses: send the whole conversation in 'input', and ${REMEDY}.`
    throw unsupported(PREVIOUS, message)
  }
  const chain: KeptAnswer[] = []
  for (let id: string | null = previous; id !== null; id = chain.at(-1)!.previous) {
    if (chain.length === MAX_CHAIN) {
      throw wrongValue(PREVIOUS, `it has more than ${MAX_CHAIN} responses before it; begin with the whole conversation`)
    }
    const found = kept.find(id)
    if (!found) {
      throw refuse('previous_response_not_found', { message: notFound(id, previous), param: PREVIOUS })
    }
    chain.push(found)
    if (found.output.some(isCompaction) || found.input.some(isCompaction)) break
  }
  return chain.reverse().flatMap(turn => itemsOf(turn).map(item => ({ item, place: PREVIOUS })))
}

/** A summary in the answer replaces all before it. The client that sends one says itself what stays beside it. */
function itemsOf({ input, output }: KeptAnswer): readonly Fields[] {
  const summary = output.findLastIndex(isCompaction)
  return summary === -1 ? [...input, ...output] : output.slice(summary)
}

/** A request needs all that came before the response that it names. */
function notFound(id: string, previous: string): string {
  if (id === previous) {
    return `Previous response with id ${shown(id)} not found. It was deleted, its time is over, or it was never kept.`
  }
  return `The conversation of the previous response ${shown(previous)} has a gap: the response ${shown(id)} before it was deleted, or its time is over. Send the whole conversation in 'input'.`
}

/** All that `earlierItems` and `itemBehind` will want of what is kept, as far as the body can be read. */
export function* readAhead(body: unknown, kept: KeptAnswers): Sliced<void> {
  const { [PREVIOUS]: previous, input } = Object(body) as Fields
  let id = typeof previous === 'string' ? previous : null
  for (let length = 0; id !== null && length < MAX_CHAIN; length++) {
    yield* kept.load(id, 'output')
    id = (yield* kept.load(id, 'input'))?.previous ?? null
  }
  for (const item of Array.isArray(input) ? input : []) {
    const { id, type = 'item_reference', role } = Object(item) as Fields
    const place = typeof id === 'string' && type === 'item_reference' && role === undefined ? halfOf(id) : null
    if (place !== null) yield* kept.load(place.answer, place.half)
  }
}

/** Where an item is kept, by its id; null for an id that nobody gave. */
function halfOf(id: string): { readonly answer: string; readonly half: 'input' | 'output' } | null {
  const [, key, isInput] = /^[a-z]+_([A-Za-z0-9]+)_(i?)\d+$/.exec(id) ?? []
  return key === undefined ? null : { answer: `resp_${key}`, half: isInput ? 'input' : 'output' }
}

/** The item that a reference names. */
export function itemBehind(id: string, place: string, kept: KeptAnswers | undefined): Fields {
  if (!kept) {
    const message = `${place} refers to an item by its id. This route keeps no items: send the item itself, and ${REMEDY}.`
    throw unsupported(place, message)
  }
  const at = halfOf(id)
  const item = at === null ? undefined : kept.item(at.answer, at.half, id)
  if (item) return item
  const message = `Item with id ${shown(id)} not found. Its response was deleted, its time is over, or it was never kept. Send the item itself.`
  throw refuse('item_not_found', { message, param: place })
}

/** Of a request: the client's own body, and its own items where they are to be kept. */
interface AskedItems {
  readonly asked: Fields
  readonly items: readonly Fields[]
}

/** Hands an answer over to be kept, when the route and the request want it. */
export function keepAnswer({ asked, items }: AskedItems, view: InboundView, response: Fields): void {
  if (!isKept(asked, view)) return
  const key = keyOf(view)
  const input = items.map((item, index) => ({
    ...item,
    id: item['id'] ?? `${item['role'] ? 'msg' : 'item'}_${key}_i${index}`,
  }))
  const output = response['output'] as readonly OutputItem[]
  const previous = (asked[PREVIOUS] as string | null | undefined) ?? null
  view.kept!.keep({ id: responseId(view), input, output, previous }, response)
}

/** An item as it is kept: messages say that they are some, and hold parts. */
export function keptForm(item: Fields): Fields {
  const { role, content } = item
  if (role === undefined) return item
  const type = role === 'assistant' ? 'output_text' : 'input_text'
  const parts = typeof content === 'string' ? [{ type, text: content }] : content
  return { ...item, type: 'message', content: parts }
}
