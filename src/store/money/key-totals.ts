/**
 * What each key has spent and holds, beside what it may: written by the ledger in the transaction of a hold and of its
 * settle. A key without a row has done nothing yet and has no cap.
 */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { LARGEST } from './ledger-fields.ts'

/** What a key may spend, has spent, and holds. */
export interface KeyTotal {
  readonly cap: NanoUsd | null
  readonly held: NanoUsd
  readonly spent: NanoUsd
}

export interface KeyTotals {
  /** False, and nothing is changed, when the key's cap does not allow so much more. */
  reserve(key: string, amount: NanoUsd, nowMs: number): boolean
  /** Takes a `reserve` back. */
  unreserve(key: string, amount: NanoUsd): void
  /** @param charged below 0: an amount that is given back */
  settle(key: string, held: NanoUsd, charged: NanoUsd): void
  /** The rest of its cap, 0 at least; null without a cap. Locks the row until COMMIT. */
  free(key: string): NanoUsd | null
  find(key: string): KeyTotal
  setCap(key: string, cap: NanoUsd | null): void
}

const NOTHING: KeyTotal = { cap: null, held: 0n, spent: 0n }

export function createKeyTotals(database: Database): KeyTotals {
  // The condition is the lock, as that of the balance is.
  const reserve = database.prepare(`
    INSERT INTO key_total (key, held, requests, last_used_at) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT (key) DO UPDATE
    SET held = key_total.held + excluded.held, requests = key_total.requests + 1, last_used_at = excluded.last_used_at
    WHERE key_total.cap IS NULL OR key_total.spent + key_total.held + excluded.held <= key_total.cap`)
  const unreserve = database.prepare('UPDATE key_total SET held = held - ?, requests = requests - 1 WHERE key = ?')
  const settle = database.prepare(`
    UPDATE key_total SET held = held - ?1,
      spent = CASE WHEN spent - ${LARGEST} + ?2 > 0 THEN ${LARGEST} ELSE spent + ?2 END
    WHERE key = ?3`)
  const lock = database.prepare('UPDATE key_total SET spent = spent WHERE key = ?')
  const find = database.prepareMoney('SELECT cap, held, spent FROM key_total WHERE key = ?')
  const setCap = database.prepare(`
    INSERT INTO key_total (key, cap, ceiling) VALUES (?1, ?2, ?2)
    ON CONFLICT (key) DO UPDATE SET cap = excluded.cap,
      ceiling = CASE WHEN excluded.cap < key_total.spent + key_total.held THEN key_total.spent + key_total.held ELSE excluded.cap END`)
  return {
    reserve: (key, amount, nowMs) => reserve.run(key, amount, nowMs).changes !== 0,
    unreserve: (key, amount) => void unreserve.run(amount, key),
    settle: (key, held, charged) => void settle.run(held, charged, key),
    free(key) {
      lock.run(key)
      const { cap, spent, held } = (find.get(key) as KeyTotal | undefined) ?? NOTHING
      if (cap === null) return null
      return cap > spent + held ? cap - spent - held : 0n
    },
    find: key => (find.get(key) as KeyTotal | undefined) ?? NOTHING,
    setCap: (key, cap) => void setCap.run(key, cap),
  }
}
