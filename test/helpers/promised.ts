/** Checks of times that the product promises, in real time. */
import { expect } from 'vitest'

/** A busy machine is slower than a promise assumes. Code that breaks the promise takes minutes, or never ends. */
const SLACK = 10

/** Fails if something took more than ten times the promised time, both in milliseconds. */
export function expectWithin(ms: number, promisedMs: number, what?: string): void {
  expect(ms, what).toBeLessThan(SLACK * promisedMs)
}
