/**
 * Gateway keys: made, rotated, revoked, and looked up on every request. What was found is remembered until a key or an
 * account changes: nobody else writes to the store (lock.ts), so a revocation holds from the next request on.
 */
import { hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock, Key, KeyLookup, KeySummary, Keys } from '#contract'
import { text } from './check.ts'
import type { Database, Row } from './database.ts'
import { LONGEST_GRACE_MS, type NewKey, StoreError } from './store.ts'
import { digest, isToken } from './token.ts'

export const KEY_PREFIX = 'key_'
const HOUR_MS = 3_600_000

/** A secret about to be stored; made outside the transaction, so that a repeat finds it. */
interface NewSecret {
  readonly digest: Uint8Array
  readonly last4: string
}

export interface CreateKey extends NewSecret {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly models: readonly string[] | null
  readonly expiresAt: number | null
}

export interface RotateKey extends NewSecret {
  readonly id: string
  readonly graceMs: number
}

export interface KeyOperations {
  createKey(key: CreateKey): Key
  rotateKey(rotation: RotateKey): Key
  revokeKey(id: string): Key
}

export interface KeyReader extends Keys {
  /** Called when a write that can change what a key may do is over, before whoever asked for it is told. */
  forget(): void
  list(account?: string): readonly KeySummary[]
}

const KEY_COLUMNS = 'key.id, key.account, key.name, key.models, key.created_at, key.expires_at, key.revoked_at'

export function createKeyOperations(database: Database, clock: Clock): KeyOperations {
  const find = database.prepare(`SELECT ${KEY_COLUMNS} FROM key WHERE id = ?`)
  const put = database.prepare(
    'INSERT INTO key (id, account, name, models, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)',
  )
  const revoke = database.prepare('UPDATE key SET revoked_at = ? WHERE id = ?')
  const findSecret = database.prepare('SELECT 1 FROM secret WHERE digest = ?')
  const putSecret = database.prepare('INSERT INTO secret (digest, key, last4, created_at) VALUES (?, ?, ?, ?)')
  // The one in use gets its grace; one that was in its grace already is the third, and goes.
  const revokeOldest = database.prepare(
    'UPDATE secret SET revoked_at = ?1 WHERE key = ?2 AND revoked_at IS NULL AND expires_at > ?1',
  )
  const expireCurrent = database.prepare(
    'UPDATE secret SET expires_at = ? WHERE key = ? AND revoked_at IS NULL AND expires_at IS NULL',
  )

  function get(id: string): Key {
    const row = find.get(id)
    if (row === undefined)
      throw new StoreError(
        `There is no key ${JSON.stringify(id)}. A key is named by its id (key_…), which a list of keys shows.`,
      )
    return toKey(row)
  }

  return {
    createKey({ id, account, name, models, expiresAt, digest, last4 }) {
      if (findSecret.get(digest) !== undefined) return get(id)
      const now = clock.now()
      put.run(id, account, name, models && JSON.stringify(models), now, expiresAt)
      putSecret.run(digest, id, last4, now)
      return get(id)
    },
    rotateKey({ id, graceMs, digest, last4 }) {
      const key = get(id)
      if (findSecret.get(digest) !== undefined) return key
      const now = clock.now()
      if (key.revokedAt !== null) throw new StoreError(`The key ${id} was revoked; make a new one.`)
      if (key.expiresAt !== null && key.expiresAt <= now) {
        throw new StoreError(`The key ${id} has expired, and a new secret would not change that; make a new key.`)
      }
      revokeOldest.run(now, id)
      expireCurrent.run(now + graceMs, id)
      putSecret.run(digest, id, last4, now)
      return key
    },
    revokeKey(id) {
      const key = get(id)
      if (key.revokedAt === null) revoke.run(clock.now(), id)
      return get(id)
    },
  }
}

/** What the database said of a token; whether it is too old is asked each time. */
interface KnownSecret {
  readonly isRevoked: boolean
  readonly expiresAt: number | null
  readonly secretExpiresAt: number | null
  readonly live: KeyLookup
}

/** A lookup in the database is 16 us, a tenth of a request. This process alone writes, so it knows when to forget. */
const MOST_KNOWN = 16_384

export function createKeyReader(database: Database, secret: KeyObject, clock: Clock): KeyReader {
  const lookup = database.prepare(`
    SELECT secret.digest, secret.expires_at AS secret_expires_at, secret.revoked_at AS secret_revoked_at, ${KEY_COLUMNS},
      account.name AS account_name, account.plan, balance.frozen, account.created_at AS account_created_at
    FROM secret JOIN key ON key.id = secret.key JOIN account ON account.id = key.account
      JOIN balance ON balance.account = key.account
    WHERE secret.digest = ?`)
  const all = database.prepare(`SELECT ${KEY_COLUMNS} FROM key WHERE account = ?1 OR ?1 IS NULL ORDER BY id`)
  const secrets = database.prepare(`
    SELECT last4, expires_at FROM secret
    WHERE key = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) ORDER BY created_at`)

  function summary(row: Row): KeySummary {
    const live = row['revoked_at'] === null ? secrets.all(row['id']!, clock.now()) : []
    const shown = live.map(secret => ({
      last4: String(secret['last4']),
      expiresAt: secret['expires_at'] as number | null,
    }))
    return { ...toKey(row), secrets: shown }
  }

  /** By the token's hash: what is not found is not kept, or strangers would fill it. */
  const known = new LRUCache<string, KnownSecret>({ max: MOST_KNOWN })

  function read(token: string): KnownSecret | null {
    const presented = digest(secret, token)
    const row = lookup.get(presented)
    if (row === undefined || !timingSafeEqual(row['digest'] as Uint8Array, presented)) return null
    const key = Object.freeze(toKey(row))
    const account = Object.freeze({
      id: row['account'] as string,
      name: row['account_name'] as string,
      plan: row['plan'] as string,
      frozen: row['frozen'] === 1,
      createdAt: row['account_created_at'] as number,
    })
    return {
      isRevoked: row['revoked_at'] !== null || row['secret_revoked_at'] !== null,
      expiresAt: row['expires_at'] as number | null,
      secretExpiresAt: row['secret_expires_at'] as number | null,
      live: Object.freeze({ found: 'live', key, account }),
    }
  }

  return {
    find(token, nowMs): KeyLookup {
      const name = hash('sha256', token, 'base64')
      let entry = known.get(name)
      if (entry === undefined) {
        if (!isToken(token)) return { found: 'malformed' }
        const found = read(token)
        if (found === null) return { found: 'unknown' }
        known.set(name, found)
        entry = found
      }
      if (entry.isRevoked) return { found: 'revoked' }
      if (isPast(entry.expiresAt, nowMs) || isPast(entry.secretExpiresAt, nowMs)) return { found: 'expired' }
      return entry.live
    },
    forget: () => known.clear(),
    list: account => all.all(account ?? null).map(summary),
  }
}

/** A new key's fields, checked. */
export function checkKey({ name, models = null, expiresAt = null }: NewKey, nowMs: number): void {
  text('key', 'name', name)
  for (const model of models ?? []) text('key', 'model', model)
  if (models?.length === 0)
    throw new StoreError('key: an empty list of models allows nothing; leave it out for every one.')
  if (expiresAt !== null && !(Number.isSafeInteger(expiresAt) && expiresAt > nowMs)) {
    throw new StoreError(`key: expiresAt ${expiresAt} is not a time to come, in milliseconds since the epoch.`)
  }
}

export function checkGrace(graceMs: number): void {
  if (Number.isSafeInteger(graceMs) && graceMs >= 0 && graceMs <= LONGEST_GRACE_MS) return
  throw new StoreError(`key: a grace of ${graceMs} ms is not between 0 and ${LONGEST_GRACE_MS / HOUR_MS} hours.`)
}

function isPast(expiresAt: number | null, nowMs: number): boolean {
  return expiresAt !== null && expiresAt <= nowMs
}

function toKey(row: Row): Key {
  return {
    id: row['id'] as string,
    accountId: row['account'] as string,
    name: row['name'] as string,
    models: row['models'] === null ? null : JSON.parse(row['models'] as string),
    createdAt: row['created_at'] as number,
    expiresAt: row['expires_at'] as number | null,
    revokedAt: row['revoked_at'] as number | null,
  }
}
