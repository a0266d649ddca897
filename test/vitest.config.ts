import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { needsOwnProcess } from './helpers/isolation.ts'
import { allFiles } from './helpers/repository.ts'

// `full` raises the counts inside the tests (test/helpers/counts.ts), so its limits are wider too.
const full = process.env.TOLLGATE_TEST === 'full'

// Threads and processes that tests start read TypeScript as it is: stripped and compiled once, it starts in half the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/tollgate', import.meta.url))

// The run's own servers end with this process (test/helpers/postgres.ts).
process.env.TOLLGATE_TEST_RUN = String(process.pid)

/** Each takes more than ten seconds: the run would wait for one that starts last. Vitest knows them from the second run on. */
const SLOW = [
  'runtime/serving-threads',
  'gateway/replicas',
  'deploy/upgrade',
  'cli/package',
  'gateway/postgres-failures',
  'dashboard/pages',
  'simulation/simulation',
  'dashboard/flow',
  'cli/backup',
  'store/replica-chances',
  'gateway/full-disk',
  'store/ledger',
  'store/reports',
  'deploy/prometheus',
  'store/recovery',
  'gateway/backup',
  'runtime/threads',
  'gateway/shutdown',
  'gateway/tiny-chunks',
  'testing/conform',
  'gateway/long-texts',
  'dashboard/layout',
  'docs',
  'cli/serve',
  'guide',
  'migrate',
]

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const slow = SLOW.findIndex(name => moduleId.endsWith(`/test/${name}.test.ts`))
      return slow < 0 ? SLOW.length : slow
    }
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}

const root = fileURLToPath(new URL('..', import.meta.url))
const files = allFiles().filter(file => /^(test|plugins)\/.*\.test\.ts$/.test(file))
/** An attacker that uses all that a core can do: what it leaves to others is measured with nothing else beside it. */
const ALONE = ['test/gateway/floods.test.ts']
const together = files.filter(file => !ALONE.includes(file))
const own = new Set(together.filter(needsOwnProcess))

export default defineConfig({
  root,
  // As the gateway's own hook has it; `exports` of package.json leads to an entry that is not the module itself.
  resolve: {
    alias: {
      'tollgate/plugin': `${root}src/contract/index.ts`,
      'tollgate/testing': `${root}src/testing/index.ts`,
    },
  },
  test: {
    // For what hangs: on a slow machine a test takes longer than on the one that its figures are from.
    testTimeout: full ? 900_000 : 120_000,
    hookTimeout: 120_000,
    setupFiles: 'test/helpers/setup.ts',
    pool: 'forks',
    // Two more than the machine that this was made on has cores: many tests wait for a deadline.
    maxWorkers: full ? 2 : 4,
    sequence: { sequencer: SlowFirst },
    // A process and what it imports cost as much CPU as most of the tests: files share one unless they change it.
    projects: [
      { extends: true, test: { name: 'own process', include: together.filter(file => own.has(file)) } },
      { extends: true, test: { name: 'shared', include: together.filter(file => !own.has(file)), isolate: false } },
      // After the others.
      { extends: true, test: { name: 'alone', include: ALONE, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
  },
})
