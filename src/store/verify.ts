/**
 * The audit: recomputes every balance from the journal and names each promise that does not hold. It reads one snapshot
 * and writes nothing.
 *
 *   I1  available = posted - held is never negative, nor is held
 *   I2  held = the sum of the account's open holds
 *   I3  posted = credits - charges
 *   I4  an exchange ends at most once
 *   I5  a charge is at most its hold
 *   I6  every nano-dollar granted is charged to an exchange or still posted to an account
 *   I7  nothing is charged, or counted, without a hold (that the hold came before the dispatch, the gateway sees to)
 *   I8  no open hold is out of recovery's sight (older than `open_from`)
 *   I10 what was refused or released costs nothing
 *
 * I9 (what was delivered is settled) cannot be seen from here: it is about open holds in time, and recovery's work.
 */
import type { NanoUsd } from '#contract'
import type { Database } from './database.ts'
import { CREDIT, HOLD, SETTLE } from './ledger.ts'
import { readOpenFrom } from './open-holds.ts'
import type { VerifyReport, Violation } from './store.ts'

interface EventRow {
  readonly id: string
  readonly kind: bigint
  readonly account: string
  readonly amount: NanoUsd
  readonly source: string | null
  readonly outcome: string | null
  readonly readable: bigint
}

/** What an account should own, by its events. */
interface Sums {
  credits: NanoUsd
  charges: NanoUsd
  open: NanoUsd
}

const PROGRESS_EVERY = 10_000

export function verify(database: Database, onProgress: (done: number, total: number) => void = () => {}): VerifyReport {
  const audit = createAudit()
  let report = { accounts: 0, events: 0, openHolds: 0 }
  database.exec('BEGIN')
  try {
    checkFile(database, audit)
    const journal = readJournal(database, audit, onProgress)
    const accounts = checkAccounts(database, audit, journal.sums)
    checkCheckpoints(database, audit)
    report = { accounts, events: journal.events, openHolds: journal.openHolds }
  } catch (error) {
    // A damaged page ends the reading: what was found until then still counts.
    audit.found('corrupt', 'database', `It cannot be read to its end: ${(error as Error).message}.`)
  } finally {
    if (database.inTransaction()) database.exec('COMMIT')
  }
  return { ...report, violations: audit.violations }
}

type Audit = ReturnType<typeof createAudit>

function createAudit() {
  const violations: Violation[] = []
  return {
    violations,
    found: (invariant: string, subject: string, message: string) =>
      void violations.push({ invariant, subject, message }),
  }
}

/** SQLite's own: pages, indexes, column types and CHECKs; and rows that point at nothing. */
function checkFile(database: Database, audit: Audit): void {
  for (const row of database.prepare('PRAGMA integrity_check').all()) {
    if (row['integrity_check'] !== 'ok') audit.found('corrupt', 'database', String(row['integrity_check']))
  }
  for (const row of database.prepare('PRAGMA foreign_key_check').all()) {
    audit.found('corrupt', String(row['table']), `A row points at a missing row of "${row['parent']}".`)
  }
}

/** Reads the events once, in the order of their key: a hold is followed by its settle. */
function readJournal(database: Database, audit: Audit, onProgress: (done: number, total: number) => void) {
  const total = Number(database.prepare('SELECT count(*) AS count FROM event').get()?.['count'])
  const openFrom = readOpenFrom(database)
  const sums = new Map<string, Sums>()
  let events = 0
  let openHolds = 0
  let hold: EventRow | undefined
  let ended: string | undefined

  function endOfExchange(): void {
    if (hold === undefined || ended === hold.id) return
    openHolds++
    sumsOf(sums, hold.account).open += hold.amount
    if (hold.id < openFrom) audit.found('I8', hold.id, `It is open, and recovery looks from ${openFrom} on.`)
  }

  const rows = database.prepareMoney(`
    SELECT id, kind, account, amount, source, outcome,
      ifnull(json_valid(attempts), 1) AND ifnull(json_valid(trail), 1) AS readable
    FROM event ORDER BY id, kind`)
  for (const event of rows.iterate() as unknown as Iterable<EventRow>) {
    if (hold?.id !== event.id) {
      endOfExchange()
      hold = undefined
    }
    const kind = Number(event.kind)
    if (event.amount < 0n) audit.found('corrupt', event.id, `An event of kind ${kind} has the amount ${event.amount}.`)
    if (event.readable === 0n) audit.found('corrupt', event.id, 'Its attempts or its trail are not JSON.')
    if (kind === CREDIT) sumsOf(sums, event.account).credits += event.amount
    else if (kind === SETTLE) {
      sumsOf(sums, event.account).charges += event.amount
      checkSettle(audit, event, hold, ended === event.id)
      ended = event.id
    } else if (kind !== HOLD) audit.found('corrupt', event.id, `There are no events of kind ${kind}.`)
    else if (hold !== undefined) audit.found('corrupt', event.id, 'It is held twice.')
    else hold = event
    if (++events % PROGRESS_EVERY === 0) onProgress(events, total)
  }
  endOfExchange()
  onProgress(events, total)
  return { sums, events, openHolds }
}

function checkSettle(audit: Audit, settle: EventRow, hold: EventRow | undefined, again: boolean): void {
  const { id, amount, account, source, outcome } = settle
  if (again) audit.found('I4', id, 'It is settled more than once.')
  if (hold === undefined) audit.found('I7', id, `It is charged ${amount} without a hold.`)
  else if (hold.account !== account) audit.found('I7', id, `It is held on ${hold.account} and charged to ${account}.`)
  if (hold !== undefined && amount > hold.amount)
    audit.found('I5', id, `It holds ${hold.amount} and is charged ${amount}.`)
  if (amount !== 0n && (source === 'released' || outcome === 'refused')) {
    audit.found('I10', id, `It was ${outcome} (${source}) and is charged ${amount}.`)
  }
}

/** Compares each account with its events. Returns how many there are. */
function checkAccounts(database: Database, audit: Audit, sums: Map<string, Sums>): number {
  const rows = database.prepareMoney('SELECT account, posted, held FROM balance').all()
  let unaccounted = 0n
  for (const row of rows) {
    const [id, posted, held] = [row['account'] as string, row['posted'] as bigint, row['held'] as bigint]
    const { credits, charges, open } = sumsOf(sums, id)
    if (posted - held < 0n || held < 0n) audit.found('I1', id, `It has posted ${posted} and holds ${held}.`)
    if (held !== open) audit.found('I2', id, `It holds ${held}; its open holds are ${open}.`)
    if (posted !== credits - charges) {
      audit.found(
        'I3',
        id,
        `It has posted ${posted}; its credits of ${credits} less charges of ${charges} are not that.`,
      )
    }
    unaccounted -= posted
    sums.set(id, { credits, charges, open })
  }
  const known = new Set(rows.map(row => row['account']))
  for (const [id, { credits, charges }] of sums) {
    unaccounted += credits - charges
    if (!known.has(id)) audit.found('I6', id, 'It has events, and there is no such account.')
  }
  if (unaccounted !== 0n) {
    audit.found('I6', 'ledger', `All grants less all charges less all balances are ${unaccounted}, not 0.`)
  }
  return rows.length
}

function checkCheckpoints(database: Database, audit: Audit): void {
  const orphans = database.prepare(`
    SELECT DISTINCT exchange FROM checkpoint
    WHERE NOT EXISTS (SELECT 1 FROM event WHERE id = checkpoint.exchange AND kind = ${HOLD})`)
  for (const { exchange } of orphans.all()) audit.found('I7', String(exchange), 'It has a checkpoint without a hold.')
}

function sumsOf(sums: Map<string, Sums>, account: string): Sums {
  let found = sums.get(account)
  if (found === undefined) sums.set(account, (found = { credits: 0n, charges: 0n, open: 0n }))
  return found
}
