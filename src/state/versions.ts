/**
 * Versions in memory that the threads of a process share. A name has the word that its hash says: names may share one, and a
 * change of one of them then looks like a change of all. So nothing is ever forgotten, and a look is one atomic load.
 */
import type { Versions } from '#contract'

export type VersionWords = Int32Array<SharedArrayBuffer>

const WORDS = 4096

export const createVersionWords = (): VersionWords => new Int32Array(new SharedArrayBuffer(4 * WORDS))

/** Versions that answer at once, with numbers below 2 ** 32. */
export interface LocalVersions extends Versions {
  get(name: string): number
  change(name: string): void
}

export function createVersions(words: VersionWords = createVersionWords()): LocalVersions {
  return {
    get: name => Atomics.load(words, placeOf(name)) >>> 0,
    change: name => void Atomics.add(words, placeOf(name), 1),
  }
}

/** FNV-1a (draft-eastlake-fnv): no one gains from names that share a word. */
function placeOf(name: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193)
  return (hash ^ (hash >>> 12)) & (WORDS - 1)
}
