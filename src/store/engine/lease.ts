/** The time until which this process certainly has its lease. In shared memory, because its serving threads need it too. */

/** One word: that time in milliseconds since the epoch, by this machine's clock. */
export type LeaseWord = BigInt64Array<SharedArrayBuffer>

/** The database's lease of 60 s starts after we send the renewal. We trust 55 s of it, leaving a margin of 5 s. */
const CERTAIN_MS = 55_000

export const createLeaseWord = (): LeaseWord => new BigInt64Array(new SharedArrayBuffer(8))

/** @param askedAtMs when the renewal was sent to the database */
export function noteRenewal(lease: LeaseWord, askedAtMs: number): void {
  Atomics.store(lease, 0, BigInt(Math.floor(askedAtMs) + CERTAIN_MS))
}

/** Whether this process certainly still owns its holds. Null: only this process writes to the store. */
export const isLeased = (lease: LeaseWord | null, nowMs: number): boolean =>
  lease === null || nowMs < Number(Atomics.load(lease, 0))
