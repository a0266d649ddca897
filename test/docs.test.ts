/**
 * What the READMEs show is what happens: every configuration in them loads, every message is the one that is printed,
 * every client and every command line runs against a real gateway.
 */
import { execFile, execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { SERVICE_NAMES } from '#contract'
import { run } from '../src/cli/cli.ts'
import { WHEN_FIELDS } from '../src/config/conditions/facts.ts'
import { loadConfiguration } from '../src/config/load.ts'
import { POLICY_SCHEMA } from '../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../src/config/schema.ts'
import { formatProblem } from '../src/config/yaml/problem.ts'
import { builtinRegistry } from '../src/loader/builtin.ts'
import { findPython } from './clients/python.ts'
import { runCommand } from './helpers/command.ts'
import { createAccount, type Gateway, startGateway, temporaryDirectory, tollgate } from './helpers/gateway.ts'
import { allFiles, ROOT, read, samplesOf, tableOf } from './helpers/repository.ts'
import { parseSse } from './helpers/sse.ts'

const READMES = allFiles().filter(file => file.endsWith('.md'))
// Each of these is one story: test/guide.test.ts and test/migrate.test.ts follow them.
const STORIES = /^(policies\/GUIDE|src\/config\/migrate\/FROM-[A-Z-]+)\.md$/
const samples = READMES.filter(file => !STORIES.test(file)).flatMap(samplesOf)
const inLanguage = (language: string, file?: string) =>
  samples.filter(sample => sample.language === language && (file === undefined || sample.file === file))

/** What the samples name. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    samples.flatMap(({ text }) =>
      [...text.matchAll(/\$\{([A-Z_0-9]+)\}/g)].map(([, name]) => [name, `sk-0123456789abcdef-${name}`]),
    ),
  ),
  DATABASE_URL: 'postgres://tollgate:secret@db.example/tollgate',
  GOOGLE_SERVICE_ACCOUNT: JSON.stringify({
    client_email: 'gateway@project.example',
    private_key: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    }),
    token_uri: 'https://token.example/',
  }),
}

interface Scrape {
  readonly scrape_configs: readonly object[]
}

describe('configurations', () => {
  test.each(inLanguage('yaml').map(sample => [sample.place, sample] as const))('%s loads', async (_place, sample) => {
    const dir = await configurationDirectory()
    const file = join(dir, 'gateway.yaml')
    const value = parse(sample.text) as Record<string, unknown>
    if ('version' in value) writeFileSync(file, sample.text)
    else if ('steps' in value) {
      writeFileSync(file, stringify(minimal('sample', sample.text)))
      writeFileSync(join(dir, 'policies/sample.yaml'), completed(sample.text))
    } else if ('tests' in value) {
      await passes(dir, sample.text)
      return
    } else if ('models' in value) writeFileSync(file, stringify(withModels(value['models'] as Models)))
    else if ('admin' in value || 'store' in value || 'telemetry' in value)
      writeFileSync(file, stringify({ ...minimal('standard'), ...value }))
    else if ('scrape_configs' in value) return checkScrape(value as unknown as Scrape, sample)
    else throw new Error(`${sample.place}: neither a gateway.yaml, nor a part of one, nor steps`)

    const loaded = await loadConfiguration(file, { env: ENVIRONMENT, registry: builtinRegistry() })
    const problems = 'problems' in loaded ? loaded.problems : []
    expect(problems.map(problem => formatProblem(problem))).toEqual([])
  })

  /** Prometheus sends the text of that file as `Authorization: Bearer …` when no type is given, and asks for /metrics. */
  function checkScrape({ scrape_configs: [job] }: Scrape, { file }: { readonly file: string }): void {
    const gateway = inLanguage('yaml', file).find(({ text }) => text.startsWith('admin:'))!
    const { admin, metrics } = parse(gateway.text) as { admin: string; metrics: string }
    expect(metrics).toBe('token')
    expect(job).toEqual({
      job_name: 'tollgate',
      authorization: { credentials_file: expect.stringMatching(/^\//) },
      static_configs: [{ targets: [admin] }],
    })
  }

  test('the samples are found', () => {
    const files = new Set(inLanguage('yaml').map(({ file }) => file))
    const plugins = readdirSync(join(ROOT, 'plugins'), { withFileTypes: true }).filter(entry => entry.isDirectory())
    for (const { name } of plugins) expect(files).toContain(`plugins/${name}/README.md`)
    const pages = ['README.md', 'plugins/README.md', 'policies/README.md', 'src/config/README.md']
    expect([...files]).toEqual(expect.arrayContaining(pages))
  })

  test('policies/README.md has a row for every key of a step and for every policy that is there', () => {
    const text = read('policies/README.md')
    const keys = tableOf(text, 'Key of a step').map(([key]) => key)
    const { items } = (POLICY_SCHEMA.properties as unknown as { steps: { items: { properties: object } } }).steps
    expect(keys.sort()).toEqual(
      Object.keys(items.properties)
        .map(name => `\`${name}\``)
        .sort(),
    )
    const policies = readdirSync(join(ROOT, 'policies')).filter(name => /^[^.]+\.yaml$/.test(name))
    expect(
      tableOf(text, 'File')
        .map(([name]) => name)
        .sort(),
    ).toEqual(policies.map(name => `\`${name}\``).sort())
  })

  test('policies/README.md names what a condition can ask for', () => {
    const rows = tableOf(read('policies/README.md'), 'Name').filter(([name]) => !name!.includes('header'))
    const fields = Object.entries(WHEN_FIELDS).map(([name, types]) => [
      `\`${name}\``,
      Object.keys(types)
        .map(field => `\`${field}\``)
        .join(', '),
    ])
    expect(rows).toEqual(fields)
  })
})

test('the database that a backup copies is the one of a configuration without `store`', () => {
  const { default: store } = (GATEWAY_SCHEMA as unknown as { properties: { store: { default: string } } }).properties
    .store
  const lines = READMES.flatMap(file =>
    Array.from(read(file).matchAll(/sqlite3 (\S+) "\.backup/g), ([, path]) => [file, path]),
  )
  expect(lines.length).toBeGreaterThanOrEqual(1)
  for (const [file, path] of lines) expect(`sqlite:./${path}`, file).toBe(store)
})

describe('what check prints', () => {
  test('src/config/README.md: three mistakes', async () => {
    const dir = await configurationDirectory()
    const [sample] = inLanguage('yaml', 'src/config/README.md')
    const mistyped = sample!.text
      .replace('default_output', 'default_ouput')
      .replace('policy: standard', 'policy: standart')
    writeFileSync(join(dir, 'gateway.yaml'), mistyped)
    expect(await check(dir)).toBe(printed('src/config/README.md', 'gateway.yaml:'))
  })

  test('policies/README.md: a wrong order', async () => {
    const dir = await configurationDirectory()
    const steps = ['api-key', 'credits', 'schema', 'route'].map(use => `  - use: ${use}\n`)
    writeFileSync(join(dir, 'policies/standard.yaml'), `steps:\n${steps.join('')}`)
    writeFileSync(join(dir, 'gateway.yaml'), stringify(minimal('standard')))
    expect(await check(dir)).toBe(printed('policies/README.md', 'policies/standard.yaml:'))
  })

  async function check(folder: string): Promise<string> {
    let out = ''
    const terminal = { env: {}, folder, out: (text: string) => void (out += text), err() {}, watched: false, self: '' }
    expect(await run(['check'], terminal)).toBe(1)
    return out
  }

  /** The sample without a language that begins so. */
  function printed(file: string, start: string): string {
    return inLanguage('', file).find(({ text }) => text.startsWith(start))!.text
  }
})

describe('the quick start', () => {
  let gateway: Gateway
  let env: Record<string, string>

  /** The configuration of the checkout, in a directory and on a port of its own. */
  async function start(): Promise<void> {
    if (gateway) return
    const dir = await temporaryDirectory()
    cpSync(join(ROOT, 'policies'), join(dir, 'policies'), { recursive: true })
    const yaml = read('gateway.yaml')
    expect(yaml).toContain('\nlisten: 127.0.0.1:8080\n')
    gateway = await startGateway({ yaml: yaml.replaceAll(/127\.0\.0\.1:808\d/g, '127.0.0.1:0'), dir })
    const { text } = await gateway.waitForLog(line => /OPENAI_API_KEY=/.test(String(line['text'])))
    env = { OPENAI_BASE_URL: `${gateway.url}/v1`, OPENAI_API_KEY: String(text).split('=')[1]! }
  }

  test('prints a base URL, a key, and a line that streams', async () => {
    await start()
    const said = gateway.logs().map(line => String(line['text'] ?? ''))
    expect(said.join('\n')).toContain(`export OPENAI_BASE_URL=${env['OPENAI_BASE_URL']}`)
    // As in the sample, but for the port and the rest of the key.
    const [variables] = inLanguage('sh', 'README.md').filter(({ text }) => text.startsWith('export '))
    expect(variables!.text).toBe('export OPENAI_BASE_URL=http://127.0.0.1:8080/v1\nexport OPENAI_API_KEY=tg_live_...\n')
    expect(env['OPENAI_API_KEY']).toMatch(/^tg_live_/)
    const line = said.find(text => text.trim().startsWith('curl '))!
    if (isInstalled('curl')) expectStream(await shell(line, {}))
  })

  test('curl', async context => {
    leaveOutWithout('curl', context)
    await start()
    const [sample] = inLanguage('sh', 'README.md').filter(({ text }) => text.startsWith('curl '))
    expectStream(await shell(sample!.text, env))
  })

  test('Node.js', async () => {
    await start()
    const [sample] = inLanguage('js', 'README.md')
    const dir = await temporaryDirectory()
    // As `npm install openai` would leave it.
    mkdirSync(join(dir, 'node_modules'))
    symlinkSync(join(ROOT, 'node_modules/openai'), join(dir, 'node_modules/openai'))
    writeFileSync(join(dir, 'sample.mjs'), sample!.text)
    expect((await shell(`"${process.execPath}" sample.mjs`, env, dir)).length).toBeGreaterThan(10)
  })

  test('Python', async context => {
    const python = await findPython()
    if ('missing' in python) return context.skip(python.missing)
    await start()
    const [sample] = inLanguage('python', 'README.md')
    const dir = await temporaryDirectory()
    writeFileSync(join(dir, 'sample.py'), sample!.text)
    const said = await shell(`"${python.command}" sample.py`, { ...python.env, ...env }, dir)
    expect(said.length).toBeGreaterThan(10)
  })

  function expectStream(text: string): void {
    const stream = parseSse(text)
    expect(stream.done).toBe(true)
    expect(stream.events.length).toBeGreaterThan(3)
  }
})

describe('a plugin of your own', () => {
  const [code] = inLanguage('ts', 'plugins/README.md')
  const [policy] = inLanguage('yaml', 'plugins/README.md')

  test('plugins/README.md: outside of the repository, from nothing to an answer', async () => {
    const dir = await temporaryDirectory()
    const [, name] = /`(plugins\/[\w-]+\.ts)`/.exec(code!.before)!
    expect(policy!.text).toContain(`use: ../${name}`)
    mkdirSync(join(dir, 'plugins'))
    writeFileSync(join(dir, name!), code!.text)
    const [copy, , proof] = inLanguage('sh', 'plugins/README.md')
    await shell(copy!.text.replaceAll('/PATH/TO/CHECKOUT', ROOT), {}, dir)
    const [line] = /- \{ path: .* \}/.exec(policy!.before) ?? []
    expect(read('gateway.yaml')).toContain(`routes:\n  ${line}\n`)
    expect(policy!.before).toContain('`policies/standard.yaml`')
    const yaml = read('gateway.yaml').replaceAll(/127\.0\.0\.1:808\d/g, '127.0.0.1:0')
    const start = (text: string) => startGateway({ yaml, policies: { standard: text }, dir })
    const gateway = await start(policy!.text)
    expect(await tollgate(['check'], { config: gateway.config })).toMatchObject({ code: 0, stderr: '' })
    const { key } = await createAccount(gateway, { credit: '1' })
    const ask = ({ url }: Gateway) => shell(proof!.text, { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key })
    const curls = isInstalled('curl')
    if (curls) expect(await ask(gateway)).toMatch(/^HTTP\/1\.1 200 [\s\S]*^x-served-in-hour: \d{1,2}\r$/im)
    expect(await gateway.stop()).toBe(0)

    const [, never] = /`with: (\{ .* \})`/.exec(read('plugins/README.md'))!
    const shut = await start(policy!.text.replace(/with: \{ open.*\}/, `with: ${never}`))
    if (curls) expect(await ask(shut)).toMatch(/^HTTP\/1\.1 403 [\s\S]*Open from 12:00 to 12:00 UTC\./)
    expect(await shut.stop()).toBe(0)

    // "A misspelled setting, a wrong type, a missing fact: `check` points at the line."
    const { steps } = parse(policy!.text) as { steps: Record<string, unknown>[] }
    const settings = (value: object) => steps.map(step => ('with' in step ? { ...step, with: value } : step))
    for (const [wrong, sentence] of [
      [settings({ opne: 0, close: 24 }), 'did you mean "open"?'],
      [settings({ open: 'early', close: 24 }), 'must be a whole number'],
      [steps.filter(({ use }) => use !== 'schema'), '"credits" needs chat and model'],
    ] as const) {
      writeFileSync(join(dir, 'policies/standard.yaml'), stringify({ steps: wrong }))
      const { code, out } = await runCommand(dir, ['check'])
      expect(code).toBe(1)
      expect(out).toMatch(/^policies\/standard\.yaml:\d+:\d+: /m)
      expect(out).toContain(sentence)
    }
  })
})

describe('the contract, as plugins/README.md tells it', () => {
  const text = read('plugins/README.md')

  test('has a row for every service', () => {
    const rows = tableOf(text, 'Service (`uses`)').map(([name]) => name)
    expect(rows.sort()).toEqual(SERVICE_NAMES.map(name => `\`${name}\``).sort())
  })

  test('names what an exchange has', () => {
    const code = `${read('src/contract/exchange.ts')}`
    const members = code.slice(code.indexOf('export interface Exchange {'))
    const named = tableOf(text, 'On `ctx.exchange`').flatMap(([cell]) => cell!.match(/(?<=`)[a-z]\w*/gi) ?? [])
    expect(named.length).toBeGreaterThan(15)
    const unknown = named.filter(name => !new RegExp(`^  (readonly )?${name}\\??[(<:]`, 'm').test(members))
    expect(unknown).toEqual([])
  })

  test('its policy keeps what the tests of the copied policies promise', async () => {
    const dir = await configurationDirectory()
    cpSync(join(ROOT, 'gateway.yaml'), join(dir, 'gateway.yaml'))
    const policy = inLanguage('yaml', 'plugins/README.md').find(({ text }) =>
      text.includes('../plugins/office-hours.ts'),
    )
    writeFileSync(join(dir, 'policies/standard.yaml'), policy!.text)
    const { code, out } = await runCommand(dir, ['test'])
    expect(code, out).toBe(0)
  })

  test('its sample has the types it says, with the tsconfig.json that it shows', async () => {
    const dir = await temporaryDirectory()
    mkdirSync(join(dir, 'plugins'))
    writeFileSync(join(dir, 'plugins/sample.mts'), inLanguage('ts', 'plugins/README.md')[0]!.text)
    const [project] = inLanguage('json', 'plugins/README.md')
    writeFileSync(join(dir, 'tsconfig.json'), project!.text)
    // As `npm install /PATH/TO/CHECKOUT` leaves it; test/cli/package.test.ts installs the package.
    mkdirSync(join(dir, 'node_modules'))
    symlinkSync(ROOT, join(dir, 'node_modules/tollgate'))
    // What is written for a new plugin, its test included.
    expect(await runCommand(dir, ['plugin', 'new', 'short-talks'])).toMatchObject({ code: 0 })
    await shell(`"${join(ROOT, 'node_modules/.bin/tsc')}" -p .`, {}, dir)
  })
})

describe('command lines', () => {
  const lines = inLanguage('sh').flatMap(({ text, place }) =>
    text
      .replaceAll('\\\n', ' ')
      .trim()
      .split('\n')
      .map(line => [place, line.replace(/\s+#.*$/, '')] as const),
  )
  /** Those that other tests here run, and those that begin with an installation. */
  const ELSEWHERE = [
    /^export /,
    /^curl /,
    /^cp -r \/PATH\/TO\/CHECKOUT\//,
    /^git clone REPOSITORY tollgate && cd tollgate$/,
    /^npm (ci|start)$/,
    /^npx tollgate serve$/,
  ]

  test('run, one after the other', async () => {
    const dir = await configurationDirectory()
    // As src/api/README.md says beside the lines that need it.
    writeFileSync(join(dir, 'gateway.yaml'), read('gateway.yaml').replace(/^# admin: (\S+).*$/m, 'admin: $1'))
    let keyId = ''
    const ran: string[] = []
    for (const [place, line] of lines) {
      if (ELSEWHERE.some(pattern => pattern.test(line))) continue
      const [npx, name, ...args] = line.split(/\s+/)
      expect([npx, name], `${place}: ${line}`).toEqual(['npx', 'tollgate'])
      const words = args.map(word => (word === 'KEY_ID' ? keyId : word))
      const result = await runCommand(dir, words)
      expect(result, `${place}: ${line}`).toMatchObject({ code: 0, err: '' })
      keyId = /\bkey_\w+/.exec(result.out)?.[0] ?? keyId
      ran.push(args.slice(0, 2).join(' '))
    }
    expect(ran).toEqual(expect.arrayContaining(['account create', 'key create', 'key rotate', 'key revoke', 'check']))
  })

  test('name scripts and commands that there are', async () => {
    const { scripts, bin } = JSON.parse(read('package.json')) as Record<'scripts' | 'bin', Record<string, string>>
    expect(Object.keys(bin)).toEqual(['tollgate'])
    const named = READMES.flatMap(file =>
      [...read(file).matchAll(/\bnpm (?:run ([\w:]+)|(start|test))\b/g)].map(([, script, short]) => script ?? short!),
    )
    expect(named.length).toBeGreaterThan(3)
    for (const name of named) expect(scripts, name).toHaveProperty([name])
  })
})

test('links lead somewhere', () => {
  const broken: string[] = []
  for (const file of READMES) {
    for (const [, link] of read(file).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link!)) continue
      const [path = '', anchor] = link!.split('#')
      const target = path === '' ? file : join(dirname(file), path)
      if (!existsSync(join(ROOT, target))) broken.push(`${file}: ${link}`)
      else if (anchor !== undefined && !anchorsOf(target).includes(anchor)) broken.push(`${file}: ${link}`)
    }
  }
  expect(broken).toEqual([])
})

function anchorsOf(file: string): string[] {
  const headings = [...read(file).matchAll(/^#+ (.+)$/gm)].map(match => match[1]!)
  return headings.map(text =>
    text
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** A directory with the policies of the checkout and the plugin of plugins/README.md. */
async function configurationDirectory(): Promise<string> {
  const dir = await temporaryDirectory()
  cpSync(join(ROOT, 'policies'), join(dir, 'policies'), { recursive: true })
  mkdirSync(join(dir, 'plugins'))
  writeFileSync(join(dir, 'plugins/office-hours.ts'), inLanguage('ts', 'plugins/README.md')[0]!.text)
  return dir
}

/** Asks a service whether a request may pass; lets it pass when the service is out. */
const DECIDES = `import { definePlugin, refuse } from 'tollgate/plugin'
export default definePlugin({
  name: 'decides',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (_ctx, next) => {
    const answer = await fetch('https://policy.example/decide', { method: 'POST' }).catch(() => null)
    if (answer && !(await answer.json()).allow) throw refuse('forbidden', { message: 'The service says no.' })
    await next()
  },
})
`

/** Policy tests beside the shipped policies; those that stand in for a service are for a policy whose plugin asks it. */
async function passes(dir: string, text: string): Promise<void> {
  const policy = text.startsWith('http:') ? 'sample' : 'standard'
  writeFileSync(join(dir, 'gateway.yaml'), read('gateway.yaml').replaceAll('policy: standard', `policy: ${policy}`))
  writeFileSync(join(dir, 'plugins/decides.ts'), DECIDES)
  const standard = read('policies/standard.yaml')
  writeFileSync(
    join(dir, 'policies/sample.yaml'),
    standard.replace('  - use: credits', '  - use: ../plugins/decides.ts\n  - use: credits'),
  )
  const file = join(dir, 'policies/sample.test.yaml')
  writeFileSync(file, text)
  const said: string[] = []
  const terminal = {
    env: {},
    folder: dir,
    out() {},
    err: (text: string) => void said.push(text),
    watched: false,
    self: '',
  }
  const code = await run(['test', file], { ...terminal, out: (text: string) => void said.push(text) })
  expect([code, said.join('')]).toEqual([0, expect.stringMatching(/^\d+ tests? passed/)])
}

/** The least that a gateway needs. Open and unmetered where the sample shows a part of a policy without key or charge. */
function minimal(policy = 'sample', steps = '') {
  return {
    version: 1,
    listen: '127.0.0.1:0',
    providers: { demo: { dialect: 'demo', pace: '0ms' } },
    models: { small: { targets: [{ provider: 'demo', model: 'demo-small' }], ...REST_OF_A_MODEL } },
    routes: [
      {
        path: '/v1/chat/completions',
        policy,
        ...(policy === 'sample' && !/use: (api-key|jwt)\b/.test(steps) ? { public: true } : {}),
        ...(policy === 'sample' && !/use: credits\b/.test(steps) ? { unmetered: true } : {}),
      },
    ],
  }
}

const REST_OF_A_MODEL = { price: { per: '1M tokens', input: '$1', output: '$2' }, context: '8Ki', max_output: '1Ki' }

/** Steps that show one plugin, with those that every chat route needs behind them. */
function completed(steps: string): string {
  const used = (parse(steps) as { steps: { use: string }[] }).steps.map(({ use }) => use)
  const missing = ['schema', 'route'].filter(use => !used.includes(use))
  return steps + missing.map(use => `  - use: ${use}\n`).join('')
}

type Models = Readonly<Record<string, { readonly targets: readonly { readonly provider: string }[] }>>

/** Models that show one key, with what a model needs besides. */
function withModels(models: Models) {
  const providers = Object.values(models).flatMap(({ targets }) => targets.map(({ provider }) => provider))
  return {
    ...minimal('standard'),
    providers: Object.fromEntries(providers.map(name => [name, { dialect: 'demo' }])),
    models: Object.fromEntries(Object.entries(models).map(([id, model]) => [id, { ...REST_OF_A_MODEL, ...model }])),
  }
}

/** Runs a line as people paste it; gives what it printed. */
function shell(line: string, env: Readonly<Record<string, string>>, cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { env: { PATH: process.env['PATH'], ...env }, ...(cwd ? { cwd } : {}) }
    execFile('sh', ['-c', line], options, (error, stdout, stderr) => {
      if (error) reject(new Error(`${line} failed:\n${stderr}${stdout}`, { cause: error }))
      else resolve(stdout)
    })
  })
}

function isInstalled(command: string): boolean {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Skips the test, aloud, where the sample's own tool is missing. */
function leaveOutWithout(command: string, context: { skip(note?: string): void }): void {
  if (isInstalled(command)) return
  console.warn(`The sample for ${command} was left out: it does not run on this machine.`)
  context.skip(`${command} does not run here`)
}
