/** The store: accounts, keys, and the ledger. Its operations are atomic, and return named results. */
import type { Account, Key } from './account.ts'
import type { HoldBudget } from './budget.ts'
import type { ErrorCode } from './errors.ts'
import type { Attempt, Outcome, TrailEntry } from './exchange.ts'
import type { NanoUsd } from './quantities.ts'
import type { Cost, Counts, Price, Usage } from './units.ts'

/** The result of looking up a token. `rotated`: it is an old secret of a key that has a newer one. */
export type KeyLookup =
  | { readonly found: 'live'; readonly key: Key; readonly account: Account }
  | { readonly found: 'malformed' | 'unknown' | 'revoked' | 'expired' | 'rotated' }

/** The service `keys`: read on every request, so that a revocation applies from the next request on. */
export interface Keys {
  /** Returns a promise only if the key must be looked up on another machine; known keys return at once. */
  find(token: string, nowMs: number): KeyLookup | Promise<KeyLookup>
}

/** The service `accounts`: for callers that are identified by something other than a key. Read on every request, like `keys`. */
export interface Accounts {
  /** By id or by name. */
  find(idOrName: string): Account | undefined | Promise<Account | undefined>
}

/** A hold: an amount that is reserved before anything is sent upstream. */
export interface HoldRequest {
  /** The exchange's id: repeating the same hold is harmless. */
  readonly exchange: string
  readonly accountId: string
  readonly keyId: string
  readonly amount: NanoUsd
  readonly model: string
  readonly price: Price
  /** The most that the request can use, which the hold covers. */
  readonly bound: Counts
  readonly idempotencyKey: string | null
  /** For receipts and reports; left out: none. */
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** The amount is reserved in all of these budgets, or in none; left out: there are none. */
  readonly budgets?: readonly HoldBudget[]
}

/** The result of a hold. `available` is the account's, in nano-dollars, after the attempt. */
export type HoldResult =
  | { readonly held: true; readonly available: NanoUsd }
  | ShortHold
  | { readonly held: false; readonly reason: 'frozen' | 'unknown_account' }

/**
 * Too little is available: of the account's credit, the key's cap, or a budget. The figures belong to the limit that is short.
 * `available` is negative if a limit was set below what was spent and held.
 */
export interface ShortHold {
  readonly held: false
  readonly reason: 'short'
  readonly of: 'account' | 'key' | 'budget'
  /** The index in the hold's budgets. */
  readonly budget?: number
  readonly available: NanoUsd
  readonly onHold: NanoUsd
}

/** The source of a charge (see "What is charged" in plugins/credits/README.md). */
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
  /** The charge; at most the hold. The ledger refuses more. */
  readonly amount: NanoUsd
  /** The cost of the usage beyond the hold, which the operator pays. */
  readonly overrun: NanoUsd
  readonly source: ChargeSource
  readonly outcome: Outcome
  readonly code: ErrorCode | null
  readonly usage: Usage
  readonly attempts: readonly Attempt[]
  readonly trail: readonly TrailEntry[]
}

/**
 * `no_hold`: there was nothing to settle. `corrected`: the lease of this process had ended, and another process had settled the exchange
 * at its last checkpoint. The difference is booked now, as far as the account can pay it.
 */
export type SettleResult = 'settled' | 'corrected' | 'already_settled' | 'no_hold'

/**
 * Where a settle waits. `spooled`: in its own file; the next start settles it at the latest. `spooled_late`: also there, but the lease of
 * this process has ended. Another process may have settled the hold without the usage, and the settle will correct that. `waiting`: the
 * disk refused it, and it is in memory only.
 */
export type SpoolResult = 'spooled' | 'spooled_late' | 'waiting'

/** The progress of a stream, so that a crash charges what was delivered and not the whole hold. */
export interface Checkpoint {
  readonly exchange: string
  /** The charge if the stream ended here. */
  readonly amount: NanoUsd
  readonly usage: Usage
}

/** The service `ledger`, for critical plugins. Its promises resolve when the change is on disk. */
export interface Ledger {
  hold(request: HoldRequest): Promise<HoldResult>
  settle(request: SettleRequest): Promise<SettleResult>
  checkpoint(checkpoints: readonly Checkpoint[]): Promise<void>
  /** Takes over a settle that could not be written in time; the store retries until it is written. */
  spool(request: SettleRequest): SpoolResult
  /** Releases a hold whose write has an unknown result; the store retries until the result is known. */
  abandon(request: SettleRequest): void
}

/** The record of an exchange that the account's owner may read. */
export interface Receipt {
  readonly id: string
  readonly accountId: string
  readonly keyId: string
  readonly model: string
  readonly createdAt: number
  readonly settledAt: number | null
  /** When the charge of a recovered exchange was corrected to its usage; null: it was not. */
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
