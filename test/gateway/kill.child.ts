/**
 * `tollgate serve` on a bad disk, to be killed. Commits are slow, and from SIGUSR2 on all of them fail, so that charges go to the
 * spool. Its clock is ten times as fast, so that checkpoints and disk timeouts take half a second.
 *
 *     node kill.child.ts serve --config FILE      (TEST_COMMIT_MS, TEST_COMMIT_FAILS in its environment)
 */
import { systemClock } from '../../src/common/clock.ts'
import { serve } from '../../src/main.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { faultyConnector } from '../store/faulty.ts'

const FASTER = 10
/** Short intervals are not deadlines, and stay. */
const LONG_MS = 1000

const { faults, connector } = faultyConnector()
faults.delayMs = Number(process.env['TEST_COMMIT_MS'])
const way = process.env['TEST_COMMIT_FAILS'] === 'after' ? 'after' : 'before'
process.on('SIGUSR2', () => {
  faults[way] = 1_000_000
})

const startedAt = systemClock.now()
const clock = { now: () => startedAt + (systemClock.now() - startedAt) * FASTER }
const plainInterval = globalThis.setInterval
globalThis.setInterval = ((run: () => void, ms: number) =>
  plainInterval(run, ms >= LONG_MS ? ms / FASTER : ms)) as typeof setInterval

const configFile = process.argv.at(-1)!
const running = await serve({
  configFile,
  env: process.env,
  clock,
  open: options => openStore({ ...options, connector }),
})
process.exitCode = await running.finished
