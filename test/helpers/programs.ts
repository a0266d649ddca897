/** Real programs that some tests run. They are on PATH, in Go's folder, or in the folder TOLLGATE_TOOLS. */
import { accessSync, constants } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

/** A cache outside the checkout, for files that are slow to make. */
export const TOOLS = process.env['TOLLGATE_TOOLS'] ?? join(homedir(), '.cache/tollgate')

/** The path of a program; null if it is not installed. */
export function findProgram(name: string): string | null {
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/sbin',
    join(TOOLS, 'bin'),
    join(homedir(), 'go/bin'),
  ]
  return folders.map(folder => join(folder, name)).find(isProgram) ?? null
}

/** Why a test that needs the program is left out; null: it is installed. */
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
