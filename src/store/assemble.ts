/** Assembles a store from the connections of its engine. */
import type { Clock, Log } from '#contract'
import { createAlerts } from './alerts/alerts-service.ts'
import type { Database } from './engine/database.ts'
import { isLeased, type LeaseWord } from './engine/lease.ts'
import { type KeeperParts, ReplicaKeeper } from './engine/replica-keeper.ts'
import type { ReplicaReads } from './engine/replicas.ts'
import { createReplicaReads, createReplicas } from './engine/replicas-service.ts'
import { StoreError } from './error.ts'
import type { FileWatch } from './files/files.ts'
import { createIds } from './ids.ts'
import type { LocalKeys, LocalStore } from './local-store.ts'
import { createBacklog } from './money/backlog.ts'
import { createRecoveryReads, type DeadOwner, type RecoveryReads, recover } from './money/recovery.ts'
import { createSpool, type Spool } from './money/spool.ts'
import { createKeyReader, createSecretFinder, type FindSecret, type KeyVersion } from './people/keys.ts'
import { createPeople } from './people/people-service.ts'
import { digestKey } from './people/token.ts'
import { type Promised, promised } from './promised.ts'
import { createReadiness } from './readiness.ts'
import { createResponseReads, createResponses, type ResponseReads } from './responses/responses-service.ts'
import type { ServedStore, StoreThreads } from './served-store.ts'
import type { LostCommits, Store, StoreReads } from './store.ts'
import { createReads } from './store-reads.ts'
import type { ThreadHost } from './thread/thread-host.ts'
import { createVault } from './vault.ts'
import {
  createAccountService,
  createAccounts,
  createKeyService,
  createLedger,
  type WriteParts,
  watched,
} from './write-services.ts'
import type { Writer } from './writer.ts'

/** Readers of the database, in this thread or another. */
export interface Reading {
  readonly reads: Promised<StoreReads>
  /** The same reads without promises; null where another thread reads. */
  readonly local: StoreReads | null
  readonly secrets: FindSecret
  readonly boxes: ResponseReads | Promised<ResponseReads>
  readonly recovery: RecoveryReads | Promised<RecoveryReads>
  readonly replicas: ReplicaReads | Promised<ReplicaReads>
  close(): Promise<void>
}

/** Parts that only a store in a file has. */
export interface StoreFile {
  readonly path: string
  readonly watch: FileWatch
  readonly lostCommits: LostCommits | null
}

/** Files with settles that the database did not accept. */
export interface Spools {
  readonly own: Spool
  /** The spool of the thread with this number. */
  of(lane: number): string
  /** Existing spools of other threads. */
  orphans(): readonly string[]
}

export interface StoreParts {
  readonly secret: string
  readonly clock: Clock
  readonly mostRemembered?: number
  readonly log?: Log
  readonly reserve?: () => number
  readonly writer: Writer
  readonly reading: Reading
  /** Null: settles that cannot be written wait in memory. */
  readonly spools: Spools | null
  readonly file: StoreFile | null
  readonly version: KeyVersion
  /** The host of the ledger's thread; null where this thread writes itself, and in serving threads. */
  readonly threads: { readonly host: ThreadHost; readonly url: string } | null
  /** The lease of this process where several write to the database; null: this process is the only one. */
  readonly lease: LeaseWord | null
  /** The replica as which this process takes holds. Null: this process is not a replica. */
  readonly replica: ReplicaParts | null
}

export interface ReplicaParts extends Pick<KeeperParts, 'id' | 'former' | 'roundMs'> {
  /** The machine's name. */
  readonly host: string
}

export const SILENT: Log = { info() {}, warn() {}, error() {} }
const NONE = () => 0

/** Reads in this thread. @param path of the database file; null: in memory */
export function readHere(
  { secret, clock }: Pick<StoreParts, 'secret' | 'clock'>,
  reader: Database,
  path: string | null,
  close = () => reader.close(),
) {
  const hmacKey = digestKey(secret)
  const local = createReads({ database: reader, hmacKey, clock, path })
  return {
    reads: promised(local),
    local,
    secrets: createSecretFinder(reader, hmacKey),
    boxes: createResponseReads(reader),
    recovery: createRecoveryReads(reader),
    replicas: createReplicaReads(reader),
    close: async () => close(),
  } satisfies Reading
}

/** A store whose database this thread reads itself. */
export function assembleLocal(parts: StoreParts & { readonly reading: Reading & { local: StoreReads } }): LocalStore {
  const store = assemble(parts)
  return { ...store, reads: parts.reading.local, keys: store.keys as LocalKeys }
}

export function assemble(parts: StoreParts): ServedStore {
  const { secret, clock, reading, spools, file, version, mostRemembered, log = SILENT, reserve = NONE } = parts
  const writer = file === null ? parts.writer : watched(parts.writer, file.watch)
  const spool = spools?.own ?? null
  const hmacKey = digestKey(secret)
  const vault = createVault(secret)
  const ids = createIds(clock)
  const { reads, local } = reading
  const keys = createKeyReader(reading.secrets, version, mostRemembered)
  let closing: Promise<void> | undefined
  let held = false
  const backlog = createBacklog({ writer, spool, log, clock, isLeased: () => isLeased(parts.lease, clock.now()) })
  const readiness = createReadiness({ writer, spool, backlog, log, clock, reserve })

  const lostFiles = () => file?.watch.look() ?? null
  const problem = () => lostFiles() ?? readiness.problem()
  const ledger = createLedger(writer, backlog, () => void (held = true))
  const keeper = createKeeper(parts, writer, ledger.settle, log)

  /** Runs a write that changes what a key may do. Cached keys are dropped however the write ended. */
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
    keys,
    accounts: createAccounts(local ?? reads),
    ledger,
    people: createPeople(writes),
    vault,
    responses: createResponses({ reads: reading.boxes, writer, vault, clock }),
    alerts: createAlerts(reads.alerts, writer),
    ...createAccountService(writes),
    ...createKeyService(writes),
    openHolds: () => writer.openHolds(),
    unwritten: () => backlog.count(),
    writing: () => writer.figures(),
    lease: () => keeper?.figures() ?? null,
    flushed: () => backlog.flushed(),
    healthy() {
      void readiness.look()
      return problem() === null
    },
    look: readiness.look,
    problem,
    async recover() {
      if (held)
        throw new Error('recover() was called after a hold: it would settle open holds; call it once, at the start')
      const orphans = (spools?.orphans() ?? []).map(createSpool)
      const dead: DeadOwner | null = parts.lease !== null ? null : { replica: null, lane: null }
      // The spool is settled first, because its usage is newer than the last checkpoint.
      const report = await recover({ reads: reading.recovery, spool, orphans, settle: ledger.settle, dead })
      const former = await keeper?.start()
      readiness.reserve()
      if (!former) return report
      return { ...report, settled: former.settled, charged: report.charged + former.charged }
    },
    threads: createThreads(parts, ledger.settle),
    replicas: parts.replica && createReplicas({ ...parts.replica, writer, reads: reading.replicas, hmacKey }),
    lostFiles,
    lostCommits: file?.lostCommits ?? null,
    close: () => (closing ??= close()),
  }

  async function close(): Promise<void> {
    await keeper?.stop()
    const lost = await backlog.close()
    await writer.close()
    await reading.close()
    if (lost > 0) throw new StoreError(`${lost} settles could not be written; the log names each.`)
  }
}

function createKeeper(
  { replica, reading, clock, lease }: StoreParts,
  writer: Writer,
  settle: Store['ledger']['settle'],
  log: Log,
): ReplicaKeeper | null {
  if (replica === null || lease === null) return null
  return new ReplicaKeeper({ ...replica, lease, writer, reads: reading.recovery, settle, clock, log })
}

function createThreads(
  { threads, writer, reading, spools, version, replica, lease }: StoreParts,
  settle: Store['ledger']['settle'],
): StoreThreads | null {
  if (threads === null || spools === null) return null
  const { host, url } = threads
  return {
    attach: lane => ({ url, lane, version, lease, spool: spools.of(lane), client: host.client(lane) }),
    async detach(lane) {
      host.forget(lane)
      await writer.op('detach', lane)
      const orphans = [createSpool(spools.of(lane))]
      const dead = { replica: replica?.id ?? null, lane }
      return recover({ reads: reading.recovery, spool: null, orphans, settle, dead })
    },
  }
}
