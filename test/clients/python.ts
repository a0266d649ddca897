/** Finds a Python that has the official OpenAI library, and makes one when the tests run in full. */
import { execFile } from 'node:child_process'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../helpers/repository.ts'

export interface Python {
  readonly command: string
  /** What it needs from the environment, and nothing else of it. */
  readonly env: Readonly<Record<string, string>>
  /** Of the library. */
  readonly version: string
}

/** Why there is none, and what to do about it. */
export interface NoPython {
  readonly missing: string
}

/** The version that the tests were written with; a newer one that is found is taken as well. */
const PACKAGE = 'openai==3.52.0'
const FOLDER = 'node_modules/.cache/tollgate-python'
const PACKAGES = join(ROOT, FOLDER)
const INSTALL_MAX_MS = 180_000
const START_MAX_MS = 20_000

const execute = promisify(execFile)

/** `TOLLGATE_PYTHON`, or `python3`: with its own packages, else with those in the cache beside it. */
export async function findPython(mayInstall = false): Promise<Python | NoPython> {
  const command = process.env['TOLLGATE_PYTHON'] ?? 'python3'
  const own = cleanEnvironment()
  const cached = { ...own, PYTHONPATH: PACKAGES }
  const found = (await withLibrary(command, own)) ?? (await withLibrary(command, cached))
  if (found) return found

  const how = `${command} -m pip install --target ${FOLDER} ${PACKAGE}`
  if (!mayInstall)
    return { missing: `${command} has no package openai. To have it: npm run test:full -- clients, or ${how}` }
  const failed = await install(command, own)
  if (failed !== null) return { missing: `${command} has no package openai, and could not get it: ${failed}` }
  return (await withLibrary(command, cached)) ?? { missing: `${command} cannot import what it has installed: ${how}` }
}

async function withLibrary(command: string, env: Readonly<Record<string, string>>): Promise<Python | null> {
  try {
    const { stdout } = await execute(command, ['-c', 'import openai; print(openai.__version__)'], {
      env,
      timeout: START_MAX_MS,
    })
    return { command, env, version: stdout.trim() }
  } catch {
    return null
  }
}

/** Null when it is there; else what went wrong. An install that breaks off leaves nothing behind. */
async function install(command: string, env: Readonly<Record<string, string>>): Promise<string | null> {
  const half = `${PACKAGES}.${process.pid}`
  const options = ['--target', half, '--quiet', '--no-input', '--disable-pip-version-check']
  try {
    await execute(command, ['-m', 'pip', '--version'], { env, timeout: START_MAX_MS })
    await mkdir(join(PACKAGES, '..'), { recursive: true })
    await execute(command, ['-m', 'pip', 'install', ...options, PACKAGE], { env, timeout: INSTALL_MAX_MS })
    await rm(PACKAGES, { recursive: true, force: true })
    await rename(half, PACKAGES)
    return null
  } catch (error) {
    const { stderr = '', killed, message } = error as Error & { stderr?: string; killed?: boolean }
    if (killed) return `pip took longer than ${INSTALL_MAX_MS / 1000} s`
    return stderr.trim().split('\n').at(-1) || message
  } finally {
    await rm(half, { recursive: true, force: true })
  }
}

/** The machine's, without what would lead the library elsewhere: keys, base URLs, proxies. */
function cleanEnvironment(): Record<string, string> {
  const dropped = /^(OPENAI_|VITEST|NODE_)/
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !dropped.test(name))
  return Object.fromEntries(kept) as Record<string, string>
}
