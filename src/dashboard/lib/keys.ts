/** What the page knows about keys: when they end, and which of them need somebody's attention. */
import type { KeyView } from '../../api/views.ts'
import { amountOf, nano } from './format.ts'

const DAY_MS = 86_400_000

/** A key that ends within this time is warned about. */
export const SOON_MS = 14 * DAY_MS

/** Ready-made answers to "until when?". */
export const EXPIRIES = [
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: '1 year' },
  { value: 'never', label: 'Never' },
  { value: 'date', label: 'A date' },
] as const

/** How long the old secret works on after a rotation. */
export const GRACES = [
  { value: '0', label: 'Not at all' },
  { value: '1', label: '1 hour' },
  { value: '24', label: '24 hours' },
  { value: '168', label: '7 days' },
] as const

/** The end that was chosen, as the API takes it: null is never. A date ends with its day, in the reader's time zone. */
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

/** A spending cap as it was typed; nothing typed is no cap. */
export function capOf(typed: string): { readonly cap?: string | null; readonly error?: string } {
  if (typed.trim() === '') return { cap: null }
  const cap = amountOf(typed)
  if (cap === null) return { error: 'Enter an amount in dollars, for example 25 or 2.50, at most 999,999,999.' }
  return nano(cap) > 0n ? { cap } : { error: 'The cap must be more than $0. To stop all spending, revoke the key.' }
}

/** An answer to "until when?": one of `EXPIRIES`, or `keep`. */
export interface Expiry {
  readonly choice: string
  readonly day: string
}

/** An answer to "for which models?". */
export interface Models {
  readonly some: boolean
  readonly ids: readonly string[]
}

/** What was typed about a key that there is. */
export interface KeyDraft {
  readonly name: string
  readonly expires_at: Expiry
  readonly models: Models
  readonly spending_cap: string
}

/** What is to be sent: only what is not as it was, so that nothing is checked that nobody has touched. */
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

/** Live keys that end within two weeks, the first to end first. */
export function endingSoon(keys: readonly KeyView[], now: number): KeyView[] {
  return keys
    .filter(key => key.state === 'live' && key.expires_at !== null && Date.parse(key.expires_at) - now < SOON_MS)
    .sort((one, other) => Date.parse(one.expires_at!) - Date.parse(other.expires_at!))
}

/** Live keys first, each group the newest first. */
export function inOrder(keys: readonly KeyView[]): KeyView[] {
  return [...keys].sort(
    (one, other) =>
      Number(other.state === 'live') - Number(one.state === 'live') ||
      Date.parse(other.created_at) - Date.parse(one.created_at),
  )
}
