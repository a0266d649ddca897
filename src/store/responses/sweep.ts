/** Removes expired responses every minute, a few in each transaction. */
import type { Log } from '#contract'
import type { Store } from '../store.ts'

const EVERY_MS = 60_000

export interface SweepParts {
  readonly log: Log
  /** Calls `check` repeatedly with the monotonic time in milliseconds, until the returned function is called. */
  watch(check: (atMs: number) => void): () => void
}

export function sweepResponses({ responses }: Pick<Store, 'responses'>, { log, watch }: SweepParts): void {
  let sweptAtMs = Number.NEGATIVE_INFINITY
  const failed = (error: unknown) => log.warn({ error }, 'expired responses could not be removed')
  watch(atMs => {
    if (atMs - sweptAtMs < EVERY_MS) return
    sweptAtMs = atMs
    responses.sweep().catch(failed)
  })
}
