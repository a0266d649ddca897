/** A store that serves, and how other threads of the process get at it. */
import type { LeaseWord } from './engine/lease.ts'
import type { ClientParts } from './link/thread-host.ts'
import type { RecoveryReport, Store } from './store.ts'

/** What a serving thread needs to open the store: sent to it once, with the client's port in the list of transfers. */
export interface StoreHandle {
  /** As `StoreOptions` has it. */
  readonly url: string
  /** The thread's number, which its exchanges' ids carry. */
  readonly lane: number
  /** As keys.ts says. */
  readonly version: Int32Array<SharedArrayBuffer>
  readonly lease: LeaseWord | null
  /** The file in which its settles wait that the database did not take. */
  readonly spool: string
  readonly client: ClientParts
}

/** The threads of this process that serve with the same store. */
export interface StoreThreads {
  /** Prepares the store for a thread. @param lane from 1; no other thread has it, and one that had it is detached */
  attach(lane: number): StoreHandle
  /**
   * A thread is gone: what it has left open is settled at the last checkpoint, and what it has spooled is written.
   * When it rejects, the same call may follow again.
   */
  detach(lane: number): Promise<RecoveryReport>
}

export interface ServedStore extends Store {
  /** Of the main thread of a store that outlives it; null elsewhere. */
  readonly threads: StoreThreads | null
}
