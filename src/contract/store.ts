/**
 * What the gateway keeps: accounts, keys, and the ledger. Verbs, not get and set: each is atomic and answers
 * with a named result.
 */
import type { Account, Key } from './account.ts'
import type { HoldBudget } from './budget.ts'
import type { ErrorCode } from './errors.ts'
import type { Attempt, Outcome, TrailEntry } from './exchange.ts'
import type { NanoUsd } from './quantities.ts'
import type { Cost, Counts, Price, Usage } from './units.ts'

/** What became of a presented token. `rotated`: it is an earlier secret of a key that has a newer one. */
export type KeyLookup =
  | { readonly found: 'live'; readonly key: Key; readonly account: Account }
  | { readonly found: 'malformed' | 'unknown' | 'revoked' | 'expired' | 'rotated' }

/** The service `keys`: reads on every request, so that a revocation holds from the next request on. */
export interface Keys {
  /** A promise where it has to be looked up on another machine; what is known already comes at once. */
  find(token: string, nowMs: number): KeyLookup | Promise<KeyLookup>
}

/** The service `accounts`: for who is known by something else than a key. Reads on every request, as `keys` does. */
export interface Accounts {
  /** By id or by name. */
  find(idOrName: string): Account | undefined | Promise<Account | undefined>
}

/** An amount set aside before anything is sent upstream. */
export interface HoldRequest {
  /** The exchange's id: repeating the same hold is harmless. */
  readonly exchange: string
  readonly accountId: string
  readonly keyId: string
  readonly amount: NanoUsd
  readonly model: string
  readonly price: Price
  /** The most that the request can use: what the hold pays for. */
  readonly bound: Counts
  readonly idempotencyKey: string | null
  /** For receipts and reports; left out: none. */
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** In each of these it reserves too, or in none; left out: there are none. */
  readonly budgets?: readonly HoldBudget[]
}

/** Held, or why not; `available` is the account's, in nano-dollars, after the attempt. */
export type HoldResult =
  | { readonly held: true; readonly available: NanoUsd }
  | ShortHold
  | { readonly held: false; readonly reason: 'frozen' | 'unknown_account' }

/**
 * Too little is free: of the account's credit, of what the key may spend, or of a budget. The figures are of the one that is short;
 * `available` is below 0 when a limit was set below what was spent and held.
 */
export interface ShortHold {
  readonly held: false
  readonly reason: 'short'
  readonly of: 'account' | 'key' | 'budget'
  /** Which one of the hold's budgets. */
  readonly budget?: number
  readonly available: NanoUsd
  readonly onHold: NanoUsd
}

/** Where a charge comes from (see the README's table "What is charged"). */
export type ChargeSource =
  | 'reported'
  | 'clamped'
  | 'estimated'
  | 'estimated_low'
  | 'prompt_estimated'
  | 'insurance'
  | 'released'
  | 'recovered'
  | 'cached'

/** The end of a hold. A second settle of the same exchange changes nothing, unless the first one was only `recovered`. */
export interface SettleRequest {
  readonly exchange: string
  /** What is charged; at most the hold (more is refused by the ledger as a broken promise). */
  readonly amount: NanoUsd
  /** What the usage would have cost beyond the hold: the operator's loss. */
  readonly overrun: NanoUsd
  readonly source: ChargeSource
  readonly outcome: Outcome
  readonly code: ErrorCode | null
  readonly usage: Usage
  readonly attempts: readonly Attempt[]
  readonly trail: readonly TrailEntry[]
}

/**
 * `no_hold`: there was nothing to settle. `corrected`: another process had settled the exchange at its last checkpoint, because the
 * lease of this one had ended; the difference is booked now, as far as the account can pay it.
 */
export type SettleResult = 'settled' | 'corrected' | 'already_settled' | 'no_hold'

/**
 * Where a settle waits. `spooled`: in a file of its own, from which the next start settles it at the latest. `spooled_late`: there
 * too, but the lease of this process has ended, and another one may have settled the hold without the usage: then the settle corrects
 * that. `waiting`: the disk refused it, and only this process knows it.
 */
export type Spooled = 'spooled' | 'spooled_late' | 'waiting'

/** How far a stream has come, so that a crash charges what was delivered and not the whole hold. */
export interface Checkpoint {
  readonly exchange: string
  /** What would be charged if it ended here. */
  readonly amount: NanoUsd
  readonly usage: Usage
}

/** The service `ledger`, for plugins marked critical. A promise resolves only when the change is on disk. */
export interface Ledger {
  hold(request: HoldRequest): Promise<HoldResult>
  settle(request: SettleRequest): Promise<SettleResult>
  checkpoint(checkpoints: readonly Checkpoint[]): Promise<void>
  /** Takes over a settle that could not be written in time; the store tries until it is written. */
  spool(request: SettleRequest): Spooled
  /** Ends a hold for nothing of which nobody knows whether it was written; the store tries until that is known. */
  abandon(request: SettleRequest): void
}

/** What an account's owner may read of an exchange. */
export interface Receipt {
  readonly id: string
  readonly accountId: string
  readonly keyId: string
  readonly model: string
  readonly createdAt: number
  readonly settledAt: number | null
  /** When the charge of a recovered exchange became what its usage says; null: it was not corrected. */
  readonly correctedAt: number | null
  readonly price: Price
  readonly held: NanoUsd
  /** Null while the hold is open. */
  readonly charged: NanoUsd | null
  /** The cost of its usage beyond `charged`, which the operator pays. Null while the hold is open. */
  readonly overrun: NanoUsd | null
  readonly source: ChargeSource | null
  readonly outcome: Outcome | null
  readonly code: ErrorCode | null
  readonly usage: Usage
  /** The cost of the usage at the price; `charged` can be less. */
  readonly cost: Cost
  readonly attempts: readonly Attempt[]
  readonly trail: readonly TrailEntry[]
  readonly idempotencyKey: string | null
  readonly tags: Readonly<Record<string, string>>
}
