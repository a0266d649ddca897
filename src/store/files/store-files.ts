/** The files of a store in SQLite, which all begin with the database's name. */
import { existsSync } from 'node:fs'
import { createSpool, rejectedSpools, spoolsOf } from '../money/spool.ts'
import { hasBytes } from './files.ts'

/** The existing files of the store at a path, the database first, and whether it has content. */
export function findStoreFiles(path: string): { readonly files: readonly string[]; readonly isStore: boolean } {
  const spools = spoolsOf(path)
  const own = ['', '-wal', '-shm', '.commits'].map(end => `${path}${end}`)
  const isStore = own.some(hasBytes) || spools.some(spool => createSpool(spool).read().length > 0)
  return { files: [...[...own, ...spools].filter(file => existsSync(file)), ...rejectedSpools(path)], isStore }
}
