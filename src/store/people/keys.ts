/**
 * Creates, changes, rotates and revokes gateway keys, and finds the key of each request (key-list.ts lists keys). A lookup is cached until
 * a key or an account changes. In SQLite a revocation applies from the next request on. In PostgreSQL other replicas learn of it from an
 * announcement or a check each second (key-changes.ts).
 */
import { hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { Clock, Key, KeyLookup, KeyPurpose, Keys, NanoUsd } from '#contract'
import { boundedMap } from '../../common/bounded.ts'
import type { Database, Row } from '../engine/database.ts'
import { conflict, invalid, notFound } from '../mistakes.ts'
import { createCapSetter } from '../money/budgets.ts'
import { checkMoney, checkText } from '../money/preconditions.ts'
import {
  BETWEEN_ROTATIONS_MS,
  type KeyChange,
  MAX_GRACE_MS,
  MAX_KEYS_A_DAY,
  MAX_LIVE_KEYS,
  type NewKey,
} from '../store.ts'
import { createAccountFinder } from './accounts.ts'
import { readBudgets } from './budgets-column.ts'
import { digest, isToken } from './token.ts'

export const KEY_PREFIX = 'key_'
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** A new secret. It is made outside the transaction, so that a repeat finds it. */
interface NewSecret {
  readonly digest: Uint8Array
  readonly last4: string
}

export interface CreateKey extends NewSecret {
  readonly id: string
  /** An id or a name. */
  readonly account: string
  readonly name: string
  readonly models: readonly string[] | null
  readonly expiresAt: number | null
  readonly spendingCap: NanoUsd | null
  readonly purpose: KeyPurpose | null
}

export interface RotateKey extends NewSecret {
  readonly id: string
  readonly graceMs: number
  /** Undefined: unchanged. */
  readonly expiresAt: number | null | undefined
}

export interface KeyOperations {
  createKey(key: CreateKey): Key
  changeKey(change: KeyChange): Key
  rotateKey(rotation: RotateKey): Key
  revokeKey(id: string): Key
}

/** Finds a key by its token, in a database here or on another machine. */
export type FindSecret = (token: string) => SecretRecord | null | Promise<SecretRecord | null>

export interface KeyReader extends Keys {
  /** Drops cached lookups. Called after a write that can change what a key may do, and before that write resolves. */
  forget(): void
}

/** Columns for `toKey`. */
export const KEY_COLUMNS =
  'key.id, key.account, key.name, key.models, key.created_at, key.expires_at, key.revoked_at, key.budgets'

export function createKeyOperations(database: Database, clock: Clock): KeyOperations {
  const statements = prepare(database)
  const idOf = createAccountFinder(database)
  const setCap = createCapSetter(database)

  function get(id: string): Key {
    const row = statements.find.get(id)
    if (row === undefined)
      throw notFound(`The key ${JSON.stringify(id)} does not exist. Use its id (key_…) from a list of keys.`)
    return toKey(row)
  }

  function checkLive(account: string, nowMs: number): void {
    if (Number(statements.live.get(account, nowMs)?.['live']) < MAX_LIVE_KEYS) return
    throw conflict(`The account has the maximum of ${MAX_LIVE_KEYS} live keys. Revoke one first.`)
  }

  function checkRoom(account: string, purpose: KeyPurpose | null, nowMs: number): void {
    if (purpose === null) checkLive(account, nowMs)
    const made = statements.earlier.get(account, MAX_KEYS_A_DAY - 1)
    if (made !== undefined && Number(made['created_at']) > nowMs - DAY_MS) {
      throw conflict(
        `${MAX_KEYS_A_DAY} keys were made for the account within 24 hours, which is the maximum. Try again later.`,
      )
    }
  }

  /** A second rotation at the same time would end the secret in use. The playground's key has only one user. */
  function checkRotationPause(id: string, nowMs: number): void {
    const row = statements.rotatedAt.get(id)
    if (row === undefined || statements.purposeOf.get(id)?.['purpose'] === 'playground') return
    if (Math.abs(nowMs - Number(row['created_at'])) >= BETWEEN_ROTATIONS_MS) return
    throw conflict(
      `The key ${id} was rotated less than a minute ago, perhaps by another person. Use the new secret, or rotate again in a minute: then only the two newest secrets work.`,
    )
  }

  return {
    createKey({ id, account, name, models, expiresAt, spendingCap, purpose, digest, last4 }) {
      if (statements.findSecret.get(digest) !== undefined) return get(id)
      const now = clock.now()
      const owner = idOf(account)
      checkRoom(owner, purpose, now)
      statements.put.run(id, owner, name, models && JSON.stringify(models), now, expiresAt, purpose)
      if (spendingCap !== null) setCap(id, spendingCap)
      statements.putSecret.run(digest, id, last4, now)
      return get(id)
    },
    changeKey({ id, name, models, expiresAt, spendingCap }) {
      const key = get(id)
      const now = clock.now()
      if (key.revokedAt !== null) throw conflict(`The key ${id} was revoked and cannot be changed. Create a new key.`)
      // An expired key does not count as live, and a later expiry makes it live again.
      if (expiresAt !== undefined && isPast(key.expiresAt, now)) checkLive(key.accountId, now)
      if (models !== undefined) statements.limit.run(models && JSON.stringify(models), id)
      if (expiresAt !== undefined) statements.expire.run(expiresAt, id)
      if (name !== undefined) statements.rename.run(name, id)
      if (spendingCap !== undefined) setCap(id, spendingCap)
      return get(id)
    },
    rotateKey({ id, graceMs, expiresAt, digest, last4 }) {
      const key = get(id)
      if (statements.findSecret.get(digest) !== undefined) return key
      const now = clock.now()
      if (key.revokedAt !== null) throw conflict(`The key ${id} was revoked and cannot be rotated. Create a new key.`)
      if (key.expiresAt !== null && key.expiresAt <= now) {
        throw conflict(`The key ${id} has expired and cannot be rotated. Create a new key.`)
      }
      checkRotationPause(id, now)
      statements.revokeOldest.run(now, id)
      // Extending the key extends only its new secret; the previous secret ends by the old expiry at the latest.
      statements.expireCurrent.run(Math.min(now + graceMs, key.expiresAt ?? Number.MAX_SAFE_INTEGER), id)
      statements.putSecret.run(digest, id, last4, now)
      if (expiresAt !== undefined) statements.expire.run(expiresAt, id)
      return get(id)
    },
    revokeKey(id) {
      const key = get(id)
      if (key.revokedAt === null) statements.revoke.run(clock.now(), id)
      return get(id)
    },
  }
}

function prepare(database: Database) {
  return {
    find: database.prepare(`SELECT ${KEY_COLUMNS} FROM key WHERE id = ?`),
    put: database.prepare(
      'INSERT INTO key (id, account, name, models, created_at, expires_at, purpose) VALUES (?, ?, ?, ?, ?, ?, ?)',
    ),
    live: database.prepare(`
      SELECT count(*) AS live FROM key
      WHERE account = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) AND purpose IS NULL`),
    // Ids are ordered by time, so this is the key that was made that many keys ago.
    earlier: database.prepare('SELECT created_at FROM key WHERE account = ? ORDER BY id DESC LIMIT 1 OFFSET ?'),
    rename: database.prepare('UPDATE key SET name = ? WHERE id = ?'),
    limit: database.prepare('UPDATE key SET models = ? WHERE id = ?'),
    expire: database.prepare('UPDATE key SET expires_at = ? WHERE id = ?'),
    revoke: database.prepare('UPDATE key SET revoked_at = ? WHERE id = ?'),
    findSecret: database.prepare('SELECT 1 FROM secret WHERE digest = ?'),
    putSecret: database.prepare('INSERT INTO secret (digest, key, last4, created_at) VALUES (?, ?, ?, ?)'),
    // The current secret if it is not the key's first one: then it was made by a rotation.
    rotatedAt: database.prepare(`
      SELECT created_at FROM secret AS current
      WHERE key = ?1 AND revoked_at IS NULL AND expires_at IS NULL
        AND EXISTS (SELECT 1 FROM secret WHERE key = ?1 AND digest <> current.digest)`),
    purposeOf: database.prepare('SELECT purpose FROM key WHERE id = ?'),
    // Revokes a secret that is already in its grace period. Otherwise the key would have three working secrets after this rotation.
    revokeOldest: database.prepare(
      'UPDATE secret SET revoked_at = ?1 WHERE key = ?2 AND revoked_at IS NULL AND expires_at > ?1',
    ),
    expireCurrent: database.prepare(
      'UPDATE secret SET expires_at = ? WHERE key = ? AND revoked_at IS NULL AND expires_at IS NULL',
    ),
  }
}

/** A secret with its key and account; expiry is checked for each request. */
export interface SecretRecord {
  readonly isKeyRevoked: boolean
  readonly keyExpiresAt: number | null
  /** When this secret stops working; null: when the key does. */
  readonly secretEndsAt: number | null
  readonly live: KeyLookup
}

/** Maximum number of cached lookups. A lookup in the database takes 16 us. */
const MAX_CACHED = 16_384

export function createSecretFinder(database: Database, secret: KeyObject): (token: string) => SecretRecord | null {
  const lookup = database.prepare(`
    SELECT secret.digest, secret.expires_at AS secret_expires_at, secret.revoked_at AS secret_revoked_at, ${KEY_COLUMNS},
      account.name AS account_name, account.plan, account.budgets AS account_budgets, balance.frozen, account.created_at AS account_created_at
    FROM secret JOIN key ON key.id = secret.key JOIN account ON account.id = key.account
      JOIN balance ON balance.account = key.account
    WHERE secret.digest = ?`)

  return token => {
    const presented = digest(secret, token)
    const row = lookup.get(presented)
    if (row === undefined || !timingSafeEqual(row['digest'] as Uint8Array, presented)) return null
    const key = Object.freeze(toKey(row))
    const budgets = readBudgets(row['account_budgets'], 'account')
    const account = Object.freeze({
      ...(budgets && { budgets }),
      id: row['account'] as string,
      name: row['account_name'] as string,
      plan: row['plan'] as string,
      frozen: row['frozen'] === 1,
      createdAt: row['account_created_at'] as number,
    })
    return {
      isKeyRevoked: row['revoked_at'] !== null,
      keyExpiresAt: row['expires_at'] as number | null,
      // A second rotation ends it before its grace period does.
      secretEndsAt: (row['secret_revoked_at'] ?? row['secret_expires_at']) as number | null,
      live: Object.freeze({ found: 'live', key, account }),
    }
  }
}

/** Counts changes of keys and accounts, in memory that all threads of the process share. After a change each thread drops its cache. */
export type KeyVersion = Int32Array<SharedArrayBuffer>

export const createKeyVersion = (): KeyVersion => new Int32Array(new SharedArrayBuffer(4))

/** @param read if it returns a promise, `find` returns one too, unless the token is cached */
export function createKeyReader(read: FindSecret, version: KeyVersion, mostCached: number = MAX_CACHED): KeyReader {
  /** By the token's hash. Unknown tokens are not cached, because anyone could fill the cache with them. */
  const cached = boundedMap<SecretRecord>(mostCached)
  /** The version of the cached secrets. */
  let cachedVersion = Atomics.load(version, 0)

  function lookupOf(entry: SecretRecord, nowMs: number): KeyLookup {
    if (entry.isKeyRevoked) return { found: 'revoked' }
    if (isPast(entry.keyExpiresAt, nowMs)) return { found: 'expired' }
    if (isPast(entry.secretEndsAt, nowMs)) return { found: 'rotated' }
    return entry.live
  }

  function remember(name: string, found: SecretRecord | null, nowMs: number): KeyLookup {
    if (found === null) return { found: 'unknown' }
    cached.set(name, found)
    return lookupOf(found, nowMs)
  }

  /** @param before the version before the read began */
  async function rememberLater(
    name: string,
    reading: Promise<SecretRecord | null>,
    before: number,
    nowMs: number,
  ): Promise<KeyLookup> {
    const found = await reading
    // A read that began before a change is not cached.
    if (Atomics.load(version, 0) !== before) return found === null ? { found: 'unknown' } : lookupOf(found, nowMs)
    return remember(name, found, nowMs)
  }

  return {
    find(token, nowMs) {
      const now = Atomics.load(version, 0)
      if (now !== cachedVersion) {
        cached.clear()
        cachedVersion = now
      }
      const name = hash('sha256', token, 'base64')
      const entry = cached.get(name)
      if (entry !== undefined) return lookupOf(entry, nowMs)
      if (!isToken(token)) return { found: 'malformed' }
      const found = read(token)
      return found instanceof Promise ? rememberLater(name, found, now, nowMs) : remember(name, found, nowMs)
    },
    forget: () => void Atomics.add(version, 0, 1),
  }
}

export function checkKey({ name, models = null, expiresAt = null, spendingCap }: NewKey, nowMs: number): void {
  checkText('key', 'name', name)
  checkModels(models)
  checkExpiry(expiresAt, nowMs)
  checkCap(spendingCap)
}

export function checkKeyChange({ name, models, expiresAt, spendingCap }: KeyChange, nowMs: number): void {
  if (name !== undefined) checkText('key', 'name', name)
  checkModels(models)
  checkExpiry(expiresAt, nowMs)
  checkCap(spendingCap)
}

function checkModels(models: readonly string[] | null | undefined): void {
  for (const model of models ?? []) checkText('key', 'model', model)
  if (models?.length === 0)
    throw invalid('key: the list of models is empty, so it allows nothing; leave it out to allow every model.')
}

/** Null means never. */
export function checkExpiry(expiresAt: number | null | undefined, nowMs: number): void {
  if (expiresAt == null || (Number.isSafeInteger(expiresAt) && expiresAt > nowMs)) return
  throw invalid(`key: expiresAt ${expiresAt} is not in the future; expected milliseconds since the epoch.`)
}

function checkCap(spendingCap: NanoUsd | null | undefined): void {
  if (spendingCap != null) checkMoney('key', 'spendingCap', spendingCap)
}

export function checkGrace(graceMs: number): void {
  if (Number.isSafeInteger(graceMs) && graceMs >= 0 && graceMs <= MAX_GRACE_MS) return
  throw invalid(`key: the grace period of ${graceMs} ms is not between 0 and ${MAX_GRACE_MS / HOUR_MS} hours.`)
}

function isPast(expiresAt: number | null, nowMs: number): boolean {
  return expiresAt !== null && expiresAt <= nowMs
}

/** Converts a row with `KEY_COLUMNS`. */
export function toKey(row: Row): Key {
  const budgets = readBudgets(row['budgets'], 'key')
  return {
    ...(budgets && { budgets }),
    id: row['id'] as string,
    accountId: row['account'] as string,
    name: row['name'] as string,
    models: row['models'] === null ? null : JSON.parse(row['models'] as string),
    createdAt: row['created_at'] as number,
    expiresAt: row['expires_at'] as number | null,
    revokedAt: row['revoked_at'] as number | null,
  }
}
