/** Stores of several processes in one database of PostgreSQL, and its table of replicas. */
import type { StoreOptions } from '../../src/store/engine/sqlite.ts'
import { type TestStore, testStore } from './helpers.ts'

/** A lease interval so short that a test can wait for several. */
export const QUICK: Partial<StoreOptions> = { writes: 'thread', roundMs: 20 }

/** Opens the database a second time: for the server this is another process. */
export const beside = (store: TestStore, options: Partial<StoreOptions> = {}): Promise<TestStore> =>
  testStore({ ...QUICK, path: store.path, clock: store.clock, ...options })

/** Runs a statement on its own connection. */
export function run(store: TestStore, sql: string): Record<string, unknown>[] {
  const database = store.connect()
  try {
    return database.prepare(sql).all()
  } finally {
    database.close()
  }
}

export const replicas = (store: TestStore) => run(store, 'SELECT id, taken_by FROM replica ORDER BY id')
export const endLease = (store: TestStore, id: number) =>
  run(store, `UPDATE replica SET lease_until = clock_timestamp() - interval '1 s' WHERE id = ${id}`)
