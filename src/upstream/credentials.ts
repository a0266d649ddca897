/**
 * The credentials of one provider. Several take turns, so that their limits add up; one that the provider refuses is left
 * out for a while and told to the operator, because nobody else can mend it.
 */

export interface Credentials<Credential> {
  /** The next one; of none but refused ones the one whose time is over first. Null when there are none at all. */
  next(): { readonly credential: Credential; readonly index: number } | null
  /** The provider has refused it (401, 403). Returns how many others are still good. */
  refused(index: number): number
  /** The provider has taken it. */
  taken(index: number): void
}

/** A refused credential is tried again after so long: keys are restored without a word to the gateway. */
const OUT_MS = 60_000

/**
 * @param now monotonic milliseconds
 * @param onRefused called once each time a credential is taken out; `left` is how many are still good
 */
export function createCredentials<Credential>(
  all: readonly Credential[],
  now: () => number,
  onRefused: (index: number, left: number) => void,
): Credentials<Credential> {
  const outUntil = all.map(() => 0)
  let turn = 0
  const isOut = (index: number) => outUntil[index]! > now()
  return {
    next() {
      if (all.length === 0) return null
      for (let step = 0; step < all.length; step++) {
        const index = (turn + step) % all.length
        if (isOut(index)) continue
        turn = index + 1
        return { credential: all[index]!, index }
      }
      const index = outUntil.indexOf(Math.min(...outUntil))
      return { credential: all[index]!, index }
    },
    refused(index) {
      const wasOut = isOut(index)
      outUntil[index] = now() + OUT_MS
      const left = all.filter((_, other) => !isOut(other)).length
      if (!wasOut) onRefused(index, left)
      return left
    },
    taken(index) {
      outUntil[index] = 0
    },
  }
}
