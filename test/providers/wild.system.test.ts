/** Sends answers of providers and requests of clients from public bug reports to a gateway of this checkout. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import { testWith, WILD, WITHOUT_WILD } from '../helpers/missing.ts'
import { ROOT } from '../helpers/repository.ts'

testWith(WITHOUT_WILD, 'each report has the expected result', async () => {
  const run = spawn(process.execPath, [join(WILD, 'run.mjs'), ROOT], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said, [code]] = await Promise.all([text(run.stdout), once(run, 'exit')])
  expect(said).toMatch(/^(\d+) of \1 right$/m)
  expect(code, said).toBe(0)
})
