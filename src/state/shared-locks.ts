/** Locks in memory that threads share: one word each, 0 when it is free. Threads are numbered; 0 is the main thread. */

export type Locks = Int32Array<SharedArrayBuffer>

/** About a microsecond. A lock is held for less, unless the system has taken the thread's core away. */
const SPINS = 200
const PAUSE_MS = 1

/**
 * Returns whether the caller has the lock now.
 *
 * @param pauses how often it waits for a millisecond before it gives up
 */
export function lock(locks: Locks, place: number, thread: number, pauses = Number.POSITIVE_INFINITY): boolean {
  for (let tries = 1; tries <= pauses * SPINS; tries++) {
    const holder = Atomics.compareExchange(locks, place, 0, thread + 1)
    if (holder === 0) return true
    if (tries % SPINS === 0) Atomics.wait(locks, place, holder, PAUSE_MS)
  }
  return false
}

export function unlock(locks: Locks, place: number): void {
  Atomics.store(locks, place, 0)
}

/** Releases the locks of a dead thread. */
export function releaseLocks(locks: Locks, dead: number): void {
  for (let place = 0; place < locks.length; place++) Atomics.compareExchange(locks, place, dead + 1, 0)
}
