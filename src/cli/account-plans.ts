/** Reads the plans of the store's accounts for `tollgate check`, also beside a running gateway, without changing the store. */
import { existsSync } from 'node:fs'
import { connect } from '../store/engine/database.ts'

/** Null if the plans are unknown: the store is not an existing SQLite file, has no accounts, or cannot be read. */
export function plansOf(store: string): readonly string[] | null {
  const path = store.replace(/^sqlite:/, '')
  if (store === 'memory' || !existsSync(path)) return null
  try {
    const database = connect(path, { readOnly: true })
    try {
      const rows = database.prepare('SELECT DISTINCT plan FROM account ORDER BY plan').all() as {
        readonly plan: string
      }[]
      return rows.length === 0 ? null : rows.map(({ plan }) => plan)
    } finally {
      database.close()
    }
  } catch {
    return null
  }
}
