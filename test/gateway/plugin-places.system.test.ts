/**
 * An error in a plugin is reported with its place in the plugin's file, wherever it occurs: in a reload, in `tollgate check` and in
 * `tollgate test`. Node itself loads the files, because the test reads its stacks.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import {
  createAccount,
  type Gateway,
  startGateway,
  temporaryDirectory,
  tollgate,
  writeConfiguration,
} from '../helpers/gateway.ts'
import { until } from '../helpers/until.ts'

/** With types at the top, which Node strips in place. */
const plugin = (name: string, parts: string, head = '') => `import { definePlugin } from 'tollgate/plugin'
interface Settings {
  readonly most: number
}
${head}
export default definePlugin<Settings>({
  name: '${name}',
  dryRun: true,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  ${parts}
})
`
const CREATE = 'create: () => (_ctx, next) => next(),'
const THROW = `throw new Error('boom')`

/** Each with the file that throws, if it is not the plugin itself. */
const MISTAKES: [name: string, text: string, thrownIn?: string][] = [
  ['at-import', plugin('at-import', CREATE, `const most: number = 3\nif (most > 2) ${THROW}`)],
  ['at-check', plugin('at-check', `check(): never { ${THROW} },\n  ${CREATE}`)],
  ['at-needs', plugin('at-needs', `needs: (): never => { ${THROW} },\n  ${CREATE}`)],
  ['at-create', plugin('at-create', `create(): never { ${THROW} },`)],
  [
    'at-request',
    plugin('at-request', `create: () => async (_ctx, next) => { await next.call(null).catch(() => {}); ${THROW} },`),
  ],
  [
    'below',
    plugin(
      'below',
      'create: () => async () => { await check(3) },',
      `import { check } from '../lib/check.ts'\nexport type Most = Settings['most']`,
    ),
    'lib/check.ts',
  ],
]
const FILES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(MISTAKES.map(([name, text]) => [`policies/${name}.ts`, text])),
  'policies/fine.ts': plugin('fine', CREATE),
  'lib/check.ts': `export type Most = number\nexport async function check(most: Most): Promise<never> {\n  ${THROW} as never\n}\n`,
  'policies/main.test.yaml': 'tests:\n  - { name: it works, expect: { status: 200 } }\n',
}
const policyWith = (name: string) =>
  `steps:\n  - use: api-key\n  - use: schema\n  - use: route\n  - use: ./${name}.ts\n`

const YAML = {
  version: 1,
  listen: '127.0.0.1:0',
  store: 'sqlite:./store.db',
  providers: { p: { dialect: 'demo' } },
  models: { m: { targets: [{ provider: 'p', model: 'm' }], price: 'free', context: '8Ki', max_output: '1Ki' } },
  routes: [{ path: '/v1/chat/completions', policy: 'main' }],
}

let gateway: Gateway

async function project(): Promise<string> {
  const dir = await temporaryDirectory()
  for (const folder of ['policies', 'lib']) await mkdir(join(dir, folder))
  for (const [file, text] of Object.entries(FILES)) await writeFile(join(dir, file), text)
  return dir
}

beforeAll(async () => {
  gateway = await startGateway({ dir: await project(), yaml: YAML, policies: { main: policyWith('fine') } })
})

function placeIn(text: string, words: string) {
  const lines = text.split('\n')
  const at = lines.findIndex(each => each.includes(words))
  return { line: at + 1, column: lines[at]!.indexOf(words) + 1 }
}

/** `policies/at-create.ts:8:24`, computed from the text. */
function placeOf(file: string): string {
  const { line, column } = placeIn(FILES[file]!, "new Error('boom')")
  return `${file}:${line}:${column}`
}

test.each(MISTAKES)('%s', async (name, _text, file = `policies/${name}.ts`) => {
  const said = `boom (${placeOf(file)})`
  const expected = name === 'at-import' ? `./at-import.ts (${placeOf(file)}) failed to load: boom` : said
  const dir = await project()
  const config = await writeConfiguration(dir, { yaml: YAML, policies: { main: policyWith(name) } })
  for (const command of ['check', 'test']) {
    const { code, stdout } = await tollgate([command], { config })
    expect(code).toBe(1)
    expect(stdout).toContain(expected)
    expect(stdout.split('boom')).toHaveLength(2)
  }

  await writeFile(join(gateway.dir, 'policies/main.yaml'), policyWith(name))
  process.kill(gateway.pid, 'SIGHUP')
  const line = await gateway.waitForLog(each => String(each['problem']).includes(expected))
  expect(line['msg']).toBe('the configuration is not changed')
})

test.each([
  ['rejection', `void Promise.reject(new Error('boom'))`, 'an unhandled rejected promise'],
  ['exception', `setTimeout(() => { throw new Error('boom') })`, 'an uncaught error, which ends a gateway'],
])('check reports a stray error in the dry run: %s', async (_name, deed, what) => {
  const dir = await project()
  const config = await writeConfiguration(dir, { yaml: YAML, policies: { main: policyWith('astray') } })
  const text = plugin('astray', `create: () => async (_ctx, next) => { ${deed}; await next() },`)
  await writeFile(join(dir, 'policies/astray.ts'), text)
  const { code, stdout } = await tollgate(['check'], { config })
  expect(code).toBe(1)
  const { line, column } = placeIn(text, "new Error('boom')")
  expect(stdout).toContain(
    `policies/main.yaml:1:1: in the dry run, ${what}: boom (policies/astray.ts:${line}:${column})`,
  )
})

const WATCHES = `create: () => (ctx, next) => { ctx.exchange.watch(() => { ${THROW} }); return next() },`

test.each([
  ['after the answer', 'late', FILES['policies/at-request.ts']!.replace('dryRun: true', 'dryRun: false')],
  ['in a watch', 'watches', plugin('watches', WATCHES)],
])('an error at a real request, in the log: %s', async (_where, file, text) => {
  await writeFile(join(gateway.dir, `policies/${file}.ts`), text)
  await writeFile(join(gateway.dir, 'policies/main.yaml'), policyWith(file))
  process.kill(gateway.pid, 'SIGHUP')
  const changed = () => gateway.logs().filter(each => each['msg'] === 'the configuration has changed').length
  await until(() => expect(changed()).toBe(file === 'late' ? 1 : 2))
  const { key } = await createAccount(gateway, { credit: 1 })
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }] })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })
  const { line, column } = placeIn(text, "new Error('boom')")
  const at = `policies/${file}.ts:${line}:${column}`
  await gateway.waitForLog(each => each['msg'] === 'a plugin failed' && each['at'] === at)
})
