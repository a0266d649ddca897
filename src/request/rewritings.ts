/**
 * Places of a rewritten request as places of the request that the client sent: where a step has put a message in front,
 * `messages[1]` is the client's own `messages[0]`, and an error must say so, in `param` and in its sentence.
 */
import { type ChatChanges, type ChatRequest, type Refusal, reworded } from '#contract'

/** One rewriting: the request on both sides of it, and the objects that the step says it has added. */
export interface Rewriting {
  readonly before: ChatRequest
  readonly after: ChatRequest
  readonly own: readonly object[]
}

/** The same refusal, saying of the client's request what it says of the rewritten one. */
export function asAsked(refusal: Refusal, rewritings: readonly Rewriting[]): Refusal {
  const param = refusal.param === null ? null : placeOf(refusal.param, rewritings)
  const message = refusal.message.replace(PLACES, place => placeOf(place, rewritings) ?? OWN)
  return reworded(refusal, { message, param })
}

/** What stands in a sentence for a place that the client's request does not have. */
const OWN = 'a message of this gateway'

/** `messages[3].content[0].image_url.url`; providers also write `messages.[3]`. */
const PLACES = /\b[a-z_]+\.?\[\d+\](?:\.\w+|\.?\[\d+\])*/g
const STEPS = /\.?\[(\d+)\]|\.?(\w+)/g

/** Null for what a step has added. A place that cannot be followed is cut behind the list in which it stands. */
function placeOf(place: string, rewritings: readonly Rewriting[]): string | null {
  let at: string | null = place
  for (const rewriting of rewritings.toReversed()) if (at !== null) at = oneBack(at, rewriting)
  return at
}

function oneBack(place: string, { before, after, own }: Rewriting): string | null {
  let there: unknown = after
  let here: unknown = before
  let told = ''
  for (const { 0: written, 1: index, 2: name } of place.matchAll(STEPS)) {
    // Beside a list that was rewritten everything keeps its name.
    if (index === undefined || !Array.isArray(there) || there === here) {
      there = (Object(there) as Record<string, unknown>)[index ?? name!]
      here = (Object(here) as Record<string, unknown>)[index ?? name!]
      told += written
      continue
    }
    const element: unknown = there[Number(index)]
    if (own.includes(element as object)) return null
    const was = Array.isArray(here) ? indexBefore(there, here, Number(index)) : -1
    if (was < 0) return told
    there = element
    here = (here as unknown[])[was]
    told += written.replace(index, String(was))
  }
  return told
}

/** Where an element of a rewritten list stood: the same object, or its place where the list is as long as it was; else -1. */
function indexBefore(after: readonly unknown[], before: readonly unknown[], index: number): number {
  const same = before.indexOf(after[index])
  if (same >= 0) return same
  return after.length === before.length && index < before.length ? index : -1
}

/** A request with fields that take the place of its own; one that is undefined is left out. */
export function rewritten(body: ChatRequest, changes: ChatChanges): ChatRequest {
  const kept = Object.entries({ ...body, ...changes }).filter(([, value]) => value !== undefined)
  return Object.fromEntries(kept) as ChatRequest
}
