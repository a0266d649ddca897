/**
 * `tollgate init`: writes the files of a new gateway. With the embedded demo these include tests and a CI workflow; with
 * `--provider` they are a small gateway with real providers.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { listed } from '../config/yaml/problem.ts'
import type { Vendor } from '../providers/dialects/vendors.ts'
import { type AddCommand, example, pathOf, withoutConfig, writeNew } from './commands.ts'
import { type Environment, environmentOf, shownPath } from './configuration.ts'
import { pairs } from './format.ts'
import {
  askVendors,
  environmentExample,
  modelsYaml,
  providersYaml,
  SERVICE_ACCOUNT,
  titlesOf,
  variablesOf,
  vendorsValue,
} from './init-provider.ts'
import { MODULE, pluginFiles } from './plugin.ts'
import { modeline, writeSchemaFile } from './schema.ts'
import { quoted } from './shell.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

export const addInit: AddCommand = (program: Command, { terminal, finish }) => {
  withoutConfig(program.command('init'))
    .description(
      'write the files of a new gateway: with real providers, or with the embedded demo, a policy, a plugin and tests',
    )
    .argument('[folder]', 'folder to write to; it is created if it is missing', '.')
    .option(
      '--provider <names>',
      'real providers, separated by commas: openai, anthropic, bedrock, ollama and others (default: a terminal asks)',
      vendorsValue,
    )
    .addHelpText('after', example('init', 'init --provider openai', 'init --provider openai,anthropic my-gateway'))
    .action((folder: string, { provider }: { provider?: readonly Vendor[] }) =>
      finish(() => init(terminal, folder, provider)),
    )
}

/** The checkout, or the compiled folder of an installed package, which has the shipped files in the same places. */
const SHIPPED = fileURLToPath(new URL('../..', import.meta.url))
/** Always overwritten: `tollgate schema` generates it. */
const SCHEMA = '.tollgate/schema.json'
const PLUGIN = 'short-talks'
/** Files that a repository often has already: `.gitignore` gets the missing lines, `tsconfig.json` stays unchanged. */
const SHARED: ReadonlySet<string> = new Set(['.gitignore', 'tsconfig.json'])

async function init(terminal: Terminal, folder: string, named: readonly Vendor[] | undefined): Promise<ExitCode> {
  const top = pathOf(terminal, folder)
  const place = { terminal, folder, top }
  const env = environmentOf(terminal, join(top, 'gateway.yaml'))
  const vendors = named ?? (await vendorsFromTerminal(place, env))
  const files = vendors.length === 0 ? demoFiles() : providerFiles(vendors)
  refuseToReplace(place, Object.keys(files))
  for (const [name, text] of Object.entries(files)) {
    const file = join(top, name)
    if (!existsSync(file)) writeNew(file, text)
    else if (name === '.gitignore') appendMissing(file, text)
  }
  await writeSchemaFile(terminal, join(top, 'gateway.yaml'), join(top, SCHEMA))
  terminal.out(vendors.length === 0 ? demoText(place) : providerText(place, vendors, env))
  return 0
}

interface Place {
  readonly terminal: Terminal
  /** As in the command line. */
  readonly folder: string
  /** The absolute path. */
  readonly top: string
}

/** An empty list means the embedded demo. */
async function vendorsFromTerminal(place: Place, env: Environment): Promise<readonly Vendor[]> {
  const { terminal } = place
  if (terminal.ask === undefined) return []
  refuseToReplace(place, ['gateway.yaml'])
  return askVendors(terminal, terminal.ask, env)
}

function refuseToReplace({ terminal, top }: Place, names: readonly string[]): void {
  const there = names.filter(name => !SHARED.has(name) && existsSync(join(top, name)))
  if (there.length === 0) return
  const [verb, them] = there.length === 1 ? ['is', 'it'] : ['are', 'them']
  throw new CommandError(
    `${there.map(name => shownPath(terminal, join(top, name))).join(', ')} ${verb} already there; nothing was written. ` +
      `Move ${them} away, or use another folder: ${terminal.self} init FOLDER`,
  )
}

/** Texts by path relative to the folder. */
function demoFiles(): Readonly<Record<string, string>> {
  return {
    'gateway.yaml': demoConfiguration(),
    'policies/standard.yaml': policy(STEP),
    'policies/standard.test.yaml': policyTests(),
    ...Object.fromEntries(
      Object.entries(pluginFiles(PLUGIN)).map(([name, text]) => [`plugins/${PLUGIN}/${name}`, text]),
    ),
    // A package.json above may say "commonjs", as `npm init` writes it.
    'plugins/package.json': MODULE,
    'tsconfig.json': `${JSON.stringify(TYPES, null, 2)}\n`,
    '.gitignore': IGNORED,
    '.github/workflows/policies.yaml': WORKFLOW,
  }
}

/** Texts by path relative to the folder. */
function providerFiles(vendors: readonly Vendor[]): Readonly<Record<string, string>> {
  const example = vendors.some(vendor => variablesOf(vendor).length > 0)
  return {
    'gateway.yaml': providerConfiguration(vendors),
    'policies/standard.yaml': policy(''),
    ...(example ? { '.env.example': environmentExample(vendors) } : {}),
    '.gitignore': `${IGNORED}${needsFile(vendors) ? `${SERVICE_ACCOUNT}\n` : ''}`,
  }
}

const needsFile = (vendors: readonly Vendor[]): boolean => providersYaml(vendors).includes(SERVICE_ACCOUNT)

function shipped(name: string): string {
  return readFileSync(join(SHIPPED, name), 'utf8')
}

/** The shipped configuration without its first comment, which is for a checkout. */
function demoConfiguration(): string {
  const text = shipped('gateway.yaml')
  return `${modeline('gateway.yaml', SCHEMA)}
# An embedded demo provider, two models with prices, three routes. It needs no network and no provider key.
# \`npx tollgate check\` reports mistakes with line and column; \`npx tollgate schema --markdown\` explains every key.
${text.slice(text.indexOf('version: 1\n'))}`
}

/** The listeners and routes of the shipped configuration, without its open registration, which would let strangers use the providers. */
function providerConfiguration(vendors: readonly Vendor[]): string {
  const text = shipped('gateway.yaml')
  const head = text.slice(text.indexOf('version: 1\n'), text.indexOf('\nproviders:\n'))
  return `${modeline('gateway.yaml', SCHEMA)}
# A gateway for ${titlesOf(vendors)}. The environment, or .env beside this file, has the values of \${...}.
# \`npx tollgate check\` reports mistakes with line and column; \`npx tollgate schema --markdown\` explains every key.
${head.replace(/^registration:.*\n/m, '')}
${providersYaml(vendors)}
${modelsYaml(vendors)}
${text.slice(text.indexOf('routes:\n'))}`
}

const STEP = `  - use: ../plugins/${PLUGIN}/index.ts
    with: { most: 50 }
`

function policy(step: string): string {
  const own = shipped('policies/standard.yaml')
  if (/^ *- use: ['"]?\.\.?\//m.test(own))
    throw new CommandError(
      `${join(SHIPPED, 'policies/standard.yaml')}, which init copies, names a plugin by its path, and that file would be missing. ` +
        'Undo the change (git checkout policies/standard.yaml), or install Tollgate as a package.',
    )
  const text = own.replace('  - use: credits\n', `${step}$&`)
  return `${modeline('policies/standard.yaml', SCHEMA)}\n${text}`
}

function policyTests(): string {
  const others = '*message, '.repeat(10).trimEnd()
  const rows = Array.from({ length: 5 }, () => `            ${others}\n`).join('')
  return `${modeline('policies/standard.test.yaml', SCHEMA)}
${shipped('policies/standard.test.yaml').trimEnd()}

  - name: a conversation of more than fifty messages is refused
    request:
      body:
        messages:
          [ &message { role: user, content: Hello },
${rows}          ]
    expect: { status: 400, code: invalid_value, decided_by: ${PLUGIN}, upstream: 0, charged: $0 }
`
}

/** For editors and `tsc`. The package contains the types. */
const TYPES = {
  compilerOptions: {
    module: 'nodenext',
    target: 'es2024',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
  },
  include: ['plugins'],
}

const IGNORED = `# The store, its secret and the editor schema, which \`npx tollgate schema\` writes again.
.tollgate/
.env
node_modules/
`

const WORKFLOW = `# Reports mistakes in the configuration beside their lines, then runs the tests of policies and plugins.
name: policies
on: [push, pull_request]
permissions: { contents: read }
jobs:
  policies:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with: { node-version: 26 }
      - run: npm ci                                     # package.json names tollgate
      - run: npx tollgate check --format github
      - run: npx tollgate test
      - run: node --test
`

function appendMissing(file: string, text: string): void {
  const before = readFileSync(file, 'utf8')
  const known = new Set(before.split('\n').map(line => line.trim()))
  const missing = text.split('\n').filter(line => !known.has(line))
  if (missing.every(line => line === '' || line.startsWith('#'))) return
  appendFileSync(file, `${before === '' || before.endsWith('\n') ? '' : '\n'}${missing.join('\n')}\n`)
}

function demoText({ terminal, folder, top }: Place): string {
  const lines: [string, string][] = [
    ['gateway.yaml', 'providers, models with prices, routes'],
    ['policies/', 'the steps of a route, and their tests'],
    [`plugins/${PLUGIN}/`, 'an example plugin with its test'],
    ['.github/workflows/', 'a workflow that runs check and the tests'],
    ['tsconfig.json, .gitignore', `for editors, with ${SCHEMA}, and for git`],
  ]
  const config = configOption({ terminal, folder, top })
  const commands = ['check', 'test', 'serve'].map(name => `  ${terminal.self} ${name}${config}\n`)
  const missing = isInstalled(top)
    ? "\nThe workflow runs npm ci: commit package.json, its lock file, and Tollgate's tgz file if you installed from one.\n"
    : '\nThe workflow and the test of the plugin need the package of Tollgate in this folder: npm init -y && npm install PACKAGE\n' +
      'PACKAGE is tollgate-VERSION.tgz, which npm pack creates in a clone of Tollgate after npm ci.\n'
  return `Wrote:\n${pairs(lines)}\nNext:\n\n${commands.join('')}${missing}`
}

/** Shows only the names of variables: their values are secrets. */
function providerText(place: Place, vendors: readonly Vendor[], env: Environment): string {
  const { terminal, top } = place
  const names = vendors.flatMap(variablesOf).map(({ name }) => name)
  const [set, missing] = [names.filter(name => env[name]), names.filter(name => !env[name])]
  const lines: [string, string][] = [
    ['gateway.yaml', `${titlesOf(vendors)}: models with their prices, routes`],
    ['policies/', 'the steps of a route'],
    ...(names.length === 0
      ? []
      : [['.env.example', 'the variables that gateway.yaml needs'] satisfies [string, string]]),
    ['.gitignore', `for git; ${SCHEMA} is for editors`],
  ]
  const config = configOption(place)
  const dotenv = shownPath(terminal, join(top, '.env'))
  const known = set.length === 0 ? '' : `Already set in the environment or in ${dotenv}: ${set.join(', ')}\n\n`
  const file = needsFile(vendors)
    ? `Put the JSON file of a Google service account here: ${shownPath(terminal, join(top, SERVICE_ACCOUNT))}\n`
    : ''
  const write =
    missing.length === 0
      ? ''
      : `Put ${listed(missing, 'and')} into ${dotenv}; .env.example explains where to find ${missing.length === 1 ? 'it' : 'them'}. Lines of .env: NAME=value\n`
  const run = (command: string) => `  ${terminal.self} ${command}${config}\n`
  return `Wrote:
${pairs(lines)}
${known}Next:

${file}${write}
${run('serve')}
The first start on a terminal creates an account with credit and a key. To create more while it runs:

${run('account create NAME --credit 10')}${run('key create --account NAME')}`
}

/** The option -c for the new gateway in a pasted command; empty in the current folder. */
function configOption({ terminal, folder, top }: Place): string {
  return top === terminal.folder ? '' : ` -c ${quoted(join(folder, 'gateway.yaml'))}`
}

/** Whether Node finds `tollgate/testing` from this folder. */
function isInstalled(folder: string): boolean {
  const above = dirname(folder)
  return existsSync(join(folder, 'node_modules/tollgate/package.json')) || (above !== folder && isInstalled(above))
}
