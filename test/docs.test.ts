/**
 * Checks the samples of the pages: every configuration loads, the gateway prints every message, every command runs.
 * test/docs.system.test.ts has the samples that need a separate process.
 */
import { generateKeyPairSync } from 'node:crypto'
import { cpSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
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
import { runCommand } from './helpers/command.ts'
import {
  completed,
  configurationDirectory,
  inLanguage,
  type Models,
  minimal,
  PAGES,
  SAMPLES,
  withModels,
} from './helpers/doc-samples.ts'
import { ROOT, read, tableOf } from './helpers/repository.ts'

/** Values for the variables in the samples. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    SAMPLES.flatMap(({ text }) =>
      [...text.matchAll(/\$\{([A-Z_0-9]+)\}/g)].map(([, name]) => [name, `sk-0123456789abcdef-${name}`]),
    ),
  ),
  ALERT_SECRET: Buffer.alloc(32).toString('base64'),
  SLACK_URL: 'https://hooks.slack.com/services/T0/B0/0123456789',
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
      await expectTestsPass(dir, sample.text)
      return
    } else if ('models' in value) writeFileSync(file, stringify(withModels(value['models'] as Models)))
    else if (['admin', 'store', 'telemetry', 'alerts'].some(key => key in value))
      writeFileSync(file, stringify({ ...minimal('standard'), ...value }))
    else if ('scrape_configs' in value) return checkScrape(value as unknown as Scrape, sample)
    else throw new Error(`${sample.place}: neither a gateway.yaml, nor a part of one, nor steps`)

    const loaded = await loadConfiguration(file, { env: ENVIRONMENT, registry: builtinRegistry(), warn: {} })
    const problems =
      'problems' in loaded ? loaded.problems : loaded.warnings.filter(({ rule }) => rule === 'late-limit')
    expect(problems.map(problem => formatProblem(problem))).toEqual([])
  })

  /** Without a type, Prometheus sends the text of `credentials_file` as a bearer token. It requests /metrics by default. */
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

  test('every plugin has a page with a configuration, and so have the main pages', () => {
    const files = new Set(inLanguage('yaml').map(({ file }) => file))
    const plugins = readdirSync(join(ROOT, 'plugins'), { withFileTypes: true }).filter(entry => entry.isDirectory())
    for (const { name } of plugins) expect(files).toContain(`plugins/${name}/README.md`)
    const pages = ['README.md', 'plugins/README.md', 'policies/README.md', 'src/config/README.md']
    expect([...files]).toEqual(expect.arrayContaining(pages))
  })

  test('policies/README.md has a row for every key of a step and for every shipped policy', () => {
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

  test('policies/README.md has a row for every field of a condition', () => {
    const rows = tableOf(read('policies/README.md'), 'Name').filter(([name]) => !/header|tags/.test(name!))
    // A policy declares the fields of `tags` itself.
    const { tags: _, ...known } = WHEN_FIELDS
    const fields = Object.entries(known).map(([name, types]) => [
      `\`${name}\``,
      Object.keys(types)
        .map(field => `\`${field}\``)
        .join(', '),
    ])
    expect(rows).toEqual(fields)
  })
})

test('the backup commands of the pages copy the default database', () => {
  const { default: store } = (GATEWAY_SCHEMA as unknown as { properties: { store: { default: string } } }).properties
    .store
  const lines = PAGES.flatMap(file =>
    Array.from(read(file).matchAll(/sqlite3 (\S+) "\.backup/g), ([, path]) => [file, path]),
  )
  expect(lines.length).toBeGreaterThanOrEqual(1)
  for (const [file, path] of lines) expect(`sqlite:./${path}`, file).toBe(store)
})

describe('the output of check', () => {
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

  /** The text sample that begins with `start`. */
  function printed(file: string, start: string): string {
    return inLanguage('', file).find(({ text }) => text.startsWith(start))!.text
  }
})

describe('the contract, as plugins/README.md describes it', () => {
  const text = read('plugins/README.md')

  test('has a row for every service', () => {
    const rows = tableOf(text, 'Service (`uses`)').map(([name]) => name)
    expect(rows.sort()).toEqual(SERVICE_NAMES.map(name => `\`${name}\``).sort())
  })

  test('names only existing members of an exchange', () => {
    const code = `${read('src/contract/exchange.ts')}`
    const members = code.slice(code.indexOf('export interface Exchange {'))
    const named = tableOf(text, 'On `ctx.exchange`').flatMap(([cell]) => cell!.match(/(?<=`)[a-z]\w*/gi) ?? [])
    expect(named.length).toBeGreaterThan(15)
    const unknown = named.filter(name => !new RegExp(`^  (readonly )?${name}\\??[(<:]`, 'm').test(members))
    expect(unknown).toEqual([])
  })

  test('the policy of the page passes the tests of the copied policies', async () => {
    const dir = await configurationDirectory()
    cpSync(join(ROOT, 'gateway.yaml'), join(dir, 'gateway.yaml'))
    const policy = inLanguage('yaml', 'plugins/README.md').find(({ text }) =>
      text.includes('../plugins/office-hours.ts'),
    )
    writeFileSync(join(dir, 'policies/standard.yaml'), policy!.text)
    const { code, out } = await runCommand(dir, ['test'])
    expect(code, out).toBe(0)
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
  /** Lines that test/docs.system.test.ts runs, and lines that begin with an installation. */
  const OTHERS = [
    /^export /,
    /^curl /,
    /^cp -r \/PATH\/TO\/CHECKOUT\//,
    /^npm install \.\/tollgate-[\d.]+\.tgz && npx tollgate init && npx tollgate serve$/,
    /^npm ci && npm (start|test)$/,
    /^npx tollgate serve( -c mine\/gateway\.yaml)?$/,
    /^echo 'OPENAI_API_KEY=sk-\.\.\.' > mine\/\.env$/,
  ]

  test('run in the order of the pages', async () => {
    const dir = await configurationDirectory()
    // Some lines need `admin`; src/api/README.md says so.
    writeFileSync(join(dir, 'gateway.yaml'), read('gateway.yaml').replace(/^# admin: (\S+).*$/m, 'admin: $1'))
    let keyId = ''
    const ran: string[] = []
    for (const [place, line] of lines) {
      if (OTHERS.some(pattern => pattern.test(line))) continue
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

  const [explained, tested, replayed] = inLanguage('text', 'README.md').map(({ text }) => text.trim().split('\n'))

  test.each([explained!, tested!])('README.md: the output of %s', async (command, ...lines) => {
    const request = join(await configurationDirectory(), 'request.json')
    writeFileSync(request, '{"model":"demo-small","messages":[{"role":"user","content":"Hello!"}]}\n')
    const words = command.replace('$ npx tollgate ', '').replace('request.json', request).split(' ')
    const { out } = await runCommand(ROOT, words)
    for (const line of lines) if (line !== '...') expect(out.split('\n')).toContain(line)
  })

  test('README.md: the output of replay is that of the guide', () => {
    const guide = read('policies/GUIDE.md').split('\n')
    for (const line of replayed!) if (line !== '...') expect(guide).toContain(line.replace('$ ', ''))
  })

  test('name existing npm scripts', async () => {
    const { scripts, bin } = JSON.parse(read('package.json')) as Record<'scripts' | 'bin', Record<string, string>>
    expect(Object.keys(bin)).toEqual(['tollgate'])
    const named = PAGES.flatMap(file =>
      [...read(file).matchAll(/\bnpm (?:run ([\w:]+)|(start|test))\b/g)].map(([, script, short]) => script ?? short!),
    )
    expect(named.length).toBeGreaterThan(3)
    for (const name of named) expect(scripts, name).toHaveProperty([name])
  })
})

test('every link has a target', () => {
  const broken: string[] = []
  for (const file of PAGES) {
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

/** Asks a service whether to allow a request; allows the request if the service does not answer. */
const DECIDING_PLUGIN = `import { definePlugin, refuse } from 'tollgate/plugin'
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

/** Runs policy tests beside the shipped policies. Tests that fake a service run on a policy whose plugin calls the service. */
async function expectTestsPass(dir: string, text: string): Promise<void> {
  const policy = text.startsWith('http:') ? 'sample' : 'standard'
  writeFileSync(join(dir, 'gateway.yaml'), read('gateway.yaml').replaceAll('policy: standard', `policy: ${policy}`))
  writeFileSync(join(dir, 'plugins/decides.ts'), DECIDING_PLUGIN)
  const standard = read('policies/standard.yaml')
  writeFileSync(
    join(dir, 'policies/sample.yaml'),
    standard.replace('  - use: credits', '  - use: ../plugins/decides.ts\n  - use: credits'),
  )
  const file = join(dir, 'policies/sample.test.yaml')
  writeFileSync(file, text)
  const output: string[] = []
  const terminal = {
    env: {},
    folder: dir,
    out() {},
    err: (text: string) => void output.push(text),
    watched: false,
    self: '',
  }
  const code = await run(['test', file], { ...terminal, out: (text: string) => void output.push(text) })
  expect([code, output.join('')]).toEqual([0, expect.stringMatching(/^\d+ tests? passed/)])
}
