/** Polls for a condition that causes no event. */
import { vi } from 'vitest'
import { LIMIT_MS } from './limit.ts'

/**
 * Calls a function again until it neither throws nor rejects, and resolves with its result. It has no limit but that of the run;
 * shortly before that it rejects with the last error.
 */
export function until<Result>(look: () => Result): Promise<Awaited<Result>> {
  return vi.waitFor(look, { timeout: LIMIT_MS * 0.9, interval: 10 }) as Promise<Awaited<Result>>
}

/** The same for a function that returns a falsy value until then. */
export function untilTruthy<Result>(look: () => Result): ReturnType<typeof vi.waitUntil<Result>> {
  return vi.waitUntil(look, { timeout: LIMIT_MS * 0.9, interval: 10 })
}
