/** Parses the address of a store. */
import { dirname, join } from 'node:path'
import { decodedPart, parseServer } from '../common/server-address.ts'

/** Passwords that must not be shown: as written in the address, and decoded. */
export function passwordsIn(address: string): string[] {
  const { password = '', searchParams } = parseServer(address) ?? {}
  const texts = [password, decodedPart(password), searchParams?.get('password') ?? '']
  return [...new Set(texts)].filter(text => text !== '')
}

/** The folder beside the configuration: it has the secret and the spool of a store that is not a file. */
export function storeFolder(configFile: string): string {
  return join(dirname(configFile), '.tollgate')
}

/** The base name of the spool in that folder; `.spool` is added, as it is to the name of a SQLite file. */
export const SPOOL = 'tollgate'

/** Suffix of the copy that a restore makes before it changes the store. */
export const RESTORING = '.restoring'
