/** The systemd unit: systemd's own checks, and whether a gateway can work within its limits. systemd itself does not run. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, symlinkSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startGateway, temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { findProgram } from '../helpers/programs.ts'
import { ROOT, read, tableOf } from '../helpers/repository.ts'

const UNIT = read('src/deploy/systemd/tollgate.service')
const analyze = findProgram('systemd-analyze')
const strace = findProgram('strace')

/** Returns the last value of a setting; throws if it is missing. */
function setting(name: string): string {
  const values = [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value!)
  if (values.length === 0) throw new Error(`the unit has no ${name}`)
  return values.at(-1)!
}

function run(program: string, args: readonly string[]): { code: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return { code: status, out: `${stdout}${stderr}` }
}

/** Writes a changed unit to a file. The program is that of this checkout, because systemd checks that it exists. */
async function unitFile(change: (text: string) => string = text => text): Promise<string> {
  const file = join(await temporaryDirectory(), 'tollgate.service')
  await writeFile(file, change(UNIT).replaceAll('/opt/tollgate/', ROOT))
  return file
}

/** Returns the default of `drain` in the reference, in seconds. */
function drainSeconds(): number {
  const row = tableOf(read('src/config/REFERENCE.md'), 'Key').find(([name]) => name === '`drain`')!
  const [, minutes] = /^`(\d+)m`$/.exec(row[2]!)!
  return Number(minutes) * 60
}

const YAML = {
  version: 1,
  listen: '127.0.0.1:0',
  providers: { demo: { dialect: 'demo' } },
  models: {
    'demo-small': {
      targets: [{ provider: 'demo', model: 'demo-small' }],
      price: { per: '1M tokens', input: '$0.15', output: '$0.60' },
      context: '128Ki',
      max_output: '16Ki',
      default_output: '4Ki',
    },
  },
  routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
}
const POLICIES = { standard: read('src/deploy/policies/standard.yaml') }

test('TimeoutStopSec exceeds the longest shutdown', () => {
  // src/runtime/shutdown.ts: 15 s for requests that were cut, and 20 s to release the resources of the process.
  expect(Number(setting('TimeoutStopSec'))).toBeGreaterThanOrEqual(drainSeconds() + 15 + 20)
  expect(setting('KillSignal')).toBe('SIGTERM')
})

test('the unit starts the command of this checkout', () => {
  const [node, script, ...args] = setting('ExecStart').split(' ')
  for (const path of [node!, script!]) expect(existsSync(path.replace('/opt/tollgate/', ROOT))).toBe(true)
  expect(args).toEqual(['serve', '--config', '/etc/tollgate/gateway.yaml'])
})

test('a gateway keeps its store in the folder that the unit lets it write, and commands find it there', async () => {
  const [configuration, state] = [await temporaryDirectory(), await temporaryDirectory()]
  symlinkSync(state, join(configuration, '.tollgate'))
  const gateway = await startGateway({ yaml: YAML, policies: POLICIES, dir: configuration })
  for (const file of ['tollgate.db', 'tollgate.sock', 'secret']) expect(lstatSync(join(state, file))).toBeDefined()
  expect(await tollgate(['account', 'list'], { config: gateway.config })).toMatchObject({ code: 0, stderr: '' })
  expect(await gateway.stop()).toBe(0)
})

describeWith(analyze === null ? 'systemd is not installed (apt-get install systemd)' : null, 'systemd', () => {
  test('accepts every setting', async () => {
    expect(run(analyze!, ['verify', await unitFile()])).toEqual({ code: 0, out: '' })
  })

  test('reports a misspelt setting', async () => {
    const { out } = run(analyze!, ['verify', await unitFile(text => text.replace('ProtectHome', 'ProtectHomes'))])
    expect(out).toMatch(/Unknown key.* 'ProtectHomes'/)
  })

  test.each<[string, string | null, number]>([
    ['as it is', null, 0],
    ['without a filter of system calls', 'SystemCallFilter', 1],
    ['without its own user', 'DynamicUser', 1],
    ['with the capabilities of root', 'CapabilityBoundingSet', 1],
  ])('rates the exposure of the unit %s', async (_what, without, code) => {
    const file = await unitFile(text => (without ? text.replaceAll(new RegExp(`^${without}=.*\n`, 'gm'), '') : text))
    // 1.5 of 10. The rest is what a gateway needs: sockets, and the network of the machine.
    const result = run(analyze!, ['security', '--offline=true', '--threshold=15', '--no-pager', file])
    expect({ ...result, out: /exposure level for tollgate.service: \S+/.exec(result.out)?.[0] }).toEqual({
      code,
      out: expect.stringContaining('exposure level'),
    })
  })

  test('allows every system call that a gateway makes, from start to exit', async context => {
    if (strace === null) return context.skip('strace is not installed (apt-get install strace)')
    const dir = await temporaryDirectory()
    mkdirSync(join(dir, 'policies'))
    const config = await writeConfiguration(dir, { yaml: YAML, policies: POLICIES })
    const [made, allowed] = [await systemCallsOf(config), systemCallsAllowed()]
    // A sample of each list, so that a parsing error is noticed.
    expect(made).toEqual(expect.arrayContaining(['execve', 'accept4', 'pwrite64', 'exit_group']))
    expect(allowed).not.toContain('reboot')
    // SQLite calls fchown only as root, and the service is not root.
    expect(made.filter(name => !allowed.has(name) && name !== 'fchown')).toEqual([])
  })
})

/** Returns the system calls of a gateway that starts, streams an answer and ends. */
async function systemCallsOf(config: string): Promise<string[]> {
  const trace = join(config, '../trace')
  const [node, script, ...args] = setting('ExecStart').replaceAll('/opt/tollgate/', ROOT).split(' ')
  const command = [node!, script!, ...args.slice(0, -1), config]
  const child: ChildProcess = spawn(strace!, ['-f', '-qq', '-e', 'signal=none', '-o', trace, ...command], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
  })
  const ended = once(child, 'close')
  let out = ''
  child.stdout!.setEncoding('utf8').on('data', text => {
    out += text
  })
  await expect.poll(() => out).toMatch(/OPENAI_API_KEY=\S+\n/)
  const { pid, url } = JSON.parse(out.split('\n').find(line => line.includes('"listening"'))!)
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${/OPENAI_API_KEY=(\S+)/.exec(out)![1]}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ model: 'demo-small', stream: true, messages: [{ role: 'user', content: 'hello' }] }),
  })
  expect(await answer.text()).toMatch(/data: \[DONE\]\n\n$/)
  process.kill(pid, 'SIGTERM')
  expect(await ended).toEqual([0, null])
  const names = (await readFile(trace, 'utf8')).matchAll(/^\d+ +(?:<\.\.\. )?([a-z]\w*)[( ]/gm)
  return [...new Set(Array.from(names, ([, name]) => name!))].sort()
}

/** Returns the system calls that the unit's `SystemCallFilter` lines allow, by systemd's own sets. */
function systemCallsAllowed(): Set<string> {
  const sets = new Map<string, string[]>()
  let set: string[] = []
  for (const line of run(analyze!, ['--no-pager', 'syscall-filter']).out.split('\n')) {
    const name = line.trim()
    if (/^@/.test(line)) sets.set(name, (set = []))
    else if (/^[@a-z]/.test(name)) set.push(name)
  }
  const membersOf = (name: string): readonly string[] =>
    name.startsWith('@') ? sets.get(name)!.flatMap(member => membersOf(member)) : [name]
  // systemd adds @default to every allow list.
  const allowed = new Set(membersOf('@default'))
  for (const [, not, names] of UNIT.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
    for (const name of names!.split(' ').flatMap(membersOf)) {
      if (not) allowed.delete(name)
      else allowed.add(name)
    }
  }
  return allowed
}
