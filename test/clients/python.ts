/** Finds a Python with the official OpenAI library, and installs one when the tests run in full. */
import { execFile } from 'node:child_process'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../helpers/repository.ts'

export interface Python {
  readonly command: string
  /** The environment variables that it needs, without all others. */
  readonly env: Readonly<Record<string, string>>
  /** The version of the library. */
  readonly version: string
}

/** The reason why Python cannot be used, and the remedy. */
export interface NoPython {
  readonly missing: string
}

/** The version that the tests were written with; a newer one is accepted too. */
const PACKAGE = 'openai==3.52.0'
const FOLDER = 'node_modules/.cache/tollgate-python'
const PACKAGES = join(ROOT, FOLDER)
const INSTALL_MAX_MS = 180_000
const START_MAX_MS = 20_000

const execute = promisify(execFile)

/** `TOLLGATE_PYTHON` or `python3`, with its own packages or those in the cache. */
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

/** Null on success, otherwise the error. A failed install leaves no files. */
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

/** The machine's environment without variables that redirect the library: keys, base URLs, proxies. */
function cleanEnvironment(): Record<string, string> {
  const dropped = /^(OPENAI_|VITEST|NODE_)/
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !dropped.test(name))
  return Object.fromEntries(kept) as Record<string, string>
}
