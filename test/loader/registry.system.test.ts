/** Plugins by name, by path and from npm. Outside code is loaded by a real Node in its own process. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AnyPlugin, definePlugin } from '#contract'
import { recordReads, stampOf } from '../../src/config/yaml/reads.ts'
import { followImport, followPlugin, importsOf, noteLoaded } from '../../src/loader/imports.ts'
import { complaintsAbout, createRegistry } from '../../src/loader/registry.ts'
import { standIns } from '../config/stand-ins.ts'
import { PARTS, STANDARD } from '../config/workshop.ts'
import { PACKAGES } from '../helpers/packages.ts'
import { ROOT } from '../helpers/repository.ts'

const NODE = join(ROOT, 'node_modules/.bin/node')
const CHILD = join(ROOT, 'test/loader/registry-child.ts')

const SETTINGS = `settings: { type: 'object', additionalProperties: false, properties: { greeting: { type: 'string', description: 'What to say.', default: 'hi' } } }`

/** Files outside the gateway: local plugins, and packages beside the configuration. */
const OUTSIDE: Record<string, string> = {
  'gateway.yaml': '',
  'plugins/typed.ts': `
import { definePlugin, type Next, refuse, type StepContext } from 'tollgate/plugin'
import { word } from './word.ts'
interface Settings { readonly greeting: string }
export default definePlugin({
  name: 'typed', ${SETTINGS},
  create: ({ greeting }: Settings) => async (context: StepContext, next: Next) => {
    context.set('x-word', \`\${greeting} \${word}\`)
    await next()
    throw refuse('forbidden')
  },
})`,
  'plugins/word.ts': `export const word: string = 'world'`,
  'plugins/plain.mjs': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'plain', ${SETTINGS}, create: () => (context, next) => next() })`,
  'plugins/old.cjs': `const { definePlugin } = require('tollgate/plugin')
module.exports = definePlugin({ name: 'old', ${SETTINGS}, create: () => (context, next) => next() })`,
  'plugins/bare.ts': `export default { name: 'bare', create: () => {} }`,
  'plugins/nothing.ts': `export const plugin = 1`,
  'plugins/broken.ts': `import { definePlugin } from 'tollgate/plugin'\n\nexport default definePlugin({ name: 'broken' `,
  'plugins/throws.ts': `throw new Error('no licence found\\nand more')`,
  'plugins/common/package.json': `{ "type": "commonjs" }`,
  'plugins/common/hours.ts': `import { definePlugin } from 'tollgate/plugin'\nexport default definePlugin({})`,
  'plugins/enum.ts': `enum Colour { Red }\nexport default Colour`,
  'plugins/alone.ts': `import 'does-not-exist'\nexport default 1`,
  'plugins/shouting.ts': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'SHOUT', ${SETTINGS}, create: () => {} })`,
  'plugins/open.ts': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'open', settings: { type: 'object', properties: {} }, create: () => {} } as never)`,
  'plugins/whole.ts': `import { serve } from 'tollgate'\nexport default serve`,
  'plugins/inside.ts': `import { runPlan } from 'tollgate/src/pipeline/runner.ts'\nexport default runPlan`,
  'plugins/credits.ts': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'credits', ${SETTINGS}, create: () => (context: unknown, next: () => Promise<void>) => next() })`,
  'node_modules/typed/package.json': `{ "name": "typed", "type": "module", "exports": "./index.ts" }`,
  'node_modules/typed/index.ts': `const one: number = 1\nexport default one`,
  // A package with its own copy of tollgate.
  'node_modules/bundler/package.json': `{ "name": "bundler", "type": "module", "main": "index.js" }`,
  'node_modules/bundler/index.js': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'bundler', ${SETTINGS}, create: () => (context, next) => next() })`,
  'node_modules/bundler/node_modules/tollgate/package.json': `{ "name": "tollgate", "exports": { "./plugin": "./trap.js" } }`,
  'node_modules/bundler/node_modules/tollgate/trap.js': `throw new Error('the wrong copy')`,
  'node_modules/tollgate-plugin-hello/package.json': `{ "name": "tollgate-plugin-hello", "type": "module", "exports": { "import": "./main.js" } }`,
  'node_modules/tollgate-plugin-hello/main.js': `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({ name: 'hello', ${SETTINGS}, create: () => (context, next) => next() })`,
  // Another copy of tollgate beside the configuration. Plugins must get the running gateway instead.
  'node_modules/tollgate/package.json': `{ "name": "tollgate", "exports": { "./plugin": "./trap.js" } }`,
  'node_modules/tollgate/trap.js': `throw new Error('the wrong copy')`,
  'node_modules/@acme/header/package.json': `{ "name": "@acme/header", "main": "index.js" }`,
  'node_modules/@acme/header/index.js': `module.exports = options => async (context, next) => {
  context.set('x-greeting', options.greeting)
  await next()
}`,
  'node_modules/compiled/package.json': `{ "name": "compiled", "main": "index.js" }`,
  'node_modules/compiled/index.js': `exports.__esModule = true\nexports.default = () => (context, next) => next()`,
  'node_modules/numbers/package.json': `{ "name": "numbers", "main": "index.js" }`,
  'node_modules/numbers/index.js': `module.exports = 42`,
  'node_modules/lazy/package.json': `{ "name": "lazy", "main": "index.js" }`,
  'node_modules/lazy/index.js': `module.exports = () => undefined`,
  'node_modules/needy/package.json': `{ "name": "needy", "main": "index.js" }`,
  'node_modules/needy/index.js': `require('needy-friend')`,
}

// Reasons in package.json files, and mistakes in them.
for (const [name, manifest, code] of [
  ['for-later', { peerDependencies: { tollgate: '^99.0.0' } }, 'module.exports = 1'],
  ['for-engine', { engines: { tollgate: '>=1 <2 || >=98' } }, 'module.exports = 1'],
  [
    'for-now',
    { peerDependencies: { tollgate: '>=0.1' }, engines: { node: '0.10' } },
    'module.exports = () => () => {}',
  ],
  // An invalid version range excludes no version.
  ['for-tag', { engines: { tollgate: 'workspace:*' } }, 'module.exports = () => () => {}'],
  ['for-old-node', { engines: { node: '0.10.x' } }, "require('punycode-of-old')"],
  ['no-default', { type: 'module' }, 'export const plugin = 1'],
  ['throws-nothing', { type: 'module' }, 'throw null'],
  ['throws', { type: 'module' }, "\n\nthrow new Error('no licence')"],
  ['hidden', { exports: { './other': './index.js' } }, 'module.exports = 1'],
] as const) {
  OUTSIDE[`node_modules/${name}/package.json`] = JSON.stringify({
    name,
    version: '1.0.0',
    main: 'index.js',
    ...manifest,
  })
  OUTSIDE[`node_modules/${name}/index.js`] = code
}

let folder: string
const write = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

async function child(order: object): Promise<unknown> {
  const { stdout } = await promisify(execFile)(NODE, [CHILD, JSON.stringify(order)], { cwd: tmpdir() })
  return JSON.parse(stdout)
}

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-plugins-')))
  for (const [path, text] of Object.entries(OUTSIDE)) write(path, text)
  mkdirSync(join(folder, 'node_modules/@koa'))
  symlinkSync(join(PACKAGES, 'node_modules/@koa/cors'), join(folder, 'node_modules/@koa/cors'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('plugins that cannot be loaded report the reason', () => {
  const rows: [use: string, says: string | RegExp][] = [
    ['./plugins/missing.ts', /\/plugins\/missing\.ts does not exist/],
    ['./plugins/readme.md', './plugins/readme.md must end in .ts'],
    ['./plugins/bare.ts', /the default export of .*bare\.ts was not made by definePlugin/],
    ['./plugins/nothing.ts', /nothing\.ts\) has no default export/],
    ['./plugins/broken.ts', /\.\/plugins\/broken\.ts \(.*broken\.ts:3\) failed to load: /],
    ['./plugins/throws.ts', /\(plugins\/throws\.ts:1:7\) failed to load: no licence found$/],
    ['./plugins/enum.ts', /\(plugins\/enum\.ts:\d+:\d+\) failed to load: /],
    ['./plugins/alone.ts', /failed to load: Cannot find package 'does-not-exist'/],
    ['./plugins/shouting.ts', 'is invalid: its name must be lower-case words with dashes'],
    ['./plugins/open.ts', '"settings" must have additionalProperties: false'],
    ['npm:does-not-exist', /the package does-not-exist is not installed beside the configuration; run npm install in /],
    // The gateway has it; the configuration's folder has not.
    ['npm:koa', 'the package koa is not installed beside the configuration'],
    ['npm:numbers', 'neither a plugin nor a function that makes a Koa middleware'],
    ['npm:lazy', 'npm:lazy was called with the settings and did not return a Koa middleware'],
    ['npm:needy', /npm:needy .* failed to load: Cannot find module 'needy-friend'/],
    ['npm:does-not-exist/sub', 'the package does-not-exist is not installed beside the configuration'],
    ['npm:@acme/does-not-exist/sub', 'the package @acme/does-not-exist is not installed beside the configuration'],
    [
      './plugins/common/hours.ts',
      /failed to load: Cannot use import statement outside a module \(the package\.json above it must have "type": "module"/,
    ],
    ['./plugins/enum.ts', /failed to load: .*enum.* \(Node\.js only removes the types of TypeScript: replace syntax/],
    [
      './plugins/whole.ts',
      'failed to load: plugins cannot import "tollgate": they can import tollgate/plugin and tollgate/testing',
    ],
    ['./plugins/inside.ts', 'plugins cannot import "tollgate/src/pipeline/runner.ts"'],
    ['./plugins/credits.ts', 'is called "credits", like a built-in plugin: give it another name'],
    [
      'npm:typed',
      /failed to load: .* \(Node\.js runs no TypeScript from node_modules: a package must contain JavaScript\)/,
    ],
    ['npm:for-later', /^npm:for-later is for tollgate \^99\.0\.0, but this is \d+\.\d+\.\d+; install/],
    ['npm:for-engine', 'is for tollgate >=1 <2 || >=98, but this is'],
    [
      'npm:for-old-node',
      /failed to load: Cannot find module 'punycode-of-old' \(it is for Node\.js 0\.10\.x, but this is \d+/,
    ],
    ['npm:no-default', /^npm:no-default \(.*\) has no default export$/],
    ['npm:throws-nothing', 'failed to load: null'],
    ['npm:throws', /^npm:throws \(node_modules\/throws\/index\.js:3:\d+\) failed to load: no licence$/],
    ['npm:hidden', /failed to load: .* \(the "exports" of its package\.json must name what a policy uses\)$/],
    ['npm:../escape', '"npm:../escape" does not name a package'],
    ['/etc/passwd', 'neither a built-in plugin nor ./path/to/plugin.ts nor npm:package'],
  ]
  let results: { failed?: string }[]
  beforeAll(async () => {
    results = (await child({ config: join(folder, 'gateway.yaml'), uses: rows.map(([use]) => use) })) as typeof results
  })
  test.each(rows.map(([use, says], i) => [use, says, i] as const))('%s', (_, says, i) => {
    expect(results[i]!.failed).toMatch(says)
  })
})

test('a plugin that never finishes loading fails, and the others load', async () => {
  write('plugins/waits.mjs', 'await new Promise(() => {})\nexport default 1')
  const uses = ['./plugins/waits.mjs', './plugins/plain.mjs']
  expect(await child({ config: join(folder, 'gateway.yaml'), uses, limitMs: 1_500 })).toMatchObject([
    { failed: expect.stringMatching(/waits\.mjs\) failed to load: it did not finish loading in 1\.5 s$/) },
    { name: 'plain' },
  ])
})

test('local and npm plugins are loaded with the contract of the running gateway', async () => {
  const uses = [
    './plugins/typed.ts',
    './plugins/plain.mjs',
    './plugins/old.cjs',
    'npm:tollgate-plugin-hello',
    'npm:@acme/header',
    'npm:compiled',
    'npm:@koa/cors',
    'npm:bundler',
    'npm:for-now',
    'npm:for-tag',
    'api-key',
  ]
  const results = await child({ config: join(folder, 'gateway.yaml'), uses })
  const good = { error: null, headers: {}, foreign: false }
  expect(results).toEqual([
    {
      name: 'typed',
      origin: 'file',
      foreign: false,
      headers: { 'x-word': 'hello world' },
      error: { message: expect.any(String), refusal: true },
    },
    { ...good, name: 'plain', origin: 'file' },
    { ...good, name: 'old', origin: 'file' },
    { ...good, name: 'hello', origin: 'npm' },
    { ...good, name: '@acme/header', origin: 'npm', foreign: true, headers: { 'x-greeting': 'hello' } },
    { ...good, name: 'compiled', origin: 'npm', foreign: true },
    { name: '@koa/cors', origin: 'npm', foreign: true, headers: {}, error: expect.anything() },
    { ...good, name: 'bundler', origin: 'npm' },
    { ...good, name: 'for-now', origin: 'npm', foreign: true },
    { ...good, name: 'for-tag', origin: 'npm', foreign: true },
    { ...good, name: 'api-key', origin: 'built-in' },
  ])
})

test('a changed plugin file is loaded again', async () => {
  const text = OUTSIDE['plugins/plain.mjs']!
  const results = await child({
    config: join(folder, 'gateway.yaml'),
    uses: ['./plugins/plain.mjs'],
    rewrite: { path: join(folder, 'plugins/plain.mjs'), text: text.replace("'plain'", "'changed'") },
  })
  expect(results).toMatchObject([{ name: 'plain' }, { name: 'changed' }])
  write('plugins/plain.mjs', text)
})

describe('local imports of a plugin', () => {
  const HEAD = "import { definePlugin } from 'tollgate/plugin'\n"
  const BODY =
    "export default definePlugin({ name: 'mine', settings: { type: 'object', additionalProperties: false, properties: {} }, create: () => async () => {} })\n"
  const RESTART =
    /policies\/standard\.yaml:\d+:\d+: .*\/far\.ts has changed since .*; restart the gateway to use the new text$/

  const COMMON =
    "const { definePlugin } = require('tollgate/plugin')\nmodule.exports = definePlugin({ name: 'mine', settings: { type: 'object', additionalProperties: false, properties: {} }, create: () => async () => {} })\n"

  /** Loads the configuration twice, with a file rewritten in between. */
  async function twice(
    plugin: string,
    text: string,
    far: string,
    rewrite: readonly [path: string, text: string],
    config = 'gateway.yaml',
  ) {
    write('gateway.yaml', Object.values({ ...PARTS, providers: 'providers:\n  demo: { dialect: demo }' }).join('\n'))
    write('policies/standard.yaml', `${STANDARD}  - use: ../plugins/${plugin}\n`)
    write('policies/catalog.yaml', 'steps:\n  - use: api-key\n')
    write(`plugins/${plugin}`, text)
    write('plugins/near.ts', "import { far } from './far.ts'\nexport const near = far\n")
    write('plugins/far.ts', far)
    const [path, then] = rewrite
    return (await child({
      config: join(folder, config),
      rewrite: { path: join(folder, path), text: then },
    })) as { problems?: string[]; files?: string[] }[]
  }

  const FAR = 'export const far = 1\n'
  const IMPORTING = `${HEAD}import { near } from './near.ts'\nif (near > 9) throw new Error('no')\n${BODY}`

  test('are watched, and a change needs a restart, at any depth', async () => {
    const [before, after] = await twice('mine.ts', IMPORTING, FAR, ['plugins/far.ts', 'export const far = 2\n'])
    expect(before!.files).toEqual(
      expect.arrayContaining([join(folder, 'plugins/near.ts'), join(folder, 'plugins/far.ts')]),
    )
    expect(after!.problems).toEqual([expect.stringMatching(RESTART)])
  })

  test('have their own path if the configuration is behind a symlink', async () => {
    symlinkSync('.', join(folder, 'current'))
    const rewrite = ['plugins/far.ts', 'export const far = 2\n'] as const
    const [before, after] = await twice('mine.ts', IMPORTING, FAR, rewrite, 'current/gateway.yaml')
    expect(before!.files).toEqual(
      expect.arrayContaining([join(folder, 'current/plugins/mine.ts'), join(folder, 'plugins/far.ts')]),
    )
    expect(after!.problems).toEqual([expect.stringMatching(RESTART)])
  })

  test('a symlink has changed when its target changes', () => {
    const [link, plugin] = [join(folder, 'links/far.ts'), join(folder, 'links/mine.ts')]
    write('links/mine.ts', '')
    write('links/one/far.ts', FAR)
    write('links/two/far.ts', 'export const far = 2\n')
    symlinkSync('one/far.ts', link)
    const parent = `${pathToFileURL(plugin).href}?content=0`
    const child = pathToFileURL(join(folder, 'links/one/far.ts')).href
    followPlugin(plugin, parent)
    followImport(parent, './far.ts', child)
    noteLoaded(child, 'module-typescript')
    expect(importsOf(plugin)).toEqual([{ file: link, changed: false, wasMissing: false }])
    rmSync(link)
    symlinkSync('two/far.ts', link)
    expect(importsOf(plugin)).toEqual([{ file: link, changed: true, wasMissing: false }])
  })

  test('a missing import is looked up again, even if it appears while the others load', async () => {
    const late = `${HEAD}import { late } from './late.ts'\nif (late > 9) throw new Error('no')\n${BODY}`
    const [before, after] = await twice('mine.ts', late, FAR, ['plugins/late.ts', 'export const late = 1\n'])
    expect(before!.problems).toHaveLength(1)
    expect(after!.problems).toBe(undefined)

    const plugin = join(folder, 'plugins/late-too.ts')
    const parent = `${pathToFileURL(plugin).href}?content=0`
    mkdirSync(join(folder, 'plugins/folder'))
    followPlugin(plugin, parent)
    followImport(parent, './folder', null)
    rmSync(join(folder, 'plugins/late.ts'))
    followImport(parent, './late.ts', null)
    write('plugins/late.ts', '')
    const registry = createRegistry(standIns)
    const { reads, registry: recorded } = recordReads(async () => '', { ...registry, load: () => Promise.reject('no') })
    await recorded.load('./late-too.ts', { policyFile: plugin, configFile: plugin }).catch(() => {})
    // The file exists now, so the next check of the files notices it. The folder existed before.
    const isNews = async (path: string) => reads.get(join(folder, path))!.stamp !== (await stampOf(join(folder, path)))
    expect(await isNews('plugins/late.ts')).toBe(true)
    expect(await isNews('plugins/folder')).toBe(false)
    // Only once, because Node.js may not resolve it again.
    followPlugin(plugin, parent)
    expect(importsOf(plugin).map(each => each.wasMissing)).toEqual([false, false])
  })

  test('an imported file that was only touched, or whose import was removed, needs no restart', async () => {
    const [, touched] = await twice('mine.ts', IMPORTING, FAR, ['plugins/far.ts', FAR])
    expect(touched!.problems).toBe(undefined)
    const [, dropped] = await twice('mine.ts', IMPORTING, FAR, ['plugins/mine.ts', HEAD + BODY])
    expect(dropped!.problems).toBe(undefined)
    expect(dropped!.files).not.toContain(join(folder, 'plugins/near.ts'))
  })

  test('a syntax error in an imported file can be fixed without a restart', async () => {
    const [before, after] = await twice('mine.ts', IMPORTING, 'export const far = = 1\n', ['plugins/far.ts', FAR])
    expect(before!.problems).toHaveLength(1)
    expect(after!.problems).toBe(undefined)
  })

  test.each([
    ['throws', 'export const far = 10\nthrow new Error()\n'],
    ['lacks an imported name', 'export const other = 1\n'],
  ])('Node.js keeps an imported file that %s', async (_name, far) => {
    const [before, after] = await twice('mine.ts', IMPORTING, far, ['plugins/far.ts', FAR])
    expect(before!.problems).toHaveLength(1)
    expect(after!.problems).toEqual([expect.stringMatching(RESTART)])
  })

  test('Node.js keeps a CommonJS plugin', async () => {
    const [before, after] = await twice('mine.cjs', COMMON, FAR, ['plugins/mine.cjs', `${COMMON}// changed\n`])
    expect(before!.problems).toBe(undefined)
    expect(after!.problems).toEqual([
      expect.stringMatching(/mine\.cjs has changed .*; restart the gateway to use the new text$/),
    ])
  })
})

test('a configuration with local and npm plugins loads', async () => {
  write('gateway.yaml', Object.values({ ...PARTS, providers: 'providers:\n  demo: { dialect: demo }' }).join('\n'))
  write(
    'policies/standard.yaml',
    `${STANDARD}  - use: ../plugins/typed.ts\n  - use: npm:@acme/header\n    id: greet\n    with: { greeting: ho, any: [ thing ] }\n`,
  )
  write('policies/catalog.yaml', 'steps:\n  - use: api-key\n')
  const { steps, files } = (await child({ config: join(folder, 'gateway.yaml') })) as {
    steps: unknown[]
    files: string[]
  }
  expect(steps.slice(4)).toEqual([
    { id: 'typed', foreign: false, settings: { greeting: 'hi' } },
    { id: 'greet', foreign: true, settings: { greeting: 'ho', any: ['thing'] } },
  ])
  expect(files).toContain(join(folder, 'plugins/typed.ts'))

  write(
    'policies/standard.yaml',
    `${STANDARD}  - use: ../plugins/typed.ts\n    with: { greting: x }\n  - use: ../plugins/throws.ts\n`,
  )
  const { problems } = (await child({ config: join(folder, 'gateway.yaml') })) as { problems: string[] }
  expect(problems).toEqual([
    expect.stringMatching(/standard\.yaml:7:13: unknown key "greting"; did you mean "greeting"\?$/),
    expect.stringMatching(
      /standard\.yaml:8:10: \.\.\/plugins\/throws\.ts \(plugins\/throws\.ts:1:7\) failed to load: no licence found$/,
    ),
  ])
})

describe('the registry', () => {
  test('finds the built-in plugins by name and by the facts they give', async () => {
    const registry = createRegistry(standIns)
    expect(registry.names).toContain('api-key')
    expect(registry.names).toEqual([...registry.names].sort())
    expect(registry.find('api-key')).toBe(standIns[0])
    expect(registry.find('toString')).toBeUndefined()
    expect(registry.givers('key')).toEqual(['api-key'])
    expect(registry.givers('targets')).toEqual(['route'])
    const place = { policyFile: 'policies/x.yaml', configFile: 'gateway.yaml' }
    expect(await registry.load('schema', place)).toMatchObject({ origin: 'built-in', foreign: false, file: null })
  })

  const good = {
    name: 'good',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => {},
  }
  const made = (more: object) => definePlugin({ ...good, ...more } as never)

  test('refuses invalid built-in plugins', () => {
    expect(() => createRegistry([made({}), made({})])).toThrow('built-in plugin "good": there are two of that name')
    expect(() => createRegistry([{ ...good } as unknown as AnyPlugin])).toThrow('it was not made by definePlugin')
    expect(() => createRegistry([made({ gives: ['money'] })])).toThrow('the fact "money" does not exist')
  })

  test.each([
    [{ name: 'Bad_Name' }, 'its name must be lower-case words with dashes'],
    [{ create: 1 }, 'it has no function "create"'],
    [{ needs: 'key' }, '"needs" must be a list or a function'],
    [{ needs: ['keys'] }, 'the fact "keys" does not exist; did you mean "key"?'],
    [{ gives: ['mony'] }, 'the fact "mony" does not exist'],
    [{ precedes: 'prompt' }, '"precedes" must be a list or a function'],
    [{ uses: ['clok'] }, 'the service "clok" does not exist; did you mean "clock"?'],
    [{ need: ['chat'] }, 'it has "need", which has no effect; did you mean "needs"?'],
    [{ Critical: true }, 'it has "Critical", which has no effect; did you mean "critical"?'],
    [{ before: 'hold' }, '"before" must be a list or a function'],
    [{ before: ['holds'] }, 'the fact "holds" does not exist; did you mean "hold"?'],
    [{ uses: ['database'] }, 'the service "database" does not exist'],
    [{ settings: undefined }, '"settings" must be a JSON Schema of type object with properties'],
    [{ settings: { type: 'object', properties: {} } }, '"settings" must have additionalProperties: false'],
    [
      { settings: { ...good.settings, properties: { size: { type: 'integer' } } } },
      'the setting "size" has no description',
    ],
  ])('%j: %s', (more, complaint) => {
    expect(complaintsAbout(made(more))).toEqual([complaint])
  })

  test('unknown members are allowed', () => {
    expect(complaintsAbout(made({ version: 3, vendor: 'acme' }))).toEqual([])
  })

  test.each([
    ['../plugins/office-huors.ts', '../plugins/office-hours.ts'],
    ['../plugins/office-hours.js', '../plugins/office-hours.ts'],
    ['../plugins/office-hours', '../plugins/office-hours.ts'],
    ['../plugins/short-talks', '../plugins/short-talks/index.ts'],
    ['../plugins/weather.ts', null],
    ['../elsewhere/weather.ts', null],
  ])('%s: did you mean %s', async (use, meant) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-meant-'))
    try {
      mkdirSync(join(folder, 'plugins/short-talks'), { recursive: true })
      for (const file of [
        'office-hours.ts',
        'office-hours.test.ts',
        'short-talks/index.ts',
        'short-talks/index.test.ts',
      ])
        writeFileSync(join(folder, 'plugins', file), '')
      const place = { policyFile: join(folder, 'policies/standard.yaml'), configFile: join(folder, 'gateway.yaml') }
      const error = await createRegistry([])
        .load(use, place)
        .catch((error: Error) => error)
      const [, suggested = null] = /; did you mean "(.*)"\?$/.exec((error as Error).message) ?? []
      expect(suggested, (error as Error).message).toBe(meant)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
