/** Where a store is, as the configuration says it. */
import { dirname, join } from 'node:path'
import { decodedPart, parseServer } from '../common/server-address.ts'

/** What the address of a server must not show: the password in it, as it is written there and as it is. */
export function passwordsIn(address: string): string[] {
  const { password = '', searchParams } = parseServer(address) ?? {}
  const texts = [password, decodedPart(password), searchParams?.get('password') ?? '']
  return [...new Set(texts)].filter(text => text !== '')
}

/** For the secret and the spool of a store that is not a file: beside the configuration. */
export function storeFolder(configFile: string): string {
  return join(dirname(configFile), '.tollgate')
}

/** In that folder, the name to which `.spool` is added: what a SQLite file's own name is for it. */
export const SPOOL = 'tollgate'

/** Added to a store's name: the copy that a restore makes before it touches the store. */
export const RESTORING = '.restoring'
