/**
 * Limits on how often a person may try to sign in or register: a sliding window for each subject, or growing delays. Pure rules: the
 * state of a subject is data in memory (api/attempts.ts) and, where replicas share a database, there too.
 *
 * Refused tries are not counted, so a person who keeps trying is let in when the time has passed.
 */

/** At most `most` tries within any `windowMs`. */
export interface Window {
  readonly most: number
  readonly windowMs: number
}

/** Delays that double with each try. */
export interface Growth {
  /** The number of tries without a delay. */
  readonly free: number
  readonly firstMs: number
  /** The longest delay. After each such time without a try, one try is forgotten. */
  readonly longestMs: number
}

export type TryRule = Window | Growth

/** Times of the counted tries. */
type WindowState = readonly number[]

interface GrowthState {
  readonly tries: number
  /** Time of the last one, in milliseconds since the epoch. */
  readonly at: number
}

/** The state of one subject. Can be written as JSON. */
export type TryState = WindowState | GrowthState

/** Clocks of replicas differ by less. A time further ahead is from before the clock was set back, and must not lock anyone out. */
const MOST_AHEAD_MS = 60_000

/** A counted try. It is needed to take the try back. */
export interface CountedTry {
  readonly at: number
  readonly before: TryState | null
}

/** Either the try counts and the state changes, or it has to wait. */
export type TryResult = { readonly state: TryState; readonly counted: CountedTry } | { readonly waitMs: number }

/** @param before null: the subject has no state */
export function countTry(rule: TryRule, before: TryState | null, now: number): TryResult {
  return 'most' in rule
    ? countInWindow(rule, before as WindowState | null, now)
    : countGrowing(rule, before as GrowthState | null, now)
}

/** The state after a try was taken back; null: none is left. @param current null: the state has expired */
export function takeBack(rule: TryRule, current: TryState | null, counted: CountedTry): TryState | null {
  if (current === null) return null
  if ('most' in rule) return without(current as WindowState, counted.at)
  const { tries, at } = current as GrowthState
  const before = counted.before as GrowthState | null
  // No other try in between: restore the state from before.
  if (at === counted.at && tries === triesAfter(rule as Growth, before, at)) return before
  return { at, tries: Math.max(0, tries - 1) }
}

/** The time from which a state no longer matters, in milliseconds since the epoch. */
export function endOf(rule: TryRule, state: TryState): number {
  if ('most' in rule) return ((state as WindowState).at(-1) ?? 0) + rule.windowMs
  const { tries, at } = state as GrowthState
  return at + tries * rule.longestMs
}

function countInWindow({ most, windowMs }: Window, before: WindowState | null, now: number): TryResult {
  const recent = (before ?? []).filter(at => now - at < windowMs && !isTooFarAhead(at, now, windowMs))
  if (recent.length >= most) return { waitMs: Math.min(recent[0]! + windowMs - now, windowMs) }
  return { state: [...recent, now], counted: { at: now, before } }
}

function without(current: WindowState, at: number): WindowState | null {
  const index = current.lastIndexOf(at)
  const left = index < 0 ? current : current.toSpliced(index, 1)
  // A state that would be empty is dropped, because it would take another subject's place in memory.
  return left.length === 0 ? null : left
}

function countGrowing(rule: Growth, before: GrowthState | null, now: number): TryResult {
  const { free, firstMs, longestMs } = rule
  const passedMs = before === null ? longestMs : passed(before.at, now, longestMs)
  const tries = triesAfter(rule, before, now) - 1
  const delayMs = tries < free ? 0 : Math.min(firstMs * 2 ** (tries - free), longestMs)
  if (passedMs < delayMs) return { waitMs: delayMs - passedMs }
  const at = before === null || isTooFarAhead(before.at, now, longestMs) ? now : Math.max(now, before.at)
  return { state: { tries: tries + 1, at }, counted: { at, before } }
}

/** The number of tries after one more. */
function triesAfter({ longestMs }: Growth, before: GrowthState | null, now: number): number {
  if (before === null) return 1
  const forgotten = before.at > now ? 0 : Math.floor((now - before.at) / longestMs)
  return Math.max(0, before.tries - forgotten) + 1
}

function passed(at: number, now: number, longestMs: number): number {
  return isTooFarAhead(at, now, longestMs) ? longestMs : Math.max(0, now - at)
}

const isTooFarAhead = (at: number, now: number, lastsMs: number): boolean =>
  at - now >= Math.min(lastsMs, MOST_AHEAD_MS)
