/** The counts of repeated tests: small in `npm test` and `npm run test:system`, full in `npm run test:full -- PART`. */
import type { Part } from './parts.ts'

/** Whether the full counts of this part run. */
export function isFull(part: Part): boolean {
  return process.env['TOLLGATE_PART'] === part
}

/** For `X.share.test.ts`: the step between the rows that run. Only `npm test` leaves rows out. */
export function shareOf(every: number): number {
  return (process.env['TOLLGATE_LAYER'] ?? 'unit') === 'unit' ? every : 1
}

/** Why a test that needs the full counts of this part is left out; null: it runs. */
export function onlyFull(part: Part): string | null {
  return isFull(part) ? null : `npm run test:full -- ${part}`
}

/** For the files of a part. Returns a function that chooses the first of two counts, or the second one if the part runs in full. */
export function countsOf(part: Part): (small: number, full: number) => number {
  return (small, full) => (isFull(part) ? full : small)
}
