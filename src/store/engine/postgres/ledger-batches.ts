/**
 * The ledger's operations of a whole group as one statement (`write_many` in the schema), for a server that is a way off. What
 * is not plain is done by the operation itself (ledger.ts), in its place in the order. A group of nothing else goes with its
 * BEGIN and its COMMIT, so that there is one way to the server and back for all of it.
 */
import type { Checkpoint, Clock, HoldResult, NanoUsd } from '#contract'
import {
  type Field,
  HOLD_AT,
  HOLD_FIELDS,
  type HoldRecord,
  SETTLE_AT,
  SETTLE_FIELDS,
  type SettleRecord,
} from '../../money/ledger-fields.ts'
import type { OpenHolds } from '../../money/open-holds.ts'
import type { UsageWriter, Used } from '../../money/usage.ts'
import type { Database } from '../database.ts'
import { PostgresError } from './blocking-io.ts'
import { WRITE_LOCK } from './postgres-schema.ts'

/** As it waits in a group: one of the ledger's by name, or any other. */
export interface NamedOperation {
  readonly name: string
  readonly request: unknown
}

export interface BatchParts {
  readonly open: OpenHolds
  readonly usage: UsageWriter
  readonly clock: Clock
}

/** One thing that `write_many` does, as it takes it, and what to do when it was done. */
interface Line {
  readonly index: number
  readonly fields: Readonly<Record<string, unknown>>
}

interface Done {
  /** Of a hold that was refused. */
  readonly refusal: 'account' | 'key' | 'frozen' | 'unknown_account' | null
  readonly available: NanoUsd | null
  readonly on_hold: NanoUsd | null
}

type DoneOf = Done & Used

/** How often keys or accounts were changed, in `meta`; and the channel on which a change is told. */
export const KEY_CHANGES = 'key_changes'
/** What a key may do is read again after these. */
const CHANGES_KEYS: ReadonlySet<string> = new Set(['changeKey', 'rotateKey', 'revokeKey', 'freeze', 'setPlan'])
/** These write what only their replica does. */
export const OF_REPLICA = ['renewLease', 'takeOver', 'forgetReplica', 'publishView', 'probe', 'detach', 'last'] as const
const IS_OF_REPLICA: ReadonlySet<string> = new Set(OF_REPLICA)

const isBatched = ({ name }: NamedOperation): boolean => name === 'hold' || name === 'settle' || name === 'checkpoint'

/** A group that goes to the server with its COMMIT. */
interface Unanswered {
  readonly operations: readonly NamedOperation[]
  readonly lines: readonly Line[]
  readonly rows: () => unknown[]
  readonly results: unknown[]
}

/** So many open holds are remembered: of a settle of another one the database is asked whose it is. */
const MAX_KNOWN = 65_536
/** SQLSTATE classes behind which nobody knows whether a COMMIT was done. */
const IN_DOUBT = /^(?:08|57|58|XX)/

export class LedgerBatches {
  readonly #parts: BatchParts
  readonly #apply: (operation: NamedOperation) => unknown
  readonly #statements: ReturnType<typeof prepare>
  /** Whose the holds are that this process has made. */
  readonly #known = new Map<string, Used>()
  /** What the transaction does to them; null: its hold is settled. */
  readonly #changes = new Map<string, Used | null>()
  /** They have been in a group that was not plain: the next time each is done where its turn is. */
  readonly #tried = new WeakSet<NamedOperation>()
  #unanswered: Unanswered | null = null

  /** @param apply does one operation by itself; its answer may be a refusal, after which the transaction goes on */
  constructor(database: Database, parts: BatchParts, apply: (operation: NamedOperation) => unknown) {
    this.#parts = parts
    this.#apply = apply
    this.#statements = prepare(database)
  }

  /** Does a group in its order. The results are there after `committed` at the latest. */
  applyAll(operations: readonly NamedOperation[]): unknown[] {
    const results: unknown[] = new Array(operations.length).fill(undefined)
    if (operations.every(operation => this.#isPlain(operation))) this.#sendWithCommit(operations, results)
    else this.#applyInTurn(operations, results)
    return results
  }

  /** Whether the server has said that it has undone the transaction. Then each operation is to be done where its turn is. */
  isUndone(error: unknown): boolean {
    if (this.#unanswered === null || !(error instanceof PostgresError)) return false
    // A server that ends, or has lost its disk, may have committed before.
    if (!error.open || error.code === null || IN_DOUBT.test(error.code)) return false
    for (const operation of this.#unanswered.operations) this.#tried.add(operation)
    return true
  }

  committed(): void {
    if (this.#unanswered !== null) this.#readAnswer(this.#unanswered)
    this.#unanswered = null
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    for (const [exchange, used] of this.#changes) {
      if (used === null) this.#known.delete(exchange)
      else this.#known.set(exchange, used)
    }
    this.#changes.clear()
  }

  /** All in order once more: before COMMIT nobody knew which holds would be refused. */
  #readAnswer({ operations, lines, rows, results }: Unanswered): void {
    for (const [place, row] of (rows() as Done[]).entries()) {
      const { index } = lines[place]!
      const { name, request } = operations[index]!
      if (name === 'hold' && row.refusal === null) this.#opened(request as HoldRecord)
      else if (name !== 'checkpoint') this.#closed((request as HoldRecord | SettleRecord)[SETTLE_AT.exchange])
      results[index] = resultOf(name, row)
    }
  }

  rolledBack(): void {
    this.#changes.clear()
    this.#unanswered = null
  }

  /** Only the ledger's operations are, and a settle when it is known whose it is. */
  #isPlain(operation: NamedOperation): boolean {
    if (!isBatched(operation) || this.#tried.has(operation)) return false
    return operation.name !== 'settle' || this.#known.has((operation.request as SettleRecord)[SETTLE_AT.exchange])
  }

  #sendWithCommit(operations: readonly NamedOperation[], results: unknown[]): void {
    const now = this.#parts.clock.now()
    const lines = operations.flatMap(linesOf)
    const rows = this.#statements.writeAll.laterAll!(jsonOf(lines), now)
    this.#unanswered = { operations, lines, rows, results }
    for (const { name, request } of operations) {
      if (name === 'hold') this.#opened(request as HoldRecord)
      else if (name === 'settle') {
        const settle = request as SettleRecord
        this.#settled(settle, this.#known.get(settle[SETTLE_AT.exchange])!, now)
      }
    }
  }

  #applyInTurn(operations: readonly NamedOperation[], results: unknown[]): void {
    const { lock, tell } = this.#statements
    // Before anything else is locked, so that no two wait for each other.
    if (operations.some(operation => !isBatched(operation) && !IS_OF_REPLICA.has(operation.name))) lock.get(WRITE_LOCK)
    if (operations.some(({ name }) => CHANGES_KEYS.has(name))) tell.get()
    for (let index = 0; index < operations.length; ) {
      let end = index
      while (end < operations.length && isBatched(operations[end]!)) end++
      if (end > index) index = this.#writeFrom(operations, index, end, results)
      if (index === operations.length) break
      // Another one than the ledger's, or one that is refused or repeated.
      results[index] = this.#apply(operations[index]!)
      index++
    }
  }

  #opened([exchange, account, , key, model]: HoldRecord): void {
    this.#parts.open.opened(exchange)
    this.#changes.set(exchange, { account, key, model })
  }

  #closed(exchange: string): void {
    this.#changes.set(exchange, null)
    this.#parts.open.closed(exchange)
  }

  #settled(settle: SettleRecord, used: Used, now: number): void {
    this.#closed(settle[SETTLE_AT.exchange])
    this.#parts.usage.add(used, settle, now)
  }

  /** From one place on, as far as it goes; the index of the first operation that is not done. */
  #writeFrom(operations: readonly NamedOperation[], first: number, end: number, results: unknown[]): number {
    const now = this.#parts.clock.now()
    const lines = operations.slice(first, end).flatMap((operation, index) => linesOf(operation, first + index))
    const done = this.#statements.write.all(jsonOf(lines), now) as unknown as DoneOf[]
    for (const [place, row] of done.entries()) this.#take(operations, lines[place]!.index, row, now, results)
    return done.length === lines.length ? end : lines[done.length]!.index
  }

  #take(operations: readonly NamedOperation[], index: number, row: DoneOf, now: number, results: unknown[]): void {
    const { name, request } = operations[index]!
    if (row.refusal !== null) this.#closed((request as HoldRecord)[HOLD_AT.exchange])
    else if (name === 'hold') this.#opened(request as HoldRecord)
    else if (name === 'settle') this.#settled(request as SettleRecord, row, now)
    results[index] = resultOf(name, row)
  }
}

function resultOf(name: string, row: Done): unknown {
  if (name === 'hold') return holdResult(row)
  return name === 'settle' ? 'settled' : undefined
}

function holdResult({ refusal, available, on_hold: onHold }: Done): HoldResult {
  if (refusal === null) return { held: true, available: available! }
  if (refusal === 'frozen' || refusal === 'unknown_account') return { held: false, reason: refusal }
  return { held: false, reason: 'short', of: refusal, available: available!, onHold: onHold! }
}

function prepare(database: Database) {
  return {
    write: database.prepareMoney('SELECT * FROM write_many(CAST(? AS JSON), ?)'),
    writeAll: database.prepareMoney('SELECT * FROM write_all(CAST(? AS JSON), ?)'),
    // One writer at a time, as in SQLite: these operations look before they write.
    lock: database.prepare('SELECT pg_advisory_xact_lock(?)'),
    tell: database.prepare(`
      INSERT INTO meta (name, value) VALUES ('${KEY_CHANGES}', '1')
      ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
      RETURNING pg_notify('${KEY_CHANGES}', '')`),
  }
}

function jsonOf(lines: readonly Line[]): string {
  return JSON.stringify(
    lines.map(line => line.fields),
    text,
  )
}

/** 64 bits are more than a number of JSON has. */
function text(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function linesOf({ name, request }: NamedOperation, index: number): Line[] {
  if (name === 'hold') return [{ index, fields: fieldsOf(0, HOLD_FIELDS, request as HoldRecord) }]
  if (name === 'settle') return [{ index, fields: fieldsOf(1, SETTLE_FIELDS, request as SettleRecord) }]
  return (request as readonly Checkpoint[]).map(({ exchange, amount, promptTokens, completionTokens }) => ({
    index,
    fields: { what: 2, exchange, amount, prompt_tokens: promptTokens, completion_tokens: completionTokens },
  }))
}

function fieldsOf(what: number, fields: readonly Field<never>[], record: readonly unknown[]) {
  const line: Record<string, unknown> = { what }
  for (const [at, { column }] of fields.entries()) line[column === 'id' ? 'exchange' : column] = record[at]
  return line
}
