/**
 * The slots of one step: who is inside, and who waits for a turn. Only those who are inside or wait have an entry, so
 * there are never more entries than exchanges under way.
 */

/** How those beyond the limit may wait. */
export interface Queue {
  readonly length: number
  /** In milliseconds. */
  readonly wait: number
}

/** A place inside. */
export interface Slot {
  /** Gives it back; the second time nothing happens. */
  free(): void
}

export interface Slots {
  /** A slot at once, or null when there is none, or others wait for one. */
  enter(who: string, limit: number): Slot | null
  /** A slot when it is this one's turn; null when the queue is full or the time is over; `left` when the signal says so. */
  wait(who: string, limit: number, queue: Queue, signal: AbortSignal): Promise<Slot | null | 'left'>
  inside(who: string): number
  /** How many have an entry: for tests. */
  readonly size: number
}

interface Entry {
  inside: number
  /** In the order in which they came. Each has the limit of the configuration under which it came. */
  readonly waiting: Set<Waiter>
}

interface Waiter {
  readonly limit: number
  enter(): void
}

/**
 * A step finds its slots again after a reload: the exchanges of the generation before are still inside. The clock is what
 * a gateway keeps from generation to generation, and no two gateways share it with a step of the same name.
 */
export function slotsOf(gateway: object, step: string): Slots {
  let steps = known.get(gateway)
  if (!steps) known.set(gateway, (steps = new Map()))
  let slots = steps.get(step)
  if (!slots) steps.set(step, (slots = createSlots()))
  return slots
}

const known = new WeakMap<object, Map<string, Slots>>()

export function createSlots(): Slots {
  const entries = new Map<string, Entry>()

  function entryOf(who: string): Entry {
    let entry = entries.get(who)
    if (!entry) entries.set(who, (entry = { inside: 0, waiting: new Set() }))
    return entry
  }

  function forget(who: string, { inside, waiting }: Entry): void {
    if (inside === 0 && waiting.size === 0) entries.delete(who)
  }

  function take(who: string, entry: Entry): Slot {
    entry.inside++
    let isFree = false
    return {
      free() {
        if (isFree) return
        isFree = true
        entry.inside--
        letIn(entry)
        forget(who, entry)
      },
    }
  }

  /** The first one whose turn it is; the others stay behind it, whatever limit they came with. */
  function letIn(entry: Entry): void {
    for (const first of entry.waiting) {
      if (entry.inside >= first.limit) return
      first.enter()
    }
  }

  return {
    enter(who, limit) {
      const entry = entries.get(who)
      if (entry && (entry.inside >= limit || entry.waiting.size > 0)) return null
      return take(who, entry ?? entryOf(who))
    },
    wait(who, limit, queue, signal) {
      const entry = entryOf(who)
      if (signal.aborted || entry.waiting.size >= queue.length) {
        forget(who, entry)
        return Promise.resolve(signal.aborted ? 'left' : null)
      }
      return new Promise(resolve => {
        const end = (result: Slot | null | 'left') => {
          entry.waiting.delete(waiter)
          clearTimeout(timer)
          signal.removeEventListener('abort', leave)
          forget(who, entry)
          resolve(result)
        }
        const leave = () => {
          end('left')
          letIn(entry)
        }
        const waiter: Waiter = { limit, enter: () => end(take(who, entry)) }
        const timer = setTimeout(() => {
          end(null)
          letIn(entry)
        }, queue.wait)
        signal.addEventListener('abort', leave, { once: true })
        entry.waiting.add(waiter)
      })
    },
    inside: who => entries.get(who)?.inside ?? 0,
    get size() {
      return entries.size
    },
  }
}
