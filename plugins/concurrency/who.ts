/** Whom a slot is counted for. */
import { addressGroup, type Exchange } from '#contract'

/** Who can have slots of their own. */
export const WHO = ['key', 'account', 'model', 'address', 'everybody'] as const
export type Per = (typeof WHO)[number]

/** The loader has made sure of the fact: it is in `needs`. Addresses are marked, so that their slots have places of their own. */
export function whoIs(exchange: Exchange, per: Per): string {
  if (per === 'everybody') return ''
  return per === 'address' ? `address:${addressGroup(exchange.address)}` : exchange[per]!.id
}
