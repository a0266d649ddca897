/** The whole store, for the gateway, the commands and recovery. Plugins see the narrow services of the contract. */

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
import type { LeaseFigures, UnwrittenSettles, WriterFigures } from './store-figures.ts'

export interface NewAccount {
  readonly name: string
  readonly plan?: string
}

/**
 * A grant of credit, or a removal. The reference makes it idempotent: the same grant again changes nothing and returns `granted: false`.
 */
export interface CreditGrant {
  readonly account: string
  /** Below 0: removes credit, at most the available amount. */
  readonly amount: NanoUsd
  readonly reference: string
  readonly actor: string
  /** Required when credit is removed. */
  readonly note?: string
}

export interface CreditResult {
  readonly granted: boolean
  readonly balance: AccountBalance
}

/** A change of an account's or a key's budget for periods of one length. */
export interface BudgetChange {
  readonly of: 'account' | 'key'
  /** The id or the name of an account, or the id of a key. */
  readonly name: string
  readonly every: Every
  /** Null removes the budget. */
  readonly budget: Pick<Budget, 'amount' | 'zone' | 'at' | 'then'> | null
}

/** The spent and held amounts of a budget in one period. */
export interface BudgetUse {
  /** Its name in `chainOf`. */
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
  /** Spending limit for the key's life; null: only the balance and the budgets of the account limit it. */
  readonly spendingCap?: NanoUsd | null
  readonly purpose?: KeyPurpose | null
}

/** A change of a key. Omitted fields keep their values. */
export interface KeyChange {
  readonly id: string
  readonly name?: string | undefined
  /** Null: every public model. */
  readonly models?: readonly string[] | null | undefined
  /**
   * Milliseconds since the epoch, or null for never. A later time makes an expired key valid again. It does not extend a secret's grace
   * period.
   */
  readonly expiresAt?: number | null | undefined
  /** A cap below the spent and held amounts refuses the next request. Charges do not change. */
  readonly spendingCap?: NanoUsd | null | undefined
}

/** A key with its secret, which is returned only here. */
export interface IssuedKey {
  readonly key: Key
  readonly token: string
}

/** A broken invariant that `verify` reports. */
export interface Violation {
  /** `I1` … `I13`, as in the README's table, or `corrupt`. */
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
  /** Holds of dead processes, settled at their last checkpoint. */
  readonly settled: number
  /** Settles from the spool of a dead process. */
  readonly replayed: number
  readonly charged: NanoUsd
  /** Spooled lines that could not be settled (torn, or above their hold). They are kept beside their spool, in `<spool>.rejected`. */
  readonly rejected: number
}

/** Maximum number of live keys of an account, without the playground's own. */
export const MAX_LIVE_KEYS = 100
/** Maximum number of keys that are made for an account within 24 hours, dead ones included. */
export const MAX_KEYS_A_DAY = 1000
/** Maximum length of the list of an account's keys. Beyond it, dead keys are left out first, then the oldest live ones. */
export const MAX_KEYS_LISTED = 200
/** Minimum time between two rotations of a key. Without it, the second of two simultaneous rotations would end the secret in use. */
export const BETWEEN_ROTATIONS_MS = 60_000

/** Maximum grace period of a rotated secret: 168 hours. */
export const MAX_GRACE_MS = 168 * 3_600_000

/**
 * The disk or the database failed; the caller made no mistake.
 *
 * - `not_written`: rolled back, nothing has changed.
 * - `unknown`: COMMIT reported an error but may have succeeded. Send the operation again with the same id: it is applied once.
 * - `not_read`: a read failed. Earlier writes of the caller are not affected.
 */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
  readonly written: Written

  constructor(written: Written, cause: unknown) {
    const [action, advice] = FAILURES[written]
    super(`The store could not be ${action}: ${(cause as Error).message.replace(/\.$/, '')}. ${advice}`, { cause })
    this.written = written
  }
}

export type Written = 'not_written' | 'unknown' | 'not_read'

const FAILURES: Readonly<Record<Written, readonly [action: string, advice: string]>> = {
  not_written: ['written', 'Nothing was changed.'],
  unknown: ['written', 'It may still have been written.'],
  not_read: ['read', 'If this was a change, check whether it was made before you try again.'],
}

/** Encrypts an account's data under the store's secret. A box is the encrypted data with its salt and its tag. */
export interface Vault {
  /** @param purpose a box of one purpose cannot be opened for another */
  seal(purpose: string, account: string, plain: Uint8Array): Buffer
  /** Null if the box was cut or changed, or belongs to another account, purpose or secret. */
  open(purpose: string, account: string, box: Uint8Array): Buffer | null
  /** The same in slices. */
  openInSlices(purpose: string, account: string, box: Uint8Array): Sliced<Buffer | null>
}

export interface NewResponse {
  readonly id: string
  readonly account: string
  /** Texts by name. Each is encrypted and read separately. */
  readonly parts: Readonly<Record<string, string>>
  readonly keepMs: number
  /** Earlier responses that this one builds on. They are kept as long as this one. */
  readonly used: readonly string[]
  readonly most: {
    /** The limit of one response. */
    readonly responseBytes: number
    /** The limit of all responses of the account. Above it, those that expire first are removed. */
    readonly accountBytes: number
  }
}

export type KeptOutcome = 'kept' | 'too_large' | 'no_room' | 'store_busy'

/** Encrypted responses that clients of one account may refer to until they expire. */
export interface Responses {
  /**
   * Reads one part of a response, in UTF-8. It yields while it decrypts. Undefined if the account has no such response, or if it has
   * expired.
   */
  read(id: string, account: string, part: string): Sliced<Buffer | undefined>
  /**
   * Keeps a response, which can be read from now on. Resolves when it is on disk, or with the reason why it is not kept. Rejects
   * when the store could not be written.
   */
  keep(response: NewResponse): Promise<KeptOutcome>
  /** False if `read` would not find it. */
  remove(id: string, account: string): Promise<boolean>
  /** Removes expired responses, a few in each transaction. */
  sweep(): Promise<void>
}

/** Reads of the committed store. */
export interface StoreReads {
  readonly people: PeopleReads
  readonly reports: Reports
  readonly alerts: AlertReads
  findAccount(idOrName: string): AccountBalance | undefined
  listAccounts(): readonly AccountBalance[]
  /** Oldest first. At most `MAX_KEYS_LISTED` of one account. */
  listKeys(account?: string): readonly KeySummary[]
  /** Names of existing keys by id. Lists of past requests need them, because they outlive the list of keys. */
  keyNames(ids: readonly string[]): ReadonlyMap<string, string>
  findKey(id: string): KeySummary | undefined
  findReceipt(exchange: string): Receipt | undefined
  /** Returns the use of each requested budget period, leaving out periods in which no hold began. */
  findBudgetUses(account: string, periods: readonly Pick<BudgetUse, 'budget' | 'start'>[]): readonly BudgetUse[]
  /** The periods of an account's budgets that contain `nowMs`, ordered by their end. A page may be shorter than its limit. */
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
  /** State that replicas share. Null in serving threads, and where one process owns the store. */
  readonly replicas: Replicas | null

  createAccount(account: NewAccount): Promise<Account>
  credit(grant: CreditGrant): Promise<CreditResult>
  freeze(idOrName: string, frozen: boolean): Promise<Account>
  setPlan(idOrName: string, plan: string): Promise<Account>
  /** Creates, changes or removes a budget. It applies to holds that begin from now on. */
  setBudget(change: BudgetChange): Promise<void>

  /** Throws `conflict` when the account has its maximum of keys (`MAX_LIVE_KEYS`, `MAX_KEYS_A_DAY`). */
  createKey(key: NewKey): Promise<IssuedKey>
  /** Throws `conflict` when the key was revoked, or when a later expiry would exceed `MAX_LIVE_KEYS`. */
  changeKey(change: KeyChange): Promise<KeySummary>
  /**
   * Makes a new secret. The previous secret works for `graceMs` more, at most until the key's old expiry. An even older secret ends now.
   * `conflict` when the key was rotated within `BETWEEN_ROTATIONS_MS`, unless it is the playground's own.
   * @param expiresAt the key's new expiry; left out, it stays
   */
  rotateKey(id: string, graceMs: number, expiresAt?: number | null): Promise<IssuedKey>
  revokeKey(id: string): Promise<Key>

  openHolds(): number
  /** Settles that could not be written in time. */
  unwritten(): UnwrittenSettles
  writing(): WriterFigures
  /** Figures of this process's lease; null without one. */
  lease(): LeaseFigures | null
  /** Resolves when no charge is in memory only. */
  flushed(): Promise<void>
  /** Whether the ledger could be written at the last check. The call also starts a check. */
  healthy(): boolean
  /**
   * Checks whether the ledger can be written, with a write as large as that of an exchange, at most once a second. Resolves when
   * the check ends or takes too long. Then `problem` returns the result.
   */
  look(): Promise<void>
  /** The reason why the ledger cannot be used, for /readyz; null when it can. */
  problem(): string | null
  /**
   * Checks that the folder still has the three files that the gateway opened. Returns a problem as text for people; from then on the
   * store refuses writes. Null without a problem, and for a store that is not a file. `problem()` reports this result too.
   */
  lostFiles(): string | null
  /** Acknowledged commits that were missing when this store was opened. */
  readonly lostCommits: LostCommits | null
  /** Settles the open holds and the spool of a dead process. The owner of the lock calls it once, at the start. */
  recover(): Promise<RecoveryReport>
  /** Throws a `StoreError` after everything is closed if settles were lost. */
  close(): Promise<void>
}

/** Acknowledged commits that the ledger does not have, from the first one to the last. */
export interface LostCommits {
  readonly from: number
  readonly to: number
  /** When the last one was acknowledged, in milliseconds since the epoch. */
  readonly at: number
}
