/**
 * The writer: every change of the store is a named operation, and operations share commits (group.ts). Each can run again with the same
 * request, and has no effect before its commit.
 *
 * It runs in the thread of its connection. This is usually the ledger's thread (thread/writer-thread.ts); the other threads use the same
 * interface through thread/writer-client.ts. In memory, or with `writes: 'here'`, it runs in the thread that opened the store.
 */
import type { Clock } from '#contract'
import { type AlertOperations, createAlertOperations } from './alerts/alert-operations.ts'
import type { Database } from './engine/database.ts'
import { createGroup, Undone, type Waiter } from './engine/group.ts'
import { LedgerBatches, type NamedOperation, OF_REPLICA } from './engine/postgres/ledger-batches.ts'
import {
  createFence,
  createReplicaOperations,
  type Fence,
  NO_REPLICAS,
  probeName,
  type ReplicaName,
  type ReplicaOperations,
  type ReplicaRow,
} from './engine/postgres/replica-writes.ts'
import { createTryOperations, NO_TRIES, type TryOperations } from './engine/postgres/try-writes.ts'
import { createProbe, type Probe } from './engine/probe.ts'
import { createRefusing } from './engine/refusing.ts'
import { type RefusedOperation, StoreError } from './error.ts'
import { createBalances } from './money/balances.ts'
import { createBudgetRows } from './money/budgets.ts'
import { createCommitCount } from './money/commit-count.ts'
import { createKnownTables } from './money/group-rows.ts'
import { createLedgerOperations, type LedgerOperations, type LedgerParts } from './money/ledger.ts'
import { createOpenHolds } from './money/open-holds.ts'
import { createUsageWriter } from './money/usage.ts'
import { type AccountOperations, createAccountOperations } from './people/accounts.ts'
import { type BudgetOperations, createBudgetOperations } from './people/budget-changes.ts'
import { createCreators } from './people/creators.ts'
import { createKeyOperations, type KeyOperations } from './people/keys.ts'
import { createLinkOperations, type LinkOperations } from './people/links.ts'
import { createOperatorTokenOperations, type OperatorTokenOperations } from './people/operator-tokens.ts'
import { createPersonOperations, type PersonOperations } from './people/person-rows.ts'
import { createSessionOperations, type SessionOperations } from './people/sessions.ts'
import { createResponseOperations, type ResponseOperations } from './responses/responses.ts'
import { CommitCounter, type CommitWords, createCommitWords, readCommits, type WriterFigures } from './store-figures.ts'

/** Every operation: its request, and its result once it is on disk. */
export interface Operations
  extends LedgerOperations,
    AccountOperations,
    KeyOperations,
    BudgetOperations,
    PersonOperations,
    SessionOperations,
    LinkOperations,
    OperatorTokenOperations,
    ResponseOperations,
    AlertOperations,
    ReplicaOperations,
    TryOperations {
  /** Writes as much as an exchange does, to check that there is room for one. */
  probe(nowMs: number): void
  /** A serving thread has ended. Resolves when everything that it requested is committed or has failed. */
  detach(client: number): void
  /** Runs before the connection closes: writes where the next recovery has to begin. */
  last(nowMs: number): void
}

export type Name = keyof Operations
export type Request<N extends Name> = Parameters<Operations[N]>[0]
export type Result<N extends Name> = Exclude<ReturnType<Operations[N]>, RefusedOperation>

/**
 * Operations that need no savepoint: they never refuse, or change nothing when they refuse. A savepoint would slow down frequent ones, and
 * some of them change state in memory too.
 */
const WITHOUT_SAVEPOINT: ReadonlySet<Name> = new Set([
  'hold',
  'settle',
  'checkpoint',
  'keepResponse',
  'deleteResponse',
  'sweepResponses',
  'countTries',
  'takeTriesBack',
  ...OF_REPLICA,
])

/** An operation in the queue; `request` belongs to `name`. */
export interface Operation {
  readonly name: Name
  readonly request: unknown
}

export interface Writer {
  op<N extends Name>(name: N, request: Request<N>): Promise<Result<N>>
  openHolds(): number
  healthy(): boolean
  figures(): WriterFigures
  /** Waits for operations in progress, writes where the next recovery has to begin, and closes the connection. */
  close(): Promise<void>
}

/** A writer in the thread of its connection. */
export interface DirectWriter extends Writer {
  /** Like `op`, with a callback: for a thread whose event loop is blocked. */
  add(operation: Operation, waiter: Waiter<Operation, unknown>): void
}

/** No replica has this number. */
const NO_REPLICA = 0

/** The identity of this process in a database that several processes share. */
export interface Replica extends ReplicaName, ReplicaRow {}

export interface WriterOptions {
  /** The path or address of the database; null: it is in memory. */
  readonly path?: string | null
  /** Null in SQLite, where one process writes. In PostgreSQL, null means that the writer takes no holds. */
  readonly replica?: Replica | null
  /** Memory in which commits are counted; left out: the writer's own. */
  readonly words?: CommitWords
}

export function createWriter(
  database: Database,
  clock: Clock,
  schedule: (fn: () => void) => void,
  { path = null, replica = null, words = createCommitWords() }: WriterOptions = {},
): DirectWriter {
  const isShared = database.dialect.engine === 'postgres'
  const open = createOpenHolds(database, isShared ? (replica?.id ?? NO_REPLICA) : null)
  const fence = replica && createFence(database, replica, open)
  const usage = createUsageWriter(database)
  const budgets = createBudgetRows(database)
  const balances = createBalances(database)
  const count = createCommitCount(database, path)
  const probe = createProbe(database, isShared ? probeName(replica?.id ?? NO_REPLICA) : 'probe')
  const operations = createOperations(database, clock, { open, usage, budgets, balances, fence, replica, probe })
  const begin = database.prepare(fence?.begin ?? database.dialect.begin)
  const commit = database.prepare('COMMIT')
  const rollback = database.prepare('ROLLBACK')
  let closed = false

  const perform = ({ name, request }: Operation) => (operations[name] as (request: unknown) => unknown)(request)
  const tables = createKnownTables(database, [balances, budgets])
  const apply = createRefusing(database, perform, WITHOUT_SAVEPOINT, tables.handOver)
  const batches = isShared
    ? new LedgerBatches(database, open, clock, apply as (operation: NamedOperation) => unknown)
    : null
  const within = <Value>(work: () => Value): Value => (fence ? fence.within(work) : work())
  const group = createGroup<Operation, unknown>(
    {
      begin() {
        count.begin()
        fence?.mend()
        begin.run()
        tables.begin()
      },
      apply,
      ...(batches && {
        applyAll: (all: readonly Operation[]) => within(() => batches.applyAll(all)),
      }),
      commit() {
        try {
          within(() => {
            flush(tables)
            usage.beforeCommit()
            open.beforeCommit(clock.now())
            count.beforeCommit()
            commit.run()
          })
          count.committed(clock.now())
          batches?.committed()
        } catch (error) {
          if (error instanceof Undone) throw error
          if ((error as { isUndone?: boolean }).isUndone) throw new Undone('the server undid it', { cause: error })
          open.uncertain()
          throw error
        }
        open.committed()
        usage.forget()
      },
      rollback() {
        probe.doubt()
        open.rolledBack()
        usage.forget()
        tables.forget()
        batches?.rolledBack()
        // After some errors (a full disk) SQLite has rolled back by itself.
        if (database.inTransaction()) rollback.run()
      },
    },
    schedule,
    new CommitCounter(words),
  )

  return {
    op(name, request) {
      if (closed) return Promise.reject(new StoreError('The store is closed.'))
      return group.op({ name, request }) as Promise<Result<typeof name>>
    },
    add: group.add,
    openHolds: () => open.count(),
    healthy: () => group.healthy(),
    figures: () => ({ commits: readCommits(words), waiting: group.size(), mailboxFill: 0, mailboxFull: 0 }),
    async close() {
      await group.idle()
      closed = true
      // A disk that refuses this has refused more important writes; an older open_from is still correct.
      await group.op({ name: 'last', request: clock.now() }).catch(() => {})
      // Operations that arrived meanwhile and are still retried need the connection.
      await group.idle()
      count.close()
      database.close()
    },
  }
}

interface OperationParts extends LedgerParts {
  readonly fence: Fence | null
  readonly replica: Replica | null
  readonly probe: Probe
}

function createOperations(
  database: Database,
  clock: Clock,
  { open, usage, budgets, balances, fence, replica, probe }: OperationParts,
): Operations {
  const isShared = database.dialect.engine === 'postgres'
  const ledger = createLedgerOperations(database, { open, usage, budgets, balances }, clock)
  const accounts = createAccountOperations(database, clock)
  const sessions = createSessionOperations(database, clock)
  const creators = createCreators(database, clock)
  const links = createLinkOperations(database, clock, creators)
  const tokens = createOperatorTokenOperations(database, clock, { creators, links })
  return {
    ...ledger,
    ...accounts,
    ...createKeyOperations(database, clock),
    ...createBudgetOperations(database),
    ...sessions,
    createLink: links.createLink,
    revokeLink: links.revokeLink,
    createOperatorToken: tokens.createOperatorToken,
    revokeOperatorToken: tokens.revokeOperatorToken,
    ...createResponseOperations(database),
    ...createAlertOperations(database),
    ...createPersonOperations(database, clock, { accounts, ledger, sessions, links, tokens, creators }),
    ...(replica ? createReplicaOperations(database, replica.id) : NO_REPLICAS),
    ...(replica ? createTryOperations(database, clock) : NO_TRIES),
    detach() {},
    probe: probe.run,
    last(nowMs) {
      open.moveForward()
      if (isShared) fence?.leave()
      else probe.empty(nowMs)
    },
  }
}

/** Writes the tables before COMMIT. After an error here nothing is written, so each operation of the group runs again by itself. */
function flush(tables: { flush(): void }): void {
  try {
    tables.flush()
  } catch (cause) {
    throw new Undone('the balances of a group cannot be written', { cause })
  }
}
