/**
 * The time of a replay, which the lines determine. Lines are written when an exchange ends, so the log is in the order of ends. Here
 * they start in the order of their starts, and each ends after its own duration.
 */

/** A priority queue: the earliest first; for equal times the smaller id, then the one added first. */
export class Heap<Item> {
  readonly #items: (LinePlace & { readonly item: Item })[] = []
  #count = 0

  get size(): number {
    return this.#items.length
  }

  /** The time of the first item; Infinity if the queue is empty. */
  get first(): number {
    return this.#items[0]?.at ?? Number.POSITIVE_INFINITY
  }

  push(at: number, item: Item, id = ''): void {
    const items = this.#items
    const entry = { at, id, nth: this.#count++, item }
    let place = items.length
    items.push(entry)
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (!isBefore(entry, items[parent]!)) break
      items[place] = items[parent]!
      place = parent
    }
    items[place] = entry
  }

  pop(): Item | undefined {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (first === undefined || last === undefined || items.length === 0) return first?.item
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      if (child >= items.length) break
      if (child + 1 < items.length && isBefore(items[child + 1]!, items[child]!)) child++
      if (!isBefore(items[child]!, last)) break
      items[place] = items[child]!
      place = child
    }
    items[place] = last
    return first.item
  }
}

interface LinePlace {
  readonly at: number
  readonly id: string
  readonly nth: number
}

function isBefore(one: LinePlace, other: LinePlace): boolean {
  if (one.at !== other.at) return one.at < other.at
  return one.id === other.id ? one.nth < other.nth : one.id < other.id
}

/** Maximum size of the buffer, and the minimum time that items wait for earlier ones. */
export interface ReorderBounds {
  readonly items: number
  readonly bytes: number
  readonly ms: number
}

/** An item may last longer than all before it, but hardly this many times longer. */
const LONGER = 4

/** Sorts items written at their end by their start; within a millisecond by id. */
export class Reorder<Item extends { readonly at: number; readonly ms: number; readonly id: string }> {
  readonly #waiting = new Heap<{ readonly item: Item; readonly bytes: number }>()
  readonly #most: ReorderBounds
  #bytes = 0
  #latestEnd = Number.NEGATIVE_INFINITY
  #longest = 0

  constructor(most: ReorderBounds) {
    this.#most = most
  }

  push(item: Item, bytes: number): void {
    this.#waiting.push(item.at, { item, bytes }, item.id)
    this.#bytes += bytes
    this.#latestEnd = Math.max(this.#latestEnd, item.at + item.ms)
    this.#longest = Math.max(this.#longest, item.ms)
  }

  /** The next item that no other can precede; if the buffer is full, the next one available. */
  next(isLast: boolean): Item | undefined {
    const { items, bytes, ms } = this.#most
    const isFull = this.#waiting.size > items || this.#bytes > bytes
    const wait = Math.max(ms, LONGER * this.#longest)
    if (!isLast && !isFull && this.#waiting.first > this.#latestEnd - wait) return undefined
    const next = this.#waiting.pop()
    this.#bytes -= next?.bytes ?? 0
    return next?.item
  }
}

/** A clock with scheduled actions. */
export class Timeline {
  #now = 0
  readonly #due = new Heap<() => void>()
  readonly now = (): number => this.#now

  at(ms: number, action: () => void): void {
    this.#due.push(Math.max(ms, this.#now), action)
  }

  /** Runs all actions up to `until`, one by one. `settled` resolves when nothing changes any more. */
  async pass(until: number, settled: () => Promise<void>): Promise<void> {
    while (this.#due.size > 0 && this.#due.first <= until) {
      this.#now = Math.max(this.#now, this.#due.first)
      this.#due.pop()!()
      await settled()
    }
    if (until > this.#now && until !== Number.POSITIVE_INFINITY) this.#now = until
  }
}
