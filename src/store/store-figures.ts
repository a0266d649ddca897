/**
 * Figures of the store for metrics. The ledger's thread counts its commits in shared memory: reads cost it nothing, and the counts
 * survive its death.
 */

/** The number of values in each bucket, not cumulative. */
export interface Distribution {
  readonly limits: readonly number[]
  readonly counts: readonly number[]
  readonly count: number
  readonly sum: number
}

export interface CommitFigures {
  /** From BEGIN to the end of COMMIT, of groups that were committed. */
  readonly seconds: Distribution
  readonly operations: Distribution
  /** Operations that the writer gave up because the database failed. Refused operations are not counted. */
  readonly refused: number
}

export interface WriterFigures {
  /** Null where another thread of the process reports them. */
  readonly commits: CommitFigures | null
  /** Operations without an answer. */
  readonly waiting: number
  /** The fill of the fuller mailbox, from 0 to 1. */
  readonly mailboxFill: number
  /** How often the mailbox had no room for an operation. */
  readonly mailboxFull: number
}

/** Numbers of settles that wait to be written, and of those that corrected a recovered charge. */
export interface UnwrittenSettles {
  /** Settles in the spool that are not in the ledger yet. */
  readonly spooled: number
  /** Settles that are in memory only. */
  readonly waiting: number
  /** Settles that corrected a recovered charge. */
  readonly corrected: number
}

export interface LeaseFigures {
  /** When this process renewed its lease, in milliseconds since the epoch. */
  readonly renewedAtMs: number
  /** Renewals that failed. */
  readonly failures: number
  /** Replicas whose lease had ended and whose holds this process settled. */
  readonly takeovers: number
}

/** Shared by all threads, and kept when the ledger's thread restarts. */
export type CommitWords = BigInt64Array<SharedArrayBuffer>

/** In seconds: from a group in memory to a PostgreSQL that is about to time out. */
const SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
/** Up to LARGEST_GROUP. */
const OPERATIONS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

/** Each distribution has its counts, then the number of values, then their sum. */
const OPERATIONS_AT = SECONDS.length + 2
const REFUSED_AT = OPERATIONS_AT + OPERATIONS.length + 2
const NANOSECONDS = 1e9

export const createCommitWords = (): CommitWords => new BigInt64Array(new SharedArrayBuffer(8 * (REFUSED_AT + 1)))

export class CommitCounter {
  readonly #words: CommitWords
  /** Monotonic milliseconds. */
  readonly now: () => number

  constructor(words: CommitWords, now: () => number = () => performance.now()) {
    this.#words = words
    this.now = now
  }

  /** @param beganAtMs a time of `now` */
  committed(operations: number, beganAtMs: number): void {
    const seconds = Math.max(0, this.now() - beganAtMs) / 1000
    this.#add(0, SECONDS, seconds, BigInt(Math.round(seconds * NANOSECONDS)))
    this.#add(OPERATIONS_AT, OPERATIONS, operations, BigInt(operations))
  }

  refused(): void {
    Atomics.add(this.#words, REFUSED_AT, 1n)
  }

  #add(at: number, limits: readonly number[], value: number, amount: bigint): void {
    const bucket = limits.findIndex(limit => value <= limit)
    if (bucket >= 0) Atomics.add(this.#words, at + bucket, 1n)
    Atomics.add(this.#words, at + limits.length, 1n)
    Atomics.add(this.#words, at + limits.length + 1, amount)
  }
}

export function readCommits(words: CommitWords): CommitFigures {
  const distribution = (at: number, limits: readonly number[], unit: number): Distribution => {
    const read = (index: number) => Number(Atomics.load(words, at + index))
    return {
      limits,
      counts: limits.map((_limit, index) => read(index)),
      count: read(limits.length),
      sum: read(limits.length + 1) / unit,
    }
  }
  return {
    seconds: distribution(0, SECONDS, NANOSECONDS),
    operations: distribution(OPERATIONS_AT, OPERATIONS, 1),
    refused: Number(Atomics.load(words, REFUSED_AT)),
  }
}
