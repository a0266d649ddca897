/**
 * What providers want to have back of a model's thinking, in the one place that clients of this format keep and send
 * back untouched: `encrypted_content` of a reasoning item. It holds the `reasoning_details` of the canonical message and
 * Google's signatures (see `translate/completion.ts`), or the text of a thought that nobody has signed, as sealed JSON.
 */
import type { Boxes } from '#contract'
import { type Fields, isFields, isScalar, wrongValue } from './read.ts'

export interface Thought {
  /** `reasoning_details`, whole. */
  readonly details: readonly Fields[]
  /** `extra_content` of the message. */
  readonly extra: Fields | null
  /** `extra_content` of calls, by the id that the client knows them by. */
  readonly calls: ReadonlyMap<string, Fields>
  /** Its words, where that is all there is of it; null where the provider has signed something. */
  readonly text: string | null
}

/** The number is that of the format. */
const MARK = 'tollgate2.'

/** Null when there is nothing to keep. */
export function seal({ details, extra, calls, text }: Thought, boxes: Boxes | undefined): string | null {
  const isSigned = details.length > 0 || extra !== null || calls.size > 0
  if (!boxes || !(isSigned || text)) return null
  const content = {
    ...(isSigned ? {} : { text }),
    ...(details.length > 0 ? { details } : {}),
    ...(extra === null ? {} : { extra }),
    ...(calls.size > 0 ? { calls: [...calls] } : {}),
  }
  return MARK + boxes.seal(JSON.stringify(content))
}

/**
 * Null for what this gateway has not sealed: a conversation that began elsewhere brings boxes that nobody here can open,
 * and goes on without them. Throws a refusal for one of ours that is damaged or another account's.
 */
export function unseal(box: string, place: string, boxes: Boxes | undefined): Thought | null {
  if (!boxes || !box.startsWith(MARK)) return null
  const content = parse(boxes.open(box.slice(MARK.length)))
  const { details = [], extra = null, calls = [], text = null } = content ?? {}
  const isWhole =
    content !== null &&
    Array.isArray(details) &&
    details.every(detail => isFields(detail) && Object.values(detail).every(isScalar)) &&
    (extra === null || isExtra(extra)) &&
    Array.isArray(calls) &&
    calls.every(call => Array.isArray(call) && typeof call[0] === 'string' && isExtra(call[1])) &&
    (text === null || typeof text === 'string')
  if (!isWhole) throw wrongValue(place, DAMAGED)
  return {
    details,
    extra: extra as Fields | null,
    calls: new Map(calls as [string, Fields][]),
    text: text as string | null,
  }
}

const DAMAGED =
  'it was changed, or this gateway sealed it for another account; send it back as it came, or leave the item out'

function parse(json: string | null): Fields | null {
  try {
    const value: unknown = json === null ? null : JSON.parse(json)
    return isFields(value) ? value : null
  } catch {
    return null
  }
}

/** Objects of objects of plain values: nothing that was never sealed gets in by this door, however deep it is. */
function isExtra(value: unknown): value is Fields {
  return isFields(value) && Object.values(value).every(inner => isFields(inner) && Object.values(inner).every(isScalar))
}

/**
 * Details that came as pieces, put together: some providers number them (`index`) and send each a word at a time. Those
 * without a number are whole.
 */
export function joinDetails(details: readonly unknown[]): Fields[] {
  const joined: Record<string, unknown>[] = []
  for (const detail of details) {
    if (!isFields(detail)) continue
    const last = joined.at(-1)
    if (!last || detail['index'] === undefined || !isSame(last, detail)) {
      joined.push({ ...detail })
      continue
    }
    for (const [name, value] of Object.entries(detail)) {
      const before = last[name]
      const grows = PIECES.has(name) && typeof before === 'string' && typeof value === 'string'
      if (grows) last[name] = before + value
      else if (value != null) last[name] = value
    }
  }
  return joined.filter(detail => Object.values(detail).every(isScalar))
}

const PIECES: ReadonlySet<string> = new Set(['text', 'summary', 'data'])

function isSame(one: Fields, other: Fields): boolean {
  return one['type'] === other['type'] && one['index'] === other['index']
}

/** `extra_content` in a message or a call, when it holds nothing but what can be sealed. */
export function extraOf(from: Fields): Fields | null {
  const extra = from['extra_content']
  return isExtra(extra) && Object.keys(extra).length > 0 ? extra : null
}
