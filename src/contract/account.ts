/** Accounts and their API keys. */
import type { Budget } from './budget.ts'
import type { NanoUsd } from './quantities.ts'

/** An account: it owns prepaid credit and pays for requests. */
export interface Account {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly frozen: boolean
  readonly createdAt: number
  /** The account's own budgets, besides those of its plan; left out: none. */
  readonly budgets?: readonly Budget[]
}

/** An account with its balance: `available = posted - held`. */
export interface AccountBalance extends Account {
  /** Credit granted minus charges. */
  readonly posted: NanoUsd
  /** Held for requests in progress. */
  readonly held: NanoUsd
}

/** An API key, without its secret. */
export interface Key {
  readonly id: string
  readonly accountId: string
  readonly name: string
  /** Ids of the catalog's models that this key may use; null: all public ones. */
  readonly models: readonly string[] | null
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** Left out: none. */
  readonly budgets?: readonly Budget[]
}

/** A key as lists show it: with the last four characters of each live secret. */
export interface KeySummary extends Key {
  readonly secrets: readonly { readonly last4: string; readonly expiresAt: number | null }[]
  /** The most that it may spend in its life; null: only the balance and the budgets of the account limit it. */
  readonly spendingCap: NanoUsd | null
  readonly spent: NanoUsd
  /** The number of requests that held credit with it; free requests are not counted. */
  readonly requests: number
  /** The time of the last such request. */
  readonly lastUsedAt: number | null
  /** `playground`: created by the gateway for the playground of its dashboard. */
  readonly purpose: KeyPurpose | null
}

/** The purpose of a key that the gateway created itself. */
export type KeyPurpose = 'playground'
