/** The ledger as a reader of the database sees it, with SQL of the simulation's own. */
import type { Database, Statement } from '../../src/store/engine/database.ts'
import { readSpool } from './disk.ts'
import type { Place } from './engines.ts'

export interface HoldRow {
  readonly id: string
  readonly account: string
  readonly amount: bigint
  readonly cap_tokens: bigint
  readonly idempotency_key: string
}

export interface SettleRow {
  readonly id: string
  readonly amount: bigint
  readonly source: string
  readonly outcome: string
  readonly completion_tokens: bigint
}

export interface CheckpointRow {
  readonly amount: bigint
  readonly completion_tokens: bigint
  readonly at: bigint
}

export class Books {
  readonly #place: Place
  readonly #database: Database
  #isClosed = false
  readonly #dispatchable: Statement
  readonly #settled: Statement
  readonly #wrong: Statement

  constructor(place: Place) {
    this.#place = place
    this.#database = place.connect()
    this.#dispatchable = this.#prepare(
      'SELECT amount FROM event h WHERE id = ? AND kind = 0 AND NOT EXISTS (SELECT 1 FROM event s WHERE s.id = h.id AND s.kind = 1)',
    )
    this.#settled = this.#prepare(
      'SELECT id, amount, source, outcome, completion_tokens FROM event WHERE id = ? AND kind = 1',
    )
    this.#wrong = this.#prepare(`
      SELECT account, posted, held FROM balance WHERE posted < 0 OR held < 0 OR posted - held < 0`)
  }

  /** The amount of an exchange's committed, open hold. */
  openHold(exchange: string): bigint | undefined {
    return this.#dispatchable.get(exchange)?.['amount'] as bigint | undefined
  }

  settle(exchange: string): SettleRow | undefined {
    return this.#settled.get(exchange) as unknown as SettleRow | undefined
  }

  /** The settle of an exchange, which may be in the spool only: the spool is on disk too. */
  durableSettle(exchange: string): Pick<SettleRow, 'amount' | 'outcome'> | undefined {
    const spooled = () => readSpool(this.#place.beside).find(({ settle }) => settle?.exchange === exchange)?.settle
    return this.settle(exchange) ?? spooled()
  }

  /** Describes an account with an impossible balance; undefined if all balances are possible. */
  wrongBalance(): string | undefined {
    if (this.#isClosed) return undefined
    const row = this.#wrong.get()
    return row && `${row['account']} has posted ${row['posted']} and holds ${row['held']}`
  }

  holds(): HoldRow[] {
    return this.#prepare(
      'SELECT id, account, amount, cap_tokens, idempotency_key FROM event WHERE kind = 0 ORDER BY id',
    ).all() as unknown as HoldRow[]
  }

  settles(): SettleRow[] {
    return this.#prepare(
      'SELECT id, amount, source, outcome, completion_tokens FROM event WHERE kind = 1',
    ).all() as unknown as SettleRow[]
  }

  /** In the order of writing. */
  checkpoints(exchange: string): CheckpointRow[] {
    return this.#prepare('SELECT amount, completion_tokens, at FROM checkpoint WHERE exchange = ? ORDER BY seq').all(
      exchange,
    ) as unknown as CheckpointRow[]
  }

  /** The balance of each account, and the balance by its events. */
  balances(): { account: string; posted: bigint; held: bigint; owed: bigint; open: bigint; credits: bigint }[] {
    return this.#prepare(`
      SELECT account, posted, held,
        (SELECT coalesce(sum(amount), 0) FROM event e WHERE e.account = b.account AND kind = 2) AS credits,
        (SELECT coalesce(sum(CASE kind WHEN 2 THEN amount WHEN 1 THEN -amount ELSE 0 END), 0) FROM event e WHERE e.account = b.account) AS owed,
        (SELECT coalesce(sum(CASE kind WHEN 0 THEN amount ELSE 0 END), 0) FROM event e WHERE e.account = b.account
          AND NOT EXISTS (SELECT 1 FROM event s WHERE s.id = e.id AND s.kind = 1)) AS open
      FROM balance b`).all() as never
  }

  close(): void {
    if (!this.#isClosed) this.#database.close()
    this.#isClosed = true
  }

  #prepare(sql: string): Statement {
    return this.#database.prepareMoney(sql)
  }
}
