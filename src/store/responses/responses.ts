/** The writer's operations on kept responses. */
import type { Database } from '../engine/database.ts'

/** Approximate size of a response without its boxes: a row, its places in three indexes, and a total. */
const ROW_BYTES = 256
/** Approximate size of each box without its content: a row, and its place in an index. */
const BOX_BYTES = 128
/** Limits of one transaction: each page of a removed box is read. */
const MAX_REMOVED = 64
const MAX_REMOVED_BYTES = 4 * 1024 * 1024

export interface KeepResponse {
  readonly id: string
  readonly account: string
  readonly expiresAt: number
  /** By part name. */
  readonly boxes: Readonly<Record<string, Uint8Array>>
  /** The limit of the account's responses, this one included. */
  readonly mostBytes: number
  /** Responses of the account that must live as long as this one. */
  readonly used: readonly string[]
}

export interface ResponseOperations {
  /** `again`: a few other responses were removed, and more must be. `no_room`: it exceeds the account's limit by itself; nothing was changed. */
  keepResponse(response: KeepResponse): 'kept' | 'again' | 'no_room'
  deleteResponse(of: { readonly id: string; readonly account: string }): void
  /** Removes a few expired responses. */
  sweepResponses(nowMs: number): void
}

export function createResponseOperations(database: Database): ResponseOperations {
  const isThere = database.prepare('SELECT 1 FROM response WHERE id = ?')
  const prolong = database.prepare(
    'UPDATE response SET expires_at = ?1 WHERE id = ?2 AND account = ?3 AND expires_at < ?1',
  )
  const total = database.prepare('SELECT bytes FROM response_total WHERE account = ?')
  const oldest = database.prepare('SELECT id, bytes FROM response WHERE account = ? ORDER BY expires_at LIMIT ?')
  const past = database.prepare('SELECT id, bytes FROM response WHERE expires_at <= ? ORDER BY expires_at LIMIT ?')
  const put = database.prepare('INSERT INTO response (id, account, expires_at, bytes) VALUES (?, ?, ?, ?)')
  const putBox = database.prepare('INSERT INTO response_box (response, part, box) VALUES (?, ?, ?)')
  const remove = database.prepare('DELETE FROM response WHERE id = ?')
  const removeOwn = database.prepare('DELETE FROM response WHERE id = ? AND account = ?')

  return {
    keepResponse({ id, account, expiresAt, boxes, mostBytes, used }) {
      if (isThere.get(id) !== undefined) return 'kept'
      const bytes = Object.values(boxes).reduce((sum, box) => sum + box.length + BOX_BYTES, ROW_BYTES)
      if (bytes > mostBytes) return 'no_room'
      for (const each of used) prolong.run(expiresAt, each, account)
      let over = ((total.get(account)?.['bytes'] as number | undefined) ?? 0) + bytes - mostBytes
      const others = over > 0 ? oldest.all(account, MAX_REMOVED) : []
      for (let index = 0; over > 0 && index < others.length; index++) {
        remove.run(others[index]!['id'] as string)
        over -= others[index]!['bytes'] as number
      }
      // Without others to remove, `again` would repeat for ever.
      if (over > 0) return others.length === MAX_REMOVED ? 'again' : 'no_room'
      put.run(id, account, expiresAt, bytes)
      for (const [part, box] of Object.entries(boxes)) putBox.run(id, part, box)
      return 'kept'
    },
    deleteResponse: ({ id, account }) => void removeOwn.run(id, account),
    sweepResponses(nowMs) {
      let bytes = 0
      for (const row of past.all(nowMs, MAX_REMOVED)) {
        remove.run(row['id'] as string)
        bytes += row['bytes'] as number
        if (bytes > MAX_REMOVED_BYTES) return
      }
    },
  }
}
