/**
 * Bugs in the code that shares a database between processes, each a small careless change. The random play (replica-play.ts) must find
 * every bug. A bug that it does not find shows a gap in the play.
 */
import { readFileSync } from 'node:fs'
import type { Change } from '../simulation/plant.ts'

export interface PlantedBug {
  readonly name: string
  /** The old text occurs exactly once in its file. */
  readonly change: Change
}

const KEEPER = 'src/store/engine/replica-keeper.ts'
const RECOVERY = 'src/store/money/recovery.ts'
const GROUP = 'src/store/engine/group.ts'
const BACKLOG = 'src/store/money/backlog.ts'
const REPLICAS = 'src/store/engine/postgres/replica-writes.ts'
const DATABASE = 'src/store/engine/postgres/postgres-database.ts'

const bug = (name: string, file: string, old: string, changed: string): PlantedBug => ({
  name,
  change: { file, old, new: changed },
})

const MIGRATION = '004-money.sql'

/** A bug in the migration's SQL, such as the function that writes a group. It changes the code that reads the migration. */
function inSql(name: string, old: string, changed: string): PlantedBug {
  const source = readFileSync(
    new URL(`../../src/store/engine/postgres/migrations/${MIGRATION}`, import.meta.url),
    'utf8',
  )
  if (source.split(old).length !== 2) throw new Error(`${MIGRATION} must contain this exactly once: ${old}`)
  const reads = "const [sql, file] = [readFileSync(path, 'utf8'), basename(path)]"
  const written = `.replaceAll(${JSON.stringify(old)}, ${JSON.stringify(changed)})`
  return bug(name, 'src/store/engine/postgres/postgres-schema.ts', reads, reads.replace("'utf8')", `'utf8')${written}`))
}

export const PLANTED: readonly PlantedBug[] = [
  inSql(
    'a hold whose COMMIT was in doubt reserves again',
    'UPDATE balance SET held = held - e.amount WHERE balance.account = e.account;',
    '',
  ),
  inSql(
    'a settle whose COMMIT was in doubt posts again',
    "IF FOUND THEN\n          answer := 'settled';",
    "IF TRUE THEN\n          answer := 'settled';",
  ),
  inSql(
    'a settle that comes after recovery changes nothing',
    "source = 'recovered' AND e.source <> 'recovered'",
    "source = 'recovered' AND FALSE",
  ),
  inSql('a late settle adds all of its amount', 'least(e.amount - s.amount,', 'least(e.amount,'),
  bug(
    'a COMMIT in doubt is reported as not done',
    GROUP,
    'member.uncertain ||= !isRefused(results[index])',
    'member.uncertain = false',
  ),
  bug(
    'recovery charges the whole hold',
    RECOVERY,
    'const reached = checkpoint?.amount ?? 0n',
    'const reached = hold.amount',
  ),
  bug(
    'a dead replica is deleted before its holds are settled',
    KEEPER,
    'const settled = await settleOrphanedHolds({ reads, settle, dead: { replica, lane: null, takenBy: id } })',
    `await writer.op('forgetReplica', replica)
    const settled = await settleOrphanedHolds({ reads, settle, dead: { replica, lane: null, takenBy: id } })`,
  ),
  bug(
    'a replica is taken over before its lease has ended',
    REPLICAS,
    "takeOne('(lease_until < clock_timestamp() OR taken_by = ?1)')",
    "takeOne(`(lease_until < clock_timestamp() + interval '59.9 s' OR taken_by = ?1)`)",
  ),
  bug(
    "a lease is renewed by the process's own clock",
    REPLICAS,
    "renewLease: () => Number(renew.get(self)?.['in_time']) === 1,",
    `renewLease: nowMs => database
      .prepare("UPDATE replica SET lease_until = to_timestamp(? / 1000.0) + interval '60 s' WHERE id = ? AND taken_by IS NULL RETURNING 1 AS one")
      .get(nowMs, self) !== undefined,`,
  ),
  bug('a replica that was kept from writing never writes again', REPLICAS, 'if (!isFenced) return', 'return'),
  bug(
    'a reopened connection does not check the fence',
    DATABASE,
    `this.#openAgain()
      return this.#call(statements)`,
    `this.#openAgain()
      return this.#call(statements.map(each => (/^BEGIN/.test(each.text) ? plain('BEGIN') : each)))`,
  ),
  bug(
    'the spool is emptied before its settles are written',
    RECOVERY,
    `let done = 0
  for (let lines = spool.read(); lines.length > done; lines = spool.read()) {`,
    `let done = 0
  const all = spool.read()
  if (all.length > 0) spool.empty()
  for (let lines = all; lines.length > done; ) {`,
  ),
  bug('a spool that could not be replayed is not tried again', BACKLOG, 'this.#spooled += this.#replaying\n', '\n'),
]
