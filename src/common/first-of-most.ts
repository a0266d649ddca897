/** The first item of the owner that has the most; of several such owners, of the one whose item comes first. */
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
