/** Sessions of people at the dashboard: rows by the digest of a secret that only the browser has. */
import type { Clock } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { conflict, notFound } from '../mistakes.ts'
import { MAX_SESSION_MS, MAX_SESSIONS, type Session } from './people.ts'

export interface CreateSession {
  readonly digest: Uint8Array
  readonly person: string
  /** The hash of the password that must still be valid; null: any. */
  readonly from: string | null
}

export interface SessionOperations {
  createSession(session: CreateSession): void
  touchSession(digest: Uint8Array): void
  endSession(digest: Uint8Array): void
  endSessions(whose: { readonly person: string; readonly except: Uint8Array | null }): void
}

/** More sessions than a person has: SQLite needs a limit before an offset. */
const MAX_SWEPT = 1_000_000

export function createSessionOperations(database: Database, clock: Clock): SessionOperations {
  const passwordOf = database.prepare('SELECT password FROM person WHERE id = ?')
  const find = database.prepare('SELECT 1 FROM session WHERE digest = ?')
  const put = database.prepare(`
    INSERT INTO session (digest, person, created_at, seen_at) VALUES (?1, ?2, ?3, ?3)`)
  const endOldest = database.prepare(`
    DELETE FROM session WHERE digest IN
      (SELECT digest FROM session WHERE person = ? ORDER BY created_at DESC LIMIT ${MAX_SWEPT} OFFSET ?)`)
  const touch = database.prepare('UPDATE session SET seen_at = ?1 WHERE digest = ?2 AND seen_at < ?1')
  const end = database.prepare('DELETE FROM session WHERE digest = ?')
  const endAll = database.prepare('DELETE FROM session WHERE person = ?')
  const endOthers = database.prepare('DELETE FROM session WHERE person = ? AND digest <> ?')
  const sweep = database.prepare('DELETE FROM session WHERE created_at < ?')
  return {
    createSession({ digest, person, from }) {
      const row = passwordOf.get(person)
      if (row === undefined) throw notFound(`The person ${person} does not exist.`)
      if (find.get(digest) !== undefined) return
      if (from !== null && row['password'] !== from) throw passwordChanged()
      const now = clock.now()
      sweep.run(now - MAX_SESSION_MS)
      endOldest.run(person, MAX_SESSIONS - 1)
      put.run(digest, person, now)
    },
    touchSession: digest => void touch.run(clock.now(), digest),
    endSession: digest => void end.run(digest),
    endSessions: ({ person, except }) => void (except === null ? endAll.run(person) : endOthers.run(person, except)),
  }
}

/** Reads the row each time, so that an ended session is refused from the next request on. */
export function createSessionReader(database: Database): (digest: Uint8Array) => Session | undefined {
  const find = database.prepare('SELECT person, created_at, seen_at FROM session WHERE digest = ?')
  return digest => {
    const row = find.get(digest)
    return row && toSession(row)
  }
}

/** The error for a password that was changed after it was checked. */
export function passwordChanged(): Error {
  return conflict('The password was changed meanwhile. Sign in with the new one.')
}

function toSession(row: Row): Session {
  return {
    personId: row['person'] as string,
    createdAt: row['created_at'] as number,
    seenAt: row['seen_at'] as number,
  }
}
