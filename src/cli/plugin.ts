/** `tollgate plugin new`: writes the folder of a new plugin with a passing test. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, extname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { listed } from '../config/yaml/problem.ts'
import { type AddCommand, configOf, example, pathOf, writeNew } from './commands.ts'
import { shownPath } from './configuration.ts'
import { quoted } from './shell.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

export const addPlugin: AddCommand = (program: Command, { terminal, finish }) => {
  program
    .command('plugin')
    .description('create plugins')
    .addHelpText('after', example('plugin new office-hours'))
    .command('new')
    .description('create a plugin: a folder with code, a test and a README')
    .argument('<name>', 'name for policies: lower-case words joined by dashes')
    .option('--folder <folder>', 'parent folder of the plugin (default: plugins, beside the configuration)')
    .addHelpText('after', example('plugin new office-hours', 'plugin new office-hours --folder ../our-plugins'))
    .action((name: string, { folder }: { folder?: string }, command: Command) => {
      const top = dirname(pathOf(terminal, configOf(command)))
      return finish(() => create(terminal, name, { top, parent: pathOf(terminal, folder ?? join(top, 'plugins')) }))
    })
}

/** The gateway's own folder of plugins in a checkout. A plugin there is written in the same style as its neighbours. */
const OWN_PLUGINS = fileURLToPath(new URL('../../plugins', import.meta.url))

/** The value of `use` in a file of `policies/` beside the configuration. */
function useOf(top: string, folder: string): string {
  const path = relative(join(top, 'policies'), join(folder, 'index.ts')).split(sep).join('/')
  return path.includes(' ') ? `"${path}"` : path
}

interface Place {
  /** The folder of gateway.yaml. */
  readonly top: string
  readonly parent: string
}

async function create(terminal: Terminal, name: string, { top, parent }: Place): Promise<ExitCode> {
  await checkName(name)
  const folder = join(parent, name)
  if (existsSync(folder)) throw new CommandError(`${folder} already exists; nothing was written`)
  const isOwn = dirname(folder) === OWN_PLUGINS
  const files = { ...pluginFiles(name, isOwn), ...(isCommonJs(parent) ? { 'package.json': MODULE } : {}) }
  for (const [file, text] of Object.entries(files)) writeNew(join(folder, file), text)
  const shown = shownPath(terminal, folder)
  const test = join(shown, 'index.test.ts')
  terminal.out(
    [
      `${shown}/${listed(Object.keys(files), 'and')} were written.`,
      '',
      'Test it:',
      `  ${isOwn ? ownTestCommand(name) : testCommand(test, folder)}`,
      '',
      `Use it, in a file of ${shownPath(terminal, join(top, 'policies'))}/:`,
      `  - use: ${useOf(top, folder)}`,
      '    with: { most: 20 }',
      '',
      ...(isOwn
        ? [
            'To make it a built-in plugin, add a line to src/loader/builtin.ts and a row to README.md.',
            `Policies can then use it by name: use: ${name}`,
            '',
          ]
        : []),
    ].join('\n'),
  )
  return 0
}

/** The package.json of a folder with ES modules. */
export const MODULE = `${JSON.stringify({ private: true, type: 'module' })}\n`

/** Whether Node would treat the files below a folder as CommonJS, because of a package.json above (from `npm init`). */
function isCommonJs(folder: string): boolean {
  const file = join(folder, 'package.json')
  const above = dirname(folder)
  if (!existsSync(file)) return above !== folder && isCommonJs(above)
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as { type?: unknown }).type === 'commonjs'
  } catch {
    // Node reports the invalid file itself.
    return false
  }
}

async function checkName(name: string): Promise<void> {
  if (!/^[a-z][a-z0-9-]{0,39}$/.test(name)) {
    throw new CommandError(
      `"${name}" is not a valid plugin name: use up to 40 lower-case letters, digits and dashes, beginning with a letter`,
    )
  }
  const { BUILT_IN } = await import('../loader/builtin.ts')
  if (BUILT_IN.some(plugin => plugin.name === name)) {
    throw new CommandError(`"${name}" is a built-in plugin; use another name`)
  }
}

/** The command for the test in a folder. If the package is installed above it, Node finds `tollgate/testing` by itself. */
export function testCommand(file: string, folder: string): string {
  const [above, inPackage] = fileURLToPath(import.meta.url).split(/(?<=\/)node_modules\/tollgate\//)
  if (inPackage !== undefined && folder.startsWith(above!)) return `node --test ${quoted(file)}`
  const register = fileURLToPath(new URL(`../testing/register${extname(import.meta.url)}`, import.meta.url))
  return `${quoted(process.execPath)} --import ${quoted(register)} --test ${quoted(file)}`
}

/** The command for the test of a built-in plugin, at the top of the checkout. */
export function ownTestCommand(name: string): string {
  return `npx vitest run --config test/vitest.config.ts plugins/${name}`
}

/** The files of a new plugin by name; `isOwn`: a built-in plugin. */
export function pluginFiles(name: string, isOwn = false): Readonly<Record<string, string>> {
  return {
    'index.ts': codeOf(name, isOwn ? '#contract' : 'tollgate/plugin'),
    'index.test.ts': isOwn ? ownTestOf(name) : testOf(name),
    'README.md': readmeOf(name, isOwn ? name : `../plugins/${name}/index.ts`),
  }
}

function codeOf(name: string, contract: string): string {
  return `/** Refuses conversations of more messages than a policy allows. */
import { definePlugin, refuse } from '${contract}'

interface Settings {
  readonly most: number
}

export default definePlugin({
  name: '${name}',
  description: 'Refuses conversations of more messages than the policy allows.',
  // It decides from the request alone, so reload's dry run, explain and replay can run it.
  dryRun: true,
  // The facts that earlier steps must give, and the facts that this step gives.
  needs: ['chat'],
  gives: [],
  // The services for \`create\`: clock, random, buckets, catalog, log and others.
  uses: [],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['most'],
    properties: {
      most: { type: 'integer', minimum: 1, description: 'The maximum number of messages in a request.' },
    },
  },
  // Called once for each step, when the configuration is loaded.
  create({ most }: Settings) {
    return {
      // Returns to let the request continue, or throws a refusal.
      decide({ exchange }) {
        const { length } = exchange.chat.body.messages
        if (length > most) {
          throw refuse('invalid_value', {
            message: \`The request has \${length} messages; at most \${most} are allowed here.\`,
            param: 'messages',
          })
        }
      },
    }
  },
})
`
}

function testOf(name: string): string {
  return `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { conform, openBench } from 'tollgate/testing'
import plugin from './index.ts'

${stepsOf(name)}
test('a conversation that is too long is refused, without a provider call or a charge', async () => {
  await using bench = await openBench({ plugins: [plugin], steps })
  const answer = await bench.chat({ messages: messages(3) })
  // Check the plugin's errors first: they explain other failures of the test.
  assert.deepEqual(bench.mistakes, [])
  assert.equal(answer.status, 400)
  assert.equal(answer.error?.param, 'messages')
  assert.equal(bench.upstream.calls.length, 0)
  assert.equal(bench.ledger.balance().posted, 10_000_000_000n)
})

test('a shorter conversation passes', async () => {
  await using bench = await openBench({ plugins: [plugin], steps })
  bench.upstream.script({ content: ['Hel', 'lo'] })
  const answer = await bench.chat({ messages: messages(2), stream: true })
  assert.deepEqual(bench.mistakes, [])
  assert.equal(answer.content, 'Hello')
  assert.equal(bench.trail(answer).find(({ step }) => step === '${name}')?.verdict, 'passed')
})

test('the guarantees of the gateway hold for every way in which an exchange ends', async () => {
  await conform(plugin, { most: 2 })
})
`
}

/** The common start of both tests. */
function stepsOf(name: string): string {
  return `const steps = [
  { use: 'api-key' },
  { use: 'schema' },
  { use: '${name}', with: { most: 2 } },
  { use: 'credits' },
  { use: 'route' },
]
const messages = (count: number) => Array.from({ length: count }, () => ({ role: 'user', content: 'Hello' }))
`
}

function ownTestOf(name: string): string {
  return `import { expect, test } from 'vitest'
import { conform, openBench } from '../../src/testing/index.ts'
import plugin from './index.ts'

${stepsOf(name)}
test('a conversation that is too long is refused, without a provider call or a charge', async () => {
  await using bench = await openBench({ plugins: [plugin], steps })
  const answer = await bench.chat({ messages: messages(3) })
  // Check the plugin's errors first: they explain other failures of the test.
  expect(bench.mistakes).toEqual([])
  expect(answer.status).toBe(400)
  expect(answer.error).toMatchObject({ code: 'invalid_value', param: 'messages' })
  expect(bench.upstream.calls.length).toBe(0)
  expect(bench.ledger.balance().posted).toBe(10_000_000_000n)
})

test('a shorter conversation passes', async () => {
  await using bench = await openBench({ plugins: [plugin], steps })
  bench.upstream.script({ content: ['Hel', 'lo'] })
  const answer = await bench.chat({ messages: messages(2), stream: true })
  expect(bench.mistakes).toEqual([])
  expect(answer.content).toBe('Hello')
  expect(bench.trail(answer).find(({ step }) => step === '${name}')?.verdict).toBe('passed')
})

test('the guarantees of the gateway hold for every way in which an exchange ends', async () => {
  await conform(plugin, { most: 2 })
})
`
}

function readmeOf(name: string, use: string): string {
  return `# ${name}

\`${name}\` refuses requests with more messages than a policy allows. Every new plugin starts as this sample: change
\`index.ts\`, its test and this page together.

\`\`\`yaml
steps:
  - use: api-key
  - use: schema
  - use: ${use}
    with: { most: 20 }
  - use: credits
  - use: route
\`\`\`

| Setting | Meaning | Default |
| --- | --- | --- |
| \`most\` | the maximum number of messages in a request | required |

It needs the fact \`chat\`, which \`schema\` gives.

| Refused | Status | Code |
| --- | --- | --- |
| a request with more messages | 400 | \`invalid_value\` |
`
}
