/**
 * Virtual time. Every event is an entry in one queue, ordered by its time and then by the order of its creation. Between two entries
 * all promises and ticks run to completion, so that the order depends on the seed alone. While a world runs, the product uses the timers,
 * the clocks and the randomness of this world.
 */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { createRandom, type Random } from './random.ts'

/** A broken invariant, or an unexpected error. */
export class Violation extends Error {
  override readonly name = 'Violation'
}

export interface Entry {
  at: number
  readonly order: number
  readonly run: () => unknown
  cancelled: boolean
}

/** 2027-01-15, in milliseconds since the epoch. */
const EPOCH_MS = 1_800_000_000_000

/** The longest virtual time of a run. A longer run never ends. */
const MAX_RUN_MS = 600_000

const realImmediate = setImmediate

export class World {
  readonly seed: number
  readonly random: Random
  /** A second generator, so that the number of ids affects nothing else. */
  readonly idRandom: Random
  readonly lines: string[] = []
  /** Monotonic milliseconds since the start. */
  now = 0
  /** The error of the wall clock. */
  skewMs = 0
  readonly clock = { now: () => EPOCH_MS + Math.floor(this.now) + this.skewMs }
  /** The counts of events. */
  readonly tally = new Map<string, number>()
  #queue: Entry[] = []
  #order = 0
  #timers = new Set<VirtualTimer>()
  #violation: Error | null = null

  constructor(seed: number) {
    this.seed = seed
    this.random = createRandom(seed)
    this.idRandom = createRandom(seed ^ 0x9e3779b9)
  }

  note(text: string): void {
    this.lines.push(`${this.now.toFixed(1)} ${text}`)
  }

  count(what: string, times = 1): void {
    this.tally.set(what, (this.tally.get(what) ?? 0) + times)
  }

  /** Records the first violation, which ends the run. */
  fail(message: string, cause?: unknown): void {
    if (this.#violation) return
    this.note(`VIOLATION ${message}`)
    this.#violation = new Violation(message, { cause })
  }

  /** @param delayMs from now on */
  after(delayMs: number, run: () => unknown): Entry {
    const entry: Entry = { at: this.now + Math.max(0, delayMs), order: this.#order++, run, cancelled: false }
    this.#push(entry)
    return entry
  }

  /** Runs until no entry is left. */
  async run(): Promise<void> {
    current = this
    try {
      for (;;) {
        const entry = this.#pop()
        if (!entry) break
        if (entry.cancelled) continue
        this.now = entry.at
        if (this.now > MAX_RUN_MS) this.fail('it does not end')
        if (this.#violation) break
        await entry.run()
        await rest()
      }
    } finally {
      current = null
    }
    this.throwViolation()
  }

  throwViolation(): void {
    if (this.#violation) throw this.#violation
  }

  /** Stops the timers of a process that has ended. */
  dropTimers(): void {
    for (const timer of this.#timers) timer.stop()
  }

  /** The number of running timers of the product. */
  get timers(): number {
    return this.#timers.size
  }

  startTimer(run: () => void, ms: number, repeats: boolean): VirtualTimer {
    const timer = new VirtualTimer(this, run, Math.max(1, ms || 0), repeats, this.#timers)
    timer.start()
    return timer
  }

  // A binary heap: seeds have about ten thousand entries.
  #push(entry: Entry): void {
    const queue = this.#queue
    let place = queue.push(entry) - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (!isBefore(entry, queue[parent]!)) break
      queue[place] = queue[parent]!
      place = parent
    }
    queue[place] = entry
  }

  #pop(): Entry | undefined {
    const queue = this.#queue
    const first = queue[0]
    const last = queue.pop()
    if (!last || queue.length === 0) return first
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      if (child >= queue.length) break
      if (child + 1 < queue.length && isBefore(queue[child + 1]!, queue[child]!)) child++
      if (!isBefore(queue[child]!, last)) break
      queue[place] = queue[child]!
      place = child
    }
    queue[place] = last
    return first
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** Resolves when all promises and ticks have run. */
function rest(): Promise<void> {
  return new Promise(resolve => realImmediate(resolve))
}

/** Returned by `setTimeout` and `setInterval`. */
class VirtualTimer {
  readonly #world: World
  readonly #run: () => void
  readonly #ms: number
  readonly #repeats: boolean
  readonly #all: Set<VirtualTimer>
  #entry: Entry | null = null

  constructor(world: World, run: () => void, ms: number, repeats: boolean, all: Set<VirtualTimer>) {
    this.#world = world
    this.#run = run
    this.#ms = ms
    this.#repeats = repeats
    this.#all = all
  }

  start(): void {
    this.#all.add(this)
    this.#entry = this.#world.after(this.#ms, () => {
      if (this.#repeats) this.start()
      else this.#all.delete(this)
      this.#run()
    })
  }

  stop(): void {
    this.#all.delete(this)
    if (this.#entry) this.#entry.cancelled = true
  }

  /** Like Node's: restarts the timer, even after it has run. */
  refresh(): this {
    this.stop()
    this.start()
    return this
  }

  unref(): this {
    return this
  }

  ref(): this {
    return this
  }
}

let current: World | null = null

/** Gives the product the running world's time and randomness, for the rest of this process. Call it before the product is loaded. */
export function installWorld(): void {
  const real = { setTimeout, setInterval, clearTimeout, clearInterval }
  const starter =
    (repeats: boolean) =>
    (run: (...values: unknown[]) => void, ms = 0, ...values: unknown[]): unknown => {
      if (current) return current.startTimer(() => run(...values), ms, repeats)
      return repeats ? real.setInterval(run, ms, ...values) : real.setTimeout(run, ms, ...values)
    }
  const stopper = (timer: unknown): void => {
    if (timer instanceof VirtualTimer) timer.stop()
    else real.clearTimeout(timer as NodeJS.Timeout)
  }
  Object.assign(globalThis, {
    setTimeout: starter(false),
    setInterval: starter(true),
    clearTimeout: stopper,
    clearInterval: stopper,
  })
  const now = performance.now.bind(performance)
  performance.now = () => current?.now ?? now()
  // Before the first seed, randomness has a fixed seed too, so that every process starts the same.
  const before = createRandom(0)
  Object.assign(crypto, {
    randomBytes: (size: number) => Buffer.from((current?.idRandom ?? before).bytes(size)),
  })
  syncBuiltinESMExports()
  for (const event of ['unhandledRejection', 'uncaughtException']) {
    process.on(event, (error: unknown) => {
      if (!current) throw error
      current.fail(`${event}: ${error instanceof Error ? error.stack : error}`, error)
    })
  }
}
