/** Seeded random numbers: the demo gives the same answer to the same request. */

/** A generator of numbers in [0, 1). mulberry32: small, and uniform enough to choose words. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function pick<T>(items: readonly T[], random: () => number): T {
  return items[Math.floor(random() * items.length)]!
}

const LETTERS = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']

/** Random letters and digits for an id. */
export function letters(count: number, random: () => number): string {
  return Array.from({ length: count }, () => pick(LETTERS, random)).join('')
}
