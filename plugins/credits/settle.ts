/** Writes what an exchange owes, whatever it takes. */
import {
  type Clock,
  formatMoney,
  type Ledger,
  type Log,
  refuse,
  type SettleRequest,
  type SettleResult,
} from '#contract'

/** A settle is tried again for so long; the runner gives every step 5 s after an answer, and the spool needs a moment. */
const SETTLE_FOR_MS = 4_500
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 500

/** What it takes to write to the ledger and to talk about it. */
export interface Books {
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
}

/**
 * Commits the charge, again and again for some seconds: it is idempotent. What cannot be committed is spooled, which is as
 * good: it is on disk, and will be charged. Where the disk refuses that too, the store goes on trying, but nobody can be sure
 * of the charge, so the answer is not let out as if it had been paid. Nor is the client told to try again: it would pay twice
 * for one answer.
 *
 * @returns whether the account is charged exactly this: not if the lease of this process had ended
 */
export function settle(books: Books, request: SettleRequest): Promise<boolean> {
  return books.ledger.settle(request).then(
    result => isCertain(books, request, result),
    error => settleAgain(books, request, error),
  )
}

function isCertain({ log }: Books, { exchange }: SettleRequest, result: SettleResult): boolean {
  if (result === 'no_hold') log.error({ exchange }, 'a settle found no hold')
  return result !== 'corrected'
}

/** @param failure of the first try */
async function settleAgain(books: Books, request: SettleRequest, failure: unknown): Promise<boolean> {
  const { ledger, log } = books
  try {
    return isCertain(books, request, await persistently(books, () => ledger.settle(request), failure))
  } catch (error) {
    const owed = { exchange: request.exchange, amount: formatMoney(request.amount), error: String(error) }
    const spooled = ledger.spool(request)
    if (spooled !== 'waiting') {
      log.error(owed, 'a settle could not be written; it is spooled')
      // What the ledger has refused as a mistake is not as good as charged.
      if (isUnavailable(error)) return spooled === 'spooled'
    } else log.error(owed, 'a settle could neither be written nor spooled; it waits in memory')
    throw refuse('store_unavailable', {
      message: 'The charge could not be written, so the answer was not let out. It is charged when the ledger is back.',
      headers: { 'x-should-retry': 'false' },
      detail: 'the charge could not be written',
      cause: error,
    })
  }
}

/** The disk's failure, by name: the class belongs to the store. */
export function isUnavailable(error: unknown): error is { readonly written: 'not_written' | 'unknown' | 'not_read' } {
  return (error as Error).name === 'StoreUnavailable'
}

/**
 * Tries again for some seconds, with growing pauses; what is tried has to be idempotent. Throws the last error. The pauses are
 * counted too: a clock that is set back must not keep it trying. A try that is under way when the time is over is not
 * waited for: behind an unreachable database each takes a second, and the step has no time for that.
 */
async function persistently<Result>(
  { clock }: Books,
  attempt: () => Promise<Result>,
  failure: unknown,
): Promise<Result> {
  const until = clock.now() + SETTLE_FOR_MS
  let [paused, isOver, error] = [0, false, failure]
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    paused += pause
    if (isOver || paused > SETTLE_FOR_MS || clock.now() + pause > until) throw error
    await new Promise(resolve => setTimeout(resolve, pause))
    const late = () => {
      isOver = true
      return error
    }
    try {
      return await inTime(attempt(), Math.min(Math.max(until - clock.now(), 0), SETTLE_FOR_MS), late)
    } catch (again) {
      error = again
    }
  }
}

/** What comes of a try; after so many milliseconds it is an error instead. */
async function inTime<Result>(trying: Promise<Result>, ms: number, late: () => unknown): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([trying, end])
  } finally {
    clearTimeout(timer)
  }
}
