/**
 * Checks whether exchanges can be charged: the last write succeeded, nothing waits to be written, and the spool has its space.
 * It writes even without traffic: otherwise it would not notice that a disk is full, or has space again.
 */
import type { Clock, Log } from '#contract'
import type { Backlog } from './money/backlog.ts'
import type { Spool } from './money/spool.ts'
import type { Writer } from './writer.ts'

export interface ReadinessParts {
  readonly writer: Writer
  readonly spool: Spool | null
  readonly backlog: Backlog
  readonly log: Log
  readonly clock: Clock
  readonly reserve: () => number
}

export interface StoreReadiness {
  /** See `Store`. */
  look(): Promise<void>
  problem(): string | null
  /** Reserves the spool's space. A failure does not throw: it counts as a problem, and each look tries again. */
  reserve(): void
}

const LOOK_EVERY_MS = 1000
/** A write that takes longer counts as failed. */
const LOOK_FOR_MS = 2000
const yes = () => true
const no = () => false

export function createReadiness({ writer, spool, backlog, log, clock, reserve }: ReadinessParts): StoreReadiness {
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> | undefined
  let isWriting = false
  let isLate = false
  let isRefused = false
  let isReserved = true

  function look(): Promise<void> {
    // The absolute value: the clock may have stepped back.
    if (!isWriting && Math.abs(clock.now() - lookedAtMs) >= LOOK_EVERY_MS) {
      lookedAtMs = clock.now()
      looking = lookNow()
    }
    return looking ?? Promise.resolve()
  }

  async function lookNow(): Promise<void> {
    reserveSpace()
    isWriting = true
    const writing = backlog.isEmpty() ? writer.op('probe', clock.now()).then(yes, no) : backlog.catchUp()
    await new Promise<void>(resolve => {
      const timer = setTimeout(() => {
        isLate = true
        resolve()
      }, LOOK_FOR_MS)
      timer.unref()
      void writing.then(isWritten => {
        clearTimeout(timer)
        isWriting = false
        isLate = false
        isRefused = !isWritten
        resolve()
      })
    })
    looking = undefined
  }

  function reserveSpace(): void {
    const before = isReserved
    try {
      spool?.reserve(reserve())
      isReserved = true
      if (!before) log.warn({}, 'the space for the spool is reserved again')
    } catch (error) {
      isReserved = false
      if (before) log.error({ settles: reserve(), error: String(error) }, 'the space for the spool cannot be reserved')
    }
  }

  return {
    look,
    reserve: reserveSpace,
    problem() {
      if (isLate) return 'writes to the ledger take too long'
      // Other writes may succeed meanwhile, but only the next look shows that exchanges can be charged again.
      if (isRefused || !writer.healthy() || !backlog.isEmpty()) return 'the ledger cannot be written'
      return isReserved ? null : 'the disk has no space for the spool'
    },
  }
}
