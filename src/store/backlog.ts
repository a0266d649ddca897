/**
 * Settles that could not be written in time. Each is put on disk in the spool; where the disk refuses that too, it stays in
 * memory. All of them are tried again until they are written or the process ends: at growing pauses, and as soon as another
 * write succeeds. While there are any, no new hold is taken, so that there are never more than there were exchanges in flight.
 */
import { type Clock, formatMoney, type Log, type SettleRequest } from '#contract'
import { settleRecord } from './ledger.ts'
import { replay } from './recovery.ts'
import type { Spool } from './spool.ts'
import { StoreUnavailable } from './store.ts'
import type { Writer } from './writer.ts'

export interface BacklogParts {
  readonly writer: Writer
  /** Null for a store in memory. */
  readonly spool: Spool | null
  readonly log: Log
  readonly clock: Clock
}

export interface Backlog {
  /** Takes a settle over. `spooled`: it is on disk. `waiting`: only this process knows it. */
  keep(request: SettleRequest): 'spooled' | 'waiting'
  /**
   * Takes over a settle for nothing, of a hold that may not exist. It stays in memory: the next start does the same without
   * knowing of it.
   */
  abandon(request: SettleRequest): void
  /** Whether everything that was taken over is written. */
  isEmpty(): boolean
  /** How many charges are in the spool, and how many only in memory. */
  count(): { readonly spooled: number; readonly waiting: number }
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

export function createBacklog({ writer, spool, log, clock }: BacklogParts): Backlog {
  // By exchange: what only this process knows.
  const charges = new Map<string, SettleRequest>()
  const doubts = new Map<string, SettleRequest>()
  let spooled = 0
  /** Those of the spool that an attempt is writing. */
  let replaying = 0
  let written = 0
  let running: Promise<boolean> | undefined
  let timer: NodeJS.Timeout | undefined
  let pauseMs = FIRST_PAUSE_MS
  const waiters: (() => void)[] = []
  let isClosed = false
  /** Whether the log knows that the spool cannot be replayed. */
  let isReplayTold = false

  const isEmpty = () => spooled + replaying + charges.size + doubts.size === 0

  function arm(): void {
    if (timer !== undefined || running !== undefined || isClosed || isEmpty()) return
    timer = setTimeout(() => void catchUp(), pauseMs)
    // It keeps no process alive: whoever ends one waits for safe().
    timer.unref()
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
  }

  function catchUp(): Promise<boolean> {
    if (isClosed) return Promise.resolve(isEmpty())
    clearTimeout(timer)
    timer = undefined
    running ??= writeAll().finally(() => {
      running = undefined
      if (charges.size === 0) for (const resolve of waiters.splice(0)) resolve()
      arm()
    })
    return running
  }

  async function writeAll(): Promise<boolean> {
    // One by itself: while the disk refuses it, the others need not try.
    const [first, ...others] = [...charges.values(), ...doubts.values()]
    const isWritable = first === undefined ? await probe() : await write(first)
    if (!isWritable) {
      spoolSome()
      return false
    }
    await Promise.all(others.map(write))
    if (spool !== null && spooled > 0) await replaySpool(spool)
    if (!isEmpty()) return false
    pauseMs = FIRST_PAUSE_MS
    if (written > 0) log.warn({ settles: written }, 'settles that had to wait are written')
    written = 0
    return true
  }

  async function probe(): Promise<boolean> {
    try {
      await writer.op('probe', clock.now())
      return true
    } catch {
      return false
    }
  }

  /** Answers whether it is over: written, or refused for good. */
  async function write(request: SettleRequest): Promise<boolean> {
    const kept = charges.get(request.exchange) === request ? charges : doubts
    try {
      const result = await writer.op('settle', settleRecord(request))
      if (kept === charges && result === 'no_hold') reject(request, 'there is no hold')
      if (result === 'settled') written++
    } catch (error) {
      if (error instanceof StoreUnavailable) return false
      reject(request, String(error))
    }
    kept.delete(request.exchange)
    return true
  }

  async function replaySpool(from: Spool): Promise<void> {
    // More may come meanwhile; then the next time finds an empty file, or them.
    replaying = spooled
    spooled = 0
    try {
      const { replayed, rejected } = await replay({
        spool: from,
        settle: request => writer.op('settle', settleRecord(request)),
      })
      written += replayed
      if (rejected > 0)
        log.error({ rejected }, 'the ledger refuses settles of the spool; they are beside it, in *.rejected')
      isReplayTold = false
    } catch (error) {
      // Still in the file, all of them: a settle that is repeated changes nothing.
      spooled += replaying
      // That the ledger fails again is known by its health.
      if (isReplayTold || error instanceof StoreUnavailable) return
      isReplayTold = true
      log.error({ settles: spooled, error: String(error) }, 'the spool cannot be written to the ledger')
    } finally {
      replaying = 0
    }
  }

  /** There may be room for what was refused before. */
  function spoolSome(): void {
    let tries = MAX_SPOOLED_AT_ONCE
    for (const request of charges.values()) {
      if (tries-- === 0 || !tryToSpool(request)) return
      charges.delete(request.exchange)
    }
  }

  function tryToSpool(request: SettleRequest): boolean {
    if (spool === null) return false
    try {
      spool.append(request)
      spooled++
      return true
    } catch {
      return false
    }
  }

  /** The ledger says no to it, and will say so again. */
  function reject(request: SettleRequest, reason: string): void {
    log.error({ ...owed(request), reason }, 'a settle that had to wait is refused by the ledger')
  }

  return {
    keep(request) {
      const isOnDisk = tryToSpool(request)
      if (!isOnDisk) charges.set(request.exchange, request)
      arm()
      return isOnDisk ? 'spooled' : 'waiting'
    },
    abandon(request) {
      doubts.set(request.exchange, request)
      arm()
    },
    isEmpty,
    count: () => ({ spooled: spooled + replaying, waiting: charges.size }),
    catchUp,
    attempt: () => running ?? Promise.resolve(isEmpty()),
    safe: () => (charges.size === 0 ? Promise.resolve() : new Promise(resolve => waiters.push(resolve))),
    async close() {
      await running
      if (!isEmpty()) await catchUp()
      isClosed = true
      clearTimeout(timer)
      for (const request of charges.values()) {
        log.error(owed(request), 'a settle is lost: the store could not be written until the end of the process')
      }
      for (const exchange of doubts.keys()) log.warn({ exchange }, 'a hold in doubt stays until the next start')
      return charges.size
    },
  }
}

/** Everything that it takes to charge it by hand. */
function owed({ exchange, amount, source, promptTokens, completionTokens }: SettleRequest) {
  return {
    exchange,
    amount: formatMoney(amount),
    source,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
  }
}
