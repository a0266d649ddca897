/**
 * Settles that could not be written in time. Each is put on disk in the spool; where the disk refuses that too, it stays in
 * memory. All of them are tried again until they are written or the process ends: at growing pauses, and as soon as another
 * write succeeds. While there are any, no new hold is taken, so that there are never more than there were exchanges in flight.
 */
import { type Clock, formatMoney, type Log, type SettleRequest, type SettleResult, type Spooled } from '#contract'
import { StoreUnavailable } from '../store.ts'
import type { Unwritten } from '../store-figures.ts'
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
  /** Whether the holds of this process are certainly still its own. */
  isLeased(): boolean
}

export interface Backlog {
  /** The ledger's settle. Logs and counts a correction. Once it is written, what had to wait is tried again. */
  settle(request: SettleRequest): Promise<SettleResult>
  /** Takes a settle over, as `Ledger.spool` says. */
  keep(request: SettleRequest): Spooled
  /**
   * Takes over a settle for nothing, of a hold that may not exist. It stays in memory: the next start does the same without
   * knowing of it.
   */
  abandon(request: SettleRequest): void
  /** Whether everything that was taken over is written. */
  isEmpty(): boolean
  /** How many charges are in the spool, how many only in memory, and how many have corrected a recovered one so far. */
  count(): Unwritten
  /** Tries to write all of it now; answers whether that succeeded. */
  catchUp(): Promise<boolean>
  /**
   * Answers whether the attempt that runs succeeds; false during a pause between two. It begins none, so that requests do
   * not make the main thread wait for a disk that fails.
   */
  attempt(): Promise<boolean>
  /** Resolves when no charge is in memory only. */
  safe(): Promise<void>
  /** Tries once more, and tells the log what is lost. Answers how many charges that is. */
  close(): Promise<number>
}

const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 1000
/** Each is a wait for the disk, and nothing else happens meanwhile. */
const MAX_SPOOLED_AT_ONCE = 32

export function createBacklog(parts: BacklogParts): Backlog {
  return new WrittenLater(parts)
}

class WrittenLater implements Backlog {
  readonly #writer: Writer
  readonly #spool: Spool | null
  readonly #log: Log
  readonly #clock: Clock
  readonly #isLeased: () => boolean
  // By exchange: what only this process knows.
  readonly #charges = new Map<string, SettleRequest>()
  readonly #doubts = new Map<string, SettleRequest>()
  #spooled = 0
  /** Those of the spool that an attempt is writing. */
  #replaying = 0
  #written = 0
  #corrected = 0
  #running: Promise<boolean> | undefined
  #timer: NodeJS.Timeout | undefined
  #pauseMs = FIRST_PAUSE_MS
  readonly #waiters: (() => void)[] = []
  #isClosed = false
  /** Whether the log knows that the spool cannot be replayed. */
  #isReplayTold = false

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
        'a charge that recovery had settled is corrected: this settle came after the lease had ended',
      )
    }
    if (!this.isEmpty()) void this.catchUp()
    return result
  }

  keep(request: SettleRequest): Spooled {
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

  count(): Unwritten {
    return { spooled: this.#spooled + this.#replaying, waiting: this.#charges.size, corrected: this.#corrected }
  }

  attempt(): Promise<boolean> {
    return this.#running ?? Promise.resolve(this.isEmpty())
  }

  safe(): Promise<void> {
    return this.#charges.size === 0 ? Promise.resolve() : new Promise(resolve => this.#waiters.push(resolve))
  }

  async close(): Promise<number> {
    await this.#running
    if (!this.isEmpty()) await this.catchUp()
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const request of this.#charges.values()) {
      this.#log.error(owed(request), 'a settle is lost: the store could not be written until the end of the process')
    }
    for (const exchange of this.#doubts.keys()) {
      this.#log.warn({ exchange }, 'a hold in doubt stays until the next start')
    }
    return this.#charges.size
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#running !== undefined || this.#isClosed || this.isEmpty()) return
    this.#timer = setTimeout(() => void this.catchUp(), this.#pauseMs)
    // It keeps no process alive: whoever ends one waits for safe().
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
    // One by itself: while the disk refuses it, the others need not try.
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
    if (this.#written > 0) this.#log.warn({ settles: this.#written }, 'settles that had to wait are written')
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

  /** Answers whether it is over: written, or refused for good. */
  async #write(request: SettleRequest): Promise<boolean> {
    const kept = this.#charges.get(request.exchange) === request ? this.#charges : this.#doubts
    try {
      const result = await this.settle(request)
      if (kept === this.#charges && result === 'no_hold') this.#reject(request, 'there is no hold')
      if (result === 'settled' || result === 'corrected') this.#written++
    } catch (error) {
      if (error instanceof StoreUnavailable) return false
      this.#reject(request, String(error))
    }
    kept.delete(request.exchange)
    return true
  }

  async #replaySpool(from: Spool): Promise<void> {
    // More may come meanwhile; then the next time finds an empty file, or them.
    this.#replaying = this.#spooled
    this.#spooled = 0
    try {
      const { replayed, rejected } = await replay({
        spool: from,
        settle: request => this.settle(request),
      })
      this.#written += replayed
      if (rejected > 0)
        this.#log.error({ rejected }, 'the ledger refuses settles of the spool; they are beside it, in *.rejected')
      this.#isReplayTold = false
    } catch (error) {
      // Still in the file, all of them: a settle that is repeated changes nothing.
      this.#spooled += this.#replaying
      // That the ledger fails again is known by its health.
      if (this.#isReplayTold || error instanceof StoreUnavailable) return
      this.#isReplayTold = true
      this.#log.error({ settles: this.#spooled, error: String(error) }, 'the spool cannot be written to the ledger')
    } finally {
      this.#replaying = 0
    }
  }

  /** There may be room for what was refused before. */
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

  /** The ledger says no to it, and will say so again. */
  #reject(request: SettleRequest, reason: string): void {
    this.#log.error({ ...owed(request), reason }, 'a settle that had to wait is refused by the ledger')
  }
}

/** Everything that it takes to charge it by hand. */
function owed({ exchange, amount, source, usage }: SettleRequest) {
  return {
    exchange,
    amount: formatMoney(amount),
    source,
    prompt_tokens: usage.input ?? 0,
    completion_tokens: usage.output ?? 0,
  }
}
