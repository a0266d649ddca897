import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { endLeftovers } from './leftovers.ts'
import { untilTruthy } from './until.ts'

/** No process has this number: Linux has 4 million at most. */
const NO_RUN = 999_999_999

test('a process with the mark of the run is ended and named', async () => {
  const env = { ...process.env, TOLLGATE_TEST_RUN: String(NO_RUN) }
  const child = spawn('sleep', ['600'], { detached: true, env, stdio: 'ignore' })
  await once(child, 'spawn')
  const ended = once(child, 'exit')
  expect(await endLeftovers({ pid: NO_RUN, isGroup: false }, 0)).toEqual(['sleep 600'])
  expect(await ended).toEqual([null, 'SIGKILL'])
})

test('a process of the run’s group is ended and named', async () => {
  const env = { PATH: process.env['PATH']! }
  const child = spawn('sh', ['-c', 'sleep 600 & exec sleep 601'], { detached: true, env, stdio: 'ignore' })
  await once(child, 'spawn')
  const ended = once(child, 'exit')
  // Before that it is the shell.
  await untilTruthy(() => readFileSync(`/proc/${child.pid}/cmdline`, 'utf8') === 'sleep\x00601\x00')
  expect(await endLeftovers({ pid: child.pid!, isGroup: true }, 0)).toContain('sleep 601')
  expect(await ended).toEqual([null, 'SIGKILL'])
})

test('without such processes it returns at once', async () => {
  expect(await endLeftovers({ pid: NO_RUN, isGroup: true })).toEqual([])
})
