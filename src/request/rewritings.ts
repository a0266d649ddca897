/**
 * Maps places of a rewritten request to places of the client's request. If a step put a message in front, `messages[1]` is the client's
 * `messages[0]`, and an error must name that, in `param` and in its message.
 */
import { type ChatChanges, type ChatRequest, type Refusal, reworded } from '#contract'

/** One rewriting: the request before and after it, and the objects that the step declares as added. */
export interface Rewriting {
  readonly before: ChatRequest
  readonly after: ChatRequest
  readonly own: readonly object[]
}

/** Returns the refusal with its places mapped to the client's request. */
export function inClientTerms(refusal: Refusal, rewritings: readonly Rewriting[]): Refusal {
  const param = refusal.param === null ? null : placeOf(refusal.param, rewritings)
  const message = refusal.message.replace(PLACES, place => placeOf(place, rewritings) ?? OWN)
  return reworded(refusal, { message, param })
}

/** Replaces a place that the client's request does not have. */
const OWN = 'a message of this gateway'

/** `messages[3].content[0].image_url.url`; providers also write `messages.[3]`. */
const PLACES = /\b[a-z_]+\.?\[\d+\](?:\.\w+|\.?\[\d+\])*/g
const STEPS = /\.?\[(\d+)\]|\.?(\w+)/g

/** Null for an added object. A place that cannot be followed is cut after its list. */
function placeOf(place: string, rewritings: readonly Rewriting[]): string | null {
  let at: string | null = place
  for (const rewriting of rewritings.toReversed()) if (at !== null) at = oneBack(at, rewriting)
  return at
}

function oneBack(place: string, { before, after, own }: Rewriting): string | null {
  let there: unknown = after
  let here: unknown = before
  let mapped = ''
  for (const { 0: written, 1: index, 2: name } of place.matchAll(STEPS)) {
    // Outside of rewritten lists every name stays the same.
    if (index === undefined || !Array.isArray(there) || there === here) {
      there = (Object(there) as Record<string, unknown>)[index ?? name!]
      here = (Object(here) as Record<string, unknown>)[index ?? name!]
      mapped += written
      continue
    }
    const element: unknown = there[Number(index)]
    if (own.includes(element as object)) return null
    const was = Array.isArray(here) ? indexBefore(there, here, Number(index)) : -1
    if (was < 0) return mapped
    there = element
    here = (here as unknown[])[was]
    mapped += written.replace(index, String(was))
  }
  return mapped
}

/** The old index of an element of a rewritten list: by identity, or the same index if the length is unchanged; else -1. */
function indexBefore(after: readonly unknown[], before: readonly unknown[], index: number): number {
  const same = before.indexOf(after[index])
  if (same >= 0) return same
  return after.length === before.length && index < before.length ? index : -1
}

/** Replaces fields of a request; a field with the value undefined is removed. */
export function rewritten(body: ChatRequest, changes: ChatChanges): ChatRequest {
  const kept = Object.entries({ ...body, ...changes }).filter(([, value]) => value !== undefined)
  return Object.fromEntries(kept) as ChatRequest
}
