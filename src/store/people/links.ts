/** One-time links: invitations, and links to choose a new password. */
import type { Clock, NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { StoreError } from '../error.ts'
import { noAccount, notFound } from '../mistakes.ts'
import type { Creators } from './creators.ts'
import type { Link, NewLink } from './people.ts'

export const LINK_PREFIX = 'lnk_'

export interface CreateLink extends NewLink {
  readonly id: string
  readonly digest: Uint8Array
}

export interface LinkOperations {
  createLink(link: CreateLink): void
  revokeLink(id: string): void
}

/** Operations on links within the transaction of an operation on people. */
export interface PersonLinks {
  /** Throws `link_invalid` unless the link still works, or was used by this same use. */
  find(digest: Uint8Array, kind: Link['kind'], use: string): Link
  /** Marks it as used. */
  use(id: string, use: string): void
  /** Ends the links that set this person's password. */
  endResets(person: string): void
  /** Ends the links that this person or token made. */
  endMadeBy(maker: string): void
  /** Deletes the links of this person. */
  forget(person: string): void
}

export interface LinkReader {
  get(id: string): Link | undefined
  /** Finds a link that still works. */
  find(digest: Uint8Array): Link | undefined
  list(): readonly Link[]
}

const COLUMNS = 'id, kind, role, account, plan, credit, email, person, created_at, expires_at, created_by'

/** How long an expired link is kept, so that a repeated operation still finds it. */
const KEPT_MS = 3_600_000

export function createLinkOperations(
  database: Database,
  clock: Clock,
  creators: Creators,
): LinkOperations & PersonLinks {
  const findId = database.prepare('SELECT ended_at FROM link WHERE id = ?')
  const findDigest = database.prepareMoney(`SELECT ${COLUMNS}, ended_at, used_by FROM link WHERE digest = ?`)
  const isAccount = database.prepare('SELECT 1 FROM account WHERE id = ?')
  const emailOf = database.prepare('SELECT email FROM person WHERE id = ?')
  const sweep = database.prepare('DELETE FROM link WHERE expires_at < ?')
  const put = database.prepare(`
    INSERT INTO link (id, kind, role, account, plan, credit, email, person, created_at, expires_at, created_by, digest)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const end = database.prepare('UPDATE link SET ended_at = ? WHERE id = ? AND ended_at IS NULL')
  const use = database.prepare('UPDATE link SET ended_at = ?, used_by = ? WHERE id = ?')
  const endResets = database.prepare('UPDATE link SET ended_at = ? WHERE person = ? AND ended_at IS NULL')
  const endMadeBy = database.prepare('UPDATE link SET ended_at = ? WHERE created_by = ? AND ended_at IS NULL')
  const forget = database.prepare('DELETE FROM link WHERE person = ?')

  function addressOf(person: string): string {
    const row = emailOf.get(person)
    if (row === undefined) throw notFound(`The person ${person} does not exist.`)
    return row['email'] as string
  }

  return {
    createLink({ id, digest, kind, role, accountId, plan, credit, email, personId, expiresAt, createdBy }) {
      if (findId.get(id) !== undefined) return
      creators.check(createdBy)
      const now = clock.now()
      sweep.run(now - KEPT_MS)
      if (accountId !== null && isAccount.get(accountId) === undefined) throw noAccount(accountId)
      const address = personId === null ? email : addressOf(personId)
      put.run(id, kind, role, accountId, plan, credit, address, personId, now, expiresAt, createdBy, digest)
    },
    revokeLink(id) {
      if (findId.get(id) === undefined) throw notFound(`The link ${JSON.stringify(id)} does not exist.`)
      end.run(clock.now(), id)
    },
    find(digest, kind, by) {
      const row = findDigest.get(digest)
      const works = row !== undefined && row['kind'] === kind && (isAlive(row, clock.now()) || row['used_by'] === by)
      if (works) return toLink(row)
      throw new StoreError('This link does not work: it was used, was revoked or has expired. Ask for a new one.', {
        code: 'link_invalid',
      })
    },
    use: (id, by) => void use.run(clock.now(), by, id),
    endResets: person => void endResets.run(clock.now(), person),
    endMadeBy: maker => void endMadeBy.run(clock.now(), maker),
    forget: person => void forget.run(person),
  }
}

export function createLinkReader(database: Database, clock: Clock): LinkReader {
  const byId = database.prepareMoney(`SELECT ${COLUMNS} FROM link WHERE id = ?`)
  const byDigest = database.prepareMoney(`SELECT ${COLUMNS}, ended_at FROM link WHERE digest = ?`)
  const all = database.prepareMoney(`
    SELECT ${COLUMNS}, ended_at FROM link WHERE expires_at > ? AND ended_at IS NULL ORDER BY created_at DESC, id DESC`)
  return {
    get(id) {
      const row = byId.get(id)
      return row && toLink(row)
    },
    find(digest) {
      const row = byDigest.get(digest)
      return row && isAlive(row, clock.now()) ? toLink(row) : undefined
    },
    list: () => all.all(clock.now()).map(toLink),
  }
}

function isAlive(row: Row, nowMs: number): boolean {
  return row['ended_at'] === null && Number(row['expires_at']) > nowMs
}

function toLink(row: Row): Link {
  return {
    id: row['id'] as string,
    kind: row['kind'] as Link['kind'],
    role: row['role'] as Link['role'],
    accountId: row['account'] as string | null,
    plan: row['plan'] as string | null,
    credit: row['credit'] as NanoUsd,
    email: row['email'] as string | null,
    personId: row['person'] as string | null,
    createdAt: Number(row['created_at']),
    expiresAt: Number(row['expires_at']),
    createdBy: row['created_by'] as string,
  }
}
