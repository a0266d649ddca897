/** How long this process certainly has its lease, in shared memory: its serving threads have to know it too. */

/** Milliseconds since the epoch, by this machine's clock. */
export type LeaseWord = BigInt64Array<SharedArrayBuffer>

/** A lease lasts 60 s by the database's clock, from a moment after the renewal was sent. The rest is a margin. */
const CERTAIN_MS = 55_000

export const createLeaseWord = (): LeaseWord => new BigInt64Array(new SharedArrayBuffer(8))

/** @param askedAtMs when the renewal was sent to the database */
export function noteRenewal(lease: LeaseWord, askedAtMs: number): void {
  Atomics.store(lease, 0, BigInt(Math.floor(askedAtMs) + CERTAIN_MS))
}

/** Whether the holds of this process are certainly still its own. Null: only this process writes to the store. */
export const isLeased = (lease: LeaseWord | null, nowMs: number): boolean =>
  lease === null || nowMs < Number(Atomics.load(lease, 0))
