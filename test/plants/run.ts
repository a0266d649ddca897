/**
 * Plants each fault of the list in a copy of the checkout and runs the tests that must find it. Exits with 1 when a fault stays
 * unnoticed, or when the tests fail without one. `npm run test:full -- plants [PROMISE]`
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { allFiles, ROOT } from '../helpers/repository.ts'
import { apply } from '../simulation/plant.ts'
import { PLANTS } from './list.ts'

/** The limit of a test. A fault may make a test wait for an event that never comes: that counts as a failure. */
const LIMIT_MS = 60_000

interface Outcome {
  readonly failed: number
  readonly output: string
}

const copy = mkdtempSync(join(tmpdir(), 'tollgate-plants-'))
try {
  process.exitCode = run(process.argv.slice(2)) ? 0 : 1
} finally {
  rmSync(copy, { recursive: true, force: true })
}

/** Returns whether the tests find every fault, and pass without one. */
function run([promise]: readonly string[]): boolean {
  const plants = PLANTS.filter(each => promise === undefined || each.promise === promise)
  if (plants.length === 0) throw new Error(`No planted fault is about "${promise}".`)
  copyCheckout()
  const tests = [...new Set(plants.flatMap(each => each.tests))]
  const sound = testsFailed(tests)
  if (sound.failed !== 0) {
    console.log(`✗ without a planted fault ${sound.failed} tests fail\n${sound.output}`)
    return false
  }
  const unnoticed = plants.filter(({ promise, fault, changes, tests }) => {
    const [before, after] = [new Map<string, string>(), new Map<string, string>()]
    for (const change of changes) {
      const source = after.get(change.file) ?? readFileSync(join(copy, change.file), 'utf8')
      if (!before.has(change.file)) before.set(change.file, source)
      after.set(change.file, apply(source, change))
    }
    for (const [file, text] of after) writeFileSync(join(copy, file), text)
    const { failed } = testsFailed(tests)
    for (const [file, text] of before) writeFileSync(join(copy, file), text)
    console.log(`${failed > 0 ? '✓' : '✗ NOT FOUND:'} ${promise}: ${fault}`)
    return failed === 0
  })
  console.log(`${plants.length - unnoticed.length} passed, ${unnoticed.length} failed`)
  return unnoticed.length === 0
}

function copyCheckout(): void {
  for (const file of allFiles()) {
    mkdirSync(dirname(join(copy, file)), { recursive: true })
    cpSync(join(ROOT, file), join(copy, file))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
}

/** Runs test files in the copy; stops at the first failure of a planted fault. */
function testsFailed(tests: readonly string[]): Outcome {
  const report = join(copy, 'report.json')
  const line = ['run', '--config', 'test/vitest.config.ts', '--bail', '1', '--reporter', 'json', '--outputFile', report]
  const { stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/vitest'), [...line, ...tests], {
    cwd: copy,
    encoding: 'utf8',
    env: { ...process.env, TOLLGATE_LAYER: 'unit', TOLLGATE_LIMIT_MS: String(LIMIT_MS) },
  })
  const output = `${stdout}${stderr}`
  try {
    const { numFailedTests, numPassedTests } = JSON.parse(readFileSync(report, 'utf8'))
    if (numFailedTests + numPassedTests > 0) return { failed: numFailedTests, output }
  } catch {
    // No report: vitest itself has failed.
  }
  throw new Error(`no test has run:\n${output}`)
}
