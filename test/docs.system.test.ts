/**
 * Runs every client and every plugin of the READMEs against a real gateway. test/docs.test.ts has the samples that need no separate
 * process.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { findPython } from './clients/python.ts'
import { runCommand } from './helpers/command.ts'
import { inLanguage } from './helpers/doc-samples.ts'
import { createAccount, type Gateway, startGateway, temporaryDirectory, tollgate } from './helpers/gateway.ts'
import { testWith } from './helpers/missing.ts'
import { PACKAGES } from './helpers/packages.ts'
import { without } from './helpers/programs.ts'
import { ROOT, read } from './helpers/repository.ts'
import { parseSse } from './helpers/sse.ts'

const WITHOUT_CURL = without('curl')

describe('the quick start', () => {
  let gateway: Gateway
  let env: Record<string, string>

  /** Starts a gateway with the configuration of the checkout, in a temporary directory and on a free port. */
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

  test('prints a base URL, a key, and a curl command that streams an answer', async () => {
    await start()
    const lines = gateway.logs().map(line => String(line['text'] ?? ''))
    expect(lines.join('\n')).toContain(`export OPENAI_BASE_URL=${env['OPENAI_BASE_URL']}`)
    // The sample shows the standard port and only the beginning of a key.
    const [variables] = inLanguage('sh', 'README.md').filter(({ text }) => text.startsWith('export '))
    expect(variables!.text).toBe('export OPENAI_BASE_URL=http://127.0.0.1:8080/v1\nexport OPENAI_API_KEY=tg_live_...\n')
    expect(env['OPENAI_API_KEY']).toMatch(/^tg_live_/)
    const line = lines.find(text => text.trim().startsWith('curl '))!
    if (WITHOUT_CURL === null) expectStream(await shell(line, {}))
  })

  testWith(WITHOUT_CURL, 'curl', async () => {
    await start()
    const [sample] = inLanguage('sh', 'README.md').filter(({ text }) => text.startsWith('curl '))
    expectStream(await shell(sample!.text, env))
  })

  test('Node.js', async () => {
    await start()
    const [sample] = inLanguage('js', 'README.md')
    const dir = await temporaryDirectory()
    // The layout after `npm install openai`.
    mkdirSync(join(dir, 'node_modules'))
    symlinkSync(join(PACKAGES, 'node_modules/openai'), join(dir, 'node_modules/openai'))
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
    const output = await shell(`"${python.command}" sample.py`, { ...python.env, ...env }, dir)
    expect(output.length).toBeGreaterThan(10)
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

  test('plugins/README.md: the sample plugin runs in a new folder outside of the repository', async () => {
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
    const curls = WITHOUT_CURL === null
    if (curls) expect(await ask(gateway)).toMatch(/^HTTP\/1\.1 200 [\s\S]*^x-served-in-hour: \d{1,2}\r$/im)
    expect(await gateway.stop()).toBe(0)

    const [, neverOpen] = /`with: (\{ .* \})`/.exec(read('plugins/README.md'))!
    const closed = await start(policy!.text.replace(/with: \{ open.*\}/, `with: ${neverOpen}`))
    if (curls) expect(await ask(closed)).toMatch(/^HTTP\/1\.1 403 [\s\S]*Open from 12:00 to 12:00 UTC\./)
    expect(await closed.stop()).toBe(0)

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

  test('plugins/README.md: the sample plugin passes the type check with the tsconfig.json of the page', async () => {
    const dir = await temporaryDirectory()
    mkdirSync(join(dir, 'plugins'))
    writeFileSync(join(dir, 'plugins/sample.mts'), code!.text)
    const [project] = inLanguage('json', 'plugins/README.md')
    writeFileSync(join(dir, 'tsconfig.json'), project!.text)
    // The layout after `npm install /PATH/TO/CHECKOUT`; test/cli/package.system.test.ts installs the package.
    mkdirSync(join(dir, 'node_modules'))
    symlinkSync(ROOT, join(dir, 'node_modules/tollgate'))
    // `tsc` checks the files of a new plugin too.
    expect(await runCommand(dir, ['plugin', 'new', 'short-talks'])).toMatchObject({ code: 0 })
    await shell(`"${join(ROOT, 'node_modules/.bin/tsc')}" -p .`, {}, dir)
  })
})

/** Runs a line in a shell, as if pasted there. Returns stdout. */
function shell(line: string, env: Readonly<Record<string, string>>, cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { env: { PATH: process.env['PATH'], ...env }, ...(cwd ? { cwd } : {}) }
    execFile('sh', ['-c', line], options, (error, stdout, stderr) => {
      if (error) reject(new Error(`${line} failed:\n${stderr}${stdout}`, { cause: error }))
      else resolve(stdout)
    })
  })
}
