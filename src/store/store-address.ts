/** Where a store is, as the configuration says it. */
import { dirname, join } from 'node:path'

export const isPostgres = (store: string): boolean => /^postgres(?:ql)?:/.test(store)

/** What an address must not show: the password in it. */
export function passwordsIn(store: string): string[] {
  const password = isPostgres(store) ? (URL.parse(store)?.password ?? '') : ''
  return password === '' ? [] : [password, decodeURIComponent(password)]
}

/** For the secret and the spool of a store that is not a file: beside the configuration. */
export function storeFolder(configFile: string): string {
  return join(dirname(configFile), '.tollgate')
}

/** In that folder, the name to which `.spool` is added: what a SQLite file's own name is for it. */
export const SPOOL = 'tollgate'

/** Added to a store's name: the copy that a restore makes before it touches the store. */
export const RESTORING = '.restoring'
