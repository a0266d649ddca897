/**
 * The audit: recomputes every balance from the events and reports each broken invariant. It reads one snapshot and writes nothing.
 *
 * - I1: available = posted - held is never negative, nor is held
 * - I2: held = the sum of the account's open holds
 * - I3: posted = credits - charges
 * - I4: an exchange ends at most once, and only a settle that recovery wrote is corrected
 * - I5: a charge, with its correction, is at most its hold, and not below 0
 * - I6: every nano-dollar granted is charged to an exchange or still posted to an account
 * - I7: each charge and each checkpoint has a hold (the gateway ensures that the hold is committed before the dispatch)
 * - I8: recovery reaches every open hold (none is older than `open_from`)
 * - I10: refused and released requests cost nothing
 * - I11: usage by hour and by day adds up to the settles, for each account and for all together
 * - I12: the spent and held amounts of a key or a budget are the sums of its exchanges, and within its limit
 * - I13: no acknowledged commit is missing (compared with the count beside the database)
 *
 * I9 (delivered tokens are settled) cannot be checked here: the ledger does not show what was delivered.
 */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import type { VerifyReport, Violation } from '../store.ts'
import { describeLostCommits, readForVerify } from './commit-count.ts'
import { CREDIT, HOLD, SETTLE } from './ledger.ts'
import { readOpenFrom } from './open-holds.ts'
import { ALL, DAYS, HOURS } from './usage.ts'
import { LimitsAudit } from './verify-limits.ts'

interface EventRow {
  readonly id: string
  readonly kind: bigint
  readonly account: string
  readonly amount: NanoUsd
  readonly at: bigint
  readonly source: string | null
  readonly outcome: string | null
  readonly key: string | null
  readonly budgets: string | null
  readonly prompt_tokens: bigint | null
  readonly cached_tokens: bigint | null
  readonly completion_tokens: bigint | null
  readonly reasoning_tokens: bigint | null
  readonly readable: bigint
}

/** A correction of a settle that recovery wrote. */
type CorrectionRow = Omit<EventRow, 'kind' | 'key' | 'budgets'> & { readonly settled_at: bigint }

/** The expected balance and usage of an account, from its events. */
interface Sums {
  credits: NanoUsd
  charges: NanoUsd
  open: NanoUsd
  readonly used: UsedCounts
}

/** Requests, failed requests, prompt, cached, completion and reasoning tokens, and their cost. */
type UsedCounts = [bigint, bigint, bigint, bigint, bigint, bigint, bigint]

const PROGRESS_EVERY = 10_000

/** @param path of the database, whose count of commits is beside it; null: without a count */
export function verify(
  database: Database,
  onProgress: (done: number, total: number) => void = () => {},
  path: string | null = null,
): VerifyReport {
  const audit = createAudit()
  const noted = path === null ? null : readForVerify(path)
  let report = { accounts: 0, events: 0, openHolds: 0 }
  // Inside a transaction of the caller, the audit also sees that transaction's writes.
  const isOwn = !database.inTransaction()
  if (isOwn) database.exec(database.dialect.snapshot)
  try {
    if (database.dialect.engine === 'sqlite') checkFile(database, audit)
    if (noted === 'unreadable')
      audit.found('corrupt', 'commits', 'The count of commits beside the store is unreadable.')
    else if (noted !== null) for (const lost of describeLostCommits(database, noted)) audit.found('I13', 'ledger', lost)
    const journal = readJournal(database, audit, onProgress)
    const accounts = checkAccounts(database, audit, journal.sums)
    checkUsage(database, audit, journal.sums)
    journal.limits.check(database, audit.found)
    checkCheckpoints(database, audit)
    if (database.dialect.engine === 'postgres') checkReplicas(database, audit)
    report = { accounts, events: journal.events, openHolds: journal.openHolds }
  } catch (error) {
    // A damaged page ends the reading; earlier findings still count.
    audit.found('corrupt', 'database', `It cannot be read completely: ${(error as Error).message}.`)
  } finally {
    if (isOwn && database.inTransaction()) database.exec('COMMIT')
  }
  return { ...report, violations: audit.violations }
}

/** Where replicas share the store, recovery finds an open hold by its replica. */
function checkReplicas(database: Database, audit: Audit): void {
  const unseen = database.prepare(`
    SELECT hold.id FROM event AS hold LEFT JOIN replica ON replica.id = hold.replica
    WHERE hold.kind = 0 AND (replica.id IS NULL OR hold.id < replica.open_from)
      AND NOT EXISTS (SELECT 1 FROM event AS settle WHERE settle.id = hold.id AND settle.kind = 1)`)
  for (const { id } of unseen.all())
    audit.found('I8', String(id), 'It is open, but its replica has no row or does not look for it.')
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

/** Runs SQLite's own checks: pages, indexes, column types, CHECKs and foreign keys. */
function checkFile(database: Database, audit: Audit): void {
  for (const row of database.prepare('PRAGMA integrity_check').all()) {
    if (row['integrity_check'] !== 'ok') audit.found('corrupt', 'database', String(row['integrity_check']))
  }
  for (const row of database.prepare('PRAGMA foreign_key_check').all()) {
    audit.found('corrupt', String(row['table']), `A row refers to a missing row of "${row['parent']}".`)
  }
}

/** Reads the events once, in the order of their key: a settle follows its hold. */
function readJournal(database: Database, audit: Audit, onProgress: (done: number, total: number) => void) {
  const total = Number(
    database.prepare(`SELECT count(*) AS count FROM ${database.dialect.only('event')}`).get()?.['count'],
  )
  const openFrom = database.dialect.engine === 'sqlite' ? readOpenFrom(database, null) : ''
  const corrections = readCorrections(database, audit)
  const sums = new Map<string, Sums>()
  const limits = new LimitsAudit()
  let events = 0
  let openHolds = 0
  let hold: EventRow | undefined
  let ended: string | undefined

  function endOfExchange(): void {
    if (hold === undefined || ended === hold.id) return
    openHolds++
    sumsOf(sums, hold.account).open += hold.amount
    limits.addOpenHold(hold)
    if (hold.id < openFrom) audit.found('I8', hold.id, `It is open, but recovery starts at ${openFrom}.`)
  }

  const { isJson } = database.dialect
  const rows = database.prepareMoney(`
    SELECT id, kind, account, amount, at, source, outcome, key, budgets, prompt_tokens, cached_tokens, completion_tokens,
      reasoning_tokens,
      ${isJson('attempts')} AND ${isJson('trail')} AS readable
    FROM ${database.dialect.only('event')} ORDER BY id, kind`)
  for (const event of rows.iterate() as unknown as Iterable<EventRow>) {
    if (hold?.id !== event.id) {
      endOfExchange()
      hold = undefined
    }
    const kind = Number(event.kind)
    if (event.amount < 0n && kind !== CREDIT)
      audit.found('corrupt', event.id, `An event of kind ${kind} has the amount ${event.amount}.`)
    if (event.readable === 0n) audit.found('corrupt', event.id, 'Its attempts or its trail are not JSON.')
    if (kind === CREDIT) sumsOf(sums, event.account).credits += event.amount
    else if (kind === SETTLE) {
      const settle = corrected(audit, event, corrections)
      sumsOf(sums, event.account).charges += settle.amount
      checkSettle(audit, settle, hold, ended === event.id)
      if (ended !== event.id) {
        addUsed(sumsOf(sums, event.account).used, usedBy(settle))
        if (hold !== undefined) limits.addCharge(hold, settle.amount)
      }
      ended = event.id
    } else if (kind !== HOLD) audit.found('corrupt', event.id, `Its kind ${kind} is unknown.`)
    else if (hold !== undefined) audit.found('corrupt', event.id, 'It has two holds.')
    else {
      hold = event
      limits.addHold(event)
    }
    if (++events % PROGRESS_EVERY === 0) onProgress(events, total)
  }
  endOfExchange()
  for (const id of corrections.keys()) audit.found('I4', id, 'It has a correction without a settle.')
  onProgress(events, total)
  return { sums, limits, events, openHolds }
}

function readCorrections(database: Database, audit: Audit): Map<string, CorrectionRow> {
  const { isJson } = database.dialect
  const rows = database.prepareMoney(`
    SELECT id, account, amount, at, settled_at, source, outcome, prompt_tokens, cached_tokens, completion_tokens,
      reasoning_tokens, ${isJson('attempts')} AND ${isJson('trail')} AS readable
    FROM correction`)
  const corrections = rows.all() as unknown as CorrectionRow[]
  for (const { id, readable } of corrections) {
    if (readable === 0n) audit.found('corrupt', id, 'The attempts or the trail of its correction are not JSON.')
  }
  return new Map(corrections.map(each => [each.id, each]))
}

/** The settle with the fields of its correction, which is removed from the map. */
function corrected(audit: Audit, settle: EventRow, corrections: Map<string, CorrectionRow>): EventRow {
  const correction = corrections.get(settle.id)
  if (correction === undefined || !corrections.delete(settle.id)) return settle
  if (settle.source !== 'recovered')
    audit.found('I4', settle.id, `It has a correction, but the source of its settle is ${settle.source}.`)
  if (correction.account !== settle.account) {
    audit.found('I7', settle.id, `It is charged to ${settle.account} and corrected on ${correction.account}.`)
  }
  if (correction.settled_at !== settle.at) {
    audit.found(
      'I11',
      settle.id,
      `The settle time of its correction is ${correction.settled_at}; its settle is from ${settle.at}.`,
    )
  }
  return { ...settle, ...correction, account: settle.account, amount: settle.amount + correction.amount }
}

function checkSettle(audit: Audit, settle: EventRow, hold: EventRow | undefined, again: boolean): void {
  const { id, amount, account, source, outcome } = settle
  if (again) audit.found('I4', id, 'It is settled more than once.')
  if (hold === undefined) audit.found('I7', id, `It is charged ${amount} without a hold.`)
  else if (hold.account !== account) audit.found('I7', id, `It is held on ${hold.account} and charged to ${account}.`)
  if (hold !== undefined && (amount > hold.amount || amount < 0n))
    audit.found('I5', id, `It holds ${hold.amount} and is charged ${amount}.`)
  if (amount !== 0n && (source === 'released' || outcome === 'refused')) {
    audit.found('I10', id, `It was ${outcome} (${source}) and is charged ${amount}.`)
  }
}

/** Compares each account with its events. Returns the number of accounts. */
function checkAccounts(database: Database, audit: Audit, sums: Map<string, Sums>): number {
  const rows = database.prepareMoney('SELECT account, posted, held FROM balance').all()
  let unaccounted = 0n
  for (const row of rows) {
    const [id, posted, held] = [row['account'] as string, row['posted'] as bigint, row['held'] as bigint]
    const { credits, charges, open, used } = sumsOf(sums, id)
    if (posted - held < 0n || held < 0n)
      audit.found('I1', id, `The posted balance is ${posted}, but holds are ${held}.`)
    if (held !== open) audit.found('I2', id, `It holds ${held}; its open holds are ${open}.`)
    if (posted !== credits - charges) {
      audit.found(
        'I3',
        id,
        `The posted balance is ${posted}; credits of ${credits} - charges of ${charges} = ${credits - charges}.`,
      )
    }
    unaccounted -= posted
    sums.set(id, { credits, charges, open, used })
  }
  const known = new Set(rows.map(row => row['account']))
  for (const [id, { credits, charges }] of sums) {
    unaccounted += credits - charges
    if (!known.has(id)) audit.found('I6', id, 'It has events, but the account does not exist.')
  }
  if (unaccounted !== 0n) {
    audit.found('I6', 'ledger', `All grants - all charges - all balances = ${unaccounted}, not 0.`)
  }
  return rows.length
}

/** Compares usage with the settles: of each account by hour and by day, then of all accounts together. */
function checkUsage(database: Database, audit: Audit, sums: Map<string, Sums>): void {
  const found = { [HOURS]: new Map<string, UsedCounts>(), [DAYS]: new Map<string, UsedCounts>() }
  // SQLite sums the rows in the order of the primary key, a third of the time of a loop here. Money in two halves cannot overflow.
  const rows = database.prepareMoney(`
    SELECT account, grain, sum(requests) AS requests, sum(failed) AS failed, sum(prompt_tokens) AS prompt_tokens,
      sum(cached_tokens) AS cached_tokens, sum(completion_tokens) AS completion_tokens,
      sum(reasoning_tokens) AS reasoning_tokens, sum(charged % 1000000000) AS units, sum(charged / 1000000000) AS billions
    FROM usage GROUP BY account, grain`)
  for (const { account, grain, billions, ...counts } of rows.iterate()) {
    const used = Object.values(counts) as UsedCounts
    used[6] += (billions as bigint) * 1_000_000_000n
    found[Number(grain) as typeof HOURS | typeof DAYS].set(account as string, used)
  }
  const all = nothing()
  for (const { used } of sums.values()) addUsed(all, used)
  const expected = new Map([...sums].map(([account, { used }]) => [account, used]))
  expected.set(ALL, all)
  for (const account of new Set([...expected.keys(), ...found[HOURS].keys(), ...found[DAYS].keys()])) {
    for (const grain of [HOURS, DAYS] as const) {
      const [is, should] = [found[grain].get(account) ?? nothing(), expected.get(account) ?? nothing()]
      if (is.every((count, index) => count === should[index])) continue
      audit.found(
        'I11',
        account === ALL ? 'all accounts' : account,
        `Its usage by ${grain === HOURS ? 'hour' : 'day'} adds up to ${sentence(is)}; its settles to ${sentence(should)}.`,
      )
    }
  }
}

function checkCheckpoints(database: Database, audit: Audit): void {
  const orphans = database.prepare(`
    SELECT DISTINCT exchange FROM checkpoint
    WHERE NOT EXISTS (SELECT 1 FROM event WHERE id = checkpoint.exchange AND kind = ${HOLD})`)
  for (const { exchange } of orphans.all()) audit.found('I7', String(exchange), 'It has a checkpoint without a hold.')
}

function sumsOf(sums: Map<string, Sums>, account: string): Sums {
  let found = sums.get(account)
  if (found === undefined) sums.set(account, (found = { credits: 0n, charges: 0n, open: 0n, used: nothing() }))
  return found
}

const nothing = (): UsedCounts => [0n, 0n, 0n, 0n, 0n, 0n, 0n]

function usedBy(settle: EventRow): UsedCounts {
  return [
    1n,
    settle.outcome === 'answered' ? 0n : 1n,
    settle.prompt_tokens ?? 0n,
    settle.cached_tokens ?? 0n,
    settle.completion_tokens ?? 0n,
    settle.reasoning_tokens ?? 0n,
    settle.amount,
  ]
}

function addUsed(sum: UsedCounts, more: UsedCounts): UsedCounts {
  // A counter is faster than entries(), and this runs for every settle of the ledger.
  for (let index = 0; index < sum.length; index++) sum[index] = sum[index]! + more[index]!
  return sum
}

function sentence([requests, failed, prompt, cached, completion, reasoning, charged]: UsedCounts): string {
  return `${requests} requests (${failed} failed), ${prompt} + ${completion} tokens (${cached} cached, ${reasoning} reasoning) and ${charged} charged`
}
