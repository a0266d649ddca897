/**
 * Builds the dashboard's page if its sources have changed: a child process runs Vite for a second. Without Vite
 * (`npm ci --omit=dev`) an earlier build is served, and the start reports if it is old or missing.
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
/** The folder of the built page, which may not exist yet. */
export const BUILT = builtOf(SOURCES)
/** A file in it with the digest of its sources. */
const STAMP = '.made-of'

/**
 * Returns the folder of the built page. Throws a `CommandError` if it is outdated or missing and cannot be built.
 *
 * @param sources the folder of the page's sources
 * @param vite the path of Vite's command; null: it is not installed
 */
export async function buildPage(sources: string = SOURCES, vite: string | null = findVite()): Promise<string> {
  const built = builtOf(sources)
  // An installed package contains only the built page.
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

/**
 * Replaces the built page. A gateway that starts at this time gets the old page or the new one, never a partial one. Several
 * processes may build at once.
 */
function putInPlace(fresh: string, built: string): void {
  const old = `${fresh}-old`
  renameUnless(['ENOENT'], built, old)
  // If another process has put its page there first, keep that one: it is the same.
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

/** A digest of the page's sources. */
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

/** Generated folders, which another process may be replacing. */
const GENERATED = /^(dist|dist-.*|pictures)$/

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(entry => !GENERATED.test(entry.name))
    .flatMap(entry => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? filesIn(path) : [path]
    })
}
