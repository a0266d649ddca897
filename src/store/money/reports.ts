/** What pages read of the ledger: by page, in bounded time however much there is. */

import type { AccountBalance, NanoUsd, Outcome, Receipt } from '#contract'
import type { Person } from '../people/people.ts'

/** Where the next page begins; opaque for clients. */
export type Cursor = string

export interface Page<Item> {
  readonly items: readonly Item[]
  /** Null: there is no more. With a filter a page may be short, even empty, and still have a next one. */
  readonly next: Cursor | null
}

/** Which page of a list. */
export interface PageQuery {
  readonly limit: number
  /** `next` of the page before; left out: the first page. */
  readonly after?: Cursor | undefined
}

/**
 * One line of an account's ledger: credit that came or was taken, an exchange that was charged more than nothing, or what was added to such a
 * charge later or given back.
 */
export interface Entry {
  readonly id: string
  readonly kind: 'credit' | 'charge' | 'correction'
  readonly at: number
  /** The change of the balance: negative for a charge, for a correction that adds to one, and for credit that was taken. */
  readonly amount: NanoUsd
  /** The account's balance after it; null when more was written since than is summed up for a list. */
  readonly balance: NanoUsd | null
  /** Credits: who gave or took it, and why; the reference without which it would be given twice. */
  readonly actor: string | null
  readonly note: string | null
  readonly reference: string | null
  /** Charges and corrections. */
  readonly keyId: string | null
  readonly model: string | null
  readonly outcome: Outcome | null
  /** Null: it has none. */
  readonly tags: Readonly<Record<string, string>> | null
}

export interface EntryFilter extends PageQuery {
  /** `charge`: with the corrections of charges. */
  readonly kind?: 'credit' | 'charge' | undefined
  /** Milliseconds since the epoch: not before, and before. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export interface ReceiptFilter extends PageQuery {
  readonly keyId?: string | undefined
  readonly model?: string | undefined
  readonly outcome?: Outcome | undefined
  readonly tag?: { readonly name: string; readonly value: string } | undefined
}

/** How much was used in one span of time by one key and model, or by all of what was summed over. */
export interface UsageRow {
  /** Start of the span, milliseconds since the epoch (UTC hours or days). */
  readonly at: number
  /** Empty when keys were summed over; `model` when models were. */
  readonly keyId: string
  readonly model: string
  readonly requests: number
  /** Of them, those that were not answered. */
  readonly failed: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
  readonly reasoningTokens: number
  readonly charged: NanoUsd
}

export type UsageBy = 'none' | 'key' | 'model' | 'both'

export interface UsageQuery {
  /** Undefined: of all accounts together. */
  readonly accountId?: string | undefined
  readonly step: 'hour' | 'day'
  /** What has rows of its own; the rest is summed over. Left out: both. */
  readonly by?: UsageBy | undefined
  /** At most so many rows. */
  readonly limit?: number | undefined
  /** Milliseconds since the epoch; whole spans from the one that `from` falls into to the one before `to` ends. */
  readonly from: number
  readonly to: number
}

export interface AccountFilter extends PageQuery {
  /** A part of the name or the beginning of an id; the case of a to z does not matter. */
  readonly search?: string | undefined
  readonly plan?: string | undefined
  readonly frozen?: boolean | undefined
}

export interface PersonFilter extends PageQuery {
  /** A part of the e-mail address; case does not matter. */
  readonly search?: string | undefined
  readonly accountId?: string | undefined
}

/** A person with the name of their account. */
export interface PersonOfAccount extends Person {
  readonly account: string
}

export interface Reports {
  /** The newest first. */
  entries(accountId: string, filter: EntryFilter): Page<Entry>
  /** The newest first; only exchanges that are over. */
  receipts(accountId: string, filter: ReceiptFilter): Page<Receipt>
  /** How many entries and free exchanges there are in a time; `most` when there are at least so many. */
  countEvents(accountId: string, range: { readonly from: number; readonly to: number; readonly most: number }): number
  /**
   * By time, then key and model; sums of what was written, never a scan of the ledger. Throws `TooMuch` when there are
   * more rows than `limit`, or too many to sum.
   */
  usage(query: UsageQuery): readonly UsageRow[]
  /** By name. */
  accounts(filter: AccountFilter): Page<AccountBalance>
  /** By e-mail address. */
  people(filter: PersonFilter): Page<PersonOfAccount>
  /** Plans that accounts have, with how many have each. */
  plans(): readonly { readonly plan: string; readonly accounts: number }[]
  totals(): { readonly accounts: number; readonly posted: NanoUsd; readonly held: NanoUsd }
}
