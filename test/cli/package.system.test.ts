/**
 * The npm package as it is installed. It is packed once from a copy of the checkout, installed by npm into an empty folder, and
 * used there without the checkout. npm takes the dependencies from its cache, which `npm ci` has filled.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import * as contract from '#contract'
import * as testing from '../../src/testing/index.ts'
import { createAccount, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { allFiles, ROOT, samplesOf } from '../helpers/repository.ts'
import { parseSse } from '../helpers/sse.ts'

const MAX_BYTES = 3_000_000
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }

/** The folder where the package is installed, and the package in it. */
let folder: string
let installed: string
let entry: string
let tarball: string
/** Paths in the package. */
let files: string[]

beforeAll(async () => {
  const checkout = join(await temporaryDirectory(), 'checkout')
  for (const file of allFiles().filter(name => !name.startsWith('test/')))
    cpSync(join(ROOT, file), join(checkout, file))
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'))
  const out = await temporaryDirectory()
  await run('npm', ['pack', '--pack-destination', out], checkout)
  expect(readdirSync(out)).toEqual([`tollgate-${version}.tgz`])
  expect(readdirSync(checkout), 'what pack leaves behind').not.toContain('dist')
  tarball = join(out, `tollgate-${version}.tgz`)

  folder = await temporaryDirectory()
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball])
  installed = join(folder, 'node_modules/tollgate')
  entry = join(folder, 'node_modules/.bin/tollgate')
  files = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name).slice(installed.length + 1))
    .sort()
})

describe('the tarball', () => {
  test('is small', () => {
    expect(statSync(tarball).size).toBeLessThan(MAX_BYTES)
  })

  test('has code, types, the dashboard, migrations and policies', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'README.md',
        'dist/gateway.yaml',
        'dist/plugins/api-key/index.js',
        'dist/policies/standard.yaml',
        'dist/src/cli/cli.js',
        'dist/src/contract/index.d.ts',
        'dist/src/dashboard/dist/index.html',
        'dist/src/testing/index.d.ts',
        'package.json',
        'src/cli/tollgate.js',
      ]),
    )
    // Files that modules read from their own folders.
    const apart = /^src\/(cli\/pictures|dashboard|deploy|node-runtime|package)\//
    const data = allFiles().filter(name => /^(src|plugins)\/.*(?<!\.(ts|js|md))$/.test(name) && !apart.test(name))
    expect(data.length).toBeGreaterThan(5)
    expect(data.filter(name => !files.includes(`dist/${name}`))).toEqual([])
    const modules = allFiles().filter(name => /^(src\/(?!dashboard|package)|plugins\/).*(?<!\.test)\.ts$/.test(name))
    const missing = modules.filter(
      name => !/\/test-[^/]+$/.test(name) && !files.includes(`dist/${name.slice(0, -3)}.js`),
    )
    expect(missing).toEqual([])
  })

  test('has no files for development', () => {
    const kinds =
      /(?<!\.d)\.tsx?$|\.test\.\w?[jt]s|\/test-|^test\/|tsconfig|tsbuildinfo|\.map$|\.made-of|lock\.json|\.npmrc|node-runtime/
    expect(files.filter(name => kinds.test(name))).toEqual([])
  })

  test('runs no scripts on installation, and each of its exports exists', () => {
    const { scripts, exports } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Manifest
    expect(Object.keys(scripts).filter(name => /install|^prepare$/.test(name))).toEqual([])
    for (const [name, target] of Object.entries(exports)) {
      const last = typeof target === 'string' ? [target] : [target.types.at(-1)!, target.default]
      for (const path of last) expect(existsSync(join(installed, path)), `${name}: ${path}`).toBe(true)
    }
  })

  test('has the entry file of each thread', () => {
    const started = files
      .filter(name => /^dist\/.*\.js$/.test(name))
      .flatMap(name => {
        const code = readFileSync(join(installed, name), 'utf8')
        const found = [...code.matchAll(/new URL\(`\.\/([\w-]+)\$\{extname\(import\.meta\.url\)\}`/g)]
        return found.map(([, module]) => join(dirname(name), `${module}.js`))
      })
    expect(started.length).toBeGreaterThanOrEqual(5)
    expect(started.filter(name => !files.includes(name))).toEqual([])
  })

  test('has the target of each link on its pages', () => {
    const pages = files.filter(name => name.endsWith('.md'))
    const links = pages.flatMap(name => {
      const text = readFileSync(join(installed, name), 'utf8').replace(/^(`{3,}).*?^\1/gms, '')
      const found = text.matchAll(/\]\(<?([^)#\s>]+)|\b(?:href|src)="([^"#]+)|^\[[^\]]+\]: (\S+)/gm)
      return [...found].map(([, ...link]) => [name, link.find(Boolean)!] as const)
    })
    const own = links.filter(([, link]) => !/^(https?|mailto):/.test(link))
    expect(own.length).toBeGreaterThan(100)
    expect(own.filter(([name, link]) => !existsSync(join(installed, dirname(name), link)))).toEqual([])
  })
})

describe('the modules that plugins import', () => {
  test.each([
    ['tollgate/plugin', contract],
    ['tollgate/testing', testing],
  ])('%s has every value, for import and for require', async (name, own) => {
    const code = `
      import { createRequire } from 'node:module'
      const imported = await import('${name}')
      const required = createRequire(process.cwd() + '/')('${name}')
      const names = Object.keys(imported).sort()
      console.log(JSON.stringify({ names, differ: names.filter(name => required[name] !== imported[name]) }))`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code])
    expect(JSON.parse(stdout)).toEqual({ names: Object.keys(own).sort(), differ: [] })
  })

  test('have types for tsc --strict, without paths and with libraries checked', async () => {
    const sample = samplesOf('plugins/README.md').find(({ language }) => language === 'ts')!
    writeFileSync(join(folder, 'typed.ts'), sample.text)
    const bench = `import plugin from './typed.js'
import { type Bench, openBench } from 'tollgate/testing'
export const opened: Promise<Bench> = openBench({ plugins: [plugin], steps: [] })
export const wrong: number = (await opened).ledger
`
    writeFileSync(join(folder, 'bench.ts'), bench)
    const plain = ['--strict', '--noEmit', '--target', 'es2024', 'typed.ts', 'bench.ts']
    const { stdout } = await run(process.execPath, [TSC, ...plain]).catch((error: { stdout: string }) => error)
    // The only error is the intended one.
    expect(stdout.trim().split('\n')).toEqual([
      expect.stringMatching(
        /^bench\.ts\(4,14\): error TS2322: Type 'BenchLedger' is not assignable to type 'number'\.$/,
      ),
    ])
  })
})

describe('in the folder', () => {
  beforeAll(async () => {
    // As `npm init -y` writes it.
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as object
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, type: 'commonjs' }))
    expect(await own('init')).toMatchObject({ code: 0, stderr: '' })
  })

  test('npx finds the command, and the help names npx', async () => {
    const { stdout } = await run('npx', ['tollgate', '--version'])
    expect(stdout).toBe(`${version}\n`)
    expect(readdirSync(join(folder, 'node_modules/.cache/tollgate')), 'compiled code').not.toEqual([])
    const { stderr } = await own('init')
    expect(stderr).toContain('or use another folder: npx tollgate init FOLDER')
  })

  test('the files of init pass check and their tests', async () => {
    expect(await own('check', '--strict')).toMatchObject({ code: 0, stderr: '' })
    expect(await own('test')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^19 tests passed/) })
    const { stdout } = await run(process.execPath, ['--test', '--test-skip-pattern=the guarantees'])
    expect(stdout).toMatch(/pass 2\b/)
    expect(stdout).toMatch(/fail 0\b/)
    await run(process.execPath, [TSC, '-p', '.'])
  })

  test('init --provider has the price list', async () => {
    expect(await own('init', '--provider', 'openai', 'real')).toMatchObject({ code: 0, stderr: '' })
    writeFileSync(join(folder, 'real/.env'), 'OPENAI_API_KEY=sk-sample\n')
    const { code, stdout } = await own('check', '-c', 'real/gateway.yaml')
    expect(code, stdout).toBe(0)
  })

  test('plugin new prints the command for its test', async () => {
    const { code, stdout } = await own('plugin', 'new', 'other')
    expect(code).toBe(0)
    expect(stdout).toContain('\n  node --test plugins/other/index.test.ts\n')
  })

  test('serve answers with two threads, a store in SQLite and the dashboard', async () => {
    const yaml = readFileSync(join(folder, 'gateway.yaml'), 'utf8').replaceAll(/127\.0\.0\.1:808\d/g, '127.0.0.1:0')
    const dir = join(folder, 'served')
    mkdirSync(dir)
    for (const name of ['policies', 'plugins']) cpSync(join(folder, name), join(dir, name), { recursive: true })
    const gateway = await startGateway({ yaml: `${yaml}threads: 2\n`, dir, entry })
    const { key, accountId } = await createAccount(gateway, { credit: '1', entry })
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo-small', stream: true, messages: [{ role: 'user', content: 'Hello!' }] }),
    })
    expect(answer.status).toBe(200)
    expect(parseSse(await answer.text())).toMatchObject({ done: true })
    const { dashboard } = await gateway.waitForLog(line => line['msg'] === 'listening')
    expect(await (await fetch(String(dashboard))).text()).toContain('<!doctype html>')
    if (process.platform === 'linux') {
      expect(readFileSync(`/proc/${gateway.pid}/cmdline`, 'utf8')).toContain('--max-semi-space-size=16')
    }
    expect(await gateway.stop()).toBe(0)
    expect(gateway.stderr()).toBe('')

    const { stdout } = await tollgate(['account', 'show', accountId, '--json'], { config: gateway.config, entry })
    const { account } = JSON.parse(stdout) as { account: Readonly<Record<'posted' | 'held', string>> }
    expect(account.held).toBe('0.000000000')
    expect(Number(account.posted)).toBeLessThan(1)
    expect(await tollgate(['ledger', 'verify'], { config: gateway.config, entry })).toMatchObject({ code: 0 })
  })
})

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** The installed command in the folder. */
function own(...args: readonly string[]) {
  return tollgate(args, { cwd: folder, entry })
}

/** The variables that npm needs. npm's own scripts get more, which reveal the folder of the checkout. */
const KEPT =
  /^(path|home|tmpdir|lang|node_extra_ca_certs|.*_proxy|npm_config_(registry|cache|userconfig|globalconfig|cafile))$/i

/** Rejects with the output of the program. */
async function run(
  program: string,
  args: readonly string[],
  cwd = folder,
): Promise<{ stdout: string; stderr: string }> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => KEPT.test(name)))
  // This Node takes precedence over others.
  const PATH = `${dirname(process.execPath)}:${env['PATH']}`
  try {
    return await promisify(execFile)(program, args, { cwd, env: { ...env, PATH }, maxBuffer: 64_000_000 })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw Object.assign(new Error(`${program} ${args.join(' ')} failed:\n${stderr}${stdout}`), { stdout, stderr })
  }
}

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | { readonly types: readonly string[]; readonly default: string }>>
}
