/** Logs commits that the ledger has lost, and files of the store that were removed or replaced. */
import type { Log } from '#contract'
import type { Store } from '../store.ts'

/** How often the files are checked; each commit checks them too. */
const EVERY_MS = 1000

export interface ReportParts {
  readonly log: Log
  /** Calls `check` repeatedly with the monotonic time in milliseconds, until the returned function is called. */
  watch(check: (atMs: number) => void): () => void
}

/**
 * Logs the commits that were missing at the start, and watches the files from now on.
 *
 * @param place the store's address in the configuration
 */
export function reportLosses(store: Store, place: string, { log, watch }: ReportParts): void {
  if (store.lostCommits !== null) {
    const { from, to, at } = store.lostCommits
    log.error(
      { store: place, commits: to - from + 1, last_at: new Date(at).toISOString() },
      'commits that were acknowledged are missing at the end of the ledger; see ledger verify',
    )
  }
  let lookedAtMs = Number.NEGATIVE_INFINITY
  const stop = watch(atMs => {
    if (atMs - lookedAtMs < EVERY_MS) return
    lookedAtMs = atMs
    const reason = store.lostFiles()
    if (reason === null) return
    stop()
    log.error({ store: place, reason }, 'paid requests are refused')
  })
}
