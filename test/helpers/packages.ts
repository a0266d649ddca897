/**
 * The packages that only `test:system` and `test:full` need (client SDKs, browser driver, accessibility rules, editor server): test/packages
 * has their package.json and lock file. They are installed there, and `test/node_modules` has a link to each. A link to the whole folder
 * would hide packages of the checkout, because the folder has some of them in another version.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROOT } from './repository.ts'

export const PACKAGES = join(ROOT, 'test/packages')
const LINKS = join(ROOT, 'test/node_modules')

interface PackageFile {
  readonly dependencies: Readonly<Record<string, string>>
}

/** Installs them if the lock file has changed since the last time. Returns whether they are installed. */
export function installPackages(): boolean {
  const lock = readFileSync(join(PACKAGES, 'package-lock.json'))
  const mark = createHash('sha256').update(lock).digest('hex')
  const stamp = join(PACKAGES, 'node_modules/.installed')
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== mark) {
    const { status } = spawnSync('npm', ['ci'], { cwd: PACKAGES, stdio: 'inherit' })
    if (status !== 0) return false
    writeFileSync(stamp, mark)
  }
  const { dependencies } = JSON.parse(readFileSync(join(PACKAGES, 'package.json'), 'utf8')) as PackageFile
  rmSync(LINKS, { recursive: true, force: true })
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(LINKS, name)), { recursive: true })
    symlinkSync(join(PACKAGES, 'node_modules', name), join(LINKS, name), 'junction')
  }
  return true
}
