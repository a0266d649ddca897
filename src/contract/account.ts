/** Who pays, and what lets a client in: accounts and their keys. */
import type { Budget } from './budget.ts'
import type { NanoUsd } from './quantities.ts'

/** Who pays: prepaid credit belongs to an account. */
export interface Account {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly frozen: boolean
  readonly createdAt: number
  /** Of its own, beside those of its plan; left out: none. */
  readonly budgets?: readonly Budget[]
}

/** An account with its money: `available = posted - held`. */
export interface AccountBalance extends Account {
  /** Credit granted minus what was charged. */
  readonly posted: NanoUsd
  /** Promised to requests under way. */
  readonly held: NanoUsd
}

/** What a client shows to be let in; its secret is not part of it. */
export interface Key {
  readonly id: string
  readonly accountId: string
  readonly name: string
  /** Ids of the catalog's models that this key may use; null: every public one. */
  readonly models: readonly string[] | null
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** Left out: none. */
  readonly budgets?: readonly Budget[]
}

/** A key as a list shows it: never a secret, only the last four characters of each live one. */
export interface KeySummary extends Key {
  readonly secrets: readonly { readonly last4: string; readonly expiresAt: number | null }[]
  /** The most that it may spend in its life; null: only the balance and the budgets of the account limit it. */
  readonly spendingCap: NanoUsd | null
  readonly spent: NanoUsd
  /** How many requests have held credit with it; free ones are not counted. */
  readonly requests: number
  /** When one last did. */
  readonly lastUsedAt: number | null
  /** `playground`: made by the gateway for the playground of its dashboard. */
  readonly purpose: KeyPurpose | null
}

/** What a key is for that nobody asked for by name. */
export type KeyPurpose = 'playground'
