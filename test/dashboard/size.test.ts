/** The page stays small: the compressed size of all files, and of those that the first page loads. */
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, test, vi } from 'vitest'

const CONFIG = fileURLToPath(new URL('../../src/dashboard/vite.config.ts', import.meta.url))
// 1.6 kB of it reads the events of streamed answers, which only the playground loads; 2.4 kB are budgets, 1.5 kB alerts.
const MAX_BYTES = 107_000
/** Without the operator pages, the playground, and the chart library, which is loaded with the first chart. */
const MAX_AT_FIRST_BYTES = 57_000

test('all files together, and those of the first page', async () => {
  // Otherwise it would be a development build. It is built in memory, because the page on disk may be in use.
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
  // None of them imports one of the others.
  expect(first.flatMap(({ imports }) => imports).filter(name => /\/(chart|operator|playground)-/.test(name))).toEqual(
    [],
  )
})
