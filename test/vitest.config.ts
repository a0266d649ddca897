/** Which files run, by TOLLGATE_LAYER and TOLLGATE_PART (test/run.ts sets them), and in which processes. */
import { statfsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { needsOwnProcess } from './helpers/isolation.ts'
import { LIMIT_MS } from './helpers/limit.ts'
import type { Layer } from './helpers/parts.ts'
import { filesOf } from './helpers/right-command.ts'

const layer = (process.env.TOLLGATE_LAYER ??= 'unit')
const part = process.env.TOLLGATE_PART

// Processes and threads that tests start read TypeScript: compiled once, it loads in half the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/tollgate', import.meta.url))

// Servers that several files share end with this process (test/helpers/postgres.ts).
process.env.TOLLGATE_TEST_RUN = String(process.pid)

// Half of the system time of the tests is for temporary files. They are created in memory if enough is free.
if (layer === 'unit' && process.env.TMPDIR === undefined && freeBytes('/dev/shm') > 2 ** 30)
  process.env.TMPDIR = '/dev/shm'

// `npm test -- --update` rewrites the cases (test/helpers/cases.ts), as vitest does its snapshots.
if (process.argv.some(argument => ['-u', '--update'].includes(argument))) process.env.TOLLGATE_UPDATE = '1'

const root = fileURLToPath(new URL('..', import.meta.url))
const chosen = filesOf(layer as Layer, part)
/** These measure how well clients are served during an attack, so no other test may run beside them. */
const alone = chosen.filter(file => file.endsWith('/floods.system.test.ts'))
const together = chosen.filter(file => !alone.includes(file))
const own = new Set(together.filter(needsOwnProcess))

export default defineConfig({
  root,
  // The targets of the gateway's own hook; `exports` of package.json names another entry.
  resolve: {
    alias: {
      'tollgate/plugin': `${root}src/contract/index.ts`,
      'tollgate/testing': `${root}src/testing/index.ts`,
    },
  },
  test: {
    testTimeout: LIMIT_MS,
    teardownTimeout: LIMIT_MS,
    hookTimeout: LIMIT_MS,
    // A wait that never ends fails with its own message, a little before the limit.
    expect: { poll: { timeout: LIMIT_MS * 0.9, interval: 10 } },
    setupFiles: 'test/helpers/setup.ts',
    reporters: ['./test/reporter.ts'],
    // The result of a full run is its printed measurements.
    silent: layer === 'full' ? false : 'passed-only',
    pool: 'forks',
    // One more than the development machine has cores, because many tests wait for a deadline.
    maxWorkers: layer === 'full' ? 2 : 3,
    // Starting a process and its imports costs as much CPU as most tests: files share a process unless they change it.
    projects: [
      { extends: true, test: { name: 'own process', include: together.filter(file => own.has(file)) } },
      {
        extends: true,
        test: {
          name: 'shared',
          include: together.filter(file => !own.has(file)),
          isolate: false,
          // With V8's default of 16 MiB a tenth of the CPU time is garbage collection.
          execArgv: ['--max-semi-space-size=64'],
        },
      },
      // Runs after the others.
      { extends: true, test: { name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ].filter(({ test }) => test.include.length > 0),
  },
})

/** 0 if the folder is missing. */
function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return 0
  }
}
