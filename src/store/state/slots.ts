/**
 * Slots in memory: who is inside, and who waits for a turn. Only names that are inside or wait have an entry, so there are
 * never more entries than exchanges under way.
 */
import type { Queue, Slot, Slots } from '#contract'

interface Entry {
  inside: number
  /** In the order in which they came. Each has the limit of the configuration under which it came. */
  readonly waiting: Set<Waiter>
}

interface Waiter {
  readonly limit: number
  enter(slot: Slot): void
}

/** The slots of one process. */
export class LocalSlots implements Slots {
  readonly #entries = new Map<string, Entry>()

  enter(name: string, limit: number): Slot | null {
    const entry = this.#entries.get(name)
    if (entry === undefined) return this.#take(name, this.#entryOf(name))
    return entry.inside >= limit || entry.waiting.size > 0 ? null : this.#take(name, entry)
  }

  wait(name: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'> {
    const entry = this.#entryOf(name)
    if (signal.aborted || entry.waiting.size >= queue.length) {
      this.#forget(name, entry)
      return Promise.resolve(signal.aborted ? 'left' : null)
    }
    return new Promise(resolve => {
      const end = (result: Slot | null | 'left') => {
        entry.waiting.delete(waiter)
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
        if (result === null || result === 'left') this.#letIn(name, entry)
        resolve(result)
      }
      const leave = () => end('left')
      const waiter: Waiter = { limit, enter: end }
      const timer = setTimeout(end, queue.wait, null)
      signal.addEventListener('abort', leave, { once: true })
      entry.waiting.add(waiter)
    })
  }

  /** How many are inside: for tests. */
  inside(name: string): number {
    return this.#entries.get(name)?.inside ?? 0
  }

  /** How many names have an entry: for tests. */
  get size(): number {
    return this.#entries.size
  }

  /** @internal called by a slot */
  give(name: string, entry: Entry): void {
    entry.inside--
    this.#letIn(name, entry)
  }

  #entryOf(name: string): Entry {
    let entry = this.#entries.get(name)
    if (entry === undefined) this.#entries.set(name, (entry = { inside: 0, waiting: new Set() }))
    return entry
  }

  #take(name: string, entry: Entry): Slot {
    return new LocalSlot(this, name, entry, ++entry.inside)
  }

  /** The first one whose turn it is; the others stay behind it, whatever limit they came with. */
  #letIn(name: string, entry: Entry): void {
    for (const first of entry.waiting) {
      if (entry.inside >= first.limit) return
      first.enter(this.#take(name, entry))
    }
    this.#forget(name, entry)
  }

  #forget(name: string, { inside, waiting }: Entry): void {
    if (inside === 0 && waiting.size === 0) this.#entries.delete(name)
  }
}

/** A class: a literal with a closure would be one object more for each request. */
class LocalSlot implements Slot {
  readonly #slots: LocalSlots
  readonly #name: string
  #entry: Entry | null
  readonly inside: number

  constructor(slots: LocalSlots, name: string, entry: Entry, inside: number) {
    this.#slots = slots
    this.#name = name
    this.#entry = entry
    this.inside = inside
  }

  free(): void {
    const entry = this.#entry
    if (entry === null) return
    this.#entry = null
    this.#slots.give(this.#name, entry)
  }
}
