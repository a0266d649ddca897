/** Sessions of people at the dashboard: rows by the digest of a secret that only their browser has. */
import type { Clock } from '#contract'
import type { Database, Row } from './database.ts'
import { notFound } from './mistakes.ts'
import { LONGEST_SESSION_MS, type Session } from './people.ts'

export interface SessionOperations {
  createSession(session: { readonly digest: Uint8Array; readonly person: string }): void
  touchSession(digest: Uint8Array): void
  endSession(digest: Uint8Array): void
  endSessions(whose: { readonly person: string; readonly except: Uint8Array | null }): void
}

export function createSessionOperations(database: Database, clock: Clock): SessionOperations {
  const isPerson = database.prepare('SELECT 1 FROM person WHERE id = ?')
  const put = database.prepare(`
    INSERT INTO session (digest, person, created_at, seen_at) VALUES (?1, ?2, ?3, ?3) ON CONFLICT (digest) DO NOTHING`)
  const touch = database.prepare('UPDATE session SET seen_at = max(seen_at, ?) WHERE digest = ?')
  const end = database.prepare('DELETE FROM session WHERE digest = ?')
  // A digest is never empty: with nothing to except, all of them go.
  const endAll = database.prepare("DELETE FROM session WHERE person = ? AND digest <> coalesce(?, x'')")
  const sweep = database.prepare('DELETE FROM session WHERE created_at < ?')
  return {
    createSession({ digest, person }) {
      if (isPerson.get(person) === undefined) throw notFound(`There is no person ${person}.`)
      const now = clock.now()
      sweep.run(now - LONGEST_SESSION_MS)
      put.run(digest, person, now)
    },
    touchSession: digest => void touch.run(clock.now(), digest),
    endSession: digest => void end.run(digest),
    endSessions: ({ person, except }) => void endAll.run(person, except),
  }
}

/** Reads the row each time: an ended session is none from the next request on. */
export function createSessionReader(database: Database): (digest: Uint8Array) => Session | undefined {
  const find = database.prepare('SELECT person, created_at, seen_at FROM session WHERE digest = ?')
  return digest => {
    const row = find.get(digest)
    return row && toSession(row)
  }
}

function toSession(row: Row): Session {
  return {
    personId: row['person'] as string,
    createdAt: row['created_at'] as number,
    seenAt: row['seen_at'] as number,
  }
}
