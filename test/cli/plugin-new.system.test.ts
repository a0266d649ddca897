import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ownTestCommand, testCommand } from '../../src/cli/plugin.ts'
import { runCommand } from '../helpers/command.ts'
import { onlyFull } from '../helpers/counts.ts'
import { tollgate } from '../helpers/gateway.ts'
import { testWith } from '../helpers/missing.ts'
import { ROOT } from '../helpers/repository.ts'
import { CONFIGURATION, STANDARD_POLICY } from './helpers.ts'

const TEST = 'plugins/short-talks/index.test.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-plugin-new-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test.each([
  [
    'Office',
    '" is not a valid plugin name: use up to 40 lower-case letters, digits and dashes, beginning with a letter',
  ],
  [
    '../escape',
    '" is not a valid plugin name: use up to 40 lower-case letters, digits and dashes, beginning with a letter',
  ],
  ['credits', '" is a built-in plugin; use another name'],
])('the name %s is refused, and nothing is written', async (name, sentence) => {
  const { code, err } = await runCommand(folder, ['plugin', 'new', name])
  expect(code).toBe(1)
  expect(err).toContain(sentence)
  expect(readdirSync(folder)).toEqual([])
})

test('existing files are not overwritten', async () => {
  await runCommand(folder, ['plugin', 'new', 'short-talks'])
  const file = join(folder, 'plugins/short-talks/index.ts')
  const before = readFileSync(file, 'utf8')
  const again = await runCommand(folder, ['plugin', 'new', 'short-talks'])
  expect(again.code).toBe(1)
  expect(again.err).toContain('already exists; nothing was written')
  expect(readFileSync(file, 'utf8')).toBe(before)
})

// With these variables, Node's test runner would join this one, and vitest would find itself.
const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, VITEST: ___, ...env } = process.env
const run = (program: string, args: readonly string[], cwd = folder) => promisify(execFile)(program, args, { cwd, env })

test('the new folder passes its own test outside the repository', async () => {
  const { code, out } = await runCommand(folder, ['plugin', 'new', 'short-talks'])
  expect(code).toBe(0)
  expect(out).toContain(testCommand(TEST, folder))
  expect(readdirSync(join(folder, 'plugins/short-talks')).sort()).toEqual(['README.md', 'index.test.ts', 'index.ts'])
  const [program, ...args] = testCommand(TEST, folder).split(' ')
  const { stdout } = await run(program!, args)
  expect(stdout).toMatch(/pass 3\b/)
  expect(stdout).toMatch(/fail 0\b/)
})

test('below a CommonJS package.json, the plugin gets its own package.json of a module', async () => {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'commonjs' }))
  expect((await runCommand(folder, ['init', 'gate'])).code).toBe(0)
  const made = await runCommand(folder, [
    'plugin',
    'new',
    'office-hours',
    '--folder',
    'ours',
    '-c',
    'gate/gateway.yaml',
  ])
  expect(made.out).toContain('ours/office-hours/index.ts, index.test.ts, README.md and package.json were written.')
  const [program, ...args] = testCommand('ours/office-hours/index.test.ts', folder).split(' ')
  const { stdout } = await run(program!, ['--test-skip-pattern=the guarantees', ...args])
  expect(stdout).toMatch(/pass 2\b/)
  // A package.json in a parent folder that already declares a module is enough.
  expect((await runCommand(folder, ['plugin', 'new', 'office-hours', '-c', 'gate/gateway.yaml'])).code).toBe(0)
  expect(readdirSync(join(folder, 'gate/plugins/office-hours'))).not.toContain('package.json')
})

test('the plugin is written beside the gateway.yaml of -c, and a policy there can use it', async () => {
  expect((await runCommand(folder, ['init', 'gate'])).code).toBe(0)
  const config = ['-c', 'gate/gateway.yaml']
  const { code, out } = await runCommand(folder, ['plugin', 'new', 'office-hours', ...config])
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual(['gate'])
  expect(out).toContain('gate/plugins/office-hours/index.ts, index.test.ts and README.md were written.')
  expect(out).toContain(testCommand('gate/plugins/office-hours/index.test.ts', folder))
  expect(out).toContain('Use it, in a file of gate/policies/:\n')
  const policy = join(folder, 'gate/policies/standard.yaml')
  const step = out.slice(out.indexOf('  - use: '))
  writeFileSync(policy, readFileSync(policy, 'utf8').replace('  - use: credits', `${step}  - use: credits`))
  expect(await runCommand(folder, ['check', ...config])).toMatchObject({ code: 0 })
})

test('its README names the new plugin, and its failing test shows the error and its place', async () => {
  await runCommand(folder, ['plugin', 'new', 'office-hours'])
  const file = (name: string) => join(folder, 'plugins/office-hours', name)
  const page = readFileSync(file('README.md'), 'utf8')
  expect(page).toMatch(
    /^# office-hours\n\n`office-hours` refuses .* Every new plugin starts as this sample: change\n`index\.ts`/,
  )
  expect(page).toContain('  - use: ../plugins/office-hours/index.ts\n')
  expect(page).not.toContain('short-talks')
  const code = readFileSync(file('index.ts'), 'utf8')
  writeFileSync(file('index.ts'), code.replace('exchange.chat.body', 'exchange.chat.nothing'))
  const [program, ...args] = testCommand('plugins/office-hours/index.test.ts', folder).split(' ')
  const { stdout } = await run(program!, ['--test-skip-pattern=the guarantees', ...args]).catch(error => error)
  expect(stdout).toMatch(/fail 2\b/)
  expect(stdout).toMatch(/at: '.*office-hours\/index\.ts:31:\d+'/)
  expect(stdout).toContain('TypeError: Cannot read properties of undefined')
})

testWith(
  onlyFull('clients'),
  'the plugin works beside a gateway installed as a package, and a policy can use it',
  async () => {
    const made = await tollgate(['plugin', 'new', 'short-talks'], { cwd: folder })
    expect(made).toMatchObject({ code: 0, stderr: '' })
    // `npm install FOLDER` and `npm link` create such a link to the checkout.
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(ROOT, join(folder, 'node_modules/tollgate'))
    const { stdout } = await run(process.execPath, ['--test', '--test-skip-pattern=the guarantees', TEST])
    expect(stdout).toMatch(/pass 2\b/)
    expect(stdout).toMatch(/fail 0\b/)

    const step = made.stdout.slice(made.stdout.indexOf('  - use: '))
    mkdirSync(join(folder, 'policies'))
    writeFileSync(
      join(folder, 'policies/standard.yaml'),
      STANDARD_POLICY.replace('  - use: credits', `${step}  - use: credits`),
    )
    writeFileSync(join(folder, 'policies/catalog.yaml'), 'steps:\n  - use: api-key\n')
    writeFileSync(join(folder, 'gateway.yaml'), CONFIGURATION)
    expect(await tollgate(['check'], { cwd: folder })).toMatchObject({ code: 0 })
  },
)

testWith(
  onlyFull('clients'),
  'inside the repository the plugin has the style of its neighbours and passes with their tests',
  async () => {
    for (const part of [
      'src',
      'plugins',
      'policies',
      'test/vitest.config.ts',
      'test/helpers',
      'package.json',
      'tsconfig.json',
    ]) {
      cpSync(join(ROOT, part), join(folder, part), { recursive: true })
    }
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    const entry = join(folder, 'src/cli/tollgate.js')
    const made = await tollgate(['plugin', 'new', 'short-talks'], { cwd: folder, entry })
    expect(made).toMatchObject({ code: 0, stderr: '' })
    expect(made.stdout).toContain(ownTestCommand('short-talks'))
    expect(made.stdout).toContain('\n  - use: ../plugins/short-talks/index.ts\n')
    expect(readFileSync(join(folder, 'plugins/short-talks/index.ts'), 'utf8')).toContain("from '#contract'")
    const [, ...args] = ownTestCommand('short-talks').split(' ')
    const { stdout } = await run(join(folder, 'node_modules/.bin/vitest'), args.slice(1))
    expect(stdout).toMatch(/3 passed/)
    expect(stdout).not.toMatch(/failed/)
  },
)
