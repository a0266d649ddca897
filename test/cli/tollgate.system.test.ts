/** The bin file alone, in a small checkout made for the test, with a `cli.ts` that prints its arguments and environment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { chosenConfiguration } from '../../src/cli/cli.ts'

const root = new URL('../../', import.meta.url).pathname
const cleanups: (() => void)[] = []
afterEach(() => {
  for (const clean of cleanups.splice(0)) clean()
})

// Makes the Node that runs the bin file look too old. Its child looks new, except with `BOTH_OLD`.
const PRETEND = `
if (!process.env.TOLLGATE_PARENT || process.env.BOTH_OLD) {
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: process.env.PRETEND } })
}`

const CLI = `
export async function main() {
  const [what, code] = process.argv.slice(2)
  process.stdout.write(JSON.stringify({ pid: process.pid, args: process.argv.slice(2), env: process.env.TOLLGATE_PARENT ?? null, flags: process.execArgv }) + '\\n')
  if (what === 'exit') process.exit(Number(code))
  if (what === 'die') process.kill(process.pid, 'SIGTERM')
  if (what === 'wait') {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
      process.on(signal, () => { process.stdout.write(signal + '\\n'); process.exit(code ? Number(code) : 5) })
    }
    process.stdout.write('ready\\n')
    setInterval(() => {}, 1000)
  }
}`

interface Options {
  readonly version?: string
  readonly withNode?: boolean
  readonly bothOld?: boolean
  /** The folder of the package, below the temporary one. */
  readonly at?: string
  /** Options of Node. */
  readonly flags?: readonly string[]
  readonly nodeOptions?: string
}

function checkout({ withNode = true, at = '' }: Options): { script: string; preload: string } {
  const temporary = mkdtempSync(join(tmpdir(), 'tollgate-bin-'))
  cleanups.push(() => rmSync(temporary, { recursive: true, force: true }))
  const folder = join(temporary, at)
  mkdirSync(join(folder, 'src/cli'), { recursive: true })
  mkdirSync(join(folder, 'dist/src/cli'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'src/cli/cli.ts'), CLI)
  writeFileSync(join(folder, 'dist/src/cli/cli.js'), "export const main = () => process.stdout.write('compiled\\n')")
  const preload = join(temporary, 'pretend.cjs')
  writeFileSync(preload, PRETEND)
  const script = join(folder, 'src/cli/tollgate.js')
  cpSync(join(root, 'src/cli/tollgate.js'), script)
  if (withNode) {
    mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
    symlinkSync(process.execPath, join(folder, 'node_modules/.bin/node'))
  }
  return { script, preload }
}

interface Run {
  readonly child: ChildProcess
  /** Resolves once stdout holds the text. */
  until(text: string): Promise<string>
  readonly ended: Promise<{ code: number | null; signal: string | null; out: string; err: string }>
}

function start(args: readonly string[], options: Options): Run {
  const { script, preload } = checkout(options)
  const env = {
    ...process.env,
    PRETEND: options.version ?? process.versions.node,
    ...(options.bothOld ? { BOTH_OLD: '1' } : {}),
    ...(options.nodeOptions === undefined ? {} : { NODE_OPTIONS: options.nodeOptions }),
  }
  const flags = ['--require', preload, ...(options.flags ?? [])]
  const child = spawn(process.execPath, [...flags, script, ...args], { env, cwd: dirname(preload) })
  cleanups.push(() => child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  return {
    child,
    async until(text) {
      while (!out.includes(text)) await once(child.stdout, 'data')
      return out
    },
    // Not `exit`: the pipes close only after their last writer, which may be the child of the child.
    ended: once(child, 'close').then(([code, signal]) => ({ code, signal, out, err })),
  }
}

/** An inspector would report its address on stderr within this time; it needs some milliseconds. */
const INSPECTOR_MS = 500

const first = (out: string) => JSON.parse(out.split('\n')[0]!)

describe('with a Node that is too old', () => {
  test('without a Node of the checkout the error names the needed version', async () => {
    const { code, err, out } = await start(['serve'], { version: '20.20.0', withNode: false }).ended
    expect(code).toBe(1)
    expect(out).toBe('')
    expect(err).toContain('tollgate needs Node.js 24.18.1 or newer; this is 20.20.0.')
    expect(err).toContain('npm ci')
  })

  test('if the Node of the checkout is too old as well, it fails and does not start itself in a loop', async () => {
    const { code, err } = await start(['serve'], { version: '22.1.0', bothOld: true }).ended
    expect(code).toBe(1)
    expect(err.match(/needs Node/g)).toHaveLength(1)
  })

  test.each(['20.20.0', '24.18.0', '24.9.9', '23.99.99'])(
    '%s hands over to the Node of the checkout',
    async version => {
      const run = start(['exit', '7'], { version })
      const { code, signal, out, err } = await run.ended
      expect({ code, signal, err }).toEqual({ code: 7, signal: null, err: '' })
      expect(first(out).args).toEqual(['exit', '7'])
      expect(first(out).pid).not.toBe(run.child.pid)
      expect(first(out).env).toBeNull()
    },
  )

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s reaches the gateway, and its exit code is returned',
    async signal => {
      const run = start(['wait'], { version: '20.20.0' })
      await run.until('ready')
      run.child.kill(signal)
      const ended = await run.ended
      expect(ended.out).toContain(signal)
      expect({ code: ended.code, signal: ended.signal }).toEqual({ code: 5, signal: null })
    },
  )

  test('SIGUSR1 opens no inspector in either process', async () => {
    const run = start(['wait'], { version: '20.20.0' })
    const { pid } = first(await run.until('ready'))
    run.child.kill('SIGUSR1')
    process.kill(pid, 'SIGUSR1')
    await new Promise(resolve => setTimeout(resolve, INSPECTOR_MS))
    run.child.kill('SIGTERM')
    expect(await run.ended).toMatchObject({ code: 5, err: '' })
  })

  test('a signal that ended the gateway ends this process in the same way', async () => {
    const { code, signal } = await start(['die'], { version: '20.20.0' }).ended
    expect({ code, signal }).toEqual({ code: null, signal: 'SIGTERM' })
  })

  test('kill -9 also ends the gateway, which releases its port and its lock', async () => {
    const run = start(['wait'], { version: '20.20.0' })
    await run.until('ready')
    run.child.kill('SIGKILL')
    // The gateway holds the same pipe and never ends itself: the pipe closes only when it was killed too.
    expect(await run.ended).toMatchObject({ code: null, signal: 'SIGKILL' })
  })
})

describe('with a supported Node', () => {
  test.each(['24.18.1', '24.19.0', '26.0.0', '100.0.0'])('%s runs the sources itself', async version => {
    const run = start(['exit', '0'], { version, withNode: false })
    const { code, out, err } = await run.ended
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(first(out).pid).toBe(run.child.pid)
  })

  test('inside node_modules the compiled files run, because Node strips no types there', async () => {
    const { code, out } = await start([], { at: 'node_modules/tollgate' }).ended
    expect({ code, out }).toEqual({ code: 0, out: 'compiled\n' })
  })
})

describe('the young heap', () => {
  const YOUNG = '--max-semi-space-size=16'
  const youngOf = (out: string) => first(out).flags.filter((flag: string) => flag.includes('semi'))

  test('of serve is set in the same process and keeps other options of Node', async () => {
    const run = start(['serve', '-c', 'a b'], { flags: ['--stack-trace-limit=7'] })
    const { code, out, err } = await run.ended
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(first(out)).toMatchObject({ pid: run.child.pid, args: ['serve', '-c', 'a b'] })
    expect(first(out).flags).toEqual([YOUNG, '--require', expect.any(String), '--stack-trace-limit=7'])
  })

  test.each<[string, string[], Options, string[]]>([
    ['of another command stays', ['check'], {}, []],
    ['of an operator stays', ['serve'], { flags: ['--max-semi-space-size=4'] }, ['--max-semi-space-size=4']],
    [
      'of an operator stays, in the other spelling',
      ['serve'],
      { flags: ['--max_semi_space_size=4'] },
      ['--max_semi_space_size=4'],
    ],
    ['of an operator stays in NODE_OPTIONS', ['serve'], { nodeOptions: '--max-semi-space-size=4' }, []],
    ['is set on the Node of the checkout', ['serve'], { version: '20.20.0' }, [YOUNG]],
    ['of an operator stays there', ['serve'], { version: '20.20.0', nodeOptions: '--max-semi-space-size=4' }, []],
  ])('%s', async (_name, args, options, flags) => {
    const { code, out, err } = await start(args, options).ended
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(youngOf(out)).toEqual(flags)
  })
})

test('the minimum version is that of package.json', () => {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const source = readFileSync(join(root, 'src/cli/tollgate.js'), 'utf8')
  const minimum = /const MINIMUM = \[([^\]]+)\]/.exec(source)?.[1]?.replaceAll(', ', '.')
  expect(engines.node).toBe(`>=${minimum}`)
})

test.each([
  [[], ''],
  [['serve'], ''],
  [['serve', '-c', '/etc/tollgate/gateway.yaml'], ' -c /etc/tollgate/gateway.yaml'],
  [['--config', 'my folder/gateway.yaml', 'serve'], " -c 'my folder/gateway.yaml'"],
  [['serve', "--config=it's.yaml"], " -c 'it'\\''s.yaml'"],
  [['serve', '-c'], ''],
])('%j: hints use the configuration "%s"', (args, expected) => {
  expect(chosenConfiguration(args)).toBe(expected)
})
