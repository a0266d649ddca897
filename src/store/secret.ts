/** The HMAC secret: from the configuration, or a file beside the store that the first start creates. */
import { randomBytes } from 'node:crypto'
import { fsyncSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET_MADE_BY, shortSecret } from '../common/secret-length.ts'
import type { Database } from './engine/database.ts'
import { StoreError } from './error.ts'
import { createFilled, syncFolder } from './files/files.ts'
import { digest, digestKey } from './people/token.ts'

/**
 * The secret under which key digests are made. Throws a `StoreError` when it is too short, or its file can be read by
 * others; never says a part of it.
 *
 * @param configured `secret:` of gateway.yaml, resolved; null: the file `secret` in `folder`.
 * @param database path or address of the store. When it has content and the file is missing, no new secret is made: it would not fit.
 */
export function loadSecret(
  configured: string | null,
  folder: string,
  database: string | null = null,
  hasContent: (database: string) => boolean = isFileWithContent,
): string {
  if (configured !== null) return checked(configured, 'The `secret` of gateway.yaml')
  const path = join(folder, 'secret')
  const found = read(path)
  if (found !== undefined) return found
  if (database !== null && hasContent(database)) {
    throw new StoreError(
      `The secret under which the keys of ${database} were made is missing: there is no file ${path}, and gateway.yaml has no \`secret:\`. Restore the one that was in use before.`,
    )
  }
  create(path, folder)
  return read(path)!
}

function isFileWithContent(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/** Where `loadSecret` finds the secret, for an error that says it is another one. */
export function secretPlace(configured: string | null, folder: string): string {
  return configured === null ? `the file ${join(folder, 'secret')}` : '`secret:` of gateway.yaml'
}

/** A secret, and for the error that says it is another one: where it was found, and where the store is. */
interface FoundSecret {
  readonly secret: string
  readonly place: string
  readonly secretPlace?: string
}

/** Like `hasSecret`; a new store takes the secret. */
export function checkSecret(database: Database, found: FoundSecret): void {
  if (hasSecret(database, found)) return
  const take = database.prepare(
    "INSERT INTO meta (name, value) VALUES ('secret_check', ?) ON CONFLICT (name) DO NOTHING",
  )
  take.run(checkOf(found.secret))
  // Of several first starts at once, one has taken its own.
  hasSecret(database, found)
}

/**
 * Compares a secret with the one of a store, of which it keeps a digest, and throws a `StoreError` for another one. The digests of
 * all keys depend on it: with another secret every key would be unknown, and nobody would know why. False: the store has none yet.
 */
export function hasSecret(database: Database, { secret, place, secretPlace = 'the secret' }: FoundSecret): boolean {
  const known = database.prepare("SELECT value FROM meta WHERE name = 'secret_check'").get()?.['value']
  if (known === undefined || known === checkOf(secret)) return known !== undefined
  throw new StoreError(
    `This is not the secret under which the keys of ${place} were made: ${secretPlace}. Restore the one that was in use before.`,
  )
}

const checkOf = (secret: string) => digest(digestKey(secret), 'tollgate:secret-check').toString('hex')

function checked(secret: string, place: string): string {
  const problem = shortSecret(secret)
  if (problem === null) return secret
  throw new StoreError(`${place} ${problem}. Make one with: ${SECRET_MADE_BY}`)
}

function read(path: string): string | undefined {
  try {
    const mode = statSync(path).mode & 0o777
    if ((mode & 0o077) !== 0) {
      throw new StoreError(`${path} can be read by others (mode 0${mode.toString(8)}). Run: chmod 600 ${path}`)
    }
    return checked(readFileSync(path, 'utf8').trim(), path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Written aside and linked: a crash leaves no half secret, and of two first starts at once both read the same one. */
function create(path: string, folder: string): void {
  const aside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  createFilled(aside, file => {
    writeFileSync(file, `${randomBytes(32).toString('base64url')}\n`)
    fsyncSync(file)
  })
  try {
    linkSync(aside, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(aside)
  }
  syncFolder(folder)
}
