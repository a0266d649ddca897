import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/store/engine/database.ts'
import { migrate } from '../../src/store/engine/migrate.ts'
import { createWriter } from '../../src/store/writer.ts'
import { folder, testClock } from './helpers.ts'

/** A connection whose COMMITs all fail from now on. */
function failing(database: Database): Database {
  return {
    ...database,
    prepare(sql) {
      const statement = database.prepare(sql)
      if (sql !== 'COMMIT') return statement
      return {
        ...statement,
        run: () => {
          throw new Error('disk I/O error')
        },
      }
    },
  }
}

// The last operation of a closing writer fails after three attempts. Operations that were added later have had fewer attempts.
test('operations while a writer closes on a bad disk are rejected, and do not use a closed connection', async () => {
  const database = openDatabase(join(folder(), 'tollgate.db'))
  migrate(database)
  const turns: (() => void)[] = []
  const writer = createWriter(failing(database), testClock(), turn => void turns.push(turn))
  const closed = writer.close()
  await Promise.resolve()
  const results: string[] = []
  const rejected = (error: unknown) => void results.push((error as Error).message)
  for (let turn = 0; turn < 10; turn++) {
    turns.shift()?.()
    if (turn === 0) writer.add({ name: 'probe', request: 1 }, { resolve: () => results.push('done'), reject: rejected })
    if (turn === 1) writer.op('probe', 2).catch(rejected)
    for (let tick = 0; tick < 10; tick++) await Promise.resolve()
  }
  await closed
  expect(results).toEqual(['The store is closed.', expect.stringContaining('The store could not be written')])
  expect(turns).toEqual([])
})
