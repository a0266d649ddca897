/** A store whose database is in this process, and how its other threads get at it. */
import type { LocalKeys, RecoveryReport, Store, StoreReads } from './store.ts'
import type { ClientParts } from './thread-host.ts'

/** What a serving thread needs to open the store: sent to it once, with the client's port in the list of transfers. */
export interface StoreHandle {
  readonly path: string
  /** The thread's number, which its exchanges' ids carry. */
  readonly lane: number
  /** As keys.ts says. */
  readonly version: Int32Array<SharedArrayBuffer>
  readonly client: ClientParts
}

/** The threads of this process that serve with the same store. */
export interface StoreThreads {
  /** Prepares the store for a thread. @param lane a number from 1 that no other thread has had for a minute */
  attach(lane: number): StoreHandle
  /** A thread is gone: what it has left open is settled at the last checkpoint, and what it has spooled is written. */
  detach(lane: number): Promise<RecoveryReport>
}

/** A store whose database is in this process: what is committed can be read without waiting. */
export interface LocalStore extends Store {
  readonly reads: StoreReads
  /** Of the main thread of a store in a file; null elsewhere. */
  readonly threads: StoreThreads | null
  readonly keys: LocalKeys
}
