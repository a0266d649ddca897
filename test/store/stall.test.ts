/** No stream waits for a commit: on this disk, and on one where each commit takes 5 ms more. */
import { expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { faultyConnector } from './faulty.ts'
import { fund, testStore } from './helpers.ts'
import { pacedChunks } from './paced.ts'

const counts = countsOf('ledger')

test.each([
  { writes: 'thread' as const, delayMs: 0 },
  { writes: 'thread' as const, delayMs: 5 },
  { writes: 'here' as const, delayMs: 0 },
  { writes: 'here' as const, delayMs: 5 },
])('paced chunks beside 2000 charges a second, commits by: $writes, slowed by $delayMs ms', async options => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: options.writes })
  const accountId = await fund(store, 10n ** 12n)
  faults.delayMs = options.delayMs
  const durationMs = counts(400, 5000)
  const { late, exchanges } = await pacedChunks({
    store,
    accountId,
    prefix: 'req_',
    perSecond: 2000,
    durationMs,
    now: () => performance.now(),
  })
  faults.delayMs = 0
  const shown = Object.values(late).map(ms => ms.toFixed(1))
  console.log(`${options.writes}, +${options.delayMs} ms: ${exchanges} exchanges, chunks late p50/p99/max ${shown} ms`)

  // The lateness depends on the machine. That no chunk waits for a commit is certain, because the serving thread runs none.
  const [here, elsewhere] = [faults.commitsHere, faults.commitsElsewhere]
  if (options.writes === 'thread') expect([here, elsewhere > 0]).toEqual([0, true])
  else expect([here > 0, elsewhere]).toEqual([true, 0])
  expect(store.reads.findAccount('alice')).toMatchObject({ posted: 10n ** 12n - 40n * BigInt(exchanges), held: 0n })
  expect(exchanges).toBeGreaterThan(0)
})
