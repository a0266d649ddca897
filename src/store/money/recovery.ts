/**
 * Recovery: settles the open holds and the spool of a dead process. A SQLite store has one owner at a time, so every open
 * hold that an owner finds at its start belongs to a dead process. In PostgreSQL only a dead replica's holds are settled.
 * While a process runs, it settles the holds of a serving thread that has ended.
 *
 * First the spooled settles are written. Then the other holds are settled at their last checkpoint, or at 0 without one. A running process
 * also replays its own spool when a write succeeds again (backlog.ts).
 */
import type { NanoUsd, SettleRequest, SettleResult } from '#contract'
import type { Database } from '../engine/database.ts'
import { StoreError } from '../error.ts'
import { laneOf } from '../ids.ts'
import type { Promised } from '../promised.ts'
import type { RecoveryReport } from '../store.ts'
import { type OpenHold, readOpenHolds } from './open-holds.ts'
import type { Spool } from './spool.ts'

/** An open hold with the last checkpoint of its stream. */
export interface OrphanedHold extends OpenHold {
  /** Null: it has none. */
  readonly checkpoint: CheckpointRow | null
}

interface CheckpointRow {
  readonly amount: NanoUsd
  readonly prompt_tokens: bigint
  readonly completion_tokens: bigint
}

/** The replica, thread or process that died. */
export interface DeadOwner {
  /** The replica's number, where several processes share a store; null elsewhere. */
  readonly replica: number | null
  /** The number of the thread that died; null: the whole process did. */
  readonly lane: number | null
  /**
   * The replica that took it over. If another one has taken it over since, a living process may have the number again, with new holds
   * that must not be settled.
   */
  readonly takenBy?: number
}

export interface RecoveryReads {
  orphanedHolds(dead: DeadOwner): readonly OrphanedHold[]
  /** Whether the replica still has a row. */
  isReplica(id: number): boolean
}

export function createRecoveryReads(reader: Database): RecoveryReads {
  const lastCheckpoint = reader.prepareMoney(
    'SELECT amount, prompt_tokens, completion_tokens FROM checkpoint WHERE exchange = ? ORDER BY seq DESC LIMIT 1',
  )
  return {
    isReplica: id => reader.prepare('SELECT 1 FROM replica WHERE id = ?').get(id) !== undefined,
    orphanedHolds({ replica, lane, takenBy }) {
      const all = readOpenHolds(reader, replica, takenBy)
      const holds = lane === null ? all : all.filter(({ exchange }) => laneOf(exchange) === lane)
      return holds.map(hold => ({
        ...hold,
        checkpoint: (lastCheckpoint.get(hold.exchange) as CheckpointRow | undefined) ?? null,
      }))
    },
  }
}

export interface RecoveryParts {
  readonly reads: RecoveryReads | Promised<RecoveryReads>
  /** Null for a store in memory. */
  readonly spool: Spool | null
  /** The ledger's own settle: recovery moves money in no other way. */
  settle(request: SettleRequest): Promise<SettleResult>
  /** Spools of threads that ended. Each is removed when all of it is in the ledger. */
  readonly orphans: readonly Spool[]
  /** Null: no open hold is dead. */
  readonly dead: DeadOwner | null
}

/** Number of settles at once: ten thousand open holds share a few commits without ten thousand promises. */
const BATCH = 512

export async function recover(parts: RecoveryParts): Promise<RecoveryReport> {
  const report = await replay(parts)
  for (const spool of parts.orphans) {
    const more = await replay({ spool, settle: parts.settle })
    spool.remove()
    report.replayed += more.replayed
    report.rejected += more.rejected
    report.charged += more.charged
  }
  const { reads, settle, dead } = parts
  if (dead === null) return { ...report, settled: 0 }
  const left = await settleOrphanedHolds({ reads, settle, dead })
  return { ...report, settled: left.settled, charged: report.charged + left.charged }
}

/**
 * Writes spooled settles to the ledger, at the start or as soon as the ledger can be written again. Each line is settled once, however
 * often it is read. The file is emptied only when all its lines are settled or rejected, also those that were appended meanwhile.
 */
export async function replay({ spool, settle }: Pick<RecoveryParts, 'spool' | 'settle'>) {
  const report = { replayed: 0, rejected: 0, charged: 0n }
  if (spool === null) return report
  const rejected: string[] = []
  let done = 0
  for (let lines = spool.read(); lines.length > done; lines = spool.read()) {
    const some = lines.slice(done, done + BATCH)
    const results = await Promise.all(some.map(({ settle: request }) => request && tryToSettle(request)))
    for (const [index, { line, settle: request }] of some.entries()) {
      const result = results[index]
      if (result === undefined || result === 'rejected' || result === 'no_hold') {
        rejected.push(line)
        report.rejected++
      } else if (result === 'settled' || result === 'corrected') {
        report.replayed++
        report.charged += request!.amount
      }
    }
    done += some.length
  }
  // In the same turn as the last read of the file, so that no line can be appended in between. Rejected lines are moved only now, because
  // a replay that fails starts again at the first line.
  for (const line of rejected) spool.reject(line)
  if (done > 0) spool.empty()
  return report

  /** A line that breaks the ledger's rules must not prevent a start. A failing disk must. */
  async function tryToSettle(request: SettleRequest): Promise<SettleResult | 'rejected'> {
    try {
      return await settle(request)
    } catch (error) {
      if (error instanceof StoreError) return 'rejected'
      throw error
    }
  }
}

/** Settles the open holds of a dead process at their last checkpoint. */
export async function settleOrphanedHolds({
  reads,
  settle,
  dead,
}: Pick<RecoveryParts, 'reads' | 'settle'> & { readonly dead: DeadOwner }) {
  const report = { settled: 0, charged: 0n }
  const holds = await reads.orphanedHolds(dead)
  for (let start = 0; start < holds.length; start += BATCH) {
    const requests = holds.slice(start, start + BATCH).map(settleAt)
    const results = await Promise.all(requests.map(settle))
    for (const [index, request] of requests.entries()) {
      if (results[index] !== 'settled') continue
      report.settled++
      report.charged += request.amount
    }
  }
  return report
}

/** A charge never exceeds its hold; more at the checkpoint is the operator's loss. */
function settleAt({ checkpoint, ...hold }: OrphanedHold): SettleRequest {
  const reached = checkpoint?.amount ?? 0n
  const amount = reached < hold.amount ? reached : hold.amount
  return {
    exchange: hold.exchange,
    amount,
    overrun: reached - amount,
    source: 'recovered',
    outcome: 'failed',
    code: null,
    usage: {
      input: Number(checkpoint?.prompt_tokens ?? 0n),
      output: Number(checkpoint?.completion_tokens ?? 0n),
    },
    attempts: [],
    trail: [],
  }
}
