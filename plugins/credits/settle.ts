/** Writes the charge of an exchange to the ledger, or to the spool. */
import {
  type Clock,
  formatMoney,
  type Ledger,
  type Log,
  refuse,
  type SettleRequest,
  type SettleResult,
} from '#contract'

/** Attempts end after this time: the runner gives each step 5 s after an answer, and the spool needs some of it. */
const SETTLE_FOR_MS = 4_500
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 500

/** The services that a settle needs. */
export interface SettleServices {
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
}

/**
 * Commits the charge, with retries for some seconds: a settle is idempotent. A charge that cannot be committed is spooled to disk, which
 * is as durable. If the disk refuses that too, the store keeps trying. But the charge is not certain then, so the answer is withheld. The
 * refusal has `x-should-retry: false`, because a client that retries would pay twice.
 *
 * @returns whether the account was charged exactly this amount; false if the lease of this process had ended
 */
export function settle(books: SettleServices, request: SettleRequest): Promise<boolean> {
  const began = books.clock.now()
  return books.ledger.settle(request).then(
    result => isCertain(books, request, result),
    error => settleAgain(books, request, began, error),
  )
}

function isCertain({ log }: SettleServices, { exchange }: SettleRequest, result: SettleResult): boolean {
  if (result === 'no_hold') log.error({ exchange }, 'a settle has no hold')
  return result !== 'corrected'
}

/**
 * @param began when the first attempt began
 * @param failure the error of the first attempt
 */
async function settleAgain(
  books: SettleServices,
  request: SettleRequest,
  began: number,
  failure: unknown,
): Promise<boolean> {
  const { ledger, log } = books
  try {
    return isCertain(books, request, await withRetries(books, () => ledger.settle(request), began, failure))
  } catch (error) {
    const owed = { exchange: request.exchange, amount: formatMoney(request.amount), error: String(error) }
    const spooled = ledger.spool(request)
    if (spooled !== 'waiting') {
      log.error(owed, 'failed to write a settle; it is in the spool')
      // A settle that the ledger refuses as a mistake will never be charged.
      if (isUnavailable(error)) return spooled === 'spooled'
    } else log.error(owed, 'failed to write a settle and to spool it; it waits in memory')
    throw refuse('store_unavailable', {
      message:
        'The charge could not be written, so the answer was withheld. It is charged when the ledger can be written again.',
      headers: { 'x-should-retry': 'false' },
      detail: 'failed to write the charge',
      cause: error,
    })
  }
}

/** Whether the store failed. Compares the name, because plugins do not import the class from the store. */
export function isUnavailable(error: unknown): error is { readonly written: 'not_written' | 'unknown' | 'not_read' } {
  return (error as Error).name === 'StoreUnavailable'
}

/**
 * Retries an idempotent operation for some seconds, with growing pauses. Throws the last error. The sum of the pauses is limited too,
 * because the clock may be set back. The last attempt is abandoned at the end: with an unreachable database each takes a second.
 *
 * @param began when the first attempt began: its time counts too
 */
async function withRetries<Result>(
  { clock }: SettleServices,
  attempt: () => Promise<Result>,
  began: number,
  failure: unknown,
): Promise<Result> {
  const until = began + SETTLE_FOR_MS
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

/** The result of an attempt, or an error after `ms` milliseconds. */
async function inTime<Result>(attempt: Promise<Result>, ms: number, late: () => unknown): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([attempt, end])
  } finally {
    clearTimeout(timer)
  }
}
