/**
 * The packages that only `test:system` and `test:full` need (client SDKs, browser driver, accessibility rules, editor server): test/packages
 * has their package.json and lock file. They are installed there, and `test/node_modules` leads to them, so that every test finds them.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './repository.ts'

export const PACKAGES = join(ROOT, 'test/packages')

/** Installs them unless the lock file is the one that was installed last. Returns whether they are there. */
export function installPackages(): boolean {
  const lock = readFileSync(join(PACKAGES, 'package-lock.json'))
  const mark = createHash('sha256').update(lock).digest('hex')
  const stamp = join(PACKAGES, 'node_modules/.installed')
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== mark) {
    const { status } = spawnSync('npm', ['ci'], { cwd: PACKAGES, stdio: 'inherit' })
    if (status !== 0) return false
    writeFileSync(stamp, mark)
  }
  const link = join(ROOT, 'test/node_modules')
  if (!existsSync(link)) symlinkSync('packages/node_modules', link, 'junction')
  return true
}
