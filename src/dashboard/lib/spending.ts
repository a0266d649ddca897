/** What the overview says about money: spent lately, and how long the rest will do. */
import type { UsageRowView } from '../../api/views.ts'
import { dollars, nano } from './format.ts'

const DAY_MS = 86_400_000

/** Days that the overview looks back, today included. */
export const LOOK_BACK_DAYS = 30

/** The time that the overview asks for: whole days of UTC, as the gateway sums them up. */
export function lookBack(now: number): { readonly from: string; readonly to: string } {
  const today = startOfDay(now)
  return {
    from: new Date(today - (LOOK_BACK_DAYS - 1) * DAY_MS).toISOString(),
    to: new Date(today + DAY_MS).toISOString(),
  }
}

/** Spent in the last so many days, today included. */
export function spentIn(days: number, rows: readonly UsageRowView[], now: number): string {
  const from = startOfDay(now) - (days - 1) * DAY_MS
  let total = 0n
  for (const row of rows) if (Date.parse(row.at) >= from) total += nano(row.charged)
  return dollars(total)
}

/** Whether somebody should think of credit. */
export type Supply =
  | { readonly state: 'enough' }
  | { readonly state: 'none' }
  | { readonly state: 'low'; readonly days: number }

/** Low: at the pace of the last week it is gone within three days. */
export function supplyOf(available: string, spentInWeek: string): Supply {
  const left = nano(available)
  const week = nano(spentInWeek)
  if (left <= 0n) return { state: 'none' }
  if (week === 0n || left * 7n >= week * 3n) return { state: 'enough' }
  return { state: 'low', days: Number((left * 7n) / week) }
}

function startOfDay(now: number): number {
  return Math.floor(now / DAY_MS) * DAY_MS
}
