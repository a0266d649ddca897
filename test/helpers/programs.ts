/** Programs that some tests run for real: on PATH, where Go puts them, or in a folder that TOLLGATE_TOOLS names. */
import { accessSync, constants } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

/** Outside the checkout: what is slow to make is made once for all of them. */
export const TOOLS = process.env['TOLLGATE_TOOLS'] ?? join(homedir(), '.cache/tollgate')

/** The path of a program; null when it is not here. */
export function findProgram(name: string): string | null {
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/sbin',
    join(TOOLS, 'bin'),
    join(homedir(), 'go/bin'),
  ]
  return folders.map(folder => join(folder, name)).find(isProgram) ?? null
}

/** Why a test that needs the program is left out; null: it is here. */
export function without(name: string, debianPackage = name): string | null {
  return findProgram(name) === null ? `${name} is not installed (apt-get install ${debianPackage})` : null
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
