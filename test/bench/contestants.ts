/** The contestants, and how each is started: on one core, in front of the same upstream. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { loadSecret } from '../../src/store/secret.ts'
import { freePort } from '../helpers/free-port.ts'
import type { Target } from './load.ts'
import { NATIVES } from './native.ts'
import { steppingFiles, steppingPath } from './step-files.ts'

/** `direct` is the upstream without anything in front of it. */
export const NAMES = [
  'direct',
  'bare',
  'nginx',
  'unmetered',
  'credits',
  'telemetry',
  'bare-http',
  'bare-undici8',
] as const
export type Name = (typeof NAMES)[number]

export interface Rig {
  /** For all temporary files. */
  readonly folder: string
  readonly upstreamPort: number
  /** The core that contestants run on; null if they cannot be bound to one. */
  readonly core: number | null
  /** Serving threads of the gateway; default: 1. */
  readonly threads?: number
  /** The folder of an undici 8, for `bare-undici8`. */
  readonly undici8: string | null
}

/**
 * `translating`: without credits, in front of a provider of each dialect (native-upstream.ts). `stepping`: one route for
 * each kind of step (steps.ts).
 */
export type Runner = Name | 'translating' | 'stepping'

export interface Contestant<N extends Runner = Runner> extends Target {
  readonly name: N
  /** Sends SIGTERM; resolves when the process has exited. */
  stop(): Promise<void>
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ACCOUNTS = 100
const CREDIT = 1_000_000_000_000_000n
const START_MAX_MS = 20_000

const children = new Set<ChildProcess>()
const folders = new Set<string>()

/** Ends every child process and removes the temporary folders, also after a signal. */
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.on(signal, () => process.exit(code))
}

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  folders.add(folder)
  return folder
}

/** Runs a program, bound to `core` if there is one. Its stdout goes to /dev/null, its stderr to the file `errors`. */
export function launch(core: number | null, command: readonly string[], errors: string): ChildProcess {
  const [program, ...args] = core === null ? command : ['taskset', '-c', String(core), ...command]
  const stderr = openSync(errors, 'w')
  const { NODE_OPTIONS: _options, ...env } = process.env
  const child = spawn(program!, args, {
    // The IPC channel closes if this process is killed. The bench's scripts and the gateway's launcher then exit.
    stdio: ['ignore', 'ignore', stderr, 'ipc'],
    env: { ...env, TOLLGATE_PARENT: String(process.pid), LOG_LEVEL: 'info' },
  })
  closeSync(stderr)
  children.add(child)
  child.on('exit', () => children.delete(child))
  return child
}

/** @param nodeArgs options of Node.js, such as `--cpu-prof` */
export async function start<N extends Runner>(
  name: N,
  rig: Rig,
  nodeArgs: readonly string[] = [],
): Promise<Contestant<N>> {
  if (name === 'direct') {
    return { name, port: rig.upstreamPort, pid: null, keys: ['none'], stop: async () => {} }
  }
  const folder = mkdtempSync(join(rig.folder, `${name}-`))
  const port = await freePort()
  const { command, keys } = await prepare(name, { rig, folder, port, node: [process.execPath, ...nodeArgs] })
  const errors = join(folder, 'errors.txt')
  const child = launch(rig.core, command, errors)
  const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
  let hasExited = false
  void ended.then(() => {
    hasExited = true
  })
  const deadline = performance.now() + START_MAX_MS
  while (!(await answers(port))) {
    if (hasExited || performance.now() > deadline) {
      throw new Error(`${name} did not start: ${command.join(' ')}\n${readFileSync(errors, 'utf8')}`)
    }
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  return {
    name,
    port,
    pid: child.pid!,
    keys,
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

interface Place {
  readonly rig: Rig
  readonly folder: string
  readonly port: number
  readonly node: readonly string[]
}

async function prepare(name: Runner, place: Place): Promise<{ command: readonly string[]; keys: readonly string[] }> {
  const { rig, folder, port, node } = place
  const bare = [...node, join(ROOT, 'test/bench/bare.ts'), String(port), String(rig.upstreamPort)]
  switch (name) {
    case 'credits':
    case 'telemetry':
    case 'unmetered':
    case 'translating':
    case 'stepping': {
      const config = name === 'stepping' ? writeSteps(place) : writeConfiguration(name, place)
      const command = [...node, join(ROOT, 'src/cli/tollgate.js'), 'serve', '--config', config]
      return { command, keys: await createKeys(folder) }
    }
    case 'nginx': {
      const file = join(folder, 'nginx.conf')
      writeFileSync(file, nginxConfiguration(folder, port, rig.upstreamPort))
      return { command: ['nginx', '-p', folder, '-c', file, '-e', join(folder, 'error.log')], keys: ['none'] }
    }
    case 'bare-http':
      return { command: [...bare, 'http'], keys: ['none'] }
    case 'bare-undici8':
      return { command: [...bare, join(rig.undici8!, 'node_modules/undici/index.js')], keys: ['none'] }
    default:
      return { command: bare, keys: ['none'] }
  }
}

/**
 * Writes a configuration with limits that are never reached, and a store in the temporary folder. Only `credits` has the step
 * credits. `telemetry` is `unmetered` with a collector: the upstream, which accepts any request.
 */
function writeConfiguration(
  name: 'credits' | 'telemetry' | 'unmetered' | 'translating',
  { folder, port, rig }: Place,
): string {
  const upstream = `http://127.0.0.1:${rig.upstreamPort}`
  const model = (provider: string, id: string) => ({
    targets: [{ provider, model: id }],
    price: { per: '1M tokens', input: '$0.15', output: '$0.60' },
    context: '128Ki',
    max_output: '4Ki',
  })
  const steps = [
    { use: 'api-key' },
    { use: 'schema' },
    { use: 'rate-limit', with: { per: 'key', requests: '1M per second' } },
    ...(name === 'credits' ? [{ use: 'credits' }] : []),
    { use: 'route' },
  ]
  const gateway = {
    version: 1,
    listen: `127.0.0.1:${port}`,
    store: 'sqlite:./tollgate.db',
    threads: rig.threads ?? 1,
    limits: { max_inflight: 4000 },
    ...(name === 'telemetry' ? { telemetry: { endpoint: upstream, ratio: 0.01 } } : {}),
    ...(name === 'translating' ? everyDialect(upstream, model) : oneDialect(upstream, model)),
    routes: [{ path: '/v1/chat/completions', policy: 'bench', ...(name === 'credits' ? {} : { unmetered: true }) }],
  }
  mkdirSync(join(folder, 'policies'))
  writeFileSync(join(folder, 'policies/bench.yaml'), stringify({ steps }))
  writeFileSync(join(folder, 'gateway.yaml'), stringify(gateway))
  return join(folder, 'gateway.yaml')
}

/** Writes a configuration whose routes have the steps of `unmetered`, with the measured steps before `route`. */
function writeSteps({ folder, port, rig }: Place): string {
  const limit = { use: 'rate-limit', with: { per: 'key', requests: '1M per second' } }
  const { plugins, policies } = steppingFiles()
  mkdirSync(join(folder, 'policies'))
  mkdirSync(join(folder, 'plugins'))
  for (const [name, code] of Object.entries(plugins)) writeFileSync(join(folder, 'plugins', `${name}.ts`), code)
  for (const [name, steps] of Object.entries(policies)) {
    const all = [{ use: 'api-key' }, { use: 'schema' }, limit, ...steps, { use: 'route' }]
    writeFileSync(join(folder, 'policies', `${name}.yaml`), stringify({ steps: all }))
  }
  const { path, model } = NATIVES['openai']!
  const upstream = `http://127.0.0.1:${rig.upstreamPort}/openai${path}`
  const entry = { targets: [{ provider: 'bench', model }], price: 'free', context: '128Ki', max_output: '4Ki' }
  const gateway = {
    version: 1,
    listen: `127.0.0.1:${port}`,
    store: 'sqlite:./tollgate.db',
    limits: { max_inflight: 4000 },
    providers: { bench: { dialect: 'openai', base_url: upstream } },
    models: { 'json-openai': entry, 'stream-openai': entry },
    routes: Object.keys(policies).map(policy => ({ path: steppingPath(policy), policy })),
  }
  writeFileSync(join(folder, 'gateway.yaml'), stringify(gateway))
  return join(folder, 'gateway.yaml')
}

type ModelOf = (provider: string, id: string) => object

function oneDialect(upstream: string, model: ModelOf): object {
  return {
    providers: { bench: { dialect: 'openai', base_url: `${upstream}/v1` } },
    models: Object.fromEntries(['json-1k', 'json-16k', 'paced', 'open'].map(id => [id, model('bench', id)])),
  }
}

/** A provider for each dialect with two models: one for streams, one for whole answers. */
function everyDialect(upstream: string, model: ModelOf): object {
  const all = Object.entries(NATIVES)
  return {
    providers: Object.fromEntries(
      all.map(([dialect, { path }]) => [dialect, { dialect, base_url: `${upstream}/${dialect}${path}` }]),
    ),
    models: Object.fromEntries(
      all.flatMap(([dialect, native]) =>
        ['stream', 'json'].map(kind => [`${kind}-${dialect}`, model(dialect, native.model)]),
      ),
    ),
  }
}

async function createKeys(folder: string): Promise<string[]> {
  const store = await openStore({
    url: `sqlite:${join(folder, 'tollgate.db')}`,
    secret: loadSecret(null, folder),
    clock: { now: () => Date.now() },
    writes: 'here',
  })
  try {
    return await Promise.all(
      Array.from({ length: ACCOUNTS }, async (_, index) => {
        const { id } = await store.createAccount({ name: `customer ${index}` })
        await store.credit({ account: id, amount: CREDIT, reference: `bench ${index}`, actor: 'bench' })
        return (await store.createKey({ account: id, name: 'bench' })).token
      }),
    )
  } finally {
    await store.close()
  }
}

/** One worker, and no buffering of streams. */
function nginxConfiguration(folder: string, port: number, upstreamPort: number): string {
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    kind => `  ${kind}_temp_path ${join(folder, kind)};`,
  )
  return `daemon off;
worker_processes 1;
pid ${join(folder, 'nginx.pid')};
error_log ${join(folder, 'error.log')};
events { worker_connections 16384; }
http {
${places.join('\n')}
  access_log off;
  keepalive_requests 100000000;
  client_body_buffer_size 64k;
  upstream bench { server 127.0.0.1:${upstreamPort}; keepalive 4096; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port} backlog=8192;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer sk-of-the-provider";
      proxy_buffering off;
    }
  }
}
`
}

export function hasNginx(): boolean {
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}
