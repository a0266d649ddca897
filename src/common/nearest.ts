/** Suggests the intended word for a mistyped one, for messages to authors of configurations. */
import { distance } from 'fastest-levenshtein'

/** `did you mean "x"?` for the known word nearest to a mistyped one; undefined if none is near. */
export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  const near = nearest(word, known)
  return near === undefined ? undefined : `did you mean "${near}"?`
}

/** ` Did you mean 'x'?`, to append to a sentence for a client; empty if no known word is near. */
export function hintOf(value: unknown, known: Iterable<string>): string {
  const near = typeof value === 'string' ? nearest(value, known) : undefined
  return near === undefined ? '' : ` Did you mean '${near}'?`
}

/**
 * The known word within two edits, or one that differs in case only. One edit for up to four letters, three for more than twelve.
 */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = word.length <= 4 ? 2 : word.length <= 12 ? 3 : 4
  for (const candidate of known) {
    if (candidate === word) continue
    // Words whose lengths differ more are farther apart, and a client may send one of any length.
    if (Math.abs(candidate.length - word.length) >= least) continue
    if (candidate.toLowerCase() === word.toLowerCase()) return candidate
    const edits = editsBetween(word, candidate)
    if (edits < least) {
      least = edits
      best = candidate
    }
  }
  return best
}

/** The number of insertions, deletions and replacements. Two that only reorder the letters count as one: a swap. */
function editsBetween(word: string, candidate: string): number {
  const edits = distance(word, candidate)
  return edits === 2 && inOrder(word) === inOrder(candidate) ? 1 : edits
}

const inOrder = (word: string) => [...word].sort().join()
