/**
 * State services for serving threads. They are in memory that all threads share, so that a policy behaves the same with one thread or
 * many. The main thread has the queue for slots, and the connection to a state server, if there is one.
 */
import type { BucketShape, Clock, Grant, KeyValue, Queue, Slot, Slots } from '#contract'
import { checkGive } from '../state/buckets.ts'
import { checkTtl } from '../state/key-value.ts'
import { type BucketMemory, createBucketMemory, SharedBuckets } from '../state/shared-buckets.ts'
import { releaseLocks } from '../state/shared-locks.ts'
import { createSlotMemory, SharedSlots, type SlotMemory } from '../state/shared-slots.ts'
import { createTextMemory, forgetTexts, SharedTexts, type TextMemory } from '../state/shared-texts.ts'
import { LocalSlots } from '../state/slots.ts'
import { KV_BYTES, type State } from '../state/state.ts'
import { createVersions, createVersionWords, type VersionWords } from '../state/versions.ts'
import type { Calls } from './thread-calls.ts'

/** A slot that the main thread holds for a serving thread. */
interface HeldSlot {
  readonly id: number
  readonly inside: number
}

/** The main thread's state service for one serving thread. */
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
  /** The waiter with this id gave up. */
  leave(id: number): void
  free(id: number): void
  /** The thread has released a slot while another request waited for it. */
  freed(name: string): void
  get(ask: TextName): Promise<string | undefined>
  set(text: TextName & { readonly value: string; readonly ttlMs: number }): void
  delete(ask: TextName): void
  version(name: string): Promise<number>
  changeVersion(name: string): Promise<void>
  /** The shared memory of a part of a cache. */
  openCache(part: Part): Promise<TextMemory>
}

/** A part of a cache. */
interface Part {
  readonly configuration: string
  readonly scope: string
  readonly maxBytes: number
}

/** A text of a part of a cache; null: of `kv`. */
interface TextName {
  readonly part: Part | null
  readonly name: string
}

/** Memory that the threads share, as a serving thread uses it. */
export interface SharedMemory {
  readonly buckets: BucketMemory
  readonly slots: SlotMemory
  readonly kv: TextMemory
  readonly versions: VersionWords
}

/** Memory that the threads share without a state server, as the main thread manages it. */
export interface ThreadMemory {
  readonly shared: SharedMemory
  /** The slots of requests that had to wait. */
  readonly slots: LocalSlots
  openCache(part: Part): TextMemory
  /** Drops old caches of configurations that no longer serve. Call it after a reload. */
  dropOldCaches(): void
  /** Releases what a dead thread held. */
  forget(thread: number): void
}

/** A cache of an earlier configuration is kept this long after its last use, in case the configuration returns. */
const OLD_CACHE_MS = 60_000

export interface ThreadMemoryOptions {
  readonly clock: Clock
  /** The number of serving threads; they are numbered from 1. */
  readonly threads: number
  readonly secret: string
  /** The id of the serving configuration, by which threads open a cache. */
  serving(): string
}

export function createThreadMemory({ clock, threads, secret, serving }: ThreadMemoryOptions): ThreadMemory {
  interface CacheParts {
    readonly byScope: Map<string, TextMemory>
    usedAt: number
  }
  const caches = new Map<string, CacheParts>()
  const shared = {
    buckets: createBucketMemory(),
    slots: createSlotMemory(threads),
    kv: createTextMemory(KV_BYTES),
    versions: createVersionWords(),
  }
  const slots = new SharedSlots({ memory: shared.slots, index: 0, secret })
  return {
    shared,
    slots: new LocalSlots(slots),
    dropOldCaches() {
      const [kept, now] = [serving(), clock.now()]
      for (const [name, { usedAt }] of caches) if (name !== kept && now - usedAt > OLD_CACHE_MS) caches.delete(name)
    },
    forget(thread) {
      releaseLocks(shared.buckets.locks, thread)
      slots.forget(thread)
      forgetTexts(shared.kv, thread)
      for (const { byScope } of caches.values()) for (const part of byScope.values()) forgetTexts(part, thread)
    },
    openCache({ configuration, scope, maxBytes }) {
      const now = clock.now()
      const parts = caches.get(configuration) ?? { byScope: new Map(), usedAt: now }
      parts.usedAt = now
      caches.set(configuration, parts)
      const part = parts.byScope.get(scope) ?? createTextMemory(maxBytes)
      parts.byScope.set(scope, part)
      return part
    },
  }
}

/**
 * Serves the state of one thread from the main thread. `end` releases what the thread held.
 *
 * @param memory null: a state server has the shared state
 */
export function serveState(
  state: State,
  memory: ThreadMemory | null,
): { readonly handlers: StateHandlers; end(): void } {
  const held = new Map<number, Slot>()
  const waiting = new Map<number, AbortController>()
  let last = 0
  let isOver = false
  const slots = memory?.slots ?? state.slots
  const textsOf = (part: Part | null) =>
    part === null ? state.kv : state.cacheOf(part.configuration).open(part.scope, part.maxBytes)
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
      enter: async ({ name, limit }) => hold(await slots.enter(name, limit)),
      async wait({ id, name, limit, queue }) {
        if (isOver) return null
        const aborter = new AbortController()
        waiting.set(id, aborter)
        const slot = await slots.wait(name, limit, queue, aborter.signal)
        waiting.delete(id)
        return slot === 'left' ? slot : hold(slot)
      },
      leave: id => waiting.get(id)?.abort(),
      free(id) {
        held.get(id)?.free()
        held.delete(id)
      },
      freed: name => memory?.slots.retry(name),
      get: async ({ part, name }) => textsOf(part).get(name),
      set: ({ part, name, value, ttlMs }) => textsOf(part).set(name, value, ttlMs),
      delete: ({ part, name }) => textsOf(part).delete(name),
      version: async name => state.versions.get(name),
      changeVersion: async name => state.versions.change(name),
      openCache: async part => memory!.openCache(part),
    },
    end() {
      isOver = true
      for (const aborter of waiting.values()) aborter.abort()
      for (const slot of held.values()) slot.free()
      held.clear()
    },
  }
}

export interface ThreadStateOptions {
  /** Null: a state server has the shared state. */
  readonly memory: SharedMemory | null
  readonly clock: Clock
  /** The thread's number, from 1. */
  readonly index: number
  readonly secret: string
}

/** Creates the state services of a serving thread. */
export function createThreadState(calls: Calls<StateHandlers>, options: ThreadStateOptions): State {
  const { memory, clock, index, secret } = options
  return {
    ...(memory === null ? servedState(calls) : sharedState(calls, { memory, clock, index, secret })),
    // Requests wait in the main thread.
    queued: () => 0,
    health: () => ({ isUp: true, lost: 0 }),
    close: async () => {},
  }
}

type Services = Pick<State, 'buckets' | 'slots' | 'kv' | 'versions' | 'cacheOf'>

function sharedState(
  calls: Calls<StateHandlers>,
  { memory, ...common }: ThreadStateOptions & { readonly memory: SharedMemory },
): Services {
  return {
    buckets: new SharedBuckets({ memory: memory.buckets, ...common }),
    slots: new ThreadSlots(calls, new SharedSlots({ memory: memory.slots, ...common })),
    kv: new SharedTexts({ memory: memory.kv, ...common }),
    versions: createVersions(memory.versions),
    cacheOf: configuration => ({
      open(scope, maxBytes) {
        let part: SharedTexts | null = null
        const opening = calls.call('openCache', { configuration, scope, maxBytes }).then(texts => {
          part = new SharedTexts({ memory: texts, ...common })
          return part
        })
        const later = (use: (texts: SharedTexts) => void) => void opening.then(use, () => {})
        // A thread that ends meanwhile needs no cache.
        later(() => {})
        return {
          get: name => (part === null ? opening.then(texts => texts.get(name)) : part.get(name)),
          set(name, value, ttlMs) {
            checkTtl(ttlMs)
            if (part === null) later(texts => texts.set(name, value, ttlMs))
            else part.set(name, value, ttlMs)
          },
          delete: name => (part === null ? later(texts => texts.delete(name)) : part.delete(name)),
        }
      },
    }),
  }
}

/** Uses the state server through the main thread. */
function servedState(calls: Calls<StateHandlers>): Services {
  return {
    buckets: {
      take: (name, shape, amount) => calls.call('take', { name, shape, amount }),
      give(name, shape, amount) {
        checkGive(amount)
        calls.notify('give', { name, shape, amount })
      },
    },
    slots: new ThreadSlots(calls, null),
    kv: servedTexts(calls, null),
    versions: {
      get: name => calls.call('version', name),
      change: name => calls.call('changeVersion', name),
    },
    cacheOf: configuration => ({
      open: (scope, maxBytes) => servedTexts(calls, { configuration, scope, maxBytes }),
    }),
  }
}

function servedTexts(calls: Calls<StateHandlers>, part: Part | null): KeyValue {
  return {
    get: name => calls.call('get', { part, name }),
    set(name, value, ttlMs) {
      checkTtl(ttlMs)
      calls.notify('set', { part, name, value, ttlMs })
    },
    delete: name => calls.notify('delete', { part, name }),
  }
}

class ThreadSlots implements Slots {
  readonly #calls: Calls<StateHandlers>
  /** Null: a state server counts. */
  readonly #shared: SharedSlots | null
  #last = 0

  constructor(calls: Calls<StateHandlers>, shared: SharedSlots | null) {
    this.#calls = calls
    this.#shared = shared
  }

  enter(name: string, limit: number): Slot | null | Promise<Slot | null> {
    const shared = this.#shared
    if (shared === null) return this.#calls.call('enter', { name, limit }).then(held => this.#held(held))
    const inside = shared.enter(name, limit)
    return inside === 0 ? null : new OwnSlot({ calls: this.#calls, shared, name, inside })
  }

  async wait(name: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'> {
    if (signal.aborted) return 'left'
    const id = ++this.#last
    const leave = () => this.#calls.notify('leave', id)
    signal.addEventListener('abort', leave, { once: true })
    const held = await this.#calls.call('wait', { id, name, limit, queue })
    signal.removeEventListener('abort', leave)
    return held === 'left' ? held : this.#held(held)
  }

  #held(held: HeldSlot | null): Slot | null {
    return held && new MainThreadSlot(this.#calls, held)
  }
}

/** A slot that the thread has taken in shared memory. */
class OwnSlot implements Slot {
  readonly inside: number
  readonly #name: string
  readonly #calls: Calls<StateHandlers>
  #shared: SharedSlots | null

  constructor(parts: { calls: Calls<StateHandlers>; shared: SharedSlots; name: string; inside: number }) {
    this.inside = parts.inside
    this.#name = parts.name
    this.#calls = parts.calls
    this.#shared = parts.shared
  }

  free(): void {
    const shared = this.#shared
    this.#shared = null
    if (shared?.leave(this.#name)) this.#calls.notify('freed', this.#name)
  }
}

/** A slot that the main thread holds. */
class MainThreadSlot implements Slot {
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
    this.#calls.notify('free', this.#id)
  }
}
