/** When a period of a budget begins and ends, in the time zone of the budget. Temporal knows the changes of clocks. */
import { Temporal } from 'temporal-polyfill'
import { EVERY, type Every } from '#contract'

/** In milliseconds since the epoch. */
export interface Period {
  readonly start: number
  /** The first moment that is not in it; null: it has no end. */
  readonly end: number | null
}

const LIFE: Period = { start: 0, end: null }
/** By length and zone, the last one that was looked for. */
const known = Object.fromEntries(EVERY.map(every => [every, new Map<string, Period>()])) as Record<
  Every,
  Map<string, Period>
>

/**
 * The period of a time. Where a clock skips the midnight of a day, the day begins with its first moment.
 * @param zone a name of the IANA time zone database; another one throws a `RangeError`
 */
export function periodAt(every: Every, zone: string, ms: number): Period {
  if (every === 'life') return LIFE
  const last = known[every].get(zone)
  if (last !== undefined && last.start <= ms && ms < last.end!) return last
  const period = findPeriod(every, zone, ms)
  known[every].set(zone, period)
  return period
}

function findPeriod(every: Exclude<Every, 'life'>, zone: string, ms: number): Period {
  const now = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone)
  // An hour that a clock goes through twice is two hours.
  if (every === 'hour') {
    const start = now.round({ smallestUnit: 'hour', roundingMode: 'floor' }).epochMilliseconds
    return { start, end: start + 3_600_000 }
  }
  const day = now.toPlainDate()
  const first =
    every === 'day' ? day : every === 'week' ? day.subtract({ days: day.dayOfWeek - 1 }) : day.with({ day: 1 })
  const begin = (date: Temporal.PlainDate) => date.toZonedDateTime(zone).epochMilliseconds
  return { start: begin(first), end: begin(first.add({ [`${every}s`]: 1 })) }
}

/** A time in a zone, for people: `2026-12-01 00:00 Europe/Berlin`. */
export function showTime(ms: number, zone: string): string {
  const time = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone)
  return `${time.toPlainDate()} ${time.toPlainTime().toString({ smallestUnit: 'minute' })} ${zone}`
}
