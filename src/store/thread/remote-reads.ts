/**
 * Reads of a store on another machine: each is a message to a thread that blocks (reads-thread.ts). There are two threads, so that a
 * report or an audit does not delay requests. A thread that has ended is restarted by the next read. If it ended before its database was
 * open, reads fail for a pause, which grows with each such failure.
 */
import type { KeyObject } from 'node:crypto'
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock } from '#contract'
import type { Connector } from '../engine/database.ts'
import type { ReplicaReads } from '../engine/replicas.ts'
import { StoreError, type StoreErrorCode } from '../error.ts'
import { ReadLimitError } from '../mistakes.ts'
import type { RecoveryReads } from '../money/recovery.ts'
import type { SecretRecord } from '../people/keys.ts'
import type { Promised } from '../promised.ts'
import type { ResponseReads } from '../responses/responses-service.ts'
import { type StoreReads, StoreUnavailable } from '../store.ts'

export interface AllReads {
  readonly store: StoreReads
  readonly secrets: { find(token: string): SecretRecord | null }
  readonly responses: ResponseReads
  readonly recovery: RecoveryReads
  readonly replicas: ReplicaReads
}

/** Arguments of a new thread. */
export interface ReadsParts {
  /** The database's address. */
  readonly place: string
  readonly connector: Connector
  readonly hmacKey: KeyObject
  /** Whether requests wait for its reads. */
  readonly isQuick: boolean
}

export interface ReadRequest {
  readonly id: number
  /** Names in `AllReads`, from the outside to the inside. */
  readonly path: readonly string[]
  readonly values: readonly unknown[]
  readonly nowMs: number
}

interface ReadReply {
  readonly id: number
  readonly value?: unknown
  readonly error?: { readonly name: string; readonly message: string; readonly code: string | null }
  /** Progress so far; another reply follows. */
  readonly progress?: readonly unknown[]
}

export interface RemoteReads extends Promised<AllReads> {
  close(): Promise<void>
}

/** Replaces a function, which cannot be sent. */
const CALLBACK_MARKER = '\0callback'
/** Reads that may take long. */
const SLOW = /^(?:store\.(?:reports|alerts|verify|list)|replicas)/

export async function createRemoteReads(parts: Omit<ReadsParts, 'isQuick'>, clock: Clock): Promise<RemoteReads> {
  const [quick, slow] = [true, false].map(isQuick => new ReadsThread({ ...parts, isQuick }, clock)) as [
    ReadsThread,
    ReadsThread,
  ]
  const build = (shape: Shape, path: readonly string[]): object => {
    const built = Object.entries(shape).map(([name, inner]) => {
      const here = [...path, name]
      if (inner !== null) return [name, build(inner, here)]
      const thread = SLOW.test(here.join('.')) ? slow : quick
      return [name, (...values: unknown[]) => thread.read(here, values)]
    })
    return Object.fromEntries(built)
  }
  const reads = build((await quick.ready()) as Shape, []) as Promised<AllReads>
  return { ...reads, close: async () => void (await Promise.all([quick.close(), slow.close()])) }
}

/** The names of an object's functions, at every depth. */
export type Shape = { readonly [name: string]: Shape | null }

interface PendingRead {
  resolve(value: unknown): void
  reject(error: unknown): void
  readonly onProgress: ((...values: unknown[]) => void) | undefined
}

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

class ReadsThread {
  readonly #parts: ReadsParts
  readonly #clock: Clock
  #worker: Worker | null = null
  #isClosed = false
  #waiting = new Map<number, PendingRead>()
  #lastId = 0
  /** The pause after a thread that did not start. */
  #pauseMs = 0
  #endedAtMs = 0
  #failure: Error | null = null

  constructor(parts: ReadsParts, clock: Clock) {
    this.#parts = parts
    this.#clock = clock
  }

  /** Resolves with the shape of the reads. Rejects if the database cannot be opened. */
  ready(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(0, { resolve, reject, onProgress: undefined })
      this.#start()
    })
  }

  read(path: readonly string[], values: readonly unknown[]): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new StoreError('The store is closed.'))
    if (this.#worker === null && this.#isPausing()) return Promise.reject(this.#failure!)
    const worker = this.#worker ?? this.#start()
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const onProgress = values.find(value => typeof value === 'function') as PendingRead['onProgress']
      this.#waiting.set(id, { resolve, reject, onProgress })
      worker.ref()
      const sent = values.map(value => (typeof value === 'function' ? CALLBACK_MARKER : value))
      worker.postMessage({ id, path, values: sent, nowMs: this.#clock.now() } satisfies ReadRequest)
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#worker?.terminate()
  }

  #isPausing(): boolean {
    // A clock that was set back ends the pause.
    const passedMs = this.#clock.now() - this.#endedAtMs
    return passedMs >= 0 && passedMs < this.#pauseMs
  }

  #start(): Worker {
    const cache = getCompileCacheDir()
    const worker = new Worker(new URL(`./reads-thread${extname(import.meta.url)}`, import.meta.url), {
      name: 'tollgate-reads',
      workerData: this.#parts,
      stdout: true,
      stderr: true,
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
    })
    let failure: Error | undefined
    let isOpen = false
    worker.on('message', (reply: ReadReply) => {
      // The first reply means that the database is open.
      if (!isOpen) this.#pauseMs = 0
      isOpen = true
      this.#take(worker, reply)
    })
    worker.on('error', error => {
      failure = error as Error
    })
    worker.on('exit', () => {
      this.#worker = null
      const waiting = [...this.#waiting.values()]
      this.#waiting = new Map()
      const cause = failure ?? new Error('the thread that reads has ended')
      const error = cause instanceof StoreError ? cause : unreadable(cause)
      if (!isOpen) this.#pause(error)
      for (const { reject } of waiting) reject(error)
    })
    this.#worker = worker
    return worker
  }

  #pause(error: Error): void {
    this.#failure = error
    this.#endedAtMs = this.#clock.now()
    this.#pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * this.#pauseMs), LONGEST_PAUSE_MS)
  }

  #take(worker: Worker, { id, value, error, progress }: ReadReply): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    if (progress !== undefined) {
      waiting.onProgress?.(...progress)
      return
    }
    this.#waiting.delete(id)
    // An idle thread must not keep the process alive.
    if (this.#waiting.size === 0) worker.unref()
    if (error === undefined) waiting.resolve(value)
    else waiting.reject(revived(error))
  }
}

/** Keeps the class of the caller's mistakes. Everything else is a failure of the database. */
function revived({ name, message, code }: NonNullable<ReadReply['error']>): Error {
  if (name === 'ReadLimitError') return new ReadLimitError(message)
  if (name !== 'StoreError') return unreadable(new Error(message))
  return new StoreError(message, code === null ? {} : { code: code as StoreErrorCode })
}

function unreadable(cause: Error): StoreUnavailable {
  return new StoreUnavailable('not_read', cause)
}
