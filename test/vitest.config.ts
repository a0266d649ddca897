import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

// `full` raises the counts inside the tests (test/helpers/counts.ts), so its limits are wider too.
const full = process.env.TOLLGATE_TEST === 'full'

// Threads and processes that tests start read TypeScript as it is: stripped and compiled once, it starts in half the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/tollgate', import.meta.url))

export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    include: ['test/**/*.test.ts', 'plugins/**/*.test.ts'],
    testTimeout: full ? 900_000 : 30_000,
    hookTimeout: 30_000,
    pool: 'forks',
    // Two more than the machine that this was made on has cores: many tests wait for a deadline.
    maxWorkers: full ? 2 : 4,
  },
})
