/** Tokens with which operators' programs call the operators' API: rows by digest, like secrets of gateway keys. */
import type { Clock } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { notFound } from '../mistakes.ts'
import type { Creators } from './creators.ts'
import type { PersonLinks } from './links.ts'
import type { OperatorToken } from './people.ts'

export interface CreateOperatorToken {
  readonly id: string
  readonly digest: Uint8Array
  readonly last4: string
  readonly name: string
  readonly expiresAt: number | null
  readonly createdBy: string
}

export interface OperatorTokenOperations {
  createOperatorToken(token: CreateOperatorToken): OperatorToken
  revokeOperatorToken(id: string): void
}

/** Operations on tokens within the transaction of an operation on people. */
export interface PersonTokens {
  /** Ends the tokens that this person made, and the links that were made with those. */
  endTokensOf(person: string): void
}

/** Operations that the operations on tokens call in their transaction. */
export interface TokenParts {
  readonly creators: Creators
  readonly links: PersonLinks
}

export interface OperatorTokenReader {
  /** Finds a token that still works. */
  find(digest: Uint8Array): OperatorToken | undefined
  /** Finds a token, whether it works or not. */
  get(id: string): OperatorToken | undefined
  /** Tokens that were not revoked, newest first. */
  list(): readonly OperatorToken[]
}

const COLUMNS = 'id, name, last4, created_at, expires_at, created_by'

export function createOperatorTokenOperations(
  database: Database,
  clock: Clock,
  { creators, links }: TokenParts,
): OperatorTokenOperations & PersonTokens {
  const find = database.prepare(`SELECT ${COLUMNS} FROM operator_token WHERE id = ?`)
  const put = database.prepare(`
    INSERT INTO operator_token (id, digest, name, last4, created_at, expires_at, created_by) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const madeBy = database.prepare('SELECT id FROM operator_token WHERE created_by = ? AND revoked_at IS NULL')
  const revoke = database.prepare('UPDATE operator_token SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?')

  function end(id: string): void {
    if (revoke.run(clock.now(), id).changes === 0) throw notFound(`The token ${JSON.stringify(id)} does not exist.`)
    links.endMadeBy(id)
  }

  return {
    createOperatorToken({ id, digest, name, last4, expiresAt, createdBy }) {
      const known = find.get(id)
      if (known !== undefined) return toToken(known)
      creators.check(createdBy)
      put.run(id, digest, name, last4, clock.now(), expiresAt, createdBy)
      return toToken(find.get(id)!)
    },
    revokeOperatorToken: end,
    endTokensOf(person) {
      for (const row of madeBy.all(person)) end(row['id'] as string)
    },
  }
}

export function createOperatorTokenReader(database: Database, clock: Clock): OperatorTokenReader {
  const find = database.prepare(`SELECT ${COLUMNS} FROM operator_token WHERE digest = ? AND revoked_at IS NULL`)
  const byId = database.prepare(`SELECT ${COLUMNS} FROM operator_token WHERE id = ?`)
  const all = database.prepare(`SELECT ${COLUMNS} FROM operator_token WHERE revoked_at IS NULL ORDER BY id DESC`)
  return {
    find(digest) {
      const row = find.get(digest)
      if (row === undefined) return undefined
      const token = toToken(row)
      return token.expiresAt === null || token.expiresAt > clock.now() ? token : undefined
    },
    get(id) {
      const row = byId.get(id)
      return row && toToken(row)
    },
    list: () => all.all().map(toToken),
  }
}

function toToken(row: Row): OperatorToken {
  return {
    id: row['id'] as string,
    name: row['name'] as string,
    last4: row['last4'] as string,
    createdAt: row['created_at'] as number,
    expiresAt: row['expires_at'] as number | null,
    createdBy: row['created_by'] as string,
  }
}
