/** The service for replicas: the writer writes views and shared tries, and a reader reads views. */
import type { KeyObject } from 'node:crypto'
import { digest } from '../people/token.ts'
import type { Promised } from '../promised.ts'
import type { Writer } from '../writer.ts'
import type { Database, Statement } from './database.ts'
import { HAS_RECENT_LEASE } from './postgres/replica-writes.ts'
import type { ReplicaReads, Replicas, SharedTry, TryRow } from './replicas.ts'

export function createReplicaReads(reader: Database): ReplicaReads {
  // Prepared once, because the server keeps a statement as long as its connection. Prepared late, because SQLite has no such table.
  let found: Statement | null = null
  return {
    views(except) {
      found ??= reader.prepare(`
        SELECT id, host, view FROM replica_view JOIN replica ON id = replica
        WHERE id <> ? AND ${HAS_RECENT_LEASE} AND taken_by IS NULL ORDER BY id`)
      return found
        .all(except)
        .map(({ id, host, view }) => ({ name: nameOf(String(host), Number(id)), view: String(view) }))
    },
  }
}

/** Several replicas may run on one machine. */
const nameOf = (host: string, id: number): string => `${host} (${id})`

export interface ReplicasParts {
  readonly id: number
  readonly host: string
  readonly writer: Writer
  readonly reads: ReplicaReads | Promised<ReplicaReads>
  readonly hmacKey: KeyObject
}

export function createReplicas({ id, host, writer, reads, hmacKey }: ReplicasParts): Replicas {
  const rows = (tries: readonly SharedTry[]): TryRow[] =>
    tries.map(({ name, rule, subject }) => ({ name, rule, subject: digest(hmacKey, `try:${name}:${subject}`) }))
  return {
    name: nameOf(host, id),
    publish: view => writer.op('publishView', view),
    others: async () => reads.views(id),
    countTries: tries => writer.op('countTries', rows(tries)),
    takeTriesBack: (tries, counted) => writer.op('takeTriesBack', { tries: rows(tries), counted }),
  }
}
