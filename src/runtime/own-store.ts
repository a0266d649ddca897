/** Opens the store of a gateway, and takes its lock: only one process writes to it. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '#contract'
import { isPostgres } from '../common/server-address.ts'
import { VERSION } from '../common/version.ts'
import type { Configuration } from '../config/configuration.ts'
import type { Logger } from '../observe/log.ts'
import { knownSentence } from '../store/engine/postgres/postgres-address.ts'
import type { openServedStore } from '../store/engine/sqlite.ts'
import { StoreError } from '../store/error.ts'
import { makePrivateFolder, realPath } from '../store/files/files.ts'
import { type Lock, takeLock } from '../store/files/lock.ts'
import { loadSecret, secretPlace } from '../store/secret.ts'
import type { ServedStore } from '../store/served-store.ts'
import { passwordsIn, RESTORING, SPOOL, storeFolder } from '../store/store-address.ts'
import { ConfigurationProblems } from './own-state.ts'
import { type LoadedFiles, placeOf } from './reload.ts'

/** An unusable server is a problem of the configuration. */
export async function openOwnStore(
  loaded: LoadedFiles,
  clock: Clock,
  log: Logger,
  open: typeof openServedStore,
): Promise<{ store: ServedStore; lock: Lock | null; secret: string }> {
  const { configuration } = loaded
  if (configuration.store === 'memory') {
    // Nothing outlives the process, so a generated secret suffices.
    const secret = configuration.secret ?? `${crypto.randomUUID()}${crypto.randomUUID()}`
    return { store: await open({ url: 'memory', secret, clock }), lock: null, secret }
  }
  if (isPostgres(configuration.store)) return openInPostgres(loaded, clock, log, open)
  const path = configuration.store.slice('sqlite:'.length)
  const lock = await takeLock(path, clock, 'serve')
  try {
    const real = realPath(path)
    await removeLeftRestore(real, clock, lock)
    const secret = loadSecret(configuration.secret, dirname(real), real)
    log.learn([secret])
    const place = secretPlace(configuration.secret, dirname(real))
    return { store: await open({ url: configuration.store, secret, secretPlace: place, clock }), lock, secret }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** The database is shared by all replicas; the folder, with the spool, belongs to one. */
async function openInPostgres(
  loaded: LoadedFiles,
  clock: Clock,
  log: Logger,
  open: typeof openServedStore,
): Promise<{ store: ServedStore; lock: Lock; secret: string }> {
  const { configuration } = loaded
  log.learn(passwordsIn(configuration.store))
  const { checkPostgres } = await import('../store/engine/postgres/index.ts')
  // Checked before a folder, or a secret in it, exists.
  await withPlace(loaded, async () => checkPostgres(configuration.store, sentence => log.log.warn({}, sentence)))
  const folder = storeFolder(configuration.file)
  makePrivateFolder(folder)
  const lock = await takeLock(join(folder, 'tollgate.replica'), clock, 'serve').catch((error: Error) => {
    throw new StoreError(`${error.message} Replicas on one machine need a folder each, with gateway.yaml in it.`, {
      cause: error,
    })
  })
  try {
    await removeLeftRestore(join(folder, SPOOL), clock, null)
    return { ...(await withPlace(loaded, () => openIn(folder, configuration, clock, log, open))), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Removes a left-over copy of the store, which would otherwise stay for ever. */
async function removeLeftRestore(place: string, clock: Clock, lock: Lock | null): Promise<void> {
  if (!existsSync(place + RESTORING)) return
  const { removeLeftover } = await import('../store/files/restore-backup.ts')
  await removeLeftover(place, clock, lock)
}

/** Reports a problem of the database as one of the configuration, at its place. */
async function withPlace<Result>(loaded: LoadedFiles, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const sentence = sentenceOf(error as Error, loaded.configuration.store)
    if (sentence === null) throw error
    const key = error instanceof StoreError && error.code === 'secret' ? 'secret' : 'store'
    const message = `${key}: ${sentence.replace(/\.$/, '')}`
    const problem = { ...placeOf(key, loaded), message, rule: 'lost-server' as const, concealed: true }
    throw new ConfigurationProblems([problem], loaded.sources)
  }
}

/** Null: the error is unexpected. */
function sentenceOf(error: Error, url: string): string | null {
  if (error instanceof StoreError) return error.message
  if (error.name !== 'PostgresError') return null
  const known = knownSentence(error, url)
  return (
    known ??
    `The database schema does not match the migrations: ${error.message}. Restore a backup, or name another database.`
  )
}

async function openIn(
  folder: string,
  configuration: Configuration,
  clock: Clock,
  log: Logger,
  open: typeof openServedStore,
): Promise<{ store: ServedStore; secret: string }> {
  const { loadPostgresSecret } = await import('../store/engine/postgres/index.ts')
  const secret = loadPostgresSecret(configuration.secret, folder, configuration.store)
  log.learn([secret])
  const place = secretPlace(configuration.secret, folder)
  const store = await open({ url: configuration.store, folder, secret, secretPlace: place, clock, version: VERSION })
  return { store, secret }
}
