/** The page stays small: what all of it is together, as a browser gets it, and what it begins with. */
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, test, vi } from 'vitest'

const CONFIG = fileURLToPath(new URL('../../src/dashboard/vite.config.ts', import.meta.url))
// 1.6 kB of it reads the events of streamed answers, which the playground alone loads; 2.4 kB are budgets, 1.5 kB alerts.
const MAX_BYTES = 107_000
/** Without what only operators need, the playground, and the charts' library, which comes when a chart is shown. */
const MAX_AT_FIRST_BYTES = 57_000

test('all files together, and those of the first page', async () => {
  // Otherwise what is made is for developing; in memory, because the page on disk may be in use.
  vi.stubEnv('NODE_ENV', 'production')
  const built = await build({ configFile: CONFIG, logLevel: 'silent', mode: 'production', build: { write: false } })
  vi.unstubAllEnvs()
  const { output } = built as Rolldown.RolldownOutput
  const files = output.map(file => ({
    name: file.fileName,
    bytes: gzipSync(file.type === 'chunk' ? file.code : file.source).length,
    imports: file.type === 'chunk' ? file.imports : [],
  }))
  const sum = (of: typeof files) => of.reduce((total, { bytes }) => total + bytes, 0)
  const first = files.filter(({ name }) => !/\/(chart|operator|playground)-/.test(name))
  expect(sum(files)).toBeLessThan(MAX_BYTES)
  expect(sum(first)).toBeLessThan(MAX_AT_FIRST_BYTES)
  expect(sum(files) - sum(first)).toBeGreaterThan(20_000)
  // None of them brings the others along.
  expect(first.flatMap(({ imports }) => imports).filter(name => /\/(chart|operator|playground)-/.test(name))).toEqual(
    [],
  )
})
