/** Lists keys. Dead keys and dead secrets are kept for ever, so the list of an account reads only those that it shows. */
import type { Clock, KeyPurpose, KeySummary, NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { MAX_KEYS_LISTED } from '../store.ts'
import { KEY_COLUMNS, toKey } from './keys.ts'

export interface KeyLister {
  /** Oldest first; for one account at most `MAX_KEYS_LISTED`. */
  list(account?: string): readonly KeySummary[]
  summary(id: string): KeySummary | undefined
  names(ids: readonly string[]): ReadonlyMap<string, string>
}

export function createKeyLister(database: Database, clock: Clock): KeyLister {
  const select = `SELECT ${KEY_COLUMNS}, key.purpose FROM key`
  const all = database.prepare(`${select} ORDER BY id`)
  // The playground's own key is first, so that the limit never hides it from the playground.
  const live = database.prepare(`
    SELECT * FROM (
      ${select} WHERE account = ?1 AND revoked_at IS NULL AND expires_at IS NULL
      UNION ALL ${select} WHERE account = ?1 AND revoked_at IS NULL AND expires_at > ?2
    ) AS living ORDER BY purpose IS NULL, id DESC LIMIT ?3`)
  const dead = database.prepare(`
    ${select} WHERE account = ?1 AND (revoked_at IS NOT NULL OR expires_at <= ?2) ORDER BY id DESC LIMIT ?3`)
  const byId = database.prepare(`${select} WHERE id = ?`)
  const alive = `
    SELECT secret.key, last4, expires_at, created_at FROM secret
    WHERE ${database.dialect.isListed('secret.key', '?1')} AND revoked_at IS NULL`
  const secrets = database.prepare(`
    SELECT * FROM (${alive} AND expires_at > ?2 UNION ALL ${alive} AND expires_at IS NULL) AS living
    ORDER BY expires_at IS NULL, created_at`)
  const totals = database.prepareMoney(`
    SELECT key_total.key, cap, spent, requests, last_used_at
    FROM key_total WHERE ${database.dialect.isListed('key_total.key', '?')}`)
  const named = database.prepare(`SELECT key.id, name FROM key WHERE ${database.dialect.isListed('key.id', '?')}`)

  function rowsOf(account: string): Row[] {
    const found = live.all(account, clock.now(), MAX_KEYS_LISTED)
    found.push(...dead.all(account, clock.now(), MAX_KEYS_LISTED - found.length))
    return found.sort((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1))
  }

  function summaries(rows: readonly Row[]): readonly KeySummary[] {
    const [notRevoked, ids] = [rows.filter(row => row['revoked_at'] === null).map(idOf), rows.map(idOf)]
    const secretsOf = Map.groupBy(secrets.all(JSON.stringify(notRevoked), clock.now()), row => row['key'])
    const totalOf = new Map(totals.all(JSON.stringify(ids)).map(row => [row['key'], row]))
    return rows.map(row => toSummary(row, secretsOf.get(row['id']) ?? [], totalOf.get(row['id'])))
  }

  return {
    list: account => summaries(account === undefined ? all.all() : rowsOf(account)),
    summary(id) {
      const row = byId.get(id)
      return row && summaries([row])[0]
    },
    names: ids => new Map(named.all(JSON.stringify(ids)).map(row => [idOf(row), row['name'] as string])),
  }
}

function toSummary(row: Row, secrets: readonly Row[], used: Row | undefined): KeySummary {
  const shown = secrets.map(secret => ({
    last4: String(secret['last4']),
    expiresAt: secret['expires_at'] as number | null,
  }))
  return {
    ...toKey(row),
    secrets: shown,
    spendingCap: (used?.['cap'] ?? null) as NanoUsd | null,
    spent: (used?.['spent'] ?? 0n) as NanoUsd,
    requests: Number(used?.['requests'] ?? 0),
    lastUsedAt: used?.['last_used_at'] == null ? null : Number(used['last_used_at']),
    purpose: row['purpose'] as KeyPurpose | null,
  }
}

const idOf = (row: Row) => row['id'] as string
