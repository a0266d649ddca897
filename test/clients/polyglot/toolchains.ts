/**
 * Prepares the programs of each language: builds them and installs the packages of their manifests. All output lies outside the
 * repository, in TOLLGATE_POLYGLOT_CACHE (default: a folder for temporary files), and is reused.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../helpers/repository.ts'

/** The command of a client's program. */
export interface Program {
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Prepares a client's program; rejects with the name of what is missing. */
export type Prepare = (client: string) => Promise<Program>

const CACHE = process.env['TOLLGATE_POLYGLOT_CACHE'] ?? join(tmpdir(), 'tollgate-polyglot')
const SOURCES = join(ROOT, 'test/clients/polyglot')

/** For a clean build with one job at a time on a busy machine. */
export const PREPARE_MOST_MS = 30 * 60_000

const execute = promisify(execFile)

export const go: Prepare = async client => {
  const command = join(CACHE, 'go/polyglot')
  const flags = `${process.env['GOFLAGS'] ?? ''} -p=1 -buildvcs=false`.trim()
  await run(found('go', ['/usr/local/go/bin']), ['build', '-o', command, '.'], join(SOURCES, 'go'), { GOFLAGS: flags })
  return { command, args: [client] }
}

export const rust: Prepare = async client => {
  const folder = copied('rust')
  await run(found('cargo', [join(homedir(), '.cargo/bin')]), ['build', '--quiet'], folder, { CARGO_BUILD_JOBS: '1' })
  return { command: join(folder, 'target/debug/polyglot'), args: [client] }
}

export const java: Prepare = async client => {
  const folder = copied('java')
  const classpath = join(folder, 'classpath')
  const goals = ['compile', 'dependency:build-classpath', `-Dmdep.outputFile=${classpath}`]
  await run(found('mvn'), ['--quiet', '--batch-mode', ...goals], folder)
  const path = [join(folder, 'target/classes'), readFileSync(classpath, 'utf8')].join(delimiter)
  return { command: found('java'), args: ['-cp', path, 'polyglot.Main', client] }
}

/** One environment per client: their packages need different versions of the same ones. */
export const python: Prepare = async client => {
  const folder = join(CACHE, 'python', client)
  const command = join(folder, 'bin/python')
  const requirements = join(SOURCES, 'python/requirements', `${client}.txt`)
  await once(folder, readFileSync(requirements, 'utf8'), () => venv(folder, ['--requirement', requirements]))
  return { command, args: [join(SOURCES, 'python', `${client.replaceAll('-', '_')}_client.py`)] }
}

async function venv(folder: string, packages: readonly string[]): Promise<void> {
  await run(process.env['TOLLGATE_PYTHON'] ?? found('python3'), ['-m', 'venv', '--clear', folder], ROOT)
  const options = ['--quiet', '--no-input', '--disable-pip-version-check', '--prefer-binary']
  await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', ...options, ...packages], ROOT)
}

/** A program for Node.js that starts the command for each feature. */
export const claudeCode: Prepare = async () => {
  const folder = copied('claude-code')
  await once(folder, readFileSync(join(folder, 'package.json'), 'utf8'), () =>
    run(found('npm'), ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'], folder),
  )
  return {
    command: process.execPath,
    args: [join(folder, 'main.mjs')],
    env: { CLAUDE_CODE: join(folder, 'node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs') },
  }
}

/** Installs a program from npm; resolves with its command. */
export async function npmPackage(name: string, version: string, bin: string): Promise<string> {
  const folder = join(CACHE, 'npm', bin)
  const manifest = JSON.stringify({ private: true, dependencies: { [name]: version } })
  await once(folder, manifest, async () => {
    writeFileSync(join(folder, 'package.json'), manifest)
    await run(found('npm'), ['install', '--no-audit', '--no-fund', '--no-package-lock'], folder)
  })
  return join(folder, 'node_modules/.bin', bin)
}

/** Installs a package from pip in its own environment; resolves with its command, or Python. */
export async function pipPackage(name: string, version: string, bin: string, environment = bin): Promise<string> {
  const folder = join(CACHE, 'python', environment)
  const requirement = `${name}==${version}`
  await once(folder, requirement, () => venv(folder, [requirement]))
  return join(folder, 'bin', bin)
}

/**
 * The environment of a program or a build: the machine's, without variables that redirect a client. Trusted certificates
 * stay: packages may arrive through a proxy.
 */
export function cleanEnvironment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const dropped =
    /^(OPENAI|ANTHROPIC|CLAUDE|LANGCHAIN|LANGSMITH|LITELLM|VITEST|NODE_(?!EXTRA_CA_CERTS)|npm_|GOFLAGS|PYTHONPATH)/
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !dropped.test(name))
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...more }
}

/** A home folder for the programs, so that the user's own settings do not affect them. */
export function emptyHome(): string {
  const home = join(CACHE, 'home')
  mkdirSync(home, { recursive: true })
  return home
}

/** Searches the PATH and the usual folders. */
function found(name: string, folders: readonly string[] = []): string {
  const path = [...(process.env['PATH'] ?? '').split(delimiter), ...folders]
  const folder = path.find(each => each !== '' && existsSync(join(each, name)))
  if (folder === undefined) throw new Error(`there is no ${name} here`)
  return join(folder, name)
}

/** Copies the sources of a language into the cache, because its tools write beside them. */
function copied(language: string): string {
  const folder = join(CACHE, language)
  cpSync(join(SOURCES, language), folder, { recursive: true, preserveTimestamps: true })
  return folder
}

/** Runs an install unless it has completed with the same manifest. */
async function once(folder: string, manifest: string, install: () => Promise<void>): Promise<void> {
  const stamp = join(folder, 'installed')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === manifest) return
  mkdirSync(folder, { recursive: true })
  await install()
  writeFileSync(stamp, manifest)
}

async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  mkdirSync(CACHE, { recursive: true })
  const env = cleanEnvironment(more)
  try {
    await execute(command, args, { cwd, env, timeout: PREPARE_MOST_MS, maxBuffer: 64 * 1024 * 1024 })
  } catch (error) {
    const {
      stderr = '',
      stdout = '',
      killed,
      message,
    } = error as Error & Record<'stderr' | 'stdout', string> & { killed?: boolean }
    if (killed) throw new Error(`${command} took longer than ${PREPARE_MOST_MS / 60_000} minutes`)
    throw new Error(`${command} ${args[0]}: ${(stderr + stdout).trim().slice(-1500) || message}`)
  }
}
