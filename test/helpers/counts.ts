/** Whether the tests run with their full counts (`npm run test:full`). */
export const full = process.env.TOLLGATE_TEST === 'full'

/** How often to do a thing: a few times in `npm test`, the whole figure in `npm run test:full`. */
export function counts(small: number, whole: number): number {
  return full ? whole : small
}
