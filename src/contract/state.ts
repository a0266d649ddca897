/**
 * Services that keep state from one request to the next: `buckets`, `slots`, `kv`, `cache` and `versions`. Their state outlives
 * a reload and a change of the plugin's own file. Within one process they answer at once. With a state server that all replicas share
 * they answer with a promise, so a caller awaits. All steps share the names: begin yours with the policy and the step's id.
 */

/** A token bucket: it holds at most `capacity` and refills evenly. */
export interface BucketShape {
  readonly capacity: number
  /** Refill per millisecond. */
  readonly refillPerMs: number
}

/** What a bucket said. */
export interface Grant {
  readonly taken: boolean
  /** Whole units left, never below 0. */
  readonly remaining: number
  /** Until the same request would be granted, 0 when it was. */
  readonly retryAfterMs: number
  /** Until the bucket is full again. */
  readonly resetMs: number
}

/** The service `buckets`: token buckets by name. */
export interface Buckets {
  take(name: string, shape: BucketShape, amount: number): Grant | Promise<Grant>
  /** Corrects an estimate: positive gives back, negative takes more (the bucket may go into debt). */
  give(name: string, shape: BucketShape, amount: number): void | Promise<void>
}

/** One of a limited number of slots. */
export interface Slot {
  /** How many slots of the name were taken when this one was, itself included. */
  readonly inside: number
  /** Gives it back; a second call does nothing. The service renews it until then, and frees it when the process dies. */
  free(): void
}

/** How requests beyond the limit may wait. */
export interface Queue {
  /** How many may wait at once. */
  readonly length: number
  /** How long each may wait, in milliseconds. */
  readonly wait: number
}

/** The service `slots`: at most so many at once, by name. */
export interface Slots {
  /** Takes a slot now; null when `limit` slots are taken, or others wait for one. */
  enter(name: string, limit: number): Slot | null | Promise<Slot | null>
  /**
   * Waits for a slot, in order of arrival within the process. Null: the queue is full, or the time is over. `left`: the
   * signal has aborted.
   */
  wait(name: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'>
}

/** Texts by name, each with a time to live. Any of them may be gone before its time: memory is bounded. */
export interface KeyValue {
  /** Undefined: it was not set, its time is over, or it made room for others. */
  get(name: string): string | undefined | Promise<string | undefined>
  /** Sets it for `ttlMs` milliseconds, in place of what was there. */
  set(name: string, value: string, ttlMs: number): void
  delete(name: string): void
}

/**
 * The service `versions`: says to all threads and replicas that something has changed, such as a list that a plugin keeps in
 * memory. Read the version before you load the list, and load the list again when the version is another one.
 */
export interface Versions {
  /**
   * Another number than before when `change` was called for the name. Compare with `===`. The number may also be another one without
   * a call, e.g. when a state server is lost and when it is back.
   */
  get(name: string): number | Promise<number>
  /**
   * When it returns, or its promise resolves, each `get` that follows returns another number, in all threads and replicas. While a
   * state server is lost, other replicas see the change when it is back.
   */
  change(name: string): void | Promise<void>
}

/** The service `cache`: answers and other large texts that can be made again. */
export interface Cache {
  /**
   * Opens the part of one step. What it holds belongs to the configuration in which the step was created.
   *
   * @param scope the policy and the step's id
   * @param maxBytes memory for it in this process; the least recently used texts make room, or with several threads the oldest
   *   ones that were not read since they came. Several threads use at most 1 GiB of it
   */
  open(scope: string, maxBytes: number): KeyValue
}
