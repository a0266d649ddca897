import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const MODULE = new URL('../../src/cli/start-memory.ts', import.meta.url).href

/** A process whose young heap has grown. Prints its bytes before and behind the time at which they are given back. */
const script = (isIdle: boolean) => `
  import { getHeapSpaceStatistics } from 'node:v8'
  import { releaseStartMemory } from ${JSON.stringify(MODULE)}
  const young = () => getHeapSpaceStatistics().find(space => space.space_name === 'new_space').physical_space_size
  let kept = []
  for (let nth = 0; nth < 3e6; nth++) kept = nth % 3e4 ? [...kept.slice(-50), { nth }] : []
  const before = young()
  releaseStartMemory(() => ${isIdle}, 1)
  setTimeout(() => console.log(JSON.stringify([before, young(), typeof gc])), 200)
`

test.each([
  ['is given back when nobody waits', true],
  ['is kept while somebody does', false],
])('the young heap %s, and plugins get no way to collect', async (_name, isIdle) => {
  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script(isIdle)])
  const [before, after, gc] = JSON.parse(stdout) as [number, number, string]
  expect(gc).toBe('undefined')
  if (isIdle) expect(after).toBeLessThan(before / 2)
  else expect(after).toBeGreaterThan(before / 2)
})
