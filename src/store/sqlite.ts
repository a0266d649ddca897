/**
 * The embedded store: one SQLite file with its write-ahead log, or the same in memory. Everything is put together
 * here; what each part does stands in its own file.
 *
 * Writes go through one connection in groups (writer.ts), which for a file lives in a thread of its own (worker.ts), so
 * that no stream waits for the disk. Reads have their own here, read-only: they see what is committed, at once, and never
 * wait for a write. In memory there is only one connection; groups are synchronous, so reads fall between them.
 */
import { isAbsolute } from 'node:path'
import type { Accounts, Clock, Ledger, Log } from '#contract'
import { ACCOUNT_PREFIX, checkAccount } from './accounts.ts'
import { type Backlog, createBacklog } from './backlog.ts'
import { findLostCommits } from './commit-count.ts'
import { type Connector, type Database, loadConnector } from './database.ts'
import { StoreError } from './error.ts'
import { type FileWatch, realPath, watchFiles } from './files.ts'
import { createIds, laneOf } from './ids.ts'
import {
  checkExpiry,
  checkGrace,
  checkKey,
  checkKeyChange,
  createKeyReader,
  createKeyVersion,
  KEY_PREFIX,
  type KeyVersion,
} from './keys.ts'
import { settleRecord } from './ledger.ts'
import type { LocalStore, StoreHandle, StoreThreads } from './local-store.ts'
import { migrate } from './migrate.ts'
import { createPeople, type PeopleParts } from './people-service.ts'
import { checkCheckpoint, checkCredit, checkHold, checkSettle, text } from './preconditions.ts'
import { promised } from './promised.ts'
import { createReadiness } from './readiness.ts'
import { type RecoveryParts, recover } from './recovery.ts'
import { createResponses } from './responses-service.ts'
import { createSpool, type Spool, spoolPath, spoolsOfThreads } from './spool.ts'
import { type IssuedKey, type LostCommits, type Store, type StoreReads, StoreUnavailable } from './store.ts'
import { createReads } from './store-reads.ts'
import { ThreadClient } from './thread-client.ts'
import { ThreadHost } from './thread-host.ts'
import { createToken, digest, digestKey, last4 } from './token.ts'
import { createVault } from './vault.ts'
import { createThreadWriter } from './worker.ts'
import { createWriter, type Writer } from './writer.ts'

export interface StoreOptions {
  /** `memory`, or `sqlite:` and an absolute path. */
  readonly url: string
  /** Under which the digests of keys are made; `loadSecret` finds it. */
  readonly secret: string
  /** Where that was found, for the error that says it is another one: `secretPlace`. */
  readonly secretPlace?: string
  readonly clock: Clock
  /** When the next group is committed; `setImmediate` unless a test wants to say. */
  readonly schedule?: (fn: () => void) => void
  /**
   * Where a store in a file writes: in a thread of its own unless `here` is said. A command of a second is sooner done
   * without a second thread.
   */
  readonly writes?: 'thread' | 'here'
  /** How many keys are remembered at most. */
  readonly mostRemembered?: number
  /** Opens the connections; a test makes the disk fail or slow. */
  readonly connector?: Connector
  /** Told of settles that have to wait, and of their end; left out: nobody is. */
  readonly log?: Log
  /** For how many settles space is reserved in the spool; asked again at each look. Left out: for none. */
  readonly reserve?: () => number
}

const SILENT: Log = { info() {}, warn() {}, error() {} }
const NONE = () => 0

/**
 * Opens a store, and creates or migrates it when needed. Throws a `StoreError` for an address it does not know, a
 * database that is not a store or of a newer version, and a secret that is not the store's.
 * It takes no lock: who writes calls `takeLock` first.
 */
export async function openStore(options: StoreOptions): Promise<LocalStore> {
  const { clock, schedule = setImmediate, connector = null } = options
  const path = pathOf(options.url)
  const connect = await loadConnector(connector)
  const database = connect(path)
  const opened = [database]
  try {
    migrate(database)
    checkSecret(database, options, path)
    const version = createKeyVersion()
    if (path === ':memory:') {
      const writer = createWriter(database, clock, schedule)
      return assemble({ ...options, writer, reader: database, spool: null, file: null, version, host: null })
    }
    const lostCommits = findLostCommits(database, path)
    const reader = connect(path, { readOnly: true })
    opened.push(reader)
    const file: StoreFile = { path, watch: watchFiles(path), lostCommits }
    const parts = { ...options, reader, spool: createSpool(spoolPath(path, 0)), file, version }
    if (options.writes === 'here') {
      return assemble({ ...parts, writer: createWriter(database, clock, schedule, path), host: null })
    }
    const host = new ThreadHost(path, connector)
    const writer = await createThreadWriter({ source: host, clock, schedule })
    database.close()
    return assemble({ ...parts, writer, host })
  } catch (error) {
    for (const each of opened) each.close()
    throw error
  }
}

/**
 * Opens the store in a serving thread: with its own connection to read, and the ledger's thread of the main thread to write.
 * The main thread recovers and migrates; it also closes the ledger's thread, after its clients have closed.
 */
export async function attachStore(
  { path, lane, version, client }: StoreHandle,
  options: Omit<StoreOptions, 'url' | 'secretPlace' | 'writes'>,
): Promise<LocalStore> {
  const { clock, schedule = setImmediate, connector = null } = options
  const connect = await loadConnector(connector)
  const reader = connect(path, { readOnly: true })
  try {
    const writer = await createThreadWriter({ source: new ThreadClient(client), clock, schedule })
    const file: StoreFile = { path, watch: watchFiles(path), lostCommits: null }
    return assemble({
      ...options,
      writer,
      reader,
      spool: createSpool(spoolPath(path, lane)),
      file,
      version,
      host: null,
    })
  } catch (error) {
    reader.close()
    throw error
  }
}

/** What only a store in a file has. */
interface StoreFile {
  readonly path: string
  readonly watch: FileWatch
  readonly lostCommits: LostCommits | null
}

interface Parts extends Omit<StoreOptions, 'url'> {
  readonly writer: Writer
  readonly reader: Database
  readonly spool: Spool | null
  readonly file: StoreFile | null
  readonly version: KeyVersion
  /** Of the thread's owner. */
  readonly host: ThreadHost | null
}

function assemble(parts: Parts): LocalStore {
  const { secret, clock, reader, spool, file, version, mostRemembered, log = SILENT, reserve = NONE } = parts
  const writer = file === null ? parts.writer : watched(parts.writer, file.watch)
  const hmacKey = digestKey(secret)
  const vault = createVault(secret)
  const ids = createIds(clock)
  const keys = createKeyReader(reader, hmacKey, version, mostRemembered)
  const local = createReads({ database: reader, hmacKey, clock, path: file?.path ?? null })
  const reads = promised(local)
  let closing: Promise<void> | undefined
  let held = false
  const backlog = createBacklog({ writer, spool, log, clock })
  const readiness = createReadiness({ writer, spool, backlog, log, clock, reserve })

  const lostFiles = () => file?.watch.look() ?? null
  const problem = () => lostFiles() ?? readiness.problem()
  const ledger = createLedger(writer, backlog, () => void (held = true))

  /** A write that changes what a key may do: what was read before counts no more, however the write ended. */
  async function changing<Result>(write: () => Promise<Result>): Promise<Result> {
    try {
      return await write()
    } finally {
      keys.forget()
    }
  }

  const writes: WriteParts = { reads, writer, hmacKey, ids, clock, changing }
  return {
    ...reads,
    reads: local,
    keys,
    accounts: createAccounts(local),
    ledger,
    people: createPeople(writes),
    vault,
    responses: createResponses({ reader, writer, vault, clock }),
    ...createAccountService(writes),
    ...createKeyService(writes),
    openHolds: () => writer.openHolds(),
    unwritten: () => backlog.count(),
    safe: () => backlog.safe(),
    healthy() {
      void readiness.look()
      return problem() === null
    },
    look: readiness.look,
    problem,
    async recover() {
      if (held) throw new Error('recover() is for the start: it would settle holds that are alive')
      const orphans = file === null ? [] : spoolsOfThreads(file.path).map(createSpool)
      const report = await recover({ reader, spool, orphans, settle: ledger.settle, isDead: () => true })
      readiness.reserve()
      return report
    },
    threads:
      parts.host && createThreads(parts.host, { reader, writer, settle: ledger.settle, path: file!.path, version }),
    lostFiles,
    lostCommits: file?.lostCommits ?? null,
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    const lost = await backlog.close()
    await writer.close()
    if (spool !== null) reader.close()
    if (lost > 0) throw new StoreError(`${lost} settles could not be written; the log names each.`)
  }
}

interface ThreadParts extends Pick<RecoveryParts, 'reader' | 'settle'> {
  readonly writer: Writer
  readonly path: string
  readonly version: KeyVersion
}

function createThreads(host: ThreadHost, { reader, writer, settle, path, version }: ThreadParts): StoreThreads {
  return {
    attach: lane => ({ path, lane, version, client: host.client(lane) }),
    async detach(lane) {
      host.forget(lane)
      await writer.op('detach', lane)
      const orphans = [createSpool(spoolPath(path, lane))]
      return recover({ reader, spool: null, orphans, settle, isDead: exchange => laneOf(exchange) === lane })
    },
  }
}

/** The ledger with its checks. @param onHold is told that a hold is asked for */
function createLedger(writer: Writer, backlog: Backlog, onHold: () => void): Ledger {
  return {
    async hold(request) {
      checkHold(request)
      onHold()
      if (!backlog.isEmpty() && !(await backlog.attempt())) {
        throw new StoreUnavailable('not_written', new Error('earlier settles wait to be written'))
      }
      return writer.op('hold', request)
    },
    async settle(request) {
      checkSettle(request)
      const result = await writer.op('settle', settleRecord(request))
      // The ledger is back: then what had to wait is written too.
      if (!backlog.isEmpty()) void backlog.catchUp()
      return result
    },
    async checkpoint(checkpoints) {
      checkpoints.forEach(checkCheckpoint)
      if (checkpoints.length > 0) await writer.op('checkpoint', checkpoints)
    },
    spool(request) {
      checkSettle(request)
      return backlog.keep(request)
    },
    abandon(request) {
      checkSettle(request)
      backlog.abandon(request)
    },
  }
}

interface WriteParts extends PeopleParts {
  /** Runs a write that changes what a key may do. */
  changing<Result>(write: () => Promise<Result>): Promise<Result>
}

/** Who they are, without what they own: money is the ledger's. */
function createAccounts({ findAccount }: StoreReads): Accounts {
  return {
    find(idOrName) {
      const found = findAccount(idOrName)
      if (found === undefined) return undefined
      const { id, name, plan, frozen, createdAt } = found
      return { id, name, plan, frozen, createdAt }
    },
  }
}

type AccountService = Pick<Store, 'createAccount' | 'credit' | 'freeze' | 'setPlan'>

function createAccountService({ reads, writer, ids, changing }: WriteParts): AccountService {
  return {
    createAccount: async account =>
      writer.op('createAccount', { id: ids.next(ACCOUNT_PREFIX), ...checkAccount(account) }),
    async credit(grant) {
      checkCredit(grant)
      const granted = await writer.op('credit', grant)
      return { granted, balance: (await reads.findAccount(grant.account))! }
    },
    freeze: (account, frozen) => changing(() => writer.op('freeze', { account, frozen })),
    setPlan: async (account, plan) => {
      text('account', 'plan', plan)
      return changing(() => writer.op('setPlan', { account, plan }))
    },
  }
}

type KeyService = Pick<Store, 'createKey' | 'changeKey' | 'rotateKey' | 'revokeKey'>

function createKeyService({ reads, writer, hmacKey, ids, clock, changing }: WriteParts): KeyService {
  function issue(): { token: string; digest: Uint8Array; last4: string } {
    const token = createToken()
    return { token, digest: digest(hmacKey, token), last4: last4(token) }
  }

  return {
    async createKey(key): Promise<IssuedKey> {
      checkKey(key, clock.now())
      const { account, name, models = null, expiresAt = null, spendingCap = null, purpose = null } = key
      const { token, ...secret } = issue()
      const fields = { id: ids.next(KEY_PREFIX), account, name, models, expiresAt, spendingCap, purpose }
      return { key: await writer.op('createKey', { ...fields, ...secret }), token }
    },
    async changeKey(change) {
      checkKeyChange(change, clock.now())
      await changing(() => writer.op('changeKey', change))
      return (await reads.findKey(change.id))!
    },
    async rotateKey(id, graceMs, expiresAt): Promise<IssuedKey> {
      checkGrace(graceMs)
      checkExpiry(expiresAt, clock.now())
      const { token, ...secret } = issue()
      return { key: await changing(() => writer.op('rotateKey', { id, graceMs, expiresAt, ...secret })), token }
    },
    revokeKey: id => changing(() => writer.op('revokeKey', id)),
  }
}

/** Takes no operation once the files are not those in the folder any more: what it writes would be lost. */
function watched(writer: Writer, files: FileWatch): Writer {
  return {
    op(name, request) {
      if (files.found === null) return writer.op(name, request)
      return Promise.reject(new StoreUnavailable('not_written', new Error(files.found)))
    },
    openHolds: () => writer.openHolds(),
    healthy: () => writer.healthy(),
    close: () => writer.close(),
  }
}

function pathOf(url: string): string {
  if (url === 'memory') return ':memory:'
  const path = /^sqlite:(.*)$/s.exec(url)?.[1]
  if (path !== undefined && isAbsolute(path)) return realPath(path)
  const scheme = /^[a-z]+:/.exec(url)?.[0]
  if (scheme === 'postgres:' || scheme === 'redis:') {
    // Never the address itself: it may carry a password.
    throw new StoreError(`A store at ${scheme} is not there yet. Use sqlite:/absolute/path or memory.`)
  }
  throw new StoreError('The store is not understood. Use sqlite:/absolute/path or memory.')
}

/** The digests of all keys depend on it: with another secret every key would be unknown, and nobody would know why. */
function checkSecret(database: Database, { secret, secretPlace = 'the secret' }: StoreOptions, path: string): void {
  const check = digest(digestKey(secret), 'tollgate:secret-check').toString('hex')
  const known = database.prepare("SELECT value FROM meta WHERE name = 'secret_check'").get()?.['value']
  if (known === undefined) {
    database.prepare("INSERT INTO meta (name, value) VALUES ('secret_check', ?)").run(check)
  } else if (known !== check) {
    throw new StoreError(
      `This is not the secret under which the keys of ${path} were made: ${secretPlace}. Restore the one that was in use before.`,
    )
  }
}
