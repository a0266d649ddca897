/**
 * How often somebody may try something: a sliding window for each subject, or delays that grow. Pure rules: the state of a
 * subject is data, which is kept in memory (api/attempts.ts) and, where replicas share a database, there too.
 *
 * Whoever is turned away is not counted again, so that one who keeps knocking is let in when the time has passed.
 */

/** At most so many tries within any span of that length. */
export interface Window {
  readonly most: number
  readonly windowMs: number
}

/** Delays that double: each try has to wait longer after the one before it. */
export interface Growth {
  /** So many tries need not wait for each other. */
  readonly free: number
  readonly firstMs: number
  /** The longest delay. After each such time without a try, one try is forgotten. */
  readonly longestMs: number
}

export type TryRule = Window | Growth

/** Of a window: the times of the tries that count. */
type WindowState = readonly number[]

/** Of delays. */
interface GrowthState {
  readonly tries: number
  /** The last one; milliseconds since the epoch. */
  readonly at: number
}

/** What is known of one subject. Can be written as JSON. */
export type TryState = WindowState | GrowthState

/** Clocks of replicas differ by less. A time that is further ahead is from before the clock was set back: it locks nobody out. */
const MOST_AHEAD_MS = 60_000

/** A try that was counted, as whoever takes it back has to show it. */
export interface Counted {
  readonly at: number
  readonly before: TryState | null
}

/** Whether a try counts, and what is known from then on; or for how long to wait. */
export type TryResult = { readonly state: TryState; readonly counted: Counted } | { readonly waitMs: number }

/** @param before null: nothing is known of the subject */
export function countTry(rule: TryRule, before: TryState | null, now: number): TryResult {
  return 'most' in rule
    ? countInWindow(rule, before as WindowState | null, now)
    : countGrowing(rule, before as GrowthState | null, now)
}

/** What is known when a try is taken back; null: nothing is left. @param current null: nothing is known any more */
export function takeBack(rule: TryRule, current: TryState | null, counted: Counted): TryState | null {
  if (current === null) return null
  if ('most' in rule) return without(current as WindowState, counted.at)
  const { tries, at } = current as GrowthState
  const before = counted.before as GrowthState | null
  // Nobody has tried meanwhile: all is as it was.
  if (at === counted.at && tries === triesAfter(rule as Growth, before, at)) return before
  return { at, tries: Math.max(0, tries - 1) }
}

/** From when on a state says nothing any more; milliseconds since the epoch. */
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
  // What is taken back leaves nothing behind that would push out somebody else's.
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

/** With one more. */
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
