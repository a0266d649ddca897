/**
 * Versions in memory that the threads of a process share. The hash of a name selects its word. Names may share a word; then a change of one
 * looks like a change of all. So nothing is ever dropped, and a read is one atomic load.
 */
import type { Versions } from '#contract'

export type VersionWords = Int32Array<SharedArrayBuffer>

const WORDS = 4096

export const createVersionWords = (): VersionWords => new Int32Array(new SharedArrayBuffer(4 * WORDS))

/** Versions with synchronous results: numbers below 2 ** 32. */
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
