/** The HMAC secret: from the configuration, or from a file beside the store that the first start creates. */
import { randomBytes } from 'node:crypto'
import { fsyncSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET_MADE_BY, shortSecret } from '../common/secret-length.ts'
import type { Database } from './engine/database.ts'
import { StoreError } from './error.ts'
import { createFilled, syncFolder } from './files/files.ts'
import { digest, digestKey } from './people/token.ts'

/**
 * Returns the secret that keys the digests of API keys. Throws a `StoreError` if it is too short, or if others can read its file.
 * No message contains a part of the secret.
 *
 * @param configured `secret:` of gateway.yaml, resolved; null: the file `secret` in `folder`
 * @param database path or address of the store. If it has content and the secret's file is missing, no secret is made: it would not match.
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
      `The secret of the keys in ${database} is missing: the file ${path} does not exist and gateway.yaml has no \`secret:\`. Restore the secret that was used before.`,
      { code: 'secret' },
    )
  }
  create(path, folder)
  return read(path)!
}

function isFileWithContent(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/** Names the place of the secret that `loadSecret` returns, for an error about a wrong secret. */
export function secretPlace(configured: string | null, folder: string): string {
  return configured === null ? `the file ${join(folder, 'secret')}` : '`secret:` of gateway.yaml'
}

/** A secret, with its place and the place of the store for errors. */
interface SecretSource {
  readonly secret: string
  readonly place: string
  readonly secretPlace?: string
}

/** Like `matchSecret`, but stores a digest of the secret in a new store. */
export function adoptSecret(database: Database, found: SecretSource): void {
  if (matchSecret(database, found)) return
  const take = database.prepare(
    "INSERT INTO meta (name, value) VALUES ('secret_check', ?) ON CONFLICT (name) DO NOTHING",
  )
  take.run(checkOf(found.secret))
  // If several first starts run at once, only one has stored its own secret.
  matchSecret(database, found)
}

/**
 * Compares a secret with the digest that the store keeps. Returns false if the store has none yet. Throws a `StoreError` for another
 * secret: the digests of all keys depend on it, so every key would be unknown without a visible reason.
 */
export function matchSecret(database: Database, { secret, place, secretPlace = 'the secret' }: SecretSource): boolean {
  const known = database.prepare("SELECT value FROM meta WHERE name = 'secret_check'").get()?.['value']
  if (known === undefined || known === checkOf(secret)) return known !== undefined
  throw new StoreError(
    `The keys of ${place} were made with another secret than ${secretPlace}. Restore the secret that was used before.`,
    { code: 'secret' },
  )
}

const checkOf = (secret: string) => digest(digestKey(secret), 'tollgate:secret-check').toString('hex')

function checked(secret: string, place: string): string {
  const problem = shortSecret(secret)
  if (problem === null) return secret
  throw new StoreError(`${place} ${problem}. Make one with: ${SECRET_MADE_BY}`, { code: 'secret' })
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

/** Writes the secret to another file and links it: a crash leaves no partial secret, and simultaneous first starts read the same one. */
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
