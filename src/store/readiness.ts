/**
 * Whether exchanges can be charged: the last write succeeded, nothing waits to be written, and the spool has its space. Found
 * out by looking, because without traffic nobody would notice that the disk is full, nor that it is back.
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
  /** Reserves the spool's space. One that cannot be had is a problem and no error: it is tried again at each look. */
  reserve(): void
}

const LOOK_EVERY_MS = 1000
/** A write that takes longer is as good as none. */
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
    // Also when the clock has stepped back.
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
      if (!before) log.warn({}, 'the space of the spool is reserved again')
    } catch (error) {
      isReserved = false
      if (before) log.error({ settles: reserve(), error: String(error) }, 'the space of the spool cannot be reserved')
    }
  }

  return {
    look,
    reserve: reserveSpace,
    problem() {
      if (isLate) return 'the ledger takes too long to be written'
      // What others write meanwhile may succeed: the next look says when exchanges can be charged again.
      if (isRefused || !writer.healthy() || !backlog.isEmpty()) return 'the ledger cannot be written'
      return isReserved ? null : 'the disk has no room for settles that cannot be written'
    },
  }
}
