/**
 * The only limit of tests, in milliseconds: for what hangs. A file of `npm test` takes seconds, a part of `test:full` minutes.
 * No test, hook or wait has one of its own. Planted faults let tests hang, so test/plants sets a shorter one.
 */
export const LIMIT_MS = Number(
  process.env['TOLLGATE_LIMIT_MS'] ?? (process.env['TOLLGATE_LAYER'] === 'full' ? 3_600_000 : 600_000),
)
