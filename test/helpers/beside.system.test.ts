import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Command, runTogether } from './beside.ts'
import { ROOT } from './repository.ts'

const sh = (name: string, script: string): Command => ({ name, line: ['sh', '-c', script] })
const GOOD = sh('good', 'echo good')
const BAD = sh('bad', 'echo a finding; echo on stderr >&2; exit 3')

test.each([
  [[GOOD], GOOD, 0, [['good', 0, 'good\n']]],
  [
    [GOOD, BAD],
    GOOD,
    0,
    [
      ['good', 0, 'good\n'],
      ['bad', 3, expect.stringMatching(/a finding[\s\S]*on stderr|on stderr[\s\S]*a finding/)],
    ],
  ],
  [[GOOD], sh('main', 'exit 7'), 7, [['good', 0, 'good\n']]],
] as const)('%j beside %j', async (beside, main, code, checks) => {
  const ended = await runTogether(beside, main)
  expect(ended.code).toBe(code)
  expect(ended.checks.map(check => [check.name, check.code, check.output])).toEqual(checks)
})

test.each([
  ['SIGINT', 'all', -1, 130],
  ['SIGTERM', 'the first', 1, 143],
] as const)('%s to %s of the processes ends all of them', async (signal, _, sign, code) => {
  const wait = JSON.stringify(sh('wait', 'echo waiting; exec sleep 600'))
  const script = `
    import { runTogether } from ${JSON.stringify(join(ROOT, 'test/helpers/beside.ts'))}
    const { code } = await runTogether([${wait}], ${wait})
    process.exit(code)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  process.kill(sign * child.pid!, signal)
  expect(await once(child, 'close')).toEqual([code, null])
})
