/** Returns the first item of the owner with the most items. If several owners have the most, the one with the first item wins. */
export function firstOfMost<Item>(items: Iterable<Item>, ownerOf: (item: Item) => string): Item | undefined {
  const counts = new Map<string, number>()
  let most = 0
  for (const item of items) {
    const count = (counts.get(ownerOf(item)) ?? 0) + 1
    counts.set(ownerOf(item), count)
    most = Math.max(most, count)
  }
  for (const item of items) if (counts.get(ownerOf(item)) === most) return item
  return undefined
}
