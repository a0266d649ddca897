/** The periods of budgets in their time zones. Temporal handles changes of clocks. */
import { Temporal } from 'temporal-polyfill'
import { EVERY, type Every } from '#contract'

/** In milliseconds since the epoch. */
export interface Period {
  readonly start: number
  /** The first moment after it; null: it has no end. */
  readonly end: number | null
}

const LIFE: Period = { start: 0, end: null }
/** The last period of each length and zone. */
const lastPeriods = Object.fromEntries(EVERY.map(every => [every, new Map<string, Period>()])) as Record<
  Every,
  Map<string, Period>
>

/**
 * The period that contains a time. If a clock skips the midnight of a day, the day begins with its first moment.
 * @param zone a name of the IANA time zone database; others throw a `RangeError`
 */
export function periodAt(every: Every, zone: string, ms: number): Period {
  if (every === 'life') return LIFE
  const last = lastPeriods[every].get(zone)
  if (last !== undefined && last.start <= ms && ms < last.end!) return last
  const period = findPeriod(every, zone, ms)
  lastPeriods[every].set(zone, period)
  return period
}

function findPeriod(every: Exclude<Every, 'life'>, zone: string, ms: number): Period {
  if (every === 'hour') return hourAt(zone, ms)
  const now = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone)
  const day = now.toPlainDate()
  const first =
    every === 'day' ? day : every === 'week' ? day.subtract({ days: day.dayOfWeek - 1 }) : day.with({ day: 1 })
  const begin = (date: Temporal.PlainDate) => date.toZonedDateTime(zone).epochMilliseconds
  return { start: begin(first), end: begin(first.add({ [`${every}s`]: 1 })) }
}

const HOUR_MS = 3_600_000

/** An hour that a clock repeats counts as two hours. If the clock changes by half an hour, that half is a period of its own. */
function hourAt(zone: string, ms: number): Period {
  const begin = (at: number) =>
    Temporal.Instant.fromEpochMilliseconds(at)
      .toZonedDateTimeISO(zone)
      .round({ smallestUnit: 'hour', roundingMode: 'floor' }).epochMilliseconds
  const first = begin(ms)
  const start = first + HOUR_MS <= ms ? first + HOUR_MS : first
  const next = begin(start + HOUR_MS)
  return { start, end: next > start ? next : start + HOUR_MS }
}

/** A time in a zone for people: `2026-12-01 00:00 Europe/Berlin`. */
export function showTime(ms: number, zone: string): string {
  const time = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone)
  return `${time.toPlainDate()} ${time.toPlainTime().toString({ smallestUnit: 'minute' })} ${zone}`
}
