/** Random numbers from a seed: the same seed gives the same run. */

export interface Random {
  /** In [0, 1). */
  next(): number
  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number
  /** True with this probability. */
  chance(share: number): boolean
  pick<Value>(values: readonly Value[]): Value
  bytes(size: number): Uint8Array
}

/** @param seed 32 bits (mulberry32: small, fast, and good enough for choices) */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))
  return {
    next,
    whole,
    chance: share => next() < share,
    pick: values => values[whole(0, values.length - 1)]!,
    bytes: size => Uint8Array.from({ length: size }, () => whole(0, 255)),
  }
}
