/**
 * Replicas: several processes write to one database, each with a lease. A process takes over the holds of a replica whose lease has
 * ended. The replica writes nothing until that is done (`fence` in the schema).
 */

import type { OpenHolds } from '../../money/open-holds.ts'
import type { Database } from '../database.ts'
import { connectionName } from './postgres-database.ts'

const LEASE = "clock_timestamp() + interval '60 s'"
/** A replica that renewed its lease within 15 s; a living one does so every 10 s. */
export const HAS_RECENT_LEASE = "lease_until > clock_timestamp() + interval '45 s'"
/** The lease of a replica that has shut down: the others need not wait. */
const LEFT = "'-infinity'"
/** Sorts after all ids, so recovery finds no hold until the replica's first hold lowers `open_from`. */
const NOTHING_OPEN = '~'
const FENCED = 'TG001'

export interface ReplicaOperations {
  /** Renews the lease. Returns whether it was in time: at most 15 s after the last one. */
  renewLease(nowMs: number): boolean
  /**
   * Takes over a replica, so that its holds can be settled. Returns its number, or null.
   * @param which a replica whose lease has ended, one that has shut down, or the number of one whose process is dead
   */
  takeOver(which: 'ended' | 'left' | number): number | null
  /** Deletes a replica after its holds were settled. */
  forgetReplica(id: number): void
  /** Replaces the view that this replica shows to the others. */
  publishView(view: string): void
}

/** Without replicas, the owner of the lock is the only writer. */
export const NO_REPLICAS: ReplicaOperations = {
  renewLease: () => true,
  takeOver: () => null,
  forgetReplica() {},
  publishView() {},
}

/** A replica's name for people. */
export interface ReplicaName {
  readonly host: string
  readonly version: string
}

/** Identifies a process. Another database may have the same number, but not with the same start in microseconds. */
export interface ReplicaRow {
  readonly id: number
  /** Microseconds since 1970, by the database's clock. */
  readonly startedAt: number
}

const STARTED_AT = 'CAST(extract(epoch FROM started_at) * 1000000 AS BIGINT)'

/** Adds a replica, with a number that this database has never used. */
export function registerReplica(database: Database, { host, version }: ReplicaName): ReplicaRow {
  const added = database.prepare(
    `INSERT INTO replica (host, version, lease_until, open_from) VALUES (?, ?, ${LEASE}, ?)
     RETURNING id, ${STARTED_AT} AS started_at`,
  )
  const row = added.get(host, version, NOTHING_OPEN)!
  return { id: Number(row['id']), startedAt: Number(row['started_at']) }
}

/** Whether this database still has the replica's row. */
export function isReplica(database: Database, { id, startedAt }: ReplicaRow): boolean {
  return database.prepare(`SELECT 1 FROM replica WHERE id = ? AND ${STARTED_AT} = ?`).get(id, startedAt) !== undefined
}

/** @param self the number of this replica */
export function createReplicaOperations(database: Database, self: number): ReplicaOperations {
  const renew = database.prepare(`
    UPDATE replica SET lease_until = ${LEASE}
    FROM (SELECT id AS own, CAST(${HAS_RECENT_LEASE} AS INTEGER) AS in_time FROM replica WHERE id = ?) AS before
    WHERE id = own AND taken_by IS NULL
    RETURNING in_time`)
  const takeOne = (until: string) =>
    database.prepare(`
      UPDATE replica SET taken_by = ?1, lease_until = ${LEASE}
      WHERE id = (SELECT id FROM replica WHERE ${until} AND id <> ?1 ORDER BY id LIMIT 1 FOR UPDATE)
      RETURNING id`)
  // Includes one that this replica has started to take over.
  const takeEnded = takeOne('(lease_until < clock_timestamp() OR taken_by = ?1)')
  const takeLeft = takeOne(`lease_until = ${LEFT}`)
  // The process is dead if it has no connection. One that only lost its lock on the folder still has one.
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

/** The name in `meta` of a replica's probe. Each has its own, so that probes do not wait for each other. */
export const probeName = (replica: number): string => `probe ${replica}`

/** Prevents a replica from writing after it was taken over. */
export interface Fence {
  /** Begins a transaction as this replica. */
  readonly begin: string
  /** Runs a part of a transaction and records whether the fence refused it. */
  within<Result>(work: () => Result): Result
  /** Call it before a transaction. Adds the replica's row again after its holds were settled. */
  mend(): void
  /** Gives up this replica's lease, so that the others need not wait until it ends. */
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
