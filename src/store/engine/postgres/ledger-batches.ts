/**
 * The ledger's operations of a group as one statement (`write_group` in the schema), for a distant server. If a group has no other
 * operations, it is sent with its BEGIN and its COMMIT in one round trip.
 */
import { type Checkpoint, type Clock, type HoldResult, type NanoUsd, rateOf, type Unit } from '#contract'
import { boundedMap } from '../../../common/bounded.ts'
import { RefusedOperation } from '../../error.ts'
import { invalid } from '../../mistakes.ts'
import { refuseBeyondHold, refuseEnded, refuseMissingAccount, refuseOtherHold } from '../../money/ledger.ts'
import {
  type Field,
  HOLD_FIELDS,
  HOLD_INDEX,
  type HoldRecord,
  priceOf,
  SETTLE_FIELDS,
  type SettleRecord,
} from '../../money/ledger-fields.ts'
import type { OpenHolds } from '../../money/open-holds.ts'
import type { Database } from '../database.ts'
import { WRITE_LOCK } from './postgres-schema.ts'

/** An operation in a group: one of the ledger's, or another one. */
export interface NamedOperation {
  readonly name: string
  readonly request: unknown
}

/** The answer of `write_group` for a line. */
interface Answer {
  readonly answer: string
  readonly available: NanoUsd | null
  readonly on_hold: NanoUsd | null
  readonly account: string | null
  readonly amount: NanoUsd | null
}

/** A statement that was sent, or will be with COMMIT. */
interface SentStatement {
  readonly rows: () => readonly Answer[]
  readonly operations: readonly NamedOperation[]
  /** The index of each line's operation. */
  readonly places: readonly number[]
  readonly results: unknown[]
}

/** The row in `meta` that counts changes of keys and accounts, and the channel that announces each. */
export const KEY_CHANGES = 'key_changes'
/** After these operations, what a key may do is read again. */
const CHANGES_KEYS: ReadonlySet<string> = new Set([
  'changeKey',
  'rotateKey',
  'revokeKey',
  'freeze',
  'setPlan',
  'setBudget',
])
/** These operations need no `WRITE_LOCK`: they write only rows of replicas, views and probes. */
export const OF_REPLICA = ['renewLease', 'takeOver', 'forgetReplica', 'publishView', 'probe', 'detach', 'last'] as const
const IS_OF_REPLICA: ReadonlySet<string> = new Set(OF_REPLICA)

const isBatched = ({ name }: NamedOperation): boolean => name === 'hold' || name === 'settle' || name === 'checkpoint'

export class LedgerBatches {
  readonly #open: OpenHolds
  readonly #clock: Clock
  readonly #apply: (operation: NamedOperation) => unknown
  readonly #statements: ReturnType<typeof prepare>
  #sent: SentStatement[] = []

  /** @param apply runs one operation; if it returns a refusal, the transaction continues */
  constructor(database: Database, open: OpenHolds, clock: Clock, apply: (operation: NamedOperation) => unknown) {
    this.#open = open
    this.#clock = clock
    this.#apply = apply
    this.#statements = prepare(database)
  }

  /** Runs a group in order. The results of the ledger's operations are filled in by `committed`. */
  applyAll(operations: readonly NamedOperation[]): unknown[] {
    const { lock, announce, addUsage } = this.#statements
    const results: unknown[] = new Array(operations.length).fill(undefined)
    const isAll = operations.every(isBatched)
    // Taken before any other lock, to avoid deadlocks.
    if (operations.some(operation => !isBatched(operation) && !IS_OF_REPLICA.has(operation.name))) lock.get(WRITE_LOCK)
    if (operations.some(({ name }) => CHANGES_KEYS.has(name))) announce.get()
    for (let index = 0; index < operations.length; ) {
      const first = index
      while (index < operations.length && isBatched(operations[index]!)) index++
      if (index > first) this.#send(operations, first, index, isAll, results)
      else results[index] = this.#apply(operations[index++]!)
    }
    if (operations.some(({ name }) => name === 'settle')) addUsage.later!()
    return results
  }

  /** Reads the answers of all lines in order. Before COMMIT it was unknown which holds would be refused. */
  committed(): void {
    for (const { rows, operations, places, results } of this.#sent) {
      for (const [line, row] of rows().entries()) {
        const at = places[line]!
        results[at] = this.#resultOf(operations[at]!, row)
      }
    }
    this.#sent = []
  }

  rolledBack(): void {
    this.#sent = []
  }

  #send(operations: readonly NamedOperation[], first: number, end: number, isAll: boolean, results: unknown[]): void {
    const lines: string[] = []
    const places: number[] = []
    for (let at = first; at < end; at++) {
      const added = linesOf(operations[at]!)
      if (added instanceof RefusedOperation) results[at] = added
      else for (const line of added) places[lines.push(line) - 1] = at
      // Holds are recorded before COMMIT, because the commit writes `open_from`. Settles are recorded after COMMIT, because only then is
      // it known whether they ended their holds.
      if (operations[at]!.name === 'hold') this.#open.opened((operations[at]!.request as HoldRecord)[0])
    }
    const { write } = this.#statements
    const values = [`[${lines.join()}]`, this.#clock.now()] as const
    // An error of a deferred statement would be attributed to the next one.
    const found = isAll ? null : write.all(...values)
    const rows = (found === null ? write.laterAll!(...values) : () => found) as unknown as SentStatement['rows']
    this.#sent.push({ rows, operations, places, results })
  }

  #resultOf({ name, request }: NamedOperation, row: Answer): unknown {
    if (name === 'checkpoint') return undefined
    return name === 'hold' ? this.#heldOf(request as HoldRecord, row) : this.#settledOf(request as SettleRecord, row)
  }

  #heldOf(hold: HoldRecord, row: Answer): HoldResult | RefusedOperation {
    const { answer, available, on_hold: onHold } = row
    if (answer === 'held') {
      this.#open.opened(hold[0])
      return { held: true, available: available! }
    }
    if (answer === 'other_open') return refuseOtherHold(hold, row.account!, row.amount!)
    this.#open.closed(hold[0])
    if (answer === 'other') return refuseOtherHold(hold, row.account!, row.amount!)
    if (answer === 'ended') return refuseEnded(hold)
    if (answer === 'frozen' || answer === 'unknown_account') return { held: false, reason: answer }
    const money = { available: available!, onHold: onHold! }
    if (answer === 'budget')
      return { held: false, reason: 'short', of: 'budget', budget: Number(row.account), ...money }
    return { held: false, reason: 'short', of: answer === 'key' ? 'key' : 'account', ...money }
  }

  #settledOf(settle: SettleRecord, { answer, account, amount }: Answer): unknown {
    if (answer === 'beyond') return refuseBeyondHold(settle, amount!)
    if (answer === 'no_account') return refuseMissingAccount(settle, account!)
    this.#open.closed(settle[0])
    return answer
  }
}

function prepare(database: Database) {
  return {
    write: database.prepareMoney('SELECT * FROM write_group(CAST(? AS JSON), ?)'),
    addUsage: database.prepare('SELECT add_usage()'),
    // One writer at a time, as in SQLite: these operations read before they write.
    lock: database.prepare('SELECT pg_advisory_xact_lock(?)'),
    announce: database.prepare(`
      INSERT INTO meta (name, value) VALUES ('${KEY_CHANGES}', '1')
      ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
      RETURNING pg_notify('${KEY_CHANGES}', '')`),
  }
}

function linesOf({ name, request }: NamedOperation): readonly string[] | RefusedOperation {
  if (name === 'hold')
    return lineOf(HOLD_LINE, request as HoldRecord, ratesOf((request as HoldRecord)[HOLD_INDEX.price]))
  if (name === 'settle') return lineOf(SETTLE_LINE, request as SettleRecord)
  return (request as readonly Checkpoint[]).map(({ exchange, amount, usage }) => {
    const tokens = { prompt_tokens: usage.input ?? 0, completion_tokens: usage.output ?? 0 }
    return JSON.stringify({ kind: 3, id: exchange, amount: String(amount), ...tokens })
  })
}

/** The text before each field's value in a line. */
const beforeValues = (kind: number, fields: readonly Field<never>[]): readonly string[] =>
  fields.map(({ column }, at) => `${at === 0 ? `{"kind":${kind}` : ''},"${column}":`)

const HOLD_LINE = beforeValues(0, HOLD_FIELDS)
const SETTLE_LINE = beforeValues(1, SETTLE_FIELDS)

/** A row of the table `event` as JSON. Money is a string, because a JSON number cannot hold 64 bits. */
function lineOf(
  before: readonly string[],
  record: readonly unknown[],
  more = '',
): readonly string[] | RefusedOperation {
  let line = ''
  for (let at = 0; at < before.length; at++) {
    const value = record[at]
    if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
      return new RefusedOperation(
        invalid(
          `${JSON.stringify(value)} cannot be stored in PostgreSQL: it has a NUL character or an unpaired surrogate.`,
        ),
      )
    }
    line += before[at]! + (typeof value === 'bigint' ? `"${value}"` : JSON.stringify(value))
  }
  return [`${line}${more}}`]
}

/** Keyed by the text of a price: holds of a model share one. */
const knownRates = boundedMap<string>(1_000)

/** The columns in which replicas of earlier versions look for the price of a hold: the rates of an ordinary request. */
function ratesOf(text: string): string {
  let rates = knownRates.get(text)
  if (rates === undefined) {
    const price = priceOf(text)
    const columns = { input: 'price_input', cached_input: 'price_cached_input', cache_write: 'price_cache_write' }
    const all = Object.entries({ ...columns, output: 'price_output', request: 'price_request', search: 'price_search' })
    rates = all.map(([unit, column]) => `,"${column}":"${rateOf(price, unit as Unit)}"`).join('')
    knownRates.set(text, rates)
  }
  return rates
}
