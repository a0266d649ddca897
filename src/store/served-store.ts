/** The store of a serving process, and the parts with which its serving threads open it. */
import type { LeaseWord } from './engine/lease.ts'
import type { RecoveryReport, Store } from './store.ts'
import type { ClientParts } from './thread/thread-host.ts'

/** Everything that a serving thread needs to open the store. Sent to it once, with the client's port in the list of transfers. */
export interface StoreHandle {
  /** As in `StoreOptions`. */
  readonly url: string
  /** The thread's number, which is in the ids of its exchanges. */
  readonly lane: number
  /** See `KeyVersion` in people/keys.ts. */
  readonly version: Int32Array<SharedArrayBuffer>
  readonly lease: LeaseWord | null
  /** The file for this thread's settles that the database did not accept. */
  readonly spool: string
  readonly client: ClientParts
}

/** The threads of this process that serve with this store. */
export interface StoreThreads {
  /**
   * Prepares the store for a thread.
   * @param lane a number from 1 that no attached thread has; a detached thread's number may be reused
   */
  attach(lane: number): StoreHandle
  /**
   * Call it when a thread has ended. Settles its open holds at their last checkpoint and writes its spool. After a rejection it may be
   * called again.
   */
  detach(lane: number): Promise<RecoveryReport>
}

export interface ServedStore extends Store {
  /**
   * Null in serving threads, and in a store without a ledger thread: in memory, or opened with `writes: 'here'`. Also null in PostgreSQL
   * without `folder`.
   */
  readonly threads: StoreThreads | null
}
