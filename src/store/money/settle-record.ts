/** A settle as the ledger writes it, and the largest amount of money that SQLite can hold. */
import type { NanoUsd, SettleRequest } from '#contract'

/** The largest amount that a 64-bit column holds: some nine billion dollars. */
export const LARGEST: NanoUsd = 2n ** 63n - 1n

/** A settle as it is written: its lists are JSON. */
export type SettleRecord = Omit<SettleRequest, 'attempts' | 'trail'> & {
  readonly attempts: string
  readonly trail: string
}
