/** The disk of a killed gateway, read between two processes, and the expected work of the next one. */
import { existsSync } from 'node:fs'
import { expect } from 'vitest'
import type { SettleRequest } from '#contract'
import { openDatabase } from '../../src/store/engine/database.ts'
import { createSpool } from '../../src/store/money/spool.ts'
import { verify } from '../../src/store/money/verify.ts'

export interface Exchange {
  readonly id: string
  readonly serial: string
  readonly account: string
  readonly held: bigint
  /** Null while the hold is open. */
  readonly charged: bigint | null
  readonly source: string | null
  readonly outcome: string | null
  readonly completionTokens: number
}

/** The journal as rows, the last checkpoint of each exchange, and the spool. */
export interface Ledger {
  readonly exchanges: ReadonlyMap<string, Exchange>
  readonly bySerial: ReadonlyMap<string, Exchange>
  readonly checkpoints: ReadonlyMap<string, { readonly amount: bigint; readonly completionTokens: number }>
  readonly spooled: ReadonlyMap<string, SettleRequest>
}

/** The expected work of a start: the number of exchanges for each kind of recovery. */
export interface Recovery {
  readonly recovered: number
  readonly atCheckpoint: number
  readonly replayed: number
}

/** Reads the store, and closes it again: the next owner must find it free. */
export function readLedger(path: string): Ledger {
  const database = openDatabase(path, { readOnly: true })
  try {
    const rows = database.prepareMoney(`
      SELECT hold.id, hold.idempotency_key AS serial, hold.account, hold.amount AS held, settle.amount AS charged,
        settle.source, settle.outcome, ifnull(settle.completion_tokens, 0) AS tokens
      FROM event AS hold LEFT JOIN event AS settle ON settle.id = hold.id AND settle.kind = 1
      WHERE hold.kind = 0 ORDER BY hold.id`)
    const exchanges = rows.all().map(({ tokens, ...row }) => ({ ...row, completionTokens: Number(tokens) }) as Exchange)
    const bySerial = new Map(exchanges.map(exchange => [exchange.serial, exchange]))
    expect(bySerial.size, 'no request has two holds').toBe(exchanges.length)
    const reached = database.prepareMoney('SELECT exchange, amount, completion_tokens FROM checkpoint ORDER BY seq')
    return {
      exchanges: new Map(exchanges.map(exchange => [exchange.id, exchange])),
      bySerial,
      checkpoints: new Map(
        reached.all().map(row => {
          const { exchange, amount, completion_tokens: tokens } = row
          return [String(exchange), { amount: amount as bigint, completionTokens: Number(tokens) }]
        }),
      ),
      spooled: readSpool(path),
    }
  } finally {
    database.close()
  }
}

/** The settles in the spool. The first one of each exchange counts. A torn line is ignored. */
function readSpool(path: string): ReadonlyMap<string, SettleRequest> {
  const settles = createSpool(`${path}.spool`)
    .read()
    .flatMap(({ settle }) => (settle ? [settle] : []))
  return new Map(settles.reverse().map(settle => [settle.exchange, settle]))
}

/** The number of exchanges of the running gateway that have a checkpoint or a spooled settle, and are not settled. */
export function lookInto(path: string): { atCheckpoint(): number; spooled(): number; close(): void } {
  const database = openDatabase(path, { readOnly: true })
  const count = database.prepare(`SELECT count(DISTINCT exchange) AS count FROM checkpoint
    WHERE NOT EXISTS (SELECT 1 FROM event WHERE id = exchange AND kind = 1)`)
  return {
    atCheckpoint: () => Number(count.get()?.['count']),
    spooled: () => (existsSync(`${path}.spool`) ? readSpool(path).size : 0),
    close: () => database.close(),
  }
}

/** Every open hold was settled as spooled, else at its checkpoint, else for nothing; the rest is unchanged. */
export function expectRecovered(before: Ledger, after: Ledger): Recovery {
  expect([...after.exchanges.keys()]).toEqual([...before.exchanges.keys()])
  const counted = { recovered: 0, atCheckpoint: 0, replayed: 0 }
  for (const exchange of before.exchanges.values()) {
    const now = after.exchanges.get(exchange.id)!
    if (exchange.charged !== null) {
      // Thousands of them, after every kill: toEqual would be too slow.
      if (textOf(now) !== textOf(exchange)) expect(now).toEqual(exchange)
      continue
    }
    expect(now).toEqual({ ...exchange, ...expectedEnd(exchange, before, counted) })
  }
  return counted
}

function expectedEnd(
  { id }: Exchange,
  { spooled, checkpoints }: Ledger,
  counted: { -readonly [K in keyof Recovery]: number },
) {
  const settle = spooled.get(id)
  if (settle) {
    counted.replayed++
    const { amount: charged, usage, source, outcome } = settle
    return { charged, completionTokens: usage.output ?? 0, source, outcome }
  }
  const reached = checkpoints.get(id)
  counted.recovered++
  if (reached) counted.atCheckpoint++
  return {
    charged: reached?.amount ?? 0n,
    completionTokens: reached?.completionTokens ?? 0,
    source: 'recovered',
    outcome: 'failed',
  }
}

const textOf = ({ id, serial, account, held, charged, source, outcome, completionTokens }: Exchange) =>
  `${id} ${serial} ${account} ${held} ${charged} ${source} ${outcome} ${completionTokens}`

/** I1 to I6 and I8, by the audit and by the test's own sums of grants. */
export function expectBooks(
  path: string,
  ledger: Ledger,
  granted: ReadonlyMap<string, { amount: bigint; times: number }>,
): void {
  const database = openDatabase(path, { readOnly: true })
  try {
    const grants = [...granted.values()].reduce((sum, { times }) => sum + times, 0)
    expect(verify(database)).toEqual({
      accounts: granted.size,
      events: grants + 2 * ledger.exchanges.size,
      openHolds: 0,
      violations: [],
    })
    const spent = new Map<string, bigint>()
    for (const { account, charged } of ledger.exchanges.values()) {
      spent.set(account, (spent.get(account) ?? 0n) + charged!)
    }
    for (const row of database.prepareMoney('SELECT account, posted, held FROM balance').all()) {
      const account = row['account'] as string
      expect(row).toEqual({ account, posted: granted.get(account)!.amount - (spent.get(account) ?? 0n), held: 0n })
    }
  } finally {
    database.close()
  }
}
