/**
 * The only timeout of tests, in milliseconds, for tests that hang. A file of `npm test` takes seconds, a part of `test:full` minutes.
 * No test, hook or wait has a timeout of its own. Planted faults make tests hang, so test/plants sets a shorter one.
 */
export const LIMIT_MS = Number(
  process.env['TOLLGATE_LIMIT_MS'] ?? (process.env['TOLLGATE_LAYER'] === 'full' ? 3_600_000 : 600_000),
)
