/** The word that a mistyped one was probably meant to be, for messages to those who write configurations. */
import { distance } from 'fastest-levenshtein'

/** `did you mean "x"?` for the known word that is nearest to a mistyped one, or undefined when none is near. */
export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  const near = nearest(word, known)
  return near === undefined ? undefined : `did you mean "${near}"?`
}

/** ` Did you mean 'x'?`, behind a sentence to a client; empty where no known word is near. */
export function hintOf(value: unknown, known: Iterable<string>): string {
  const near = typeof value === 'string' ? nearest(value, known) : undefined
  return near === undefined ? '' : ` Did you mean '${near}'?`
}

/** The known word within two edits (one for words of up to four letters, three for those above twelve), or of the same letters but for case. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = word.length <= 4 ? 2 : word.length <= 12 ? 3 : 4
  for (const candidate of known) {
    if (candidate === word) continue
    // Words whose lengths differ by more are farther apart, and a client may send one of any length.
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

/** Insertions, deletions and replacements. Two that only put the same letters in another order count as one: a swap. */
function editsBetween(word: string, candidate: string): number {
  const edits = distance(word, candidate)
  return edits === 2 && inOrder(word) === inOrder(candidate) ? 1 : edits
}

const inOrder = (word: string) => [...word].sort().join()
