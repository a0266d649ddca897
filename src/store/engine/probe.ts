/**
 * Checks whether there is space for an exchange by writing a row of its size. After a failure it also writes rows of the ledger and
 * undoes them, because a database may refuse only these.
 */
import { randomBytes } from 'node:crypto'
import { HOLD, SETTLE } from '../money/ledger.ts'
import type { Database } from './database.ts'

export interface Probe {
  /** Call it within a transaction. */
  run(nowMs: number): void
  /** Records a failure. */
  doubt(): void
  /** Writes a small row in place of the last one. */
  empty(nowMs: number): void
}

/** Random bytes of a probe, which it writes as twice as many hex digits: ten pages. Measured: a hold or a settle changes three to ten. */
const PROBE_BYTES = 20 * 1024

/** @param name of the row in `meta` */
export function createProbe(database: Database, name: string): Probe {
  const put = database.prepare(`
    INSERT INTO meta (name, value) VALUES ('${name}', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`)
  const begin = database.prepare('SAVEPOINT probe')
  const putEvent = database.prepare(`INSERT INTO event (id, kind, account, amount, at) VALUES ('${name}', ?, '', 0, ?)`)
  const undo = database.prepare('ROLLBACK TO SAVEPOINT probe')
  let isInDoubt = false
  return {
    run(nowMs) {
      if (isInDoubt) {
        begin.run()
        for (const kind of [HOLD, SETTLE]) putEvent.run(kind, nowMs)
        undo.run()
      }
      isInDoubt = false
      put.run(`${nowMs} ${randomBytes(PROBE_BYTES).toString('hex')}`)
    },
    doubt: () => void (isInDoubt = true),
    empty: nowMs => void put.run(`${nowMs} `),
  }
}
