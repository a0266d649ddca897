/**
 * Keeps this process's lease in a store that several processes share, and settles the open holds of dead ones. A lease lasts a minute by
 * the database's clock (postgres/replica-writes.ts).
 *
 * After an outage of the database, or a suspended machine, all leases may have ended at once. So a process takes others over only after
 * it has renewed its own twice in a row in time. By then every living process has renewed its lease too.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock, Log, SettleRequest, SettleResult } from '#contract'
import { type RecoveryReads, settleOrphanedHolds } from '../money/recovery.ts'
import type { Promised } from '../promised.ts'
import type { LeaseFigures } from '../store-figures.ts'
import type { Writer } from '../writer.ts'
import { type LeaseWord, noteRenewal } from './lease.ts'
import type { ReplicaRow } from './postgres/replica-writes.ts'

export interface KeeperParts {
  readonly id: number
  /** The number of the process that used this folder before; null: unknown. */
  readonly former: number | null
  readonly writer: Writer
  readonly reads: RecoveryReads | Promised<RecoveryReads>
  settle(request: SettleRequest): Promise<SettleResult>
  /** Until when the lease certainly holds. */
  readonly lease: LeaseWord
  readonly clock: Clock
  readonly log: Log
  /** Milliseconds between two renewals. */
  readonly roundMs?: number
}

export interface SettlementReport {
  settled: number
  charged: bigint
}

/** A sixth of a lease, so that some renewals may fail. */
const ROUND_MS = 10_000
/** Pause after a failed renewal: shorter than `ROUND_MS`, so that a living process renews before others take it over. */
const RETRY_MS = 1000
const ROUNDS_TO_TAKE_OVER = 2
/** The server may notice late that the former process's connection has ended, so its takeover is tried this often. */
const FORMER_TRIES = 10
const FORMER_PAUSE_MS = 100
/** How long a shutdown waits for takeovers in progress; another replica continues them. */
const STOP_MS = 2000

export class ReplicaKeeper {
  readonly #parts: KeeperParts
  readonly #roundMs: number
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #settling: Promise<void> | undefined
  /** Consecutive renewals in time. */
  #rounds = 0
  #isEnded = false
  // The opening of the store has just made the lease.
  #renewedAtMs: number
  #failures = 0
  #takeovers = 0

  constructor(parts: KeeperParts) {
    this.#parts = parts
    this.#renewedAtMs = parts.clock.now()
    noteRenewal(parts.lease, this.#renewedAtMs)
    this.#roundMs = parts.roundMs ?? ROUND_MS
  }

  /** Settles the open holds of this folder's previous process, and of replicas that have shut down. Then keeps the lease. */
  async start(): Promise<SettlementReport> {
    const report = await this.#settleFormer()
    for (;;) {
      const more = await this.#takeOver('left')
      if (more === null) break
      report.settled += more.settled
      report.charged += more.charged
    }
    this.#arm(this.#roundMs)
    return report
  }

  figures(): LeaseFigures {
    return { renewedAtMs: this.#renewedAtMs, failures: this.#failures, takeovers: this.#takeovers }
  }

  async stop(): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#timer)
    await this.#running
    await Promise.race([this.#settling, wait(STOP_MS, undefined, { ref: false })])
  }

  async #settleFormer(): Promise<SettlementReport> {
    const { former } = this.#parts
    for (let tries = FORMER_TRIES; former !== null && tries > 0; tries--) {
      const settled = await this.#takeOver(former)
      if (settled !== null) return settled
      if (!(await this.#parts.reads.isReplica(former))) break
      await wait(FORMER_PAUSE_MS)
    }
    return { settled: 0, charged: 0n }
  }

  #arm(ms: number): void {
    if (this.#isEnded) return
    this.#timer = setTimeout(() => {
      this.#running = this.#round().then(next => this.#arm(next))
    }, ms)
    this.#timer.unref()
  }

  /** Renews the lease. Returns the pause until the next renewal, in milliseconds. */
  async #round(): Promise<number> {
    const { writer, clock, log } = this.#parts
    try {
      // Taken before sending the renewal, so that we never assume a longer lease than the database grants.
      const atMs = clock.now()
      const inTime = await writer.op('renewLease', atMs)
      this.#renewedAtMs = atMs
      noteRenewal(this.#parts.lease, atMs)
      this.#rounds = inTime ? this.#rounds + 1 : 0
      if (this.#rounds >= ROUNDS_TO_TAKE_OVER) this.#settling ??= this.#settleEnded()
      return this.#roundMs
    } catch (error) {
      this.#failures++
      // The readiness check already reports failures of the writer.
      if (this.#rounds > 0)
        log.warn({ error: String(error) }, 'the lease of this replica was not renewed; trying again')
      this.#rounds = 0
      return Math.min(RETRY_MS, this.#roundMs)
    }
  }

  /** Runs beside the renewals, because it may take longer than a lease lasts. Never rejects. */
  async #settleEnded(): Promise<void> {
    const { log } = this.#parts
    try {
      for (;;) {
        const settled = this.#isEnded ? null : await this.#takeOver('ended')
        if (settled === null) break
        this.#takeovers++
        log.warn({ ...settled }, 'settled the open holds of a dead replica')
      }
    } catch (error) {
      if (!this.#isEnded)
        log.warn({ error: String(error) }, 'the open holds of a dead replica could not be settled; trying again')
    } finally {
      this.#settling = undefined
    }
  }

  /** Takes one replica over and settles its open holds. Null if no replica has to be taken over. */
  async #takeOver(which: 'ended' | 'left' | number): Promise<(SettlementReport & { readonly replica: number }) | null> {
    const { id, writer, reads, settle } = this.#parts
    const replica = await writer.op('takeOver', which)
    if (replica === null) return null
    const settled = await settleOrphanedHolds({ reads, settle, dead: { replica, lane: null, takenBy: id } })
    await writer.op('forgetReplica', replica)
    return { replica, ...settled }
  }
}

/** The replica that used a folder last; null if unknown. */
export function readFormer(file: string): ReplicaRow | null {
  try {
    const [, id, startedAt] = /^(\d+) (\d+)\n$/.exec(readFileSync(file, 'utf8')) ?? []
    return id === undefined ? null : { id: Number(id), startedAt: Number(startedAt) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export function writeFormer(file: string, { id, startedAt }: ReplicaRow): void {
  writeFileSync(file, `${id} ${startedAt}\n`, { mode: 0o600, flush: true })
}
