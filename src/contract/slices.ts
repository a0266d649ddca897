/** Long work in slices: one event loop serves every exchange, and none may hold it for long. */

/**
 * Work that can pause: a generator that yields where others may run, and what it waits for (`waited`). It ought to yield at least once a millisecond. Work that
 * ends before its first `yield` costs no clock, no timer and no promise.
 */
export type Sliced<Result> = Generator<undefined | Promise<void>, Result, undefined>

/** Milliseconds that all sliced work of a process may take in one turn of the event loop. */
const TURN_MS = 1

/** A slice that takes longer is followed by a rest. */
const LONG_SLICE_MS = 3

interface Task {
  readonly work: Sliced<unknown>
  readonly signal: AbortSignal | undefined
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Shares a part of each turn of the event loop among all work that was given to it, one slice after the other. */
export class SliceQueue {
  readonly #now: () => number
  readonly #defer: (turn: () => void, restMs: number) => void
  readonly #waiting: Task[] = []
  readonly #turn = () => this.#serve()
  /** What sliced work has taken of this turn already. */
  #spentMs = 0
  #isDeferred = false

  /**
   * @param now milliseconds; only differences count
   * @param defer calls back once: in the next turn of the event loop, or after `restMs` when that is not 0
   */
  constructor(now: () => number, defer: (turn: () => void, restMs: number) => void) {
    this.#now = now
    this.#defer = defer
  }

  /** How much work waits for its next slice. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Does the work. Returns its result at once when it is done within the rest of this turn's time, otherwise a promise. What the
   * work throws, `run` throws or the promise rejects with. The result is undefined when `signal` aborts before the end.
   *
   * @example
   * const found = await slices.run(search(text), exchange.signal)
   */
  run<Result>(work: Sliced<Result>, signal?: AbortSignal): Result | undefined | Promise<Result | undefined> {
    if (signal?.aborted) return undefined
    let step = work.next()
    if (step.done) return step.value
    if (step.value === undefined && this.#waiting.length === 0 && this.#spentMs < TURN_MS) {
      step = this.#slice(work)
      this.#deferTurn()
      if (step.done) return step.value
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result | undefined>()
    this.#wait({ work, signal, resolve: resolve as Task['resolve'], reject }, step.value)
    return promise
  }

  /** A turn: slices of those who wait, the longest waiting first, until its time is over. */
  #serve(): void {
    this.#isDeferred = false
    this.#spentMs = 0
    while (this.#waiting.length > 0 && this.#spentMs < TURN_MS) this.#go(this.#waiting.shift()!)
    if (this.#waiting.length > 0) this.#deferTurn()
  }

  #go(task: Task): void {
    const { work, signal, resolve, reject } = task
    try {
      if (signal?.aborted) {
        work.return(undefined)
        resolve(undefined)
        return
      }
      const step = this.#slice(work)
      if (step.done) resolve(step.value)
      else this.#wait(task, step.value)
    } catch (error) {
      reject(error)
    }
  }

  /** Until its next turn; before, until what it waits for is there. */
  #wait(task: Task, awaited: Promise<void> | undefined): void {
    if (awaited !== undefined) return void awaited.then(() => this.#wait(task, undefined))
    this.#waiting.push(task)
    this.#deferTurn()
  }

  /** Works until the end, until it has to wait, or until the turn's time is over. */
  #slice<Result>(work: Sliced<Result>): IteratorResult<undefined | Promise<void>, Result> {
    const began = this.#now() - this.#spentMs
    for (;;) {
      const step = work.next()
      this.#spentMs = this.#now() - began
      if (step.done || step.value !== undefined || this.#spentMs >= TURN_MS) return step
    }
  }

  /** A slice that could not be cut (JSON) has held the loop: others get as much time before the next one. */
  #deferTurn(): void {
    if (this.#isDeferred) return
    this.#isDeferred = true
    this.#defer(this.#turn, this.#spentMs > LONG_SLICE_MS ? Math.ceil(this.#spentMs) : 0)
  }
}

/** Does all of the work at once, for who cannot wait. Throws when the work has to. */
export function atOnce<Result>(work: Sliced<Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    if (step.value !== undefined) throw new Error('atOnce: the work waits for something')
  }
}

/** Work that waits for a value. */
export function* waited<Value>(promise: Promise<Value>): Sliced<Value> {
  let outcome: { readonly value: Value } | { readonly error: unknown } | undefined
  yield promise.then(
    value => {
      outcome = { value }
    },
    (error: unknown) => {
      outcome = { error }
    },
  )
  if ('error' in outcome!) throw outcome.error
  return outcome!.value
}

/** Work that cannot be cut, as work in slices: it has a slice of its own, with others in front of it and behind it. */
export function* uncut<Result>(work: () => Result): Sliced<Result> {
  yield
  const result = work()
  yield
  return result
}

/** The queue of this process: there is one event loop, so its gateway and all plugins share this one. */
export const slices: SliceQueue = new SliceQueue(
  () => performance.now(),
  (turn, restMs) => void (restMs === 0 ? setImmediate(turn) : setTimeout(turn, restMs)),
)
