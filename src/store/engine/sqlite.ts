/**
 * Opens the store: one SQLite file with its write-ahead log, the same in memory, or a database in PostgreSQL.
 *
 * All writes use one connection, in groups (writer.ts). It belongs to a thread of its own (thread/writer-client.ts), so that no stream
 * waits for the disk. Reads of a file have their own connection in this thread: they see committed data at once and never wait for a write.
 * Reads of a server run in other threads (remote-reads.ts). A store in memory has one connection; groups are synchronous, so reads run
 * between them.
 */
import { hostname } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Clock, Log } from '#contract'
import { isPostgres } from '../../common/server-address.ts'
import {
  assemble,
  assembleLocal,
  type Reading,
  type ReplicaParts,
  readHere,
  SILENT,
  type Spools,
  type StoreFile,
} from '../assemble.ts'
import { StoreError } from '../error.ts'
import { makePrivateFolder, realPath, watchFiles } from '../files/files.ts'
import type { LocalStore } from '../local-store.ts'
import { findLostCommits } from '../money/commit-count.ts'
import { createSpool, spoolPath, spoolsOfThreads } from '../money/spool.ts'
import { createKeyVersion } from '../people/keys.ts'
import { digestKey } from '../people/token.ts'
import { adoptSecret } from '../secret.ts'
import type { ServedStore, StoreHandle } from '../served-store.ts'
import type { Store } from '../store.ts'
import { SPOOL } from '../store-address.ts'
import { createRemoteReads } from '../thread/remote-reads.ts'
import { ThreadClient } from '../thread/shared-writer.ts'
import { ThreadHost } from '../thread/thread-host.ts'
import { createThreadWriter } from '../thread/writer-client.ts'
import { createWriter, type Replica } from '../writer.ts'
import { type Connector, loadConnector, type openDatabase } from './database.ts'
import { createLeaseWord } from './lease.ts'
import { migrate } from './migrate.ts'
import { readFormer, writeFormer } from './replica-keeper.ts'

export interface StoreOptions {
  /** `memory`, `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`. */
  readonly url: string
  /** The secret under which the digests of keys are made; see `loadSecret`. */
  readonly secret: string
  /** The place of the secret, for an error about a wrong one; see `secretPlace`. */
  readonly secretPlace?: string
  readonly clock: Clock
  /** Folder of a process that serves from PostgreSQL, with its spool and the number of its replica. Left out: it takes no holds. */
  readonly folder?: string
  /** The gateway's version in the list of replicas. */
  readonly version?: string
  /** Milliseconds between two renewals of a replica's lease. */
  readonly roundMs?: number
  /** Schedules the commit of a group; `setImmediate` except in tests. */
  readonly schedule?: (fn: () => void) => void
  /** The thread that writes: one of its own, or this one (`here`), in which a short command is faster. In memory it is always this one. */
  readonly writes?: 'thread' | 'here'
  /** Maximum number of cached keys; the space for all is allocated at once. */
  readonly mostRemembered?: number
  /** Opens the connections. Tests use it for a failing or slow disk. */
  readonly connector?: Connector
  /** Logs settles that have to wait, and when they are written. Left out: nothing is logged. */
  readonly log?: Log
  /** Reports which process delays the migration of a database in PostgreSQL. Left out: it is logged. */
  readonly onWait?: (sentence: string) => void
  /** The number of settles for which the spool reserves space. Called at each check. Left out: none. */
  readonly reserve?: () => number
}

/** The file in `folder` with the number of the replica that used the folder last. */
const REPLICA = 'tollgate.replica'

/**
 * Opens a store, and creates or migrates it if needed. Throws a `StoreError` for an unknown address, a database that is
 * not a store or has a newer version, and a wrong secret. It takes no lock: a writer calls `takeLock` first.
 */
export async function openStore(options: StoreOptions): Promise<LocalStore> {
  if (isPostgres(options.url)) {
    const place = await preparePostgres(options)
    const reading = readHere(options, place.connect(options.url, { readOnly: true }), null)
    return assembleLocal({ ...(await writeToPostgres(options, place, reading)), reading })
  }
  const { clock, schedule = setImmediate, connector = null } = options
  const path = pathOf(options.url)
  const connect = await loadConnector(connector)
  const isBrief = options.writes === 'here'
  const database = connect(path, { isBrief })
  const opened = [database]
  try {
    migrate(database)
    adoptSecret(database, { ...options, place: path })
    const parts = {
      ...options,
      version: createKeyVersion(),
      threads: null,
      lease: null,
      replica: null,
    }
    if (path === ':memory:') {
      const writer = createWriter(database, clock, schedule)
      // The writer closes the only connection.
      const reading = readHere(options, database, null, () => {})
      return assembleLocal({ ...parts, writer, reading, spools: null, file: null })
    }
    const file: StoreFile = { path, watch: watchFiles(path), lostCommits: findLostCommits(database, path) }
    const reader = connect(path, { readOnly: true, isBrief })
    opened.push(reader)
    const inFile = { ...parts, reading: readHere(options, reader, path), spools: spoolsBeside(path, 0), file }
    if (isBrief) {
      return assembleLocal({ ...inFile, writer: createWriter(database, clock, schedule, { path }) })
    }
    const host = new ThreadHost(path, connector, null)
    const writer = await createThreadWriter({ source: host, clock, schedule })
    database.close()
    return assembleLocal({ ...inFile, writer, threads: { host, url: options.url } })
  } catch (error) {
    for (const each of opened) each.close()
    throw error
  }
}

/** Opens a store for a gateway: like `openStore`, but once it is open, this thread never waits for a database on another machine. */
export async function openServedStore(options: StoreOptions): Promise<ServedStore> {
  if (!isPostgres(options.url)) return openStore(options)
  const place = await preparePostgres(options)
  const reading = await readElsewhere(options, place.connector)
  const parts = await writeToPostgres(options, place, reading)
  const { KeyChanges } = await import('./postgres/key-changes.ts')
  const { url, log = SILENT } = options
  const changes = new KeyChanges({ url, log, forget: () => void Atomics.add(parts.version, 0, 1) })
  const close = async () => void (await Promise.all([changes.close(), reading.close()]))
  return assemble({ ...parts, reading: { ...reading, close } })
}

/**
 * Opens the store in a serving thread. It reads by itself, and writes through the ledger's thread. The main thread migrates, recovers,
 * and closes the ledger's thread after its clients have closed.
 */
export async function attachStore(
  { url, version, lease, spool, client }: StoreHandle,
  options: Omit<StoreOptions, 'url' | 'secretPlace' | 'writes'>,
): Promise<Store> {
  const { clock, schedule = setImmediate, connector = null } = options
  const isServer = isPostgres(url)
  const path = isServer ? null : pathOf(url)
  const reading =
    path === null
      ? await readElsewhere({ ...options, url }, connector ?? (await postgresConnector()))
      : readHere(options, (await loadConnector(connector))(path, { readOnly: true }), path)
  try {
    const writer = await createThreadWriter({ source: new ThreadClient(client), clock, schedule })
    const file = path === null ? null : { path, watch: watchFiles(path), lostCommits: null }
    const spools: Spools = { own: createSpool(spool), of: () => spool, orphans: () => [] }
    const alone = { threads: null, lease, replica: null }
    return assemble({ ...options, ...alone, writer, reading, spools, file, version })
  } catch (error) {
    await reading.close()
    throw error
  }
}

function spoolsBeside(path: string, lane: number): Spools {
  return {
    own: createSpool(spoolPath(path, lane)),
    of: other => spoolPath(path, other),
    orphans: () => spoolsOfThreads(path),
  }
}

const postgresConnector = async () => (await import('./postgres/connector.ts')).POSTGRES_CONNECTOR

/** A prepared store in PostgreSQL: how to connect, and the replica that writes. */
interface PostgresPlace {
  readonly connector: Connector
  readonly connect: typeof openDatabase
  readonly replica: (Replica & ReplicaParts) | null
}

/** Migrates the database, and registers this process as a replica if it has a folder. */
async function preparePostgres(options: StoreOptions): Promise<PostgresPlace> {
  const { url, folder, version = '', roundMs, log = SILENT, connector = await postgresConnector() } = options
  const { onWait = (sentence: string) => log.warn({}, sentence) } = options
  const { isReplica, migratePostgres, openPostgres, placeOf, refusePooler, registerReplica } = await import(
    './postgres/index.ts'
  )
  const connect = await loadConnector(connector)
  const first = openPostgres(url)
  try {
    refusePooler(first, url)
    migratePostgres(first, { onWait })
    adoptSecret(first, { ...options, place: placeOf(url) })
    if (folder === undefined) return { connector, connect, replica: null }
    makePrivateFolder(folder)
    const file = join(folder, REPLICA)
    const known = readFormer(file)
    // The folder may have been used with another database, where the number belongs to another replica.
    const former = known !== null && isReplica(first, known) ? known.id : null
    const name = { host: hostname(), version }
    const own = registerReplica(first, name)
    writeFormer(file, own)
    return { connector, connect, replica: { ...own, ...name, former, ...(roundMs === undefined ? {} : { roundMs }) } }
  } finally {
    first.close()
  }
}

/** The parts of a store that writes to PostgreSQL. Closes the readers if it fails. */
async function writeToPostgres(
  options: StoreOptions,
  { connector, connect, replica }: PostgresPlace,
  reading: Reading,
) {
  const { url, clock, schedule = setImmediate, folder } = options
  try {
    const spools = folder === undefined ? null : spoolsBeside(join(folder, SPOOL), 0)
    const parts = {
      ...options,
      spools,
      file: null,
      version: createKeyVersion(),
      lease: createLeaseWord(),
      replica,
    }
    if (options.writes === 'here')
      return {
        ...parts,
        writer: createWriter(connect(url, { replica: replica?.id ?? null }), clock, schedule, { path: url, replica }),
        threads: null,
      }
    const host = new ThreadHost(url, connector, replica)
    const writer = await createThreadWriter({ source: host, clock, schedule })
    return { ...parts, writer, threads: { host, url } }
  } catch (error) {
    await reading.close()
    throw error
  }
}

async function readElsewhere(
  { secret, clock, url }: Pick<StoreOptions, 'secret' | 'clock' | 'url'>,
  connector: Connector,
): Promise<Reading> {
  const remote = await createRemoteReads({ place: url, connector, hmacKey: digestKey(secret) }, clock)
  const { store, secrets, responses, recovery, replicas, close } = remote
  return { reads: store, local: null, secrets: secrets.find, boxes: responses, recovery, replicas, close }
}

function pathOf(url: string): string {
  if (url === 'memory') return ':memory:'
  const path = /^sqlite:(.*)$/s.exec(url)?.[1]
  if (path !== undefined && isAbsolute(path)) return realPath(path)
  // The message does not contain the address, which may have a password.
  throw new StoreError(
    'The address of the store is not valid. Use sqlite:/absolute/path, postgres://USER@HOST/DATABASE or memory.',
  )
}
