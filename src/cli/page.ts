/**
 * Builds the dashboard's page when its sources have changed since the last time, so that nobody has to think of it: a
 * child process runs Vite for a second. Where Vite is not installed (`npm ci --omit=dev`) what was built before is served,
 * and whoever starts the gateway hears when that is old or not there.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CommandError } from './terminal.ts'

const SOURCES = fileURLToPath(new URL('../dashboard', import.meta.url))
/** Where the built page lies, or would. */
export const BUILT = builtOf(SOURCES)
/** In it: which sources it was made of. */
const STAMP = '.made-of'

/**
 * Answers with the folder of the built page. Throws a `CommandError` when it is not of these sources and cannot be built.
 *
 * @param sources The folder of another page.
 * @param vite Where Vite's command is; null: it is not installed.
 */
export async function buildPage(sources: string = SOURCES, vite: string | null = findVite()): Promise<string> {
  const built = builtOf(sources)
  // An installed package has no more than what was built.
  if (!existsSync(join(sources, 'index.html')) && existsSync(join(built, 'index.html'))) return built
  const stampFile = join(built, STAMP)
  const stamp = stampOf(sources)
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return built
  if (vite === null) throw new CommandError(withoutVite(existsSync(join(built, 'index.html'))))
  const fresh = `${built}-${crypto.randomUUID()}`
  try {
    await promisify(execFile)(
      process.execPath,
      [vite, 'build', sources, '--config', join(sources, 'vite.config.ts'), '--outDir', fresh, '--logLevel', 'warn'],
      { env: { PATH: process.env['PATH'] ?? '', NODE_ENV: 'production' } },
    )
    writeFileSync(join(fresh, STAMP), stamp)
    putInPlace(fresh, built)
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string }
    throw new CommandError(`The dashboard's page cannot be built: ${stderr?.trim() || message}`)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return built
}

function withoutVite(isBuilt: boolean): string {
  const state = isBuilt ? 'is older than its sources' : 'is not built'
  return `The dashboard's page ${state}, and building it needs the development packages: run npm ci first, then tollgate build.`
}

/** Whoever starts meanwhile finds the old page or the new one, never half of one; so several may build at once. */
function putInPlace(fresh: string, built: string): void {
  const old = `${fresh}-old`
  renameUnless(['ENOENT'], built, old)
  // Somebody else's has come there first: it is as good.
  renameUnless(['ENOTEMPTY', 'EEXIST'], fresh, built)
  rmSync(old, { recursive: true, force: true })
}

function renameUnless(codes: readonly string[], from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    if (!codes.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

function builtOf(sources: string): string {
  return join(sources, 'dist')
}

function findVite(): string | null {
  try {
    return join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin', 'vite.js')
  } catch {
    return null
  }
}

/** A digest of all that the page is made of. */
function stampOf(folder: string): string {
  const digest = createHash('sha256')
  for (const path of filesIn(folder)) {
    digest
      .update(`${relative(folder, path)}\0`)
      .update(readFileSync(path))
      .update('\0')
  }
  return digest.digest('hex')
}

/** Not made by hand, and somebody may be putting one in place right now. */
const MADE = /^(dist|dist-.*|pictures)$/

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(entry => !MADE.test(entry.name))
    .flatMap(entry => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? filesIn(path) : [path]
    })
}
