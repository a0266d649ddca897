/**
 * The services that keep state, for serving threads: the main thread keeps it for all of them, so that a policy means the same
 * with one thread or with many. What can be made again (the cache) each thread keeps for itself, unless replicas share it.
 */
import type { BucketShape, Cache, Clock, Grant, KeyValue, Queue, Slot, Slots } from '#contract'
import { createKeyValue } from '../store/state/key-value.ts'
import type { State } from '../store/state/state.ts'
import type { Calls } from './thread-calls.ts'

/** A slot that the main thread holds for another one. */
interface HeldSlot {
  readonly id: number
  readonly inside: number
}

/** What the main thread does for the state of one serving thread. */
export type StateHandlers = {
  take(ask: { readonly name: string; readonly shape: BucketShape; readonly amount: number }): Promise<Grant>
  give(back: { readonly name: string; readonly shape: BucketShape; readonly amount: number }): void
  enter(ask: { readonly name: string; readonly limit: number }): Promise<HeldSlot | null>
  wait(ask: {
    readonly id: number
    readonly name: string
    readonly limit: number
    readonly queue: Queue
  }): Promise<HeldSlot | null | 'left'>
  /** Who waits under this id has gone. */
  leave(id: number): void
  free(id: number): void
  get(name: string): Promise<string | undefined>
  set(text: { readonly name: string; readonly value: string; readonly ttlMs: number }): void
  delete(name: string): void
  getCached(ask: Cached): Promise<string | undefined>
  setCached(text: Cached & { readonly value: string; readonly ttlMs: number }): void
  deleteCached(ask: Cached): void
}

/** A text of a cache that replicas share. */
interface Cached {
  readonly configuration: string
  readonly scope: string
  readonly name: string
}

/** The main thread's side for one serving thread. `end` gives back what the thread has held. */
export function serveState(state: State): { readonly handlers: StateHandlers; end(): void } {
  const held = new Map<number, Slot>()
  const waiting = new Map<number, AbortController>()
  let last = 0
  let isOver = false
  // It has no memory of its own: a thread asks here only where replicas share it.
  const cacheOf = ({ configuration, scope }: Cached) => state.cacheOf(configuration).open(scope, 0)
  const hold = (slot: Slot | null): HeldSlot | null => {
    if (slot === null) return null
    if (isOver) {
      slot.free()
      return null
    }
    held.set(++last, slot)
    return { id: last, inside: slot.inside }
  }
  return {
    handlers: {
      take: async ({ name, shape, amount }) => state.buckets.take(name, shape, amount),
      give: ({ name, shape, amount }) => void state.buckets.give(name, shape, amount),
      enter: async ({ name, limit }) => hold(await state.slots.enter(name, limit)),
      async wait({ id, name, limit, queue }) {
        if (isOver) return null
        const gone = new AbortController()
        waiting.set(id, gone)
        const slot = await state.slots.wait(name, limit, queue, gone.signal)
        waiting.delete(id)
        return slot === 'left' ? slot : hold(slot)
      },
      leave: id => waiting.get(id)?.abort(),
      free(id) {
        held.get(id)?.free()
        held.delete(id)
      },
      get: async name => state.kv.get(name),
      set: ({ name, value, ttlMs }) => state.kv.set(name, value, ttlMs),
      delete: name => state.kv.delete(name),
      getCached: async ask => cacheOf(ask).get(ask.name),
      setCached: text => cacheOf(text).set(text.name, text.value, text.ttlMs),
      deleteCached: ask => cacheOf(ask).delete(ask.name),
    },
    end() {
      isOver = true
      for (const gone of waiting.values()) gone.abort()
      for (const slot of held.values()) slot.free()
      held.clear()
    },
  }
}

/**
 * The serving thread's side.
 *
 * @param threads how many share the memory that a step may have for its cache
 * @param isShared whether replicas share the cache
 */
export function createThreadState(
  calls: Calls<StateHandlers>,
  clock: Clock,
  threads: number,
  isShared: boolean,
): State {
  const cache: Cache = { open: (_scope, maxBytes) => createKeyValue(clock, Math.ceil(maxBytes / threads)) }
  const kv: KeyValue = {
    get: name => calls.call('get', name),
    set: (name, value, ttlMs) => calls.tell('set', { name, value, ttlMs }),
    delete: name => calls.tell('delete', name),
  }
  return {
    buckets: {
      take: (name, shape, amount) => calls.call('take', { name, shape, amount }),
      give: (name, shape, amount) => calls.tell('give', { name, shape, amount }),
    },
    slots: new ThreadSlots(calls),
    kv,
    cacheOf: configuration => (isShared ? sharedCache(calls, configuration) : cache),
    health: () => ({ isUp: true, lost: 0 }),
    close: async () => {},
  }
}

function sharedCache(calls: Calls<StateHandlers>, configuration: string): Cache {
  return {
    open: scope => ({
      get: name => calls.call('getCached', { configuration, scope, name }),
      set: (name, value, ttlMs) => calls.tell('setCached', { configuration, scope, name, value, ttlMs }),
      delete: name => calls.tell('deleteCached', { configuration, scope, name }),
    }),
  }
}

class ThreadSlots implements Slots {
  readonly #calls: Calls<StateHandlers>
  #last = 0

  constructor(calls: Calls<StateHandlers>) {
    this.#calls = calls
  }

  async enter(name: string, limit: number): Promise<Slot | null> {
    const held = await this.#calls.call('enter', { name, limit })
    return held && new ThreadSlot(this.#calls, held)
  }

  async wait(name: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'> {
    if (signal.aborted) return 'left'
    const id = ++this.#last
    const leave = () => this.#calls.tell('leave', id)
    signal.addEventListener('abort', leave, { once: true })
    const held = await this.#calls.call('wait', { id, name, limit, queue })
    signal.removeEventListener('abort', leave)
    return held === null || held === 'left' ? held : new ThreadSlot(this.#calls, held)
  }
}

class ThreadSlot implements Slot {
  readonly #calls: Calls<StateHandlers>
  readonly #id: number
  readonly inside: number
  #isFree = false

  constructor(calls: Calls<StateHandlers>, { id, inside }: HeldSlot) {
    this.#calls = calls
    this.#id = id
    this.inside = inside
  }

  free(): void {
    if (this.#isFree) return
    this.#isFree = true
    this.#calls.tell('free', this.#id)
  }
}
