/**
 * Runs the real gateway and its commands as processes, as an operator would: files in a directory, a port
 * from the log, signals. Processes that a test does not stop are killed at the end of its file.
 *
 * @example
 * const gateway = await startGateway({ yaml, policies: { standard: 'steps: …' } })
 * const { key } = await createAccount(gateway, { credit: '10' })
 * await fetch(`${gateway.url}/v1/chat/completions`, { headers: { authorization: `Bearer ${key}` }, … })
 * expect(await gateway.stop()).toBe(0)
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { AT_FILE_END } from './file-end.ts'

export interface GatewayOptions {
  /** gateway.yaml: its text, or the value that becomes it. */
  readonly yaml: string | object
  /** Each becomes `policies/NAME.yaml`. */
  readonly policies?: Readonly<Record<string, string | object>>
  readonly env?: Readonly<Record<string, string>>
  /** The directory of an earlier gateway, to start it again on its store. Default: a new one, removed at the end. */
  readonly dir?: string
  /** The script that is run as the command; default: the product's. */
  readonly entry?: string
  /** Which lines of the log are kept; default: all. A long run would fill the memory with its exchanges. */
  readonly keep?: (line: LogLine) => boolean
}

export interface Gateway {
  /** For clients: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** For operators; empty when the configuration has no `admin`. */
  readonly adminUrl: string
  /** For people; empty when the configuration has no `dashboard`. */
  readonly dashboardUrl: string
  readonly dir: string
  readonly config: string
  readonly pid: number
  /** Sends a signal (default SIGTERM) and resolves with the exit code; null when a signal ended it. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
  /** SIGKILL; resolves when the process has ended. */
  kill9(): Promise<void>
  /** Resolves with the exit code when the process ends by itself. */
  readonly exited: Promise<number | null>
  /** The log so far, one element per line; lines that are not JSON are `{ text }`. */
  logs(): LogLine[]
  /** Resolves with the first matching log line, also an earlier one. */
  waitForLog(fits: (line: LogLine) => boolean): Promise<LogLine>
  /** Everything that was written to stderr. */
  stderr(): string
}

export type LogLine = Readonly<Record<string, unknown>>

/** The result of a command. */
export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const NODE = join(ROOT, 'node_modules/.bin/node')
const ENTRY = join(ROOT, 'src/cli/tollgate.js')

const running = new Set<ChildProcess>()
const directories = new Set<string>()

/** Writes the files, starts the process, and resolves when it listens. Rejects with the output if it ends before. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const dir = options.dir ?? (await temporaryDirectory())
  const config = await writeConfiguration(dir, options)
  const child = launch([options.entry ?? ENTRY, 'serve', '--config', config], dir, options.env)
  const output = new Output(child, options.keep)
  const exited = exitOf(child)

  const listening = await Promise.race([output.waitFor(line => line['msg'] === 'listening'), exited])
  if (listening === null || typeof listening === 'number') {
    throw new Error(
      `the gateway ended (${listening ?? 'killed'}) instead of listening:\n${output.stderr}${output.stdout}`,
    )
  }
  return {
    url: String(listening['url']),
    adminUrl: String(listening['admin'] ?? ''),
    dashboardUrl: String(listening['dashboard'] ?? ''),
    dir,
    config,
    pid: child.pid!,
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return exited
    },
    async kill9() {
      child.kill('SIGKILL')
      await exited
    },
    exited,
    logs: () => output.lines,
    waitForLog: fits => output.waitFor(fits),
    stderr: () => output.stderr,
  }
}

/** Runs a command to its end: `tollgate(['check'], { config })`. */
export async function tollgate(
  args: readonly string[],
  options: {
    readonly cwd?: string
    /** Adds `--config`. */
    readonly config?: string
    readonly env?: Readonly<Record<string, string>>
    /** For stdin. */
    readonly input?: string
    readonly entry?: string
  } = {},
): Promise<CommandResult> {
  const all = [options.entry ?? ENTRY, ...args, ...(options.config ? ['--config', options.config] : [])]
  const child = launch(all, options.cwd ?? (options.config ? resolve(options.config, '..') : ROOT), options.env)
  const output = new Output(child)
  child.stdin!.on('error', () => {}).end(options.input ?? '')
  const code = await exitOf(child)
  return { code, stdout: output.stdout, stderr: output.stderr }
}

let accounts = 0

/** The `--json` output of a command, run in this process or by another script. Throws unless it exits with 0. */
export async function answerOf<Answer>(
  args: readonly string[],
  { config }: Pick<Gateway, 'config'>,
  entry?: string,
): Promise<Answer> {
  if (entry === undefined) {
    const { runJson } = await import('./command.ts')
    return runJson<Answer>(dirname(config), [...args, '--config', config])
  }
  const { code, stdout, stderr } = await tollgate([...args, '--json'], { config, entry })
  if (code !== 0) throw new Error(`tollgate ${args.join(' ')} ended with ${code}:\n${stderr}${stdout}`)
  return JSON.parse(stdout)
}

/** Creates an account with credit (in dollars) and a key for it, by the commands. */
export async function createAccount(
  gateway: Pick<Gateway, 'config'>,
  options: {
    readonly credit?: string | number
    readonly name?: string
    readonly plan?: string
    readonly entry?: string
  } = {},
): Promise<{ accountId: string; keyId: string; key: string }> {
  const name = options.name ?? `account-${process.pid}-${++accounts}`
  const plan = options.plan ? ['--plan', options.plan] : []
  const run = (...args: readonly string[]) => answerOf<unknown>(args, gateway, options.entry)
  const account = await run('account', 'create', name, '--credit', String(options.credit ?? 0), ...plan)
  const accountId = text(account, ['account', 'id'])
  const key = await run('key', 'create', '--account', accountId, '--name', 'test')
  return { accountId, keyId: text(key, ['key', 'id']), key: text(key, ['token']) }
}

function text(value: unknown, path: readonly string[]): string {
  let found = value
  for (const name of path) found = (found as Record<string, unknown> | undefined)?.[name]
  if (typeof found !== 'string') throw new Error(`no ${path.join('.')} in what the command printed`)
  return found
}

/** A directory that is removed at the end of the test file. */
export async function temporaryDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-'))
  directories.add(dir)
  return dir
}

/** Writes gateway.yaml and the policies; returns the path of the former. */
export async function writeConfiguration(
  dir: string,
  { yaml, policies = {} }: Pick<GatewayOptions, 'yaml' | 'policies'>,
): Promise<string> {
  const asText = (value: string | object) => (typeof value === 'string' ? value : stringify(value))
  await mkdir(join(dir, 'policies'), { recursive: true })
  for (const [name, policy] of Object.entries(policies)) {
    await writeFile(join(dir, 'policies', `${name}.yaml`), asText(policy))
  }
  const config = join(dir, 'gateway.yaml')
  await writeFile(config, asText(yaml))
  return config
}

/** Kills running processes and removes the directories. */
export async function cleanUp(): Promise<void> {
  const exits = [...running].map(exitOf)
  for (const child of running) child.kill('SIGKILL')
  await Promise.all(exits)
  for (const dir of directories) await rm(dir, { recursive: true, force: true })
  directories.clear()
}

AT_FILE_END.push(cleanUp)
// A benchmark has no test files, so the clean-up runs when its process ends.
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

function launch(args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}): ChildProcess {
  const child = spawn(NODE, args, { cwd, env: { ...cleanEnvironment(), ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

/** The test runner's own variables must not reach the gateway: an operator's gateway does not have them. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ', 'TOLLGATE_TEST_RUN']
  return Object.fromEntries(kept.map(name => [name, process.env[name]]).filter(([, value]) => value !== undefined))
}

/** Waits for 'close' instead of 'exit', because the output is complete only then. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
}

/** The output of a process, and the calls that wait for a line of it. */
class Output {
  readonly lines: LogLine[] = []
  stdout = ''
  stderr = ''
  private rest = ''
  private waiting: { fits: (line: LogLine) => boolean; resolve: (line: LogLine) => void }[] = []

  private readonly keep: ((line: LogLine) => boolean) | undefined

  constructor(child: ChildProcess, keep?: (line: LogLine) => boolean) {
    this.keep = keep
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      if (!keep) this.stdout += text
      const lines = (this.rest + text).split('\n')
      this.rest = lines.pop()!
      for (const line of lines) this.push(line)
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
  }

  waitFor(fits: (line: LogLine) => boolean): Promise<LogLine> {
    const found = this.lines.find(fits)
    if (found) return Promise.resolve(found)
    return new Promise(resolve => this.waiting.push({ fits, resolve }))
  }

  private push(text: string): void {
    let line: LogLine
    try {
      const value: unknown = JSON.parse(text)
      line = typeof value === 'object' && value !== null ? (value as LogLine) : { text }
    } catch {
      line = { text }
    }
    if (this.keep?.(line) !== false) this.lines.push(line)
    for (const waiter of this.waiting.filter(({ fits }) => fits(line))) waiter.resolve(line)
    this.waiting = this.waiting.filter(({ fits }) => !fits(line))
  }
}
