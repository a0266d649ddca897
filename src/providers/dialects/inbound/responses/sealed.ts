/**
 * Seals the reasoning that providers require back, in the `encrypted_content` of a reasoning item, which clients keep and send back
 * unchanged. It contains the `reasoning_details` of the canonical message and Google's signatures (see `translate/completion.ts`), or
 * the text of unsigned reasoning, as encrypted JSON.
 */
import type { Boxes } from '#contract'
import { type Fields, isFields, isScalar, wrongValue } from './read.ts'

export interface SealedReasoning {
  /** `reasoning_details`, complete. */
  readonly details: readonly Fields[]
  /** `extra_content` of the message. */
  readonly extra: Fields | null
  /** `extra_content` of calls, by the client's call ids. */
  readonly calls: ReadonlyMap<string, Fields>
  /** Unsigned text; null if the provider signed anything. */
  readonly text: string | null
}

/** The number is the version of the format. */
const MARK = 'tollgate2.'

/** Null if there is nothing to keep. */
export function seal({ details, extra, calls, text }: SealedReasoning, boxes: Boxes | undefined): string | null {
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
 * Null for a box that this gateway did not seal. A conversation from another service has boxes that cannot be opened here, and
 * continues without them. Throws a refusal for a damaged box, or for one of another account.
 */
export function unseal(box: string, place: string, boxes: Boxes | undefined): SealedReasoning | null {
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
  'it was changed, or this gateway sealed it for another account; send it back unchanged, or leave the item out'

function parse(json: string | null): Fields | null {
  try {
    const value: unknown = json === null ? null : JSON.parse(json)
    return isFields(value) ? value : null
  } catch {
    return null
  }
}

/** Objects of objects of scalars: this limits the depth of what a box may contain. */
function isExtra(value: unknown): value is Fields {
  return isFields(value) && Object.values(value).every(inner => isFields(inner) && Object.values(inner).every(isScalar))
}

/** Joins streamed details: some providers number them (`index`) and send each in pieces. Details without a number are complete. */
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

/** `extra_content` of a message or a call, if it has only content that can be sealed. */
export function extraOf(from: Fields): Fields | null {
  const extra = from['extra_content']
  return isExtra(extra) && Object.keys(extra).length > 0 ? extra : null
}
