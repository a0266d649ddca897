/** Deadlines that the product promises, in real time. */
import { expect } from 'vitest'

/** A machine with other work is slower than a promise assumes; one that breaks the promise waits for ever, or for minutes. */
const SLACK = 10

/** Fails when something took more than ten times as long as promised, both in milliseconds. */
export function expectWithin(ms: number, promisedMs: number, what?: string): void {
  expect(ms, what).toBeLessThan(SLACK * promisedMs)
}
