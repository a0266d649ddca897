/** The subject of a slot: the key, account, model or address whose exchanges it counts. */
import { addressGroup, type Exchange } from '#contract'

export const SUBJECTS = ['key', 'account', 'model', 'address', 'everybody'] as const
export type Per = (typeof SUBJECTS)[number]

/** The loader has checked that the fact exists: it is in `needs`. Addresses have a prefix, so that their slots have memory of their own. */
export function subjectOf(exchange: Exchange, per: Per): string {
  if (per === 'everybody') return ''
  return per === 'address' ? `address:${addressGroup(exchange.address)}` : exchange[per]!.id
}
