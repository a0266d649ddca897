import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { temporaryDirectory } from './helpers/gateway.ts'
import { ROOT } from './helpers/repository.ts'

const SCRIPTS = {
  good: 'echo good',
  bad: 'echo a finding; echo on stderr >&2; exit 3',
  echo: 'echo',
  wait: 'echo waiting; exec sleep 60',
}

async function run(...args: readonly string[]) {
  const cwd = await temporaryDirectory()
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ scripts: SCRIPTS }))
  const child = spawn(process.execPath, [join(ROOT, 'test/run.ts'), ...args], { cwd, detached: true })
  return { child, output: text(child.stdout), ended: once(child, 'close') }
}

test.each([
  ['good', 'good', [], 0, 'good\n✓ good\n'],
  ['good,good', 'echo', ['a', '--b=c'], 0, 'a --b=c\n✓ good\n✓ good\n'],
  ['good,bad', 'good', [], 1, 'good\n✓ good\n✗ bad\na finding\non stderr\n'],
  ['good', 'bad', [], 1, 'a finding\n✓ good\n'],
])('%s beside %s %j ends with %i', async (beside, main, args, code, printed) => {
  const { output, ended } = await run(beside, main, ...args)
  expect(await ended).toEqual([code, null])
  expect(await output).toBe(printed)
})

test.each([
  ['SIGINT', 'all', -1, 130],
  ['SIGTERM', 'the first', 1, 143],
] as const)('%s to %s of the processes ends all of them', async (signal, _, sign, code) => {
  const { child, ended } = await run('wait', 'wait')
  await once(child.stdout, 'data')
  process.kill(sign * child.pid!, signal)
  expect(await ended).toEqual([code, null])
})
