/**
 * The ledger's operations. Each runs in a transaction of the writer, and returns a result or a refusal that has changed nothing. All may
 * be repeated: a hold, a settle and a grant are found by their ids, and one more checkpoint adds no charge. In PostgreSQL a function
 * does the same for a whole group (ledger-batches.ts); there only `credit` runs here.
 */

import { type Checkpoint, type Clock, formatMoney, type HoldResult, type NanoUsd, type SettleResult } from '#contract'
import type { Database } from '../engine/database.ts'
import { RefusedOperation, StoreError } from '../error.ts'
import { conflict } from '../mistakes.ts'
import { createAccountFinder } from '../people/accounts.ts'
import type { CreditGrant } from '../store.ts'
import type { Balance } from './balances.ts'
import type { BudgetRows } from './budgets.ts'
import { createCorrection } from './corrections.ts'
import type { GroupRows } from './group-rows.ts'
import {
  columnsOf,
  HOLD_FIELDS,
  HOLD_INDEX,
  type HoldRecord,
  LARGEST,
  marksOf,
  SETTLE_FIELDS,
  type SettleRecord,
} from './ledger-fields.ts'
import type { Hold, OpenHolds } from './open-holds.ts'
import type { UsageWriter } from './usage.ts'

/** Values of `kind` in the table `event`. */
export const HOLD = 0
export const SETTLE = 1
export const CREDIT = 2

/** Grants share the table `event` and its primary key with exchanges. */
export const CREDIT_PREFIX = 'credit:'

export interface LedgerParts {
  readonly open: OpenHolds
  readonly usage: UsageWriter
  readonly budgets: BudgetRows
  readonly balances: GroupRows<Balance>
}

export interface LedgerOperations {
  hold(request: HoldRecord): HoldResult | RefusedOperation
  settle(request: SettleRecord): SettleResult | RefusedOperation
  checkpoint(checkpoints: readonly Checkpoint[]): void
  /** Whether this call changed the balance. */
  credit(grant: CreditGrant): boolean
}

// A type, because an interface does not fit a row's index signature.
type AmountOfAccount = {
  readonly account: string
  readonly amount: NanoUsd
}

export function createLedgerOperations(database: Database, given: LedgerParts, clock: Clock): LedgerOperations {
  const idOf = createAccountFinder(database)
  const correct = createCorrection(database, { ...given, clock })
  const parts = { ...given, statements: prepare(database), correct, idOf, clock }
  return { ...createHoldOperation(parts), ...createSettleOperations(parts), ...createCreditOperation(parts) }
}

interface Parts extends LedgerParts {
  readonly statements: ReturnType<typeof prepare>
  readonly correct: ReturnType<typeof createCorrection>
  /** Accepts an id or a name. */
  idOf(account: string): string
  readonly clock: Clock
}

function createHoldOperation({ statements, balances, budgets, open, clock }: Parts): Pick<LedgerOperations, 'hold'> {
  function hold(request: HoldRecord): HoldResult | RefusedOperation {
    const [exchange, account, amount, key, model] = request
    const now = clock.now()
    const balance = balances.find(account)
    const refused = refusedBy(balance, amount) ?? budgets.shortOf(request)
    if (refused !== null) return repeatedHold(request) ?? noHold(request, refused, now)
    if (statements.putHold.run(now, ...request).changes === 0) return repeatedHold(request)!
    balance!.held += amount
    balances.change(account, balance!)
    budgets.reserve(request, now)
    open.opened(exchange, { account, amount, key, model, budgets: request[HOLD_INDEX.budgets] })
    return { held: true, available: available(balance!) }
  }

  /** Repeats the result of the same hold. A settled one is refused: nothing more may be sent upstream for it. */
  function repeatedHold(request: HoldRecord): HoldResult | RefusedOperation | undefined {
    const [exchange, account, amount] = request
    const found = statements.findHold.get(exchange) as Hold | undefined
    if (found === undefined) return undefined
    if (found.account !== account || found.amount !== amount)
      return refuseOtherHold(request, found.account, found.amount)
    if (statements.isSettled.get(exchange) !== undefined) return refuseEnded(request)
    open.opened(exchange, found)
    return { held: true, available: available(balances.find(account)!) }
  }

  function noHold(request: HoldRecord, refused: HoldResult, nowMs: number): HoldResult {
    open.closed(request[HOLD_INDEX.exchange])
    if (!refused.held && refused.reason === 'short') budgets.refused(request, refused, nowMs)
    return refused
  }

  return { hold }
}

const available = ({ posted, held }: Balance): NanoUsd => posted - held

/** The reason why an account cannot hold an amount; null: it can. */
function refusedBy(balance: Balance | undefined, amount: NanoUsd): HoldResult | null {
  if (balance === undefined) return { held: false, reason: 'unknown_account' }
  if (balance.frozen !== 0n) return { held: false, reason: 'frozen' }
  if (available(balance) >= amount) return null
  return { held: false, reason: 'short', of: 'account', available: available(balance), onHold: balance.held }
}

function createSettleOperations(parts: Parts): Pick<LedgerOperations, 'settle' | 'checkpoint'> {
  const { statements, balances, budgets, correct, open, usage, clock } = parts

  function settle(request: SettleRecord): SettleResult | RefusedOperation {
    const [exchange, amount] = request
    const held = open.find(exchange) ?? (statements.findHold.get(exchange) as Hold | undefined)
    if (held !== undefined && amount > held.amount) return refuseBeyondHold(request, held.amount)
    if (held === undefined) {
      open.closed(exchange)
      return 'no_hold'
    }
    const balance = balances.find(held.account)
    if (balance === undefined) return refuseMissingAccount(request, held.account)
    open.closed(exchange)
    // One time for both, so that usage counts in the hour of the event.
    const now = clock.now()
    if (!putSettle(request, held.account, now)) return correct(request, held) ? 'corrected' : 'already_settled'
    balance.held -= held.amount
    balance.posted -= amount
    balances.change(held.account, balance)
    budgets.settle(held, held.amount, amount, now)
    usage.add(held, request, now)
    return 'settled'
  }

  function putSettle(request: SettleRecord, account: string, now: number): boolean {
    return statements.putSettle.run(account, now, ...request).changes !== 0
  }

  /** A checkpoint that finds no open hold is late, because the stream has ended; it adds nothing. */
  function checkpoint(checkpoints: readonly Checkpoint[]): void {
    for (const { exchange, amount, usage: used } of checkpoints) {
      statements.putCheckpoint.run(exchange, amount, used.input ?? 0, used.output ?? 0, clock.now())
    }
  }

  return { settle, checkpoint }
}

function createCreditOperation({ statements, idOf, clock }: Parts): Pick<LedgerOperations, 'credit'> {
  function credit(grant: CreditGrant): boolean {
    const id = CREDIT_PREFIX + grant.reference
    const account = idOf(grant.account)
    const owner = balanceOf(statements, account)
    const found = statements.findCredit.get(id) as AmountOfAccount | undefined
    if (found !== undefined) {
      if (found.account === account && found.amount === grant.amount) return false
      throw conflict(
        `The reference "${grant.reference}" was used for ${inDollars(found.amount)} to ${found.account}. Choose another one.`,
      )
    }
    if (grant.amount > LARGEST - owner.posted) {
      throw conflict(`${account} would own more than ${LARGEST} nano-dollars, the largest balance.`)
    }
    if (statements.grant.run(grant.amount, account).changes === 0) throw tooMuch(account, grant.amount)
    statements.putCredit.run(id, account, grant.amount, clock.now(), grant.actor, grant.note ?? null)
    return true
  }

  function tooMuch(account: string, amount: NanoUsd): StoreError {
    // Read again: holds may have changed.
    const { posted, held } = balanceOf(statements, account)
    const free = inDollars(posted - held)
    return conflict(
      `${inDollars(-amount)} cannot be taken from ${account}: ${free} is available and ${inDollars(held)} is held for requests in progress. Take at most ${free}.`,
    )
  }

  return { credit }
}

// Both engines use these refusals.

export const refuseOtherHold = (
  [exchange, account, amount]: HoldRecord,
  otherAccount: string,
  other: NanoUsd,
): RefusedOperation =>
  refused(
    `${exchange} already has a hold of $${formatMoney(other)} on ${otherAccount}; this one is $${formatMoney(amount)} on ${account}.`,
  )

export const refuseEnded = ([exchange]: HoldRecord): RefusedOperation =>
  refused(`${exchange} is settled; it cannot be held again.`)

export const refuseBeyondHold = ([exchange, amount]: SettleRecord, held: NanoUsd): RefusedOperation =>
  refused(`${exchange} holds $${formatMoney(held)} and cannot be charged $${formatMoney(amount)}.`)

export const refuseMissingAccount = ([exchange]: SettleRecord, account: string): RefusedOperation =>
  refused(`${exchange} is held on ${account}, which does not exist.`)

const refused = (message: string): RefusedOperation => new RefusedOperation(new StoreError(message))

function inDollars(amount: NanoUsd): string {
  return `${amount < 0n ? '-' : ''}$${formatMoney(amount < 0n ? -amount : amount)}`
}

function balanceOf(statements: Parts['statements'], account: string): Pick<Balance, 'posted' | 'held'> {
  return statements.findBalance.get(account) as unknown as Balance
}

function prepare(database: Database) {
  return {
    // INSERT OR IGNORE would also hide every other broken constraint.
    putHold: database.prepare(`
      INSERT INTO event (kind, at, ${columnsOf(HOLD_FIELDS)}) VALUES (${HOLD}, ?, ${marksOf(HOLD_FIELDS)})
      ON CONFLICT (id, kind) DO NOTHING`),
    findHold: database.prepareMoney(`
      SELECT account, amount, key, model, budgets FROM event WHERE id = ? AND kind = ${HOLD}`),
    isSettled: database.prepare(`SELECT 1 FROM event WHERE id = ? AND kind = ${SETTLE}`),
    putSettle: database.prepare(`
      INSERT INTO event (kind, account, at, ${columnsOf(SETTLE_FIELDS)}) VALUES (${SETTLE}, ?, ?, ${marksOf(SETTLE_FIELDS)})
      ON CONFLICT (id, kind) DO NOTHING`),
    putCheckpoint: database.prepare(`
      INSERT INTO checkpoint (exchange, seq, amount, prompt_tokens, completion_tokens, at)
      SELECT CAST(?1 AS TEXT), coalesce((SELECT max(seq) FROM checkpoint WHERE exchange = ?1), 0) + 1, CAST(?2 AS BIGINT),
        CAST(?3 AS BIGINT), CAST(?4 AS BIGINT), CAST(?5 AS BIGINT)
      WHERE EXISTS (SELECT 1 FROM event WHERE id = ?1 AND kind = ${HOLD})
        AND NOT EXISTS (SELECT 1 FROM event WHERE id = ?1 AND kind = ${SETTLE})`),
    findCredit: database.prepareMoney(`SELECT account, amount FROM event WHERE id = ? AND kind = ${CREDIT}`),
    putCredit: database.prepare(`
      INSERT INTO event (id, kind, account, amount, at, actor, note) VALUES (?, ${CREDIT}, ?, ?, ?, ?, ?)`),
    // In PostgreSQL, replicas may add holds concurrently. Instead of a lock, this condition ensures that the balance still covers the
    // held amount.
    grant: database.prepare('UPDATE balance SET posted = posted + ?1 WHERE account = ?2 AND posted - held + ?1 >= 0'),
    findBalance: database.prepareMoney('SELECT posted, held FROM balance WHERE account = ?'),
  }
}
