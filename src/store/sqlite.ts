/**
 * The embedded store: one SQLite file with its write-ahead log, or the same in memory. Everything is put together
 * here; what each part does stands in its own file.
 *
 * Writes go through one connection in groups (writer.ts), which for a file lives in a thread of its own (worker.ts), so
 * that no stream waits for the disk. Reads have their own here, read-only: they see what is committed, at once, and never
 * wait for a write. In memory there is only one connection; groups are synchronous, so reads fall between them.
 */
import { isAbsolute } from 'node:path'
import type { Clock, Ledger, Log } from '#contract'
import { ACCOUNT_PREFIX, checkAccount, createAccountReader } from './accounts.ts'
import { type Backlog, createBacklog } from './backlog.ts'
import { createBuckets } from './buckets.ts'
import { findLostCommits } from './commit-count.ts'
import { type Connector, type Database, loadConnector } from './database.ts'
import { StoreError } from './error.ts'
import { type FileWatch, realPath, watchFiles } from './files.ts'
import { createIds } from './ids.ts'
import { createKeyLister } from './key-list.ts'
import { checkExpiry, checkGrace, checkKey, checkKeyChange, createKeyReader, KEY_PREFIX } from './keys.ts'
import { settleRecord } from './ledger.ts'
import { migrate } from './migrate.ts'
import { createPeople, type PeopleParts } from './people-service.ts'
import { checkCheckpoint, checkCredit, checkHold, checkSettle, text } from './preconditions.ts'
import { createReadiness } from './readiness.ts'
import { createReceiptReader } from './receipts.ts'
import { recover } from './recovery.ts'
import { createReports } from './reports-service.ts'
import { createResponses } from './responses-service.ts'
import { createSpool, type Spool } from './spool.ts'
import { type IssuedKey, type LostCommits, type Store, StoreUnavailable } from './store.ts'
import { createToken, digest, digestKey, last4 } from './token.ts'
import { createVault } from './vault.ts'
import { verify } from './verify.ts'
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
  /** How many rate-limited names and how many keys are remembered at most; room for all is made at once. */
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
export async function openStore(options: StoreOptions): Promise<Store> {
  const { clock, schedule = setImmediate, connector = null } = options
  const path = pathOf(options.url)
  const connect = await loadConnector(connector)
  const database = connect(path)
  const opened = [database]
  try {
    migrate(database)
    checkSecret(database, options, path)
    if (path === ':memory:') {
      const writer = createWriter(database, clock, schedule)
      return assemble({ ...options, writer, reader: database, spool: null, file: null })
    }
    const lostCommits = findLostCommits(database, path)
    const reader = connect(path, { readOnly: true })
    opened.push(reader)
    const file: StoreFile = { path, watch: watchFiles(path), lostCommits }
    const parts = { ...options, reader, spool: createSpool(`${path}.spool`), file }
    if (options.writes === 'here') return assemble({ ...parts, writer: createWriter(database, clock, schedule, path) })
    const writer = await createThreadWriter({ path, connector, clock, schedule })
    database.close()
    return assemble({ ...parts, writer })
  } catch (error) {
    for (const each of opened) each.close()
    throw error
  }
}

/** What only a store in a file has. */
interface StoreFile {
  readonly path: string
  readonly watch: FileWatch
  readonly lostCommits: LostCommits | null
}

interface Parts extends StoreOptions {
  readonly writer: Writer
  readonly reader: Database
  readonly spool: Spool | null
  readonly file: StoreFile | null
}

function assemble(parts: Parts): Store {
  const { secret, clock, reader, spool, file, mostRemembered, log = SILENT, reserve = NONE } = parts
  const writer = file === null ? parts.writer : watched(parts.writer, file.watch)
  const hmacKey = digestKey(secret)
  const vault = createVault(secret)
  const ids = createIds(clock)
  const keys = createKeyReader(reader, hmacKey, mostRemembered)
  const findReceipt = createReceiptReader(reader)
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

  const writes: WriteParts = { reader, writer, hmacKey, ids, clock, changing, accounts: createAccountReader(reader) }
  return {
    keys,
    ledger,
    buckets: createBuckets(clock, mostRemembered),
    people: createPeople({ reader, writer, hmacKey, ids, clock }),
    reports: createReports(reader),
    vault,
    responses: createResponses({ reader, writer, vault, clock }),
    ...createAccountService(writes),
    ...createKeyService(writes),
    findReceipt,
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
      const report = await recover({ reader, spool, settle: ledger.settle })
      readiness.reserve()
      return report
    },
    lostFiles,
    lostCommits: file?.lostCommits ?? null,
    verify: onProgress => verify(reader, onProgress, file?.path ?? null),
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    const lost = await backlog.close()
    await writer.close()
    if (spool !== null) reader.close()
    if (lost > 0) throw new StoreError(`${lost} settles could not be written; the log names each.`)
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
  readonly accounts: ReturnType<typeof createAccountReader>
  /** Runs a write that changes what a key may do. */
  changing<Result>(write: () => Promise<Result>): Promise<Result>
}

type AccountService = Pick<Store, 'createAccount' | 'findAccount' | 'listAccounts' | 'credit' | 'freeze' | 'setPlan'>

function createAccountService({ writer, ids, accounts, changing }: WriteParts): AccountService {
  return {
    createAccount: async account =>
      writer.op('createAccount', { id: ids.next(ACCOUNT_PREFIX), ...checkAccount(account) }),
    findAccount: accounts.find,
    listAccounts: accounts.list,
    async credit(grant) {
      checkCredit(grant)
      const { id } = accounts.get(grant.account)
      const granted = await writer.op('credit', { ...grant, account: id })
      return { granted, balance: accounts.get(id) }
    },
    freeze: async (idOrName, frozen) => {
      const { id } = accounts.get(idOrName)
      return changing(() => writer.op('freeze', { id, frozen }))
    },
    setPlan: async (idOrName, plan) => {
      text('account', 'plan', plan)
      const { id } = accounts.get(idOrName)
      return changing(() => writer.op('setPlan', { id, plan }))
    },
  }
}

type KeyService = Pick<
  Store,
  'createKey' | 'listKeys' | 'keyNames' | 'findKey' | 'changeKey' | 'rotateKey' | 'revokeKey'
>

function createKeyService({ reader, writer, hmacKey, ids, clock, accounts, changing }: WriteParts): KeyService {
  const keyList = createKeyLister(reader, clock)

  function issue(): { token: string; digest: Uint8Array; last4: string } {
    const token = createToken()
    return { token, digest: digest(hmacKey, token), last4: last4(token) }
  }

  return {
    async createKey(key): Promise<IssuedKey> {
      checkKey(key, clock.now())
      const { name, models = null, expiresAt = null, spendingCap = null, purpose = null } = key
      const { token, ...secret } = issue()
      const account = accounts.get(key.account).id
      const fields = { id: ids.next(KEY_PREFIX), account, name, models, expiresAt, spendingCap, purpose }
      return { key: await writer.op('createKey', { ...fields, ...secret }), token }
    },
    listKeys: account => keyList.list(account === undefined ? undefined : accounts.get(account).id),
    keyNames: keyList.names,
    findKey: keyList.summary,
    async changeKey(change) {
      checkKeyChange(change, clock.now())
      await changing(() => writer.op('changeKey', change))
      return keyList.summary(change.id)!
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
