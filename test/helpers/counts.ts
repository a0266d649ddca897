/** How often tests do a thing: a few times in `npm test` and `npm run test:system`, the full figure in `npm run test:full -- PART`. */
import type { Part } from './parts.ts'

/** Whether the full counts of this part run. */
export function isFull(part: Part): boolean {
  return process.env['TOLLGATE_PART'] === part
}

/** For `X.share.test.ts`: the step between the rows that run. Only `npm test` leaves rows out. */
export function shareOf(every: number): number {
  return (process.env['TOLLGATE_LAYER'] ?? 'unit') === 'unit' ? every : 1
}

/** Why a test is left out that only runs with the full counts of this part; null: they run. */
export function onlyFull(part: Part): string | null {
  return isFull(part) ? null : `npm run test:full -- ${part}`
}

/** For the files of a part: returns the first of two figures, or the second one when the part runs in full. */
export function countsOf(part: Part): (small: number, full: number) => number {
  return (small, full) => (isFull(part) ? full : small)
}
