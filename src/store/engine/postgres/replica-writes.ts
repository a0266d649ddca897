/**
 * Replicas in the database: several processes write to it, each with a lease. Whoever finds one that has ended takes its holds
 * over, and the process that had it writes nothing any more until that is done (`fence` in the schema).
 */

import type { OpenHolds } from '../../money/open-holds.ts'
import type { Database } from '../database.ts'
import { connectionName } from './postgres-database.ts'

/** Of a lease that its replica has just renewed. */
const LEASE = "clock_timestamp() + interval '60 s'"
/** Of a replica that has renewed its lease within 15 s, as one that is alive does every 10 s. */
export const HEARD_OF = "lease_until > clock_timestamp() + interval '45 s'"
/** Of one that has ended by itself: nobody need wait. */
const LEFT = "'-infinity'"
/** After every open hold: the first hold says from where recovery looks. */
const NOTHING_OPEN = '~'
const FENCED = 'TG001'

export interface ReplicaOperations {
  /** Renews the lease. Answers whether it was in time: after the last one, and no more than 15 s later. */
  renewLease(nowMs: number): boolean
  /**
   * Takes over one replica: what it holds is to be settled. Answers with its number, or null when there is none.
   * @param which whose lease has ended, who has left, or the number of one whose process is known to be dead
   */
  takeOver(which: 'ended' | 'left' | number): number | null
  /** Its holds are settled: nothing is left of it. */
  forgetReplica(id: number): void
  /** What it shows to the others, in place of what it has shown before. */
  publishView(view: string): void
}

/** Without replicas there is one owner of the store, and a lock says who it is. */
export const NO_REPLICAS: ReplicaOperations = {
  renewLease: () => true,
  takeOver: () => null,
  forgetReplica() {},
  publishView() {},
}

/** Who a replica is, for people. */
export interface ReplicaName {
  readonly host: string
  readonly version: string
}

/** A process as the database knows it. Another database has the same numbers, but none that began in the same microsecond. */
export interface ReplicaRow {
  readonly id: number
  /** Microseconds since 1970, by the database's clock. */
  readonly startedAt: number
}

const STARTED_AT = 'CAST(extract(epoch FROM started_at) * 1000000 AS BIGINT)'

/** Adds a replica, with a number that no other one of this database ever had. */
export function registerReplica(database: Database, { host, version }: ReplicaName): ReplicaRow {
  const added = database.prepare(
    `INSERT INTO replica (host, version, lease_until, open_from) VALUES (?, ?, ${LEASE}, ?)
     RETURNING id, ${STARTED_AT} AS started_at`,
  )
  const row = added.get(host, version, NOTHING_OPEN)!
  return { id: Number(row['id']), startedAt: Number(row['started_at']) }
}

/** Whether this database still knows it. */
export function isReplica(database: Database, { id, startedAt }: ReplicaRow): boolean {
  return database.prepare(`SELECT 1 FROM replica WHERE id = ? AND ${STARTED_AT} = ?`).get(id, startedAt) !== undefined
}

/** @param self the number of this replica */
export function createReplicaOperations(database: Database, self: number): ReplicaOperations {
  const renew = database.prepare(`
    UPDATE replica SET lease_until = ${LEASE}
    FROM (SELECT id AS own, CAST(${HEARD_OF} AS INTEGER) AS in_time FROM replica WHERE id = ?) AS before
    WHERE id = own AND taken_by IS NULL
    RETURNING in_time`)
  const takeOne = (until: string) =>
    database.prepare(`
      UPDATE replica SET taken_by = ?1, lease_until = ${LEASE}
      WHERE id = (SELECT id FROM replica WHERE ${until} AND id <> ?1 ORDER BY id LIMIT 1 FOR UPDATE)
      RETURNING id`)
  // And one that this replica has begun with.
  const takeEnded = takeOne('(lease_until < clock_timestamp() OR taken_by = ?1)')
  const takeLeft = takeOne(`lease_until = ${LEFT}`)
  // A process that is dead has no connection; one that only lost its lock on the folder would still have it.
  const takeFormer = database.prepare(`
    UPDATE replica SET taken_by = ?, lease_until = ${LEASE}
    WHERE id = ? AND NOT EXISTS (
      SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = ?)
    RETURNING id`)
  const forget = database.prepare('DELETE FROM replica WHERE id = ? AND taken_by = ?')
  const forgetProbe = database.prepare('DELETE FROM meta WHERE name = ?')
  const publish = database.prepare(`
    INSERT INTO replica_view (replica, view) VALUES (?, ?) ON CONFLICT (replica) DO UPDATE SET view = excluded.view`)
  return {
    renewLease: () => Number(renew.get(self)?.['in_time']) === 1,
    takeOver(which) {
      const row =
        typeof which === 'number'
          ? takeFormer.get(self, which, connectionName(which))
          : (which === 'left' ? takeLeft : takeEnded).get(self)
      return row === undefined ? null : Number(row['id'])
    },
    forgetReplica(id) {
      forget.run(id, self)
      forgetProbe.run(probeName(id))
    },
    publishView: view => void publish.run(self, view),
  }
}

/** Under which name in `meta` a replica looks whether it can write: no two of them wait for each other. */
export const probeName = (replica: number): string => `probe ${replica}`

/** Keeps a replica from writing once it was taken over. */
export interface Fence {
  /** Begins a transaction, and says as whom. */
  readonly begin: string
  /** Runs work of a transaction; takes notice when the fence has kept it. */
  within<Result>(work: () => Result): Result
  /** Before a transaction: makes the replica's row anew, when its holds have been settled meanwhile. */
  mend(): void
  /** The end of this replica, after which nothing of it is open: another one need not wait for its lease. */
  leave(): void
}

export function createFence(
  database: Database,
  { id: self, startedAt, ...name }: ReplicaRow & ReplicaName,
  open: OpenHolds,
): Fence {
  const again = database.prepare(`
    INSERT INTO replica (id, started_at, host, version, lease_until, open_from)
    VALUES (?, TIMESTAMPTZ 'epoch' + ? * INTERVAL '1 microsecond', ?, ?, ${LEASE}, '')
    ON CONFLICT (id) DO UPDATE SET taken_by = NULL, lease_until = excluded.lease_until
    WHERE replica.taken_by IS NOT NULL AND replica.lease_until < clock_timestamp()`)
  const remove = database.prepare('DELETE FROM replica WHERE id = ?')
  const end = database.prepare(`UPDATE replica SET lease_until = ${LEFT} WHERE id = ?`)
  let isFenced = false
  return {
    begin: `${database.dialect.begin}; SELECT fence(${self})`,
    within(work) {
      try {
        return work()
      } catch (error) {
        isFenced ||= (error as { readonly code?: unknown }).code === FENCED
        throw error
      }
    },
    mend() {
      if (!isFenced) return
      again.run(self, startedAt, name.host, name.version)
      isFenced = false
      open.lost()
    },
    leave() {
      if (open.count() === 0) remove.run(self)
      else end.run(self)
    },
  }
}
