/** Watching for changes of keys ends in time, even if the server does not answer any more. */
import { expect, test } from 'vitest'
import { migratePostgres, openPostgres } from '../../src/store/engine/postgres/index.ts'
import { KeyChanges } from '../../src/store/engine/postgres/key-changes.ts'
import { ownServer } from '../helpers/postgres.ts'
import { onPostgres } from './helpers.ts'

onPostgres(() => {
  test('closing does not wait for a frozen server', async () => {
    const server = await ownServer()
    const database = openPostgres(server.url)
    migratePostgres(database)
    database.close()
    let heard = 0
    const log = { info() {}, warn() {}, error() {} }
    const changes = new KeyChanges({ url: server.url, log, forget: () => void heard++ })
    await expect.poll(() => heard).toBeGreaterThan(0)
    server.freeze()
    const began = performance.now()
    await changes.close()
    expect(performance.now() - began).toBeLessThan(5000)
  })
})
