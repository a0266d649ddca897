/**
 * Slots in memory: counts exchanges inside, and queues those that wait for a turn. Only names with exchanges inside or waiting have an
 * entry, so there are never more entries than exchanges in progress.
 */
import type { Queue, Slot, Slots } from '#contract'

interface Entry {
  inside: number
  /** Whether a slot was requested for the first waiter, and the timer of the next request. */
  isRequesting: boolean
  timer: NodeJS.Timeout | null
  /** In order of arrival. Each has the limit of the configuration at its arrival. */
  readonly waiting: Set<Waiter>
}

interface Waiter {
  readonly limit: number
  enter(slot: Slot): void
}

/** Counts the slots of all replicas, or of all threads. */
export interface SlotCounter {
  /** The number of taken slots with this one; 0: none is free. Null, now or later: unknown. */
  enter(name: string, limit: number): number | null | Promise<number | null>
  leave(name: string): void
  /** No one waits in this process any more. */
  over?(name: string): void
  /** The limit of this process while the counter is unavailable. */
  share(limit: number): number
}

/** How often the first waiter checks for a slot that another replica or a dead thread has given back. */
const RETRY_EVERY_MS = 50

/** The slots of one process; with a counter, its part of the slots of all replicas. */
export class LocalSlots implements Slots {
  readonly #entries = new Map<string, Entry>()
  readonly #counter: SlotCounter | null

  constructor(counter: SlotCounter | null = null) {
    this.#counter = counter
  }

  enter(name: string, limit: number): Slot | null | Promise<Slot | null> {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.waiting.size > 0 ? null : this.#take(name, limit)
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
        if (entry.waiting.size === 0) this.#counter?.over?.(name)
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
      // A slot may have been given back since `enter` refused one.
      if (entry.waiting.size === 1) this.#letIn(name, entry)
      else if (this.#counter !== null) this.#retryLater(name, entry)
    })
  }

  /** Call it when another thread has given a slot back. */
  retry(name: string): void {
    const entry = this.#entries.get(name)
    if (entry !== undefined) this.#letIn(name, entry)
  }

  /** The number of taken slots; for tests. */
  inside(name: string): number {
    return this.#entries.get(name)?.inside ?? 0
  }

  /** The number of names with an entry; for tests. */
  get size(): number {
    return this.#entries.size
  }

  /** The number of waiters, over all names. */
  get waiting(): number {
    let waiting = 0
    for (const entry of this.#entries.values()) waiting += entry.waiting.size
    return waiting
  }

  /** The numbers of taken slots by name. */
  *counts(): Iterable<readonly [name: string, count: number]> {
    for (const [name, { inside }] of this.#entries) yield [name, inside]
  }

  /** @internal called by a slot */
  give(name: string, entry: Entry): void {
    entry.inside--
    this.#counter?.leave(name)
    this.#letIn(name, entry)
  }

  #entryOf(name: string): Entry {
    let entry = this.#entries.get(name)
    if (entry === undefined) this.#entries.set(name, (entry = newEntry()))
    return entry
  }

  #take(name: string, limit: number): Slot | null | Promise<Slot | null> {
    const counter = this.#counter
    if (counter === null) return this.#takeHere(name, limit)
    const counted = counter.enter(name, limit)
    if (counted === null) return this.#takeHere(name, counter.share(limit))
    if (typeof counted === 'number') return this.#counted(name, counted)
    return counted.then(inside =>
      inside === null ? this.#takeHere(name, counter.share(limit)) : this.#counted(name, inside),
    )
  }

  #counted(name: string, inside: number): Slot | null {
    return inside === 0 ? null : this.#taken(name, this.#entryOf(name), inside)
  }

  #takeHere(name: string, limit: number): Slot | null {
    const entry = this.#entryOf(name)
    return entry.inside >= limit ? null : this.#taken(name, entry, entry.inside + 1)
  }

  #taken(name: string, entry: Entry, inside: number): Slot {
    entry.inside++
    return new LocalSlot(this, name, entry, inside)
  }

  /** Lets in the first waiter. The others stay behind it, whatever limit they came with. */
  #letIn(name: string, entry: Entry): void {
    if (entry.isRequesting) return
    for (const first of entry.waiting) {
      const slot = this.#take(name, first.limit)
      if (slot === null) {
        if (this.#counter !== null) this.#retryLater(name, entry)
        return
      }
      if (slot instanceof Promise) {
        entry.isRequesting = true
        void slot.then(got => this.#slotCounted(name, entry, first, got))
        return
      }
      first.enter(slot)
    }
    this.#forget(name, entry)
  }

  /** Handles a slot that was counted asynchronously. Its waiter may have left since. */
  #slotCounted(name: string, entry: Entry, first: Waiter, slot: Slot | null): void {
    entry.isRequesting = false
    if (slot === null) {
      if (entry.waiting.size > 0) this.#retryLater(name, entry)
      else this.#forget(name, entry)
    } else if (entry.waiting.has(first)) {
      first.enter(slot)
      this.#letIn(name, entry)
    } else slot.free()
  }

  #retryLater(name: string, entry: Entry): void {
    entry.timer ??= setTimeout(() => {
      entry.timer = null
      this.#letIn(name, entry)
    }, RETRY_EVERY_MS)
  }

  #forget(name: string, entry: Entry): void {
    if (entry.inside > 0 || entry.waiting.size > 0 || entry.isRequesting) return
    if (entry.timer !== null) clearTimeout(entry.timer)
    this.#entries.delete(name)
  }
}

function newEntry(): Entry {
  return { inside: 0, isRequesting: false, timer: null, waiting: new Set() }
}

/** A class, because a literal with a closure would be one more object for each request. */
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
