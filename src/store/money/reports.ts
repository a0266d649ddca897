/** Reports of the ledger, read by page in bounded time. */

import type { AccountBalance, NanoUsd, Outcome, Receipt } from '#contract'
import type { Person } from '../people/people.ts'

/** The beginning of the next page; opaque for clients. */
export type Cursor = string

export interface Page<Item> {
  readonly items: readonly Item[]
  /** Null on the last page. With a filter a page may be short, even empty, and still have a next one. */
  readonly next: Cursor | null
}

export interface PageQuery {
  readonly limit: number
  /** `next` of the page before; left out: the first page. */
  readonly after?: Cursor | undefined
}

/** An entry of an account's ledger: a grant or removal of credit, an exchange with a charge above 0, or a correction. */
export interface Entry {
  readonly id: string
  readonly kind: 'credit' | 'charge' | 'correction'
  readonly at: number
  /** The change of the balance: negative for a charge, for a correction that raises one, and for removed credit. */
  readonly amount: NanoUsd
  /** The account's balance after the entry; null if too many rows were written since to sum them up. */
  readonly balance: NanoUsd | null
  /** Of credits: the operator, the reason, and the reference that prevents a second grant. */
  readonly actor: string | null
  readonly note: string | null
  readonly reference: string | null
  /** Of charges and corrections. */
  readonly keyId: string | null
  readonly model: string | null
  readonly outcome: Outcome | null
  readonly tags: Readonly<Record<string, string>> | null
}

export interface EntryFilter extends PageQuery {
  /** `charge` includes the corrections of charges. */
  readonly kind?: 'credit' | 'charge' | undefined
  /** Milliseconds since the epoch; `from` is included, `to` is not. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export interface ReceiptFilter extends PageQuery {
  readonly keyId?: string | undefined
  readonly model?: string | undefined
  readonly outcome?: Outcome | undefined
  readonly tag?: { readonly name: string; readonly value: string } | undefined
}

/** Usage in one span of time, by key and model or summed up over them. */
export interface UsageRow {
  /** Start of the span, milliseconds since the epoch (UTC hours or days). */
  readonly at: number
  readonly keyId: string
  readonly model: string
  readonly requests: number
  /** The requests that were not answered. */
  readonly failed: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
  readonly reasoningTokens: number
  readonly charged: NanoUsd
}

export type UsageBy = 'none' | 'key' | 'model' | 'both'

export interface UsageQuery {
  /** Undefined: all accounts together. */
  readonly accountId?: string | undefined
  readonly step: 'hour' | 'day'
  /** The dimensions with rows of their own; the others are summed up. Left out: both. */
  readonly by?: UsageBy | undefined
  /** Maximum number of rows. */
  readonly limit?: number | undefined
  /** Milliseconds since the epoch. Whole spans: from the one that contains `from` to the last one that begins before `to`. */
  readonly from: number
  readonly to: number
}

export interface AccountFilter extends PageQuery {
  /** A part of the name or the beginning of an id. The case of a to z is ignored. */
  readonly search?: string | undefined
  readonly plan?: string | undefined
  readonly frozen?: boolean | undefined
}

export interface PersonFilter extends PageQuery {
  /** A part of the e-mail address. Case is ignored. */
  readonly search?: string | undefined
  readonly accountId?: string | undefined
}

export interface PersonOfAccount extends Person {
  readonly account: string
}

export interface Reports {
  /** Newest first. */
  entries(accountId: string, filter: EntryFilter): Page<Entry>
  /** Newest first; only exchanges that have ended. */
  receipts(accountId: string, filter: ReceiptFilter): Page<Receipt>
  /** The number of credits and settles in a span of time, free ones included; in PostgreSQL also corrections, at most `most`. */
  countEvents(accountId: string, range: { readonly from: number; readonly to: number; readonly most: number }): number
  /**
   * Sorted by time, key and model. Reads sums, never the ledger. Throws `ReadLimitError` if there are more rows than `limit`, or too many to
   * sum.
   */
  usage(query: UsageQuery): readonly UsageRow[]
  /** Sorted by name. */
  accounts(filter: AccountFilter): Page<AccountBalance>
  /** Sorted by e-mail address. */
  people(filter: PersonFilter): Page<PersonOfAccount>
  /** The plans of accounts, with the number of accounts of each. */
  plans(): readonly { readonly plan: string; readonly accounts: number }[]
  totals(): { readonly accounts: number; readonly posted: NanoUsd; readonly held: NanoUsd }
}
