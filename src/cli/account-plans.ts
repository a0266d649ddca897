/** The plans that accounts have, for `tollgate check`: read beside a gateway that runs, and without touching its store. */
import { existsSync } from 'node:fs'
import { connect } from '../store/engine/database.ts'

/** Null where nothing is known: there is no store yet, it has no accounts, or it cannot be read here. */
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
