/** The word that was probably meant by a mistyped one: for sentences to people who write configurations. */

/** `did you mean "x"?` for the known word that is nearest to a mistyped one, or undefined when none is near. */
export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  const near = nearest(word, known)
  return near === undefined ? undefined : `did you mean "${near}"?`
}

/** The known word within two edits (one for words of up to four letters), or of the same letters but for case. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = word.length <= 4 ? 1 : 2
  for (const candidate of known) {
    if (candidate === word) continue
    if (candidate.toLowerCase() === word.toLowerCase()) return candidate
    if (Math.abs(candidate.length - word.length) > least) continue
    const edits = editDistance(word, candidate)
    if (edits < least || (edits === least && best === undefined)) {
      least = edits
      best = candidate
    }
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
function editDistance(from: string, to: string): number {
  let before: number[] = []
  let last: number[] = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1] ? 0 : 1
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same)
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      if (swapped) cost = Math.min(cost, before[j - 2]! + 1)
      row.push(cost)
    }
    before = last
    last = row
  }
  return last[to.length]!
}
