/** Keys on the page: their expiry, caps and models, and the keys that need attention. */
import type { KeyView } from '../../api/views.ts'
import { amountOf, nano } from './format.ts'

const DAY_MS = 86_400_000

/** A key that expires within this time gets a warning. */
export const SOON_MS = 14 * DAY_MS

/** The choices of an expiry. */
export const EXPIRIES = [
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: '1 year' },
  { value: 'never', label: 'Never' },
  { value: 'date', label: 'A date' },
] as const

/** How long the old secret stays valid after a rotation, in hours. */
export const GRACES = [
  { value: '0', label: 'Not at all' },
  { value: '1', label: '1 hour' },
  { value: '24', label: '24 hours' },
  { value: '168', label: '7 days' },
] as const

/** The chosen expiry in the API's format; null: never. A date expires at the end of its day, in the browser's time zone. */
export function expiryOf(
  { choice, day }: Expiry,
  now: number,
): { readonly at?: string | null; readonly error?: string } {
  if (choice === 'never') return { at: null }
  if (choice !== 'date') return { at: new Date(now + Number(choice) * DAY_MS).toISOString() }
  const [, year, month, date] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day) ?? []
  if (year === undefined) return { error: 'Choose the last day of the key.' }
  const end = new Date(Number(year), Number(month) - 1, Number(date), 23, 59, 59)
  if (end.getTime() <= now) return { error: 'This day is in the past. Choose a later one.' }
  return { at: end.toISOString() }
}

/** A typed spending cap; an empty text means no cap. */
export function capOf(typed: string): { readonly cap?: string | null; readonly error?: string } {
  if (typed.trim() === '') return { cap: null }
  const cap = amountOf(typed)
  if (cap === null) return { error: 'Enter an amount in dollars, for example 25 or 2.50, at most 999,999,999.' }
  return nano(cap) > 0n ? { cap } : { error: 'The cap must be more than $0. To stop all spending, revoke the key.' }
}

/** A chosen expiry: one of `EXPIRIES`, or `keep`. */
export interface Expiry {
  readonly choice: string
  readonly day: string
}

/** The chosen models. */
export interface Models {
  readonly some: boolean
  readonly ids: readonly string[]
}

/** The form of an existing key, as typed. */
export interface KeyDraft {
  readonly name: string
  readonly expires_at: Expiry
  readonly models: Models
  readonly spending_cap: string
}

/** The changed fields to send, or the error of each field. Unchanged fields are not sent, so the gateway does not check them. */
export function changeOf(
  key: Pick<KeyView, 'name' | 'models' | 'spending_cap'>,
  { name, expires_at: expiry, models, spending_cap: cap }: KeyDraft,
  now: number,
): { readonly body?: object; readonly wrong?: { readonly [Field in keyof KeyDraft]?: string } } {
  const ends = expiry.choice === 'keep' ? null : expiryOf(expiry, now)
  const capped = capOf(cap)
  const wrong = {
    ...(name.trim() === '' ? { name: 'Give the key a name.' } : {}),
    ...(models.some && models.ids.length === 0 ? { models: 'Choose at least one model.' } : {}),
    ...(ends?.error === undefined ? {} : { expires_at: ends.error }),
    ...(capped.error === undefined ? {} : { spending_cap: capped.error }),
  }
  if (Object.keys(wrong).length > 0) return { wrong }
  const allowed = models.some ? models.ids : null
  return {
    body: {
      ...(name.trim() === key.name ? {} : { name: name.trim() }),
      ...(same(allowed, key.models) ? {} : { models: allowed }),
      ...(ends === null ? {} : { expires_at: ends.at }),
      ...(capped.cap === key.spending_cap ? {} : { spending_cap: capped.cap }),
    },
  }
}

function same(one: readonly string[] | null, other: readonly string[] | null): boolean {
  if (one === null || other === null) return one === other
  return one.length === other.length && one.every(id => other.includes(id))
}

/** Live keys that expire within two weeks, the first to expire first. */
export function endingSoon(keys: readonly KeyView[], now: number): KeyView[] {
  return keys
    .filter(key => key.state === 'live' && key.expires_at !== null && Date.parse(key.expires_at) - now < SOON_MS)
    .sort((one, other) => Date.parse(one.expires_at!) - Date.parse(other.expires_at!))
}

/** Live keys first; within each group the newest first. */
export function inOrder(keys: readonly KeyView[]): KeyView[] {
  return [...keys].sort(
    (one, other) =>
      Number(other.state === 'live') - Number(one.state === 'live') ||
      Date.parse(other.created_at) - Date.parse(one.created_at),
  )
}
