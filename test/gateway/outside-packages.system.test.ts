/**
 * Third-party plugins in their own packages, installed by npm beside a configuration outside of this repository. `tollgate check` and
 * `tollgate serve` find them, or report the problem of each.
 */
import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { createAccount, startGateway, temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'

const SETTINGS = `settings: {
    type: 'object',
    additionalProperties: false,
    properties: { word: { type: 'string', description: 'What the header says.', default: 'well' } },
  }`
const HANDLE = (header: string) => `create: ({ word }) => async (ctx, next) => {
    ctx.set('${header}', word)
    await next()
  }`

/** The packages, each with its package.json; `index.js` by default. */
const PACKAGES: Readonly<Record<string, { readonly manifest: object; readonly files: Record<string, string> }>> = {
  'tollgate-plugin-modern': {
    manifest: {
      type: 'module',
      exports: { '.': { import: './lib/main.js' }, './strict': './lib/strict.js' },
      peerDependencies: { tollgate: '>=0.1' },
      peerDependenciesMeta: { tollgate: { optional: true } },
    },
    files: {
      'lib/main.js': `import { definePlugin } from 'tollgate/plugin'
import { name } from './name.js'
export default definePlugin({ name, ${SETTINGS}, ${HANDLE('x-modern')} })`,
      'lib/name.js': `export const name = 'modern'`,
      'lib/strict.js': `import { definePlugin, refuse } from 'tollgate/plugin'
export default definePlugin({
  name: 'strict', needs: ['chat'], ${SETTINGS},
  create: ({ word }) => async (ctx, next) => {
    const said = JSON.stringify(ctx.exchange.chat.body.messages)
    if (said.includes(word)) throw refuse('invalid_value', { message: 'Not that word.', param: 'messages' })
    await next()
  },
})`,
    },
  },
  '@acme/classic': {
    manifest: { main: 'index.js' },
    files: {
      'index.js': `const { definePlugin } = require('tollgate/plugin')
module.exports = definePlugin({ name: 'classic', ${SETTINGS}, ${HANDLE('x-classic')} })`,
    },
  },
  'bad-throws': { manifest: { type: 'module' }, files: { 'index.js': `throw new Error('no licence')` } },
  'bad-nothing': { manifest: { type: 'module' }, files: { 'index.js': `export const plugin = 1` } },
  'bad-shape': { manifest: {}, files: { 'index.js': `module.exports = { name: 'bad-shape' }` } },
  'bad-name': {
    manifest: {},
    files: {
      'index.js': `const { definePlugin } = require('tollgate/plugin')
module.exports = definePlugin({ name: 'credits', ${SETTINGS}, ${HANDLE('x-bad')} })`,
    },
  },
  'bad-version': {
    manifest: { engines: { tollgate: '^99.0.0' } },
    files: { 'index.js': `module.exports = () => () => {}` },
  },
}

let dir: string
beforeAll(async () => {
  dir = await temporaryDirectory()
  await writeFile(join(dir, 'package.json'), JSON.stringify({ name: 'ours', private: true }))
  for (const [name, { manifest, files }] of Object.entries(PACKAGES)) {
    const texts = { 'package.json': JSON.stringify({ name, version: '1.0.0', ...manifest }), ...files }
    for (const [file, text] of Object.entries(texts)) {
      const path = join(dir, 'packages', name, file)
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, text)
    }
  }
  // Copied like packages from a registry, not linked.
  const packages = Object.keys(PACKAGES).map(name => `./packages/${name}`)
  const quiet = ['--offline', '--no-audit', '--no-fund', '--install-links', '--ignore-scripts']
  await promisify(execFile)('npm', ['install', ...quiet, ...packages], { cwd: dir })
})

const yaml = (policy: string) => ({
  version: 1,
  listen: '127.0.0.1:0',
  store: 'memory',
  providers: { p: { dialect: 'demo', pace: '1ms' } },
  models: { m: { targets: [{ provider: 'p', model: 'demo-small' }], price: 'free', context: 8192, max_output: 100 } },
  routes: [{ path: '/v1/chat/completions', policy }],
})

const catalog = { steps: [{ use: 'api-key' }] }
const good = {
  steps: [
    { use: 'npm:tollgate-plugin-modern', with: { word: 'new' } },
    { use: 'npm:@acme/classic' },
    { use: 'api-key' },
    { use: 'schema' },
    { use: 'npm:tollgate-plugin-modern/strict', with: { word: 'never' } },
    { use: 'route' },
  ],
}

describe('valid packages', () => {
  test('pass the check, and their settings are checked', async () => {
    const config = await writeConfiguration(dir, { yaml: yaml('good'), policies: { good, catalog } })
    expect(await tollgate(['check'], { config, cwd: '/' })).toMatchObject({ code: 0 })
    const [first, ...rest] = good.steps
    await writeConfiguration(dir, {
      yaml: yaml('good'),
      policies: { good: { steps: [{ ...first, with: { wrod: 'new' } }, ...rest] } },
    })
    const { code, stdout, stderr } = await tollgate(['check'], { config, cwd: '/' })
    expect(code).toBe(1)
    expect(stdout + stderr).toMatch(/policies\/good\.yaml:\d+:\d+: .*unknown key "wrod"; did you mean "word"\?/)
  })

  test('serve', async () => {
    const gateway = await startGateway({
      dir,
      yaml: { ...yaml('good'), store: 'sqlite:./tollgate.db' },
      policies: { good, catalog },
    })
    const { key } = await createAccount(gateway, { credit: 1 })
    const chat = (content: string) =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }),
      })
    const answer = await chat('Hello')
    expect(answer.status).toBe(200)
    expect([answer.headers.get('x-modern'), answer.headers.get('x-classic')]).toEqual(['new', 'well'])
    const refused = await chat('never say it')
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ error: { code: 'invalid_value', message: 'Not that word.' } })
    expect(await gateway.stop()).toBe(0)
  })
})

test('invalid packages: each is reported with its place and reason, all at once', async () => {
  const uses = ['absent', ...Object.keys(PACKAGES).filter(name => name.startsWith('bad-'))]
  const steps = [
    { use: 'api-key' },
    { use: 'schema' },
    ...uses.map(name => ({ use: `npm:${name}`, id: name })),
    { use: 'route' },
  ]
  const config = await writeConfiguration(dir, { yaml: yaml('bad'), policies: { bad: { steps }, catalog } })
  const { code, stdout, stderr } = await tollgate(['check'], { config, cwd: '/' })
  expect(code).toBe(1)
  const reasons = [
    [`the package absent is not installed beside the configuration; run npm install in ${dir}`],
    [`npm:bad-throws (node_modules/bad-throws/index.js:1:7) failed to load: no licence`],
    [`npm:bad-nothing (${dir}) has no default export`],
    ['the default export of npm:bad-shape is neither a plugin nor a function that makes a Koa middleware'],
    [`the plugin of npm:bad-name is called "credits", like a built-in plugin: give it another name`],
    ['npm:bad-version is for tollgate ^99.0.0, but this is '],
  ]
  const said = (stdout + stderr).split('\n').filter(line => line.includes('policies/bad.yaml:'))
  expect(said.length).toBe(reasons.length)
  for (const [i, words] of reasons.entries()) {
    expect(said[i]).toMatch(/policies\/bad\.yaml:\d+:10: /)
    for (const word of words) expect(said[i]).toContain(word)
  }
})
