/** Spending on the overview: recent charges, and how long the balance will last. */
import type { UsageRowView } from '../../api/views.ts'
import { dollars, nano } from './format.ts'

const DAY_MS = 86_400_000

/** Days that the overview looks back, today included. */
export const LOOK_BACK_DAYS = 30

/** The period of the overview: whole UTC days, as the gateway groups them. */
export function lookBack(now: number): { readonly from: string; readonly to: string } {
  const today = startOfDay(now)
  return {
    from: new Date(today - (LOOK_BACK_DAYS - 1) * DAY_MS).toISOString(),
    to: new Date(today + DAY_MS).toISOString(),
  }
}

/** The charges of the last `days` days, today included. */
export function spentIn(days: number, rows: readonly UsageRowView[], now: number): string {
  const from = startOfDay(now) - (days - 1) * DAY_MS
  let total = 0n
  for (const row of rows) if (Date.parse(row.at) >= from) total += nano(row.charged)
  return dollars(total)
}

/** Whether the account needs credit soon. */
export type Supply =
  | { readonly state: 'enough' }
  | { readonly state: 'none' }
  | { readonly state: 'low'; readonly days: number }

/** Low: at last week's rate, the balance lasts less than three days. */
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
