import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { runCommand } from '../helpers/command.ts'
import { describeWith, NOT_ON_LINUX } from '../helpers/missing.ts'
import { allFiles, ROOT, samplesOf } from '../helpers/repository.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-init-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const WRITTEN = [
  '.github/workflows/policies.yaml',
  '.gitignore',
  '.tollgate/schema.json',
  'gateway.yaml',
  'plugins/package.json',
  'plugins/short-talks/README.md',
  'plugins/short-talks/index.test.ts',
  'plugins/short-talks/index.ts',
  'policies/standard.test.yaml',
  'policies/standard.yaml',
  'tsconfig.json',
]
const filesBelow = (top: string) => [
  ...allFiles(top).map(file => join(ROOT, file).slice(top.length + 1)),
  ...hidden(top),
]
const hidden = (top: string) => (existsSync(join(top, '.tollgate/schema.json')) ? ['.tollgate/schema.json'] : [])
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const put = (name: string, text = 'mine\n') => {
  mkdirSync(dirname(join(folder, name)), { recursive: true })
  writeFileSync(join(folder, name), text)
}

describe('nothing is written', () => {
  const SHARED = ['.tollgate/schema.json', '.gitignore', 'tsconfig.json']
  test.each(WRITTEN.filter(name => !SHARED.includes(name)))('if %s exists', async name => {
    put(name)
    const { code, out, err } = await runCommand(folder, ['init'])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toBe(
      `error: ${name} is already there; nothing was written. Move it away, or use another folder: tollgate init FOLDER\n`,
    )
    expect(filesBelow(folder)).toEqual([name])
    expect(read(name)).toBe('mine\n')
  })

  test('if several files exist: all are named', async () => {
    for (const name of ['gateway.yaml', 'plugins/package.json']) put(`gate/${name}`)
    const { code, err } = await runCommand(folder, ['init', 'gate'])
    expect(code).toBe(1)
    expect(err).toContain(
      'error: gate/gateway.yaml, gate/plugins/package.json are already there; nothing was written. Move them',
    )
  })

  test('common files of a repository are kept, and .gitignore gets the missing lines', async () => {
    put('.gitignore', 'dist\nnode_modules/')
    put('tsconfig.json')
    expect((await runCommand(folder, ['init'])).code).toBe(0)
    expect(read('tsconfig.json')).toBe('mine\n')
    const lines = read('.gitignore').split('\n')
    expect(lines.slice(0, 2)).toEqual(['dist', 'node_modules/'])
    expect(lines).toEqual(expect.arrayContaining(['.tollgate/', '.env']))
    expect(lines.filter(line => line === 'node_modules/')).toHaveLength(1)
  })

  test('if a file has the name of the folder', async () => {
    put('gate')
    const { code, err } = await runCommand(folder, ['init', 'gate/inner'])
    expect(code).toBe(1)
    expect(err).toBe(`error: The folder ${join(folder, 'gate/inner')} cannot be created: ENOTDIR\n`)
  })

  // Node's recursive mkdir never returns for these folders.
  describeWith(NOT_ON_LINUX, 'where the system makes no folder', () => {
    test.each([
      ['init', ['init', '/proc/gate/inner']],
      ['plugin new', ['plugin', 'new', 'office-hours', '--folder', '/proc/plugins']],
    ])('%s', async (_, args) => {
      const { code, err } = await runCommand(folder, args)
      expect(code).toBe(1)
      expect(err).toMatch(/^error: The folder \/proc\/\S+ cannot be created: (ENOENT|EACCES)\n$/)
    })
  })

  test('for a command line with two folders', async () => {
    const { code } = await runCommand(folder, ['init', 'a', 'b'])
    expect(code).toBe(2)
    expect(filesBelow(folder)).toEqual([])
  })
})

describe('into an empty folder', () => {
  test.each([
    ['', 'tollgate check\n'],
    ['gate', 'tollgate check -c gate/gateway.yaml\n'],
    ['a/my gate', "tollgate check -c 'a/my gate/gateway.yaml'\n"],
  ])('"%s": what it says to do next works', async (name, hint) => {
    const top = join(folder, name)
    const { code, out, err } = await runCommand(folder, ['init', ...(name ? [name] : [])])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(`\n  ${hint}`)
    expect(filesBelow(top).sort()).toEqual(WRITTEN)
    const config = ['-c', join(top, 'gateway.yaml')]
    expect(await runCommand(folder, ['check', '--strict', ...config])).toMatchObject({ code: 0, err: '' })
  })

  test('an earlier schema is replaced', async () => {
    put('.tollgate/schema.json', '{}')
    expect(await runCommand(folder, ['init'])).toMatchObject({ code: 0, err: '' })
    expect(read('.tollgate/schema.json').length).toBeGreaterThan(10_000)
  })
})

describe('the written files', () => {
  let written: string
  beforeAll(async () => {
    written = mkdtempSync(join(tmpdir(), 'tollgate-init-'))
    expect(await runCommand(written, ['init'])).toMatchObject({ code: 0, err: '' })
  })
  afterAll(() => rmSync(written, { recursive: true, force: true }))
  beforeEach(() => cpSync(written, folder, { recursive: true }))

  test.each(['gateway.yaml', 'policies/standard.yaml', 'policies/standard.test.yaml'])(
    '%s refers editors to an existing schema that includes the plugin',
    name => {
      const [, path] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(read(name)) ?? []
      const schema = readFileSync(join(folder, dirname(name), path!), 'utf8')
      expect(schema).toContain('The maximum number of messages in a request.')
    },
  )

  test('the policy tests fail when the setting of the plugin changes', async () => {
    put('policies/standard.yaml', read('policies/standard.yaml').replace('most: 50', 'most: 51'))
    const { code, out } = await runCommand(folder, ['test'])
    expect(code).toBe(1)
    expect(out).toContain('a conversation of more than fifty messages is refused')
    expect(out).toContain('18 tests passed, 1 failed')
  })

  test('name neither the checkout nor a missing file', () => {
    for (const name of WRITTEN) expect(read(name), name).not.toContain(ROOT)
    expect(read('gateway.yaml')).not.toContain('src/')
  })

  test('the workflow runs existing commands', async () => {
    const { jobs } = parse(read('.github/workflows/policies.yaml')) as Workflow
    const lines = jobs.policies.steps.flatMap(({ run }) => (run ? [run] : []))
    expect(lines).toEqual(['npm ci', expect.any(String), expect.any(String), 'node --test'])
    for (const line of lines.slice(1, 3)) {
      const [npx, name, ...args] = line.split(' ')
      expect([npx, name]).toEqual(['npx', 'tollgate'])
      expect(await runCommand(folder, args)).toMatchObject({ code: 0, err: '' })
    }
  })

  test('tsconfig.json is the one in plugins/README.md', () => {
    const [sample] = samplesOf('plugins/README.md').filter(({ language }) => language === 'json')
    expect(JSON.parse(read('tsconfig.json'))).toEqual(JSON.parse(sample!.text))
  })

  test('git ignores the store and its secret', () => {
    expect(read('.gitignore').split('\n')).toEqual(expect.arrayContaining(['.tollgate/', 'node_modules/', '.env']))
  })
})

test.each([
  ['installed beside it', 'node_modules/tollgate/package.json', false],
  ['installed above it', '../node_modules/tollgate/package.json', false],
  ['missing', '', true],
])('the output warns of a workflow without the package: %s', async (_, name, isWarned) => {
  if (name !== '') put(join('gate', name), '{}')
  const { code, out } = await runCommand(folder, ['init', 'gate'])
  expect(code).toBe(0)
  expect(out.includes('need the package')).toBe(isWarned)
  expect(out.includes('PACKAGE is tollgate-VERSION.tgz, which npm pack creates')).toBe(isWarned)
})

test('its help has examples', async () => {
  const { code, out } = await runCommand(folder, ['init', '--help'])
  expect(code).toBe(0)
  expect(out).toContain('Examples:\n  $ tollgate init\n')
})

interface Workflow {
  readonly jobs: { readonly policies: { readonly steps: readonly { readonly run?: string }[] } }
}
