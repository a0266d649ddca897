/**
 * The backlog: settles that could not be written in time. Each is put on disk in the spool, or stays in memory if the disk refuses it.
 * All are retried until they are written or the process ends: with growing pauses, and as soon as another write succeeds. Meanwhile no
 * hold is taken, so there are never more of them than exchanges were in progress.
 */
import { type Clock, formatMoney, type Log, type SettleRequest, type SettleResult, type SpoolResult } from '#contract'
import { StoreUnavailable } from '../store.ts'
import type { UnwrittenSettles } from '../store-figures.ts'
import type { Writer } from '../writer.ts'
import { settleRecord } from './ledger-fields.ts'
import { replay } from './recovery.ts'
import type { Spool } from './spool.ts'

export interface BacklogParts {
  readonly writer: Writer
  /** Null for a store in memory. */
  readonly spool: Spool | null
  readonly log: Log
  readonly clock: Clock
  /** Whether this process certainly still owns its holds. */
  isLeased(): boolean
}

export interface Backlog {
  /** The ledger's settle. Logs and counts a correction. After a success the backlog is retried. */
  settle(request: SettleRequest): Promise<SettleResult>
  /** Takes over a settle; see `Ledger.spool`. */
  keep(request: SettleRequest): SpoolResult
  /** Takes over a settle of 0 for a hold that may not exist. It stays in memory, because the next start settles such a hold anyway. */
  abandon(request: SettleRequest): void
  isEmpty(): boolean
  /** Numbers of charges in the spool, of charges in memory only, and of corrections of recovered charges. */
  count(): UnwrittenSettles
  /** Tries to write everything now; resolves with whether that succeeded. */
  catchUp(): Promise<boolean>
  /**
   * Resolves with whether the current attempt succeeds; false during a pause. It starts no attempt, so that requests do not make the
   * main thread wait for a failing disk.
   */
  attempt(): Promise<boolean>
  /** Resolves when no charge is in memory only. */
  flushed(): Promise<void>
  /** Tries once more and logs the charges that are lost. Resolves with their number. */
  close(): Promise<number>
}

const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 1000
/** Each append to the spool blocks the thread until the disk has written it. */
const MAX_SPOOLED_AT_ONCE = 32

export function createBacklog(parts: BacklogParts): Backlog {
  return new RetryingBacklog(parts)
}

class RetryingBacklog implements Backlog {
  readonly #writer: Writer
  readonly #spool: Spool | null
  readonly #log: Log
  readonly #clock: Clock
  readonly #isLeased: () => boolean
  // Both by exchange, and in memory only. `#doubts` are settles of 0 for holds that may not exist.
  readonly #charges = new Map<string, SettleRequest>()
  readonly #doubts = new Map<string, SettleRequest>()
  #spooled = 0
  /** Settles of the spool that the current attempt writes. */
  #replaying = 0
  #written = 0
  #corrected = 0
  #running: Promise<boolean> | undefined
  #timer: NodeJS.Timeout | undefined
  #pauseMs = FIRST_PAUSE_MS
  readonly #waiters: (() => void)[] = []
  #isClosed = false
  /** Whether the current failure to replay the spool was logged. */
  #isReplayLogged = false

  constructor({ writer, spool, log, clock, isLeased }: BacklogParts) {
    this.#writer = writer
    this.#spool = spool
    this.#log = log
    this.#clock = clock
    this.#isLeased = isLeased
  }

  settle(request: SettleRequest): Promise<SettleResult> {
    return this.#writer.op('settle', settleRecord(request)).then(result => this.#settled(request, result))
  }

  #settled(request: SettleRequest, result: SettleResult): SettleResult {
    if (result === 'corrected') {
      this.#corrected++
      this.#log.warn(
        owed(request),
        'a charge that recovery had settled was corrected: the settle came after the lease had ended',
      )
    }
    if (!this.isEmpty()) void this.catchUp()
    return result
  }

  keep(request: SettleRequest): SpoolResult {
    const isOnDisk = this.#tryToSpool(request)
    if (!isOnDisk) this.#charges.set(request.exchange, request)
    this.#arm()
    if (!isOnDisk) return 'waiting'
    return this.#isLeased() ? 'spooled' : 'spooled_late'
  }

  abandon(request: SettleRequest): void {
    this.#doubts.set(request.exchange, request)
    this.#arm()
  }

  isEmpty(): boolean {
    return this.#spooled + this.#replaying + this.#charges.size + this.#doubts.size === 0
  }

  count(): UnwrittenSettles {
    return { spooled: this.#spooled + this.#replaying, waiting: this.#charges.size, corrected: this.#corrected }
  }

  attempt(): Promise<boolean> {
    return this.#running ?? Promise.resolve(this.isEmpty())
  }

  flushed(): Promise<void> {
    return this.#charges.size === 0 ? Promise.resolve() : new Promise(resolve => this.#waiters.push(resolve))
  }

  async close(): Promise<number> {
    await this.#running
    if (!this.isEmpty()) await this.catchUp()
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const request of this.#charges.values()) {
      this.#log.error(owed(request), 'a settle is lost: the store could not be written before the process ended')
    }
    for (const exchange of this.#doubts.keys()) {
      this.#log.warn({ exchange }, 'a hold that may exist stays open until the next start')
    }
    return this.#charges.size
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#running !== undefined || this.#isClosed || this.isEmpty()) return
    this.#timer = setTimeout(() => void this.catchUp(), this.#pauseMs)
    // The timer keeps no process alive: a shutdown waits for flushed().
    this.#timer.unref()
    this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_PAUSE_MS)
  }

  catchUp(): Promise<boolean> {
    if (this.#isClosed) return Promise.resolve(this.isEmpty())
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#running ??= this.#writeAll().finally(() => {
      this.#running = undefined
      if (this.#charges.size === 0) for (const resolve of this.#waiters.splice(0)) resolve()
      this.#arm()
    })
    return this.#running
  }

  async #writeAll(): Promise<boolean> {
    // One at first: if the disk refuses it, the others are not tried.
    const [first, ...others] = [...this.#charges.values(), ...this.#doubts.values()]
    const isWritable = first === undefined ? await this.#probe() : await this.#write(first)
    if (!isWritable) {
      this.#spoolSome()
      return false
    }
    await Promise.all(others.map(each => this.#write(each)))
    if (this.#spool !== null && this.#spooled > 0) await this.#replaySpool(this.#spool)
    if (!this.isEmpty()) return false
    this.#pauseMs = FIRST_PAUSE_MS
    if (this.#written > 0) this.#log.warn({ settles: this.#written }, 'delayed settles were written')
    this.#written = 0
    return true
  }

  async #probe(): Promise<boolean> {
    try {
      await this.#writer.op('probe', this.#clock.now())
      return true
    } catch {
      return false
    }
  }

  /** Resolves with true if the settle was written, or if the ledger refused it; false if it has to be retried. */
  async #write(request: SettleRequest): Promise<boolean> {
    const kept = this.#charges.get(request.exchange) === request ? this.#charges : this.#doubts
    try {
      const result = await this.settle(request)
      if (kept === this.#charges && result === 'no_hold') this.#reject(request, 'the hold does not exist')
      if (result === 'settled' || result === 'corrected') this.#written++
    } catch (error) {
      if (error instanceof StoreUnavailable) return false
      this.#reject(request, String(error))
    }
    kept.delete(request.exchange)
    return true
  }

  async #replaySpool(from: Spool): Promise<void> {
    // More may be appended meanwhile; the next attempt replays them.
    this.#replaying = this.#spooled
    this.#spooled = 0
    try {
      const { replayed, rejected } = await replay({
        spool: from,
        settle: request => this.settle(request),
      })
      this.#written += replayed
      if (rejected > 0)
        this.#log.error({ rejected }, 'the ledger refused settles of the spool; they are kept beside it, in *.rejected')
      this.#isReplayLogged = false
    } catch (error) {
      // All are still in the file: a repeated settle changes nothing.
      this.#spooled += this.#replaying
      // `/readyz` and the refused holds already report an unavailable store.
      if (this.#isReplayLogged || error instanceof StoreUnavailable) return
      this.#isReplayLogged = true
      this.#log.error({ settles: this.#spooled, error: String(error) }, 'the spool cannot be written to the ledger')
    } finally {
      this.#replaying = 0
    }
  }

  /** Spools charges that are in memory only, because the disk may have space now. */
  #spoolSome(): void {
    let tries = MAX_SPOOLED_AT_ONCE
    for (const request of this.#charges.values()) {
      if (tries-- === 0 || !this.#tryToSpool(request)) return
      this.#charges.delete(request.exchange)
    }
  }

  #tryToSpool(request: SettleRequest): boolean {
    if (this.#spool === null) return false
    try {
      this.#spool.append(request)
      this.#spooled++
      return true
    } catch {
      return false
    }
  }

  /** The ledger refused it, and would refuse it again. */
  #reject(request: SettleRequest, reason: string): void {
    this.#log.error({ ...owed(request), reason }, 'the ledger refused a delayed settle')
  }
}

/** Everything that an operator needs to charge it by hand. */
function owed({ exchange, amount, source, usage }: SettleRequest) {
  return {
    exchange,
    amount: formatMoney(amount),
    source,
    prompt_tokens: usage.input ?? 0,
    completion_tokens: usage.output ?? 0,
  }
}
