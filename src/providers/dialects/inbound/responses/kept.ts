/**
 * Earlier answers on routes that keep them: looks them up for `previous_response_id` and `item_reference`, and keeps new ones. An
 * item's id contains the id of its response, so items are not indexed.
 */

import { type InboundView, type KeptAnswer, type KeptAnswers, refuse, type Sliced } from '#contract'
import { isCompaction } from './compaction.ts'
import type { OutputItem } from './items.ts'
import { type Fields, optionalTextOf, shown, unsupported, wrongValue } from './read.ts'
import { isKept, keyOf, responseId } from './response.ts'

/** An item of a conversation and its place in the client's body. */
export interface PlacedItem {
  readonly item: Fields
  readonly place: string
}

/** Reading this many responses takes some ten milliseconds. */
const MAX_CHAIN = 1000

const PREVIOUS = 'previous_response_id'

const REMEDY =
  'ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route'

/**
 * The items before the client's own: the input and then the output of each earlier response. Responses before one with a summary are
 * omitted.
 */
export function earlierItems(asked: Fields, kept: KeptAnswers | undefined): PlacedItem[] {
  const previous = optionalTextOf(asked[PREVIOUS], PREVIOUS)
  if (previous === null) return []
  if (!kept) {
    const message = `Unsupported parameter: '${PREVIOUS}'. This route does not keep responses: send the whole conversation in 'input', and ${REMEDY}.`
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

/** A summary in the output replaces everything before it. A client that sends one lists the other items itself. */
function itemsOf({ input, output }: KeptAnswer): readonly Fields[] {
  const summary = output.findLastIndex(isCompaction)
  return summary === -1 ? [...input, ...output] : output.slice(summary)
}

/** The error for a missing response: the named one, or an earlier one of its conversation. */
function notFound(id: string, previous: string): string {
  if (id === previous) {
    return `Previous response with id ${shown(id)} not found. It was deleted, has expired, or was never kept.`
  }
  return `The conversation of the previous response ${shown(previous)} has a gap: the response ${shown(id)} before it was deleted or has expired. Send the whole conversation in 'input'.`
}

/** Loads everything that `earlierItems` and `referencedItem` will need, as far as the body is valid. */
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

/** The response and half of an item, from its id; null for an unknown form of id. */
function halfOf(id: string): { readonly answer: string; readonly half: 'input' | 'output' } | null {
  const [, key, isInput] = /^[a-z]+_([A-Za-z0-9]+)_(i?)\d+$/.exec(id) ?? []
  return key === undefined ? null : { answer: `resp_${key}`, half: isInput ? 'input' : 'output' }
}

/** The item of a reference. */
export function referencedItem(id: string, place: string, kept: KeptAnswers | undefined): Fields {
  if (!kept) {
    const message = `${place} refers to an item by its id. This route does not keep items: send the item itself, and ${REMEDY}.`
    throw unsupported(place, message)
  }
  const at = halfOf(id)
  const item = at === null ? undefined : kept.item(at.answer, at.half, id)
  if (item) return item
  const message = `Item with id ${shown(id)} not found. Its response was deleted, has expired, or was never kept. Send the item itself.`
  throw refuse('item_not_found', { message, param: place })
}

/** A request: the client's own body, and its own items if they are kept. */
interface RequestItems {
  readonly asked: Fields
  readonly items: readonly Fields[]
}

/** Keeps an answer, if the route and the request ask for it. */
export function keepAnswer({ asked, items }: RequestItems, view: InboundView, response: Fields): void {
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

/** The form in which an item is kept: messages have their type, and parts as content. */
export function keptForm(item: Fields): Fields {
  const { role, content } = item
  if (role === undefined) return item
  const type = role === 'assistant' ? 'output_text' : 'input_text'
  const parts = typeof content === 'string' ? [{ type, text: content }] : content
  return { ...item, type: 'message', content: parts }
}
