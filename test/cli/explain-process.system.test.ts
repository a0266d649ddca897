/** `tollgate explain --request` as a process: plugins that keep running, and stdin. */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CHAT, GATEWAY, LATE, STANDARD } from './explain-samples.ts'
import { makePlace, type Place } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(GATEWAY)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD)
  place.write('late.ts', LATE)
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n  - use: credits\n')
})
afterEach(() => place.remove())

test.each<[string, string, string, string]>([
  [
    'that is not released',
    '{ handle: (_ctx, next) => next(), dispose: () => new Promise(() => {}) }',
    '',
    'the step "late" was not released: its dispose() did not end within 5 s\n',
  ],
  [
    'that throws in a later turn',
    "(_ctx, next) => { setImmediate(() => { throw new Error('later') }); return next() }",
    'an uncaught error, which ends a gateway: later (',
    '',
  ],
])('a step %s keeps no report', (_name, create, mistake, err) => {
  place.write('late.ts', LATE.replace(/create: .*/s, `create: () => (${create}),\n})\n`))
  place.write('body.json', JSON.stringify(CHAT))
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [
      fileURLToPath(new URL('../../src/cli/tollgate.js', import.meta.url)),
      'explain',
      '--request',
      'body.json',
      '--json',
    ],
    { cwd: place.folder, encoding: 'utf8', env: {} },
  )
  expect({ stderr, status }).toEqual({ stderr: err === '' ? '' : expect.stringContaining(err), status: 0 })
  const { mistakes } = JSON.parse(stdout)
  expect(mistakes).toEqual(mistake === '' ? [] : [expect.stringContaining(mistake)])
})

test('the request can come from stdin', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [join(root, 'src/cli/tollgate.js'), 'explain', '--request', '-', '--json'],
    { input: JSON.stringify(CHAT), cwd: place.folder, encoding: 'utf8', env: {} },
  )
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 })
  expect(JSON.parse(stdout)).toMatchObject({ own_steps: ['late'], verdict: { status: 200 } })
})
