/**
 * Services that keep state between requests: `buckets`, `slots`, `kv`, `cache` and `versions`. Their state survives a reload and a change
 * of the plugin's file. Within one process they return values; with a state server that all replicas share they return promises, so
 * callers must await. All steps share the names: begin yours with the policy and the step's id.
 */

/** A token bucket: it holds at most `capacity` and refills evenly. */
export interface BucketShape {
  readonly capacity: number
  /** Refill per millisecond. */
  readonly refillPerMs: number
}

/** The result of taking from a bucket. */
export interface Grant {
  readonly taken: boolean
  /** Whole units left, never below 0. */
  readonly remaining: number
  /** Milliseconds until the same request would be granted; 0 if it was. */
  readonly retryAfterMs: number
  /** Milliseconds until the bucket is full again. */
  readonly resetMs: number
}

/** The service `buckets`: token buckets by name. */
export interface Buckets {
  take(name: string, shape: BucketShape, amount: number): Grant | Promise<Grant>
  /** Corrects an estimate: a positive amount returns units, a negative one takes more (the bucket may go into debt). */
  give(name: string, shape: BucketShape, amount: number): void | Promise<void>
}

/** One of a limited number of slots. */
export interface Slot {
  /** The number of taken slots of the name when this one was taken, itself included. */
  readonly inside: number
  /** Releases the slot; a second call does nothing. The service renews it until then, and releases it when the process dies. */
  free(): void
}

/** How requests beyond the limit may wait. */
export interface Queue {
  /** Maximum number of waiting requests. */
  readonly length: number
  /** The longest wait of each, in milliseconds. */
  readonly wait: number
}

/** The service `slots`: limits concurrency by name. */
export interface Slots {
  /** Takes a slot at once; null if `limit` slots are taken, or others wait for one. */
  enter(name: string, limit: number): Slot | null | Promise<Slot | null>
  /**
   * Waits for a slot, in order of arrival within the process. Null: the queue is full, or the time is over. `left`: the signal has aborted.
   */
  wait(name: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'>
}

/** Texts by name, each with a time to live. Memory is limited, so any of them may be dropped early. */
export interface KeyValue {
  /** Undefined: it was never set, has expired, or was dropped to free memory. */
  get(name: string): string | undefined | Promise<string | undefined>
  /** Sets or replaces a text for `ttlMs` milliseconds. */
  set(name: string, value: string, ttlMs: number): void
  delete(name: string): void
}

/**
 * The service `versions`: notifies all threads and replicas of a change, for instance of a list that a plugin caches. Read the version
 * before you load the list, and load the list again when the version differs.
 */
export interface Versions {
  /**
   * Returns a different number after `change` was called for the name. Compare with `===`. The number may also change without a call, for
   * instance when a state server is lost or returns.
   */
  get(name: string): number | Promise<number>
  /**
   * After it returns, or its promise resolves, each `get` returns a different number, in all threads and replicas. While a state server
   * is lost, other replicas see the change only when it is back.
   */
  change(name: string): void | Promise<void>
}

/** The service `cache`: answers and other large texts that can be created again. */
export interface Cache {
  /**
   * Opens the part of one step. Its content belongs to the configuration in which the step was created.
   *
   * @param scope the policy and the step's id
   * @param maxBytes memory for it in this process. The least recently used texts are dropped first; with several threads, the
   * oldest that were never read. Several threads use at most 1 GiB of it
   */
  open(scope: string, maxBytes: number): KeyValue
}
