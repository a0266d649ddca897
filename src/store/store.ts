/** The whole store as the gateway, the commands and recovery see it. Plugins see the narrow services of the contract. */

import type {
  Account,
  AccountBalance,
  Accounts,
  Budget,
  Every,
  Key,
  KeyPurpose,
  KeySummary,
  Keys,
  Ledger,
  NanoUsd,
  Receipt,
  Sliced,
} from '#contract'
import type { AlertReads, Alerts } from './alerts/alert-rows.ts'
import type { Replicas } from './engine/replicas.ts'
import type { Page, PageQuery, Reports } from './money/reports.ts'
import type { People, PeopleReads } from './people/people.ts'
import type { Promised } from './promised.ts'
import type { LeaseFigures, Unwritten, WriterFigures } from './store-figures.ts'

export interface NewAccount {
  readonly name: string
  readonly plan?: string
}

/** A grant of credit, or credit that is taken back. The reference makes it idempotent: the same one again changes nothing and says so. */
export interface CreditGrant {
  readonly account: string
  /** Below 0: it is taken, at most what is available. */
  readonly amount: NanoUsd
  readonly reference: string
  readonly actor: string
  /** Needed when credit is taken. */
  readonly note?: string
}

export interface CreditResult {
  readonly granted: boolean
  readonly balance: AccountBalance
}

/** The budget of an account or of a key for periods of one length. */
export interface BudgetChange {
  readonly of: 'account' | 'key'
  /** Of an account the id or the name, of a key the id. */
  readonly name: string
  readonly every: Every
  /** Null: it is removed. */
  readonly budget: Pick<Budget, 'amount' | 'zone' | 'at' | 'then'> | null
}

/** The spent and held amounts of a budget in one period. */
export interface BudgetUse {
  /** As `chainOf` names it. */
  readonly budget: string
  /** Milliseconds since the epoch. */
  readonly start: number
  readonly end: number | null
  /** The limit of the last hold that had room. */
  readonly amount: NanoUsd
  readonly held: NanoUsd
  readonly spent: NanoUsd
}

export interface NewKey {
  readonly account: string
  readonly name: string
  readonly models?: readonly string[] | null
  /** Milliseconds since the epoch, or null for never. */
  readonly expiresAt?: number | null
  /** The most that it may spend in its life; null: only the balance and the budgets of the account limit it. */
  readonly spendingCap?: NanoUsd | null
  readonly purpose?: KeyPurpose | null
}

/** What of a key may change; what is left out stays. */
export interface KeyChange {
  readonly id: string
  readonly name?: string | undefined
  /** Null: every public one. */
  readonly models?: readonly string[] | null | undefined
  /** Milliseconds since the epoch, or null for never. A later one brings an expired key back; a secret in its grace keeps its end. */
  readonly expiresAt?: number | null | undefined
  /** One below what is spent and held already refuses the next request, and takes nothing back. */
  readonly spendingCap?: NanoUsd | null | undefined
}

/** A key with its secret: the only time the secret is seen. */
export interface IssuedKey {
  readonly key: Key
  readonly token: string
}

/** One broken promise that `verify` found. */
export interface Violation {
  /** `I1` … `I13`, as the README's table names them, or `corrupt`. */
  readonly invariant: string
  readonly subject: string
  readonly message: string
}

export interface VerifyReport {
  readonly accounts: number
  readonly events: number
  readonly openHolds: number
  readonly violations: readonly Violation[]
}

export interface RecoveryReport {
  /** Holds of dead processes that were settled at their last checkpoint. */
  readonly settled: number
  /** Settles that a dead process had spooled. */
  readonly replayed: number
  readonly charged: NanoUsd
  /** Spooled lines that could not be settled (torn, or beyond their hold); kept in `<store>.spool.rejected`. */
  readonly rejected: number
}

/** An account has so many live keys at most; the playground's own is not counted. */
export const MAX_LIVE_KEYS = 100
/** And so many are made for it within 24 hours at most, with those that are dead again. */
export const MAX_KEYS_A_DAY = 1000
/** A list of one account's keys ends there: live ones come before dead ones, new ones before old ones. */
export const MAX_KEYS_LISTED = 200
/** A key is not rotated again for so long: of two who do it at once, the second would end the secret in use. */
export const BETWEEN_ROTATIONS_MS = 60_000

/** A rotated secret may live on for so long at most: 168 hours. */
export const MAX_GRACE_MS = 168 * 3_600_000

/**
 * The disk's failure, not the caller's. `not_written`: rolled back, nothing has changed. `unknown`: COMMIT failed and may
 * have happened all the same; ask again with the same id, which finds out and changes nothing twice. `not_read`: a read
 * failed, which says nothing about what its caller has written before.
 */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
  readonly written: Written

  constructor(written: Written, cause: unknown) {
    const [deed, doubt] = SAID[written]
    super(`The store could not be ${deed}: ${(cause as Error).message.replace(/\.$/, '')}. ${doubt}`, { cause })
    this.written = written
  }
}

export type Written = 'not_written' | 'unknown' | 'not_read'

const SAID: Readonly<Record<Written, readonly [deed: string, doubt: string]>> = {
  not_written: ['written', 'Nothing was changed.'],
  unknown: ['written', 'It may have been written all the same.'],
  not_read: ['read', 'If this was a change, look whether it was made before you try again.'],
}

/** Encrypts what belongs to one account, under the store's secret. */
export interface Vault {
  /** @param purpose what it is for: a box of one purpose does not open for another */
  seal(purpose: string, account: string, plain: Uint8Array): Buffer
  /** Null: it was cut or changed, or it is of another account, another purpose or another secret. */
  open(purpose: string, account: string, box: Uint8Array): Buffer | null
  /** The same in slices. */
  openInSlices(purpose: string, account: string, box: Uint8Array): Sliced<Buffer | null>
}

export interface NewResponse {
  readonly id: string
  readonly account: string
  /** Whatever the format needs, as texts by their names. Each is read alone. */
  readonly parts: Readonly<Record<string, string>>
  readonly keepMs: number
  /** Earlier ones that it builds on: they are kept as long as this one. */
  readonly used: readonly string[]
  readonly most: {
    /** Of one. */
    readonly responseBytes: number
    /** Of all that the account has. Beyond, those that expire first are removed. */
    readonly accountBytes: number
  }
}

/** Why a response was not kept, where it was not. */
export type KeptOutcome = 'kept' | 'too_large' | 'no_room' | 'store_busy'

/** Responses that clients may refer to for a while: encrypted, each for its account alone. */
export interface Responses {
  /**
   * One part of a response, in UTF-8. It yields while it decrypts. Undefined: there is none by this id for this account, or
   * its time is over.
   */
  read(id: string, account: string, part: string): Sliced<Buffer | undefined>
  /**
   * Keeps one; it is found from now on. Resolves when it is on disk, or with the reason why it is not; rejects when the
   * store could not be written.
   */
  keep(response: NewResponse): Promise<KeptOutcome>
  /** False: there is none that `read` would find. */
  remove(id: string, account: string): Promise<boolean>
  /** Removes those whose time is over, a few in a transaction. */
  sweep(): Promise<void>
}

/** What is read of the committed store. */
export interface StoreReads {
  readonly people: PeopleReads
  readonly reports: Reports
  readonly alerts: AlertReads
  /** By id or by name. */
  findAccount(idOrName: string): AccountBalance | undefined
  listAccounts(): readonly AccountBalance[]
  /** The oldest first. Of one account at most `MAX_KEYS_LISTED`. */
  listKeys(account?: string): readonly KeySummary[]
  /** Names by id, of those that there are: for lists of what keys have done, which outlive the list of keys. */
  keyNames(ids: readonly string[]): ReadonlyMap<string, string>
  findKey(id: string): KeySummary | undefined
  findReceipt(exchange: string): Receipt | undefined
  /** The periods of an account's budgets that a hold began in, of those that are named. */
  findBudgetUses(account: string, periods: readonly Pick<BudgetUse, 'budget' | 'start'>[]): readonly BudgetUse[]
  /** All of them that contain `nowMs`, those that end first at the beginning. A page may be shorter than its limit. */
  listBudgetUses(account: string, nowMs: number, page: PageQuery): Page<BudgetUse>
  /** Recomputes every balance from the events and reports each broken invariant. */
  verify(onProgress?: (done: number, total: number) => void): VerifyReport
}

export interface Store extends Promised<Omit<StoreReads, 'people' | 'alerts'>> {
  readonly keys: Keys
  readonly accounts: Accounts
  readonly ledger: Ledger
  readonly people: People
  readonly vault: Vault
  readonly responses: Responses
  readonly alerts: Alerts
  /** What replicas share; null where a process has the store for itself, and in its serving threads. */
  readonly replicas: Replicas | null

  createAccount(account: NewAccount): Promise<Account>
  credit(grant: CreditGrant): Promise<CreditResult>
  freeze(idOrName: string, frozen: boolean): Promise<Account>
  setPlan(idOrName: string, plan: string): Promise<Account>
  /** Makes a budget, changes it, or removes it. It counts the holds that begin from now on. */
  setBudget(change: BudgetChange): Promise<void>

  /** `conflict` when the account has as many keys as it may (`MAX_LIVE_KEYS`, `MAX_KEYS_A_DAY`). */
  createKey(key: NewKey): Promise<IssuedKey>
  /** `conflict` when the key was revoked, or when a later expiry makes one live key too many (`MAX_LIVE_KEYS`). */
  changeKey(change: KeyChange): Promise<KeySummary>
  /**
   * A new secret for the same key; the old one works for `graceMs` more, and never beyond the expiry that the key had. At
   * most two live secrets. `expiresAt` is the key's new expiry; left out, it stays. `conflict` when the key was rotated within
   * `BETWEEN_ROTATIONS_MS`, unless it is the playground's own.
   */
  rotateKey(id: string, graceMs: number, expiresAt?: number | null): Promise<IssuedKey>
  revokeKey(id: string): Promise<Key>

  openHolds(): number
  /** Settles that could not be written in time. */
  unwritten(): Unwritten
  /** How writing does, for metrics. */
  writing(): WriterFigures
  /** Of this process's lease; null where it has none. */
  lease(): LeaseFigures | null
  /** Resolves when no charge is in memory only. */
  safe(): Promise<void>
  /** Whether the ledger can be written, as far as is known; asking sets off a look. */
  healthy(): boolean
  /**
   * Finds out whether the ledger can be written, by a write as large as one of an exchange; at most once a second. Resolves
   * when that is known, or when it takes too long. `problem` says the result.
   */
  look(): Promise<void>
  /** Why the ledger cannot be relied on, for /readyz; null when it can. */
  problem(): string | null
  /**
   * Looks whether the files that SQLite writes are still those in the folder. Returns what is wrong, for people; then
   * nothing is written any more. Null when all is well, and for a store in memory. A part of `problem`.
   */
  lostFiles(): string | null
  /** Commits that had been acknowledged and were missing when this store was opened. */
  readonly lostCommits: LostCommits | null
  /** Settles what a dead process left open; once, at start, by the owner of the lock. */
  recover(): Promise<RecoveryReport>
  /** Throws, when all is closed, a `StoreError` when settles were lost. */
  close(): Promise<void>
}

/** Commits that were acknowledged and are not in the ledger, from the first one to the last. */
export interface LostCommits {
  readonly from: number
  readonly to: number
  /** When the last of them was acknowledged, in milliseconds since the epoch. */
  readonly at: number
}
