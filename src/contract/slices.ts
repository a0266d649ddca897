/** Sliced work: one event loop serves every exchange, and no work may block it for long. */
import { ownerOfSignal, WorkOwner } from './work-owner.ts'

/**
 * Work that can pause: a generator that yields where other work may run, or yields a promise that it waits for (`waited`). It should
 * yield at least once per millisecond. Work that ends before its first `yield` costs no clock, no timer and no promise.
 */
export type Sliced<Result> = Generator<undefined | Promise<void>, Result, undefined>

/** The time of all sliced work of a process in one turn of the event loop, in milliseconds. */
const TURN_MS = 1
/** A slice that takes longer is followed by a rest. */
const LONG_SLICE_MS = 3
/** While others have work, an owner rests for this multiple of its long slice, so it has at most a fifth of the loop. */
const REST = 4
/** A slice counts at most this many milliseconds towards a rest. */
const LONGEST_REST_MS = 250
/** How long an account counts as active after its last work, in milliseconds. */
const ACTIVE_MS = 1000
/** An owner with less recent work never waits: it uses at most 10 % of the loop. */
const LIGHT_MS = 150
/** The interval of readings of the thread's CPU time, in milliseconds. */
const READ_MS = 50
/** Owners with at least this part of the largest share are heavy. */
const HEAVY_PART = 0.25

/** Work that waits for its next slice. */
interface Task {
  readonly work: Sliced<unknown>
  readonly signal: AbortSignal | undefined
  readonly owner: WorkOwner
  /** When it began to wait, in milliseconds. */
  sinceMs: number
  /** Milliseconds of subsequent work that no slice measures. */
  costMs: number
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/** The owner of work, and its additional cost. */
export interface SliceOptions {
  /** Left out: the owner of the signal. */
  readonly owner?: WorkOwner | undefined
  /** Milliseconds of work that follows at once, outside the queue. They count as part of the first slice. */
  readonly costMs?: number
}

/**
 * Shares a part of each turn of the event loop among all its work. The next slice goes to the owner with the least recent work (weighted
 * fair queueing), and to that owner's oldest task.
 */
export class SliceQueue {
  readonly #now: () => number
  readonly #defer: (turn: () => void, restMs: number) => void
  readonly #cpuMs: (() => number) | null
  /** The time of the last reading, and its result. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #usedMs = Number.NEGATIVE_INFINITY
  /** The owner of all work without one. */
  readonly #unowned = new WorkOwner()
  /** By owner, oldest first. */
  readonly #queued = new Map<WorkOwner, Task[]>()
  #waiting = 0
  #countedMs = 0
  /** The part of this turn that is used up. */
  #spentMs = 0
  /** When the next turn begins; infinity: none is scheduled. */
  #turnAtMs = Number.POSITIVE_INFINITY
  /** The number of that turn. A turn that was replaced by an earlier one is skipped. */
  #turn = 0
  /** After a long slice the loop is reserved for light owners: the others begin nothing before this time. */
  #restUntilMs = 0
  /** The last owner that had work, and when; and when another owner last had work. */
  #last: WorkOwner | null = null
  #lastAtMs = Number.NEGATIVE_INFINITY
  #otherAtMs = Number.NEGATIVE_INFINITY
  /** The owner with the largest share. */
  #top: WorkOwner

  /**
   * @param now milliseconds; only differences count
   * @param defer calls back once: in the next turn of the event loop, or after `restMs` if that is not 0
   * @param cpuMs the CPU time of this thread, in milliseconds; null: the thread always has the processor
   */
  constructor(
    now: () => number,
    defer: (turn: () => void, restMs: number) => void,
    cpuMs: (() => number) | null = null,
  ) {
    this.#now = now
    this.#defer = defer
    this.#cpuMs = cpuMs
    this.#top = this.#unowned
  }

  /** The total time of all slices, in milliseconds. */
  get countedMs(): number {
    return this.#countedMs
  }

  /** The number of tasks that wait for their next slice. */
  get waiting(): number {
    return this.#waiting
  }

  /**
   * Runs the work. Returns its result at once if it ends within this turn's time, otherwise a promise. Errors of the work are
   * thrown, or reject the promise. The result is undefined if `signal` aborts before the end.
   *
   * @example
   * const found = await slices.run(search(text), exchange.signal)
   */
  run<Result>(
    work: Sliced<Result>,
    signal?: AbortSignal,
    { owner = ownerOfSignal(signal) ?? this.#unowned, costMs = 0 }: SliceOptions = NO_OPTIONS,
  ): Result | undefined | Promise<Result | undefined> {
    if (signal?.aborted) return undefined
    let step = work.next()
    if (step.done) return step.value
    let left = costMs
    if (step.value === undefined && this.#spentMs < TURN_MS && this.#mayBegin(owner)) {
      step = this.#slice(work, owner, costMs)
      left = 0
      if (step.done) {
        this.#deferTurn()
        return step.value
      }
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result | undefined>()
    const task: Task = {
      work,
      signal,
      owner,
      sinceMs: 0,
      costMs: left,
      resolve: resolve as Task['resolve'],
      reject,
    }
    signal?.addEventListener('abort', () => this.#giveUp(task), { once: true })
    this.#wait(task, step.value)
    return promise
  }

  /** Whether new work of the owner has to wait for its turn. False for an owner with little work, or without others. */
  isBehind(owner: WorkOwner): boolean {
    if (this.#waiting === 0 && this.#spentMs < TURN_MS && owner.restUntilMs === 0) return false
    const now = this.#now()
    if (owner.share(now) <= LIGHT_MS || !this.#hasOthers(owner, now)) return false
    return this.#waiting > 0 || this.#spentMs >= TURN_MS || this.#readyAt(owner, now) > now
  }

  /**
   * Counts work outside the queue, in milliseconds.
   * @param workedMs the measured part; other owners rest only for that
   * @param nowMs the queue's clock, if it was just read
   */
  spend(owner: WorkOwner, ms: number, workedMs: number = ms, nowMs: number = this.#now()): void {
    this.#count(owner, ms, workedMs, nowMs)
    this.#spentMs += ms
    if (this.#spentMs >= TURN_MS) this.#deferTurn(nowMs)
  }

  /** How long the owner's oldest task has waited, in milliseconds; 0 for an owner with little work. */
  waitOf(owner: WorkOwner): number {
    const oldest = this.#queued.get(owner)?.[0]
    if (oldest === undefined) return 0
    const now = this.#now()
    return owner.share(now) <= LIGHT_MS ? 0 : now - oldest.sinceMs
  }

  /** The delay of the queue, in milliseconds: the longest wait of a task since it could have begun. */
  delay(): number {
    if (this.#waiting === 0) return 0
    const now = this.#now()
    let delayMs = 0
    for (const [owner, [oldest]] of this.#queued) {
      delayMs = Math.max(delayMs, now - Math.max(oldest!.sinceMs, this.#readyAt(owner, now)))
    }
    return delayMs
  }

  /** Whether the owner is heavy: its share is at least a quarter of the largest, and not small. */
  isHeavy(owner: WorkOwner): boolean {
    const now = this.#now()
    const share = owner.share(now)
    const largest = this.#top.share(now)
    return share >= largest * HEAVY_PART && (share > LIGHT_MS || largest <= LIGHT_MS)
  }

  #mayBegin(owner: WorkOwner): boolean {
    if (this.#waiting === 0 && owner.restUntilMs === 0 && this.#restUntilMs === 0) return true
    const now = this.#now()
    if (this.#readyAt(owner, now) > now) return false
    return this.#waiting === 0 || (owner !== this.#unowned && owner.share(now) <= LIGHT_MS)
  }

  #hasOthers(owner: WorkOwner, nowMs: number): boolean {
    return (owner === this.#last ? this.#otherAtMs : this.#lastAtMs) > nowMs - ACTIVE_MS
  }

  /** When the owner's next task may begin; possibly in the past. */
  #readyAt(owner: WorkOwner, nowMs: number): number {
    if (this.#restUntilMs <= owner.restUntilMs || owner.share(nowMs) <= LIGHT_MS) return owner.restUntilMs
    return this.#restUntilMs
  }

  /** Runs slices of waiting tasks until the turn's time is used up. */
  #serve(turn: number): void {
    if (turn !== this.#turn) return
    this.#turnAtMs = Number.POSITIVE_INFINITY
    this.#spentMs = 0
    while (this.#waiting > 0 && this.#spentMs < TURN_MS) {
      const owner = this.#next()
      if (owner === null) break
      this.#go(this.#take(owner, 0))
    }
    this.#deferTurn()
  }

  /** Returns the owner with the smallest share among those that do not rest. */
  #next(): WorkOwner | null {
    const now = this.#now()
    let next: WorkOwner | null = null
    let least = Number.POSITIVE_INFINITY
    for (const owner of this.#queued.keys()) {
      if (this.#readyAt(owner, now) > now) continue
      const share = owner.share(now)
      if (share < least) {
        next = owner
        least = share
      }
    }
    return next
  }

  /** @param at the index of the owner's task */
  #take(owner: WorkOwner, at: number): Task {
    this.#waiting--
    const tasks = this.#queued.get(owner)!
    const [task] = tasks.splice(at, 1)
    if (tasks.length === 0) this.#queued.delete(owner)
    return task!
  }

  #go(task: Task): void {
    const { work, signal, owner, costMs, resolve, reject } = task
    try {
      if (signal?.aborted) {
        work.return(undefined)
        resolve(undefined)
        return
      }
      const step = this.#slice(work, owner, costMs)
      if (step.done) resolve(step.value)
      else {
        task.costMs = 0
        this.#wait(task, step.value)
      }
    } catch (error) {
      reject(error)
    }
  }

  /** Ends a waiting task at once when its signal aborts. */
  #giveUp(task: Task): void {
    const at = this.#queued.get(task.owner)?.indexOf(task) ?? -1
    if (at === -1) return
    this.#take(task.owner, at)
    task.work.return(undefined)
    task.resolve(undefined)
  }

  /** Queues a task for its next turn, after its promise has settled. */
  #wait(task: Task, awaited: Promise<void> | undefined): void {
    if (awaited !== undefined) return void awaited.then(() => this.#wait(task, undefined))
    const now = this.#now()
    task.sinceMs = now
    const tasks = this.#queued.get(task.owner)
    if (tasks === undefined) this.#queued.set(task.owner, [task])
    else tasks.push(task)
    this.#waiting++
    this.#deferTurn(now)
  }

  /** Works until the end, a wait, or the end of the turn's time. */
  #slice<Result>(
    work: Sliced<Result>,
    owner: WorkOwner,
    costMs: number,
  ): IteratorResult<undefined | Promise<void>, Result> {
    const beganMs = this.#now()
    const spentMs = this.#spentMs + costMs
    let nowMs = beganMs
    try {
      for (;;) {
        const step = work.next()
        nowMs = this.#now()
        this.#spentMs = spentMs + nowMs - beganMs
        if (step.done || step.value !== undefined || this.#spentMs >= TURN_MS) return step
      }
    } finally {
      this.#countedMs += nowMs - beganMs
      this.#count(owner, nowMs - beganMs + costMs, nowMs - beganMs, nowMs)
    }
  }

  /** After a long slice, light owners have the loop for the same time. The owner of the slice rests up to four times as long. */
  #count(owner: WorkOwner, spentMs: number, measuredMs: number, now: number): void {
    const workedMs = this.#worked(measuredMs, now)
    const ms = spentMs - measuredMs + workedMs
    owner.add(ms, now)
    // Only accounts count as others: probes and unknown clients slow no account.
    if (owner !== this.#unowned && owner.group === null) {
      if (owner !== this.#last) this.#otherAtMs = this.#lastAtMs
      this.#last = owner
      this.#lastAtMs = now
    }
    if (owner !== this.#top && owner.share(now) > this.#top.share(now)) this.#top = owner
    if (ms <= LONG_SLICE_MS) return
    // A process that was suspended during a slice has not worked that long.
    const rest = Math.min(ms, LONGEST_REST_MS)
    owner.restUntilMs = now + rest * (this.#hasOthers(owner, now) ? REST / owner.weight : 1)
    if (workedMs > LONG_SLICE_MS) this.#restUntilMs = now + Math.min(workedMs, LONGEST_REST_MS)
  }

  /** Time without the processor is not work: a long measurement counts at most the CPU time since the last reading. */
  #worked(measuredMs: number, now: number): number {
    const isLong = measuredMs > LONG_SLICE_MS
    if (this.#cpuMs === null || (!isLong && now - this.#readAtMs < READ_MS)) return measuredMs
    const before = this.#usedMs
    this.#usedMs = this.#cpuMs()
    this.#readAtMs = now
    return isLong ? Math.min(measuredMs, this.#usedMs - before) : measuredMs
  }

  /** Schedules the next turn if there is work for it. */
  #deferTurn(now: number = this.#now()): void {
    if (this.#waiting === 0 && this.#spentMs === 0) return
    if (this.#turnAtMs <= now) return
    let restMs = this.#waiting === 0 ? 0 : Number.POSITIVE_INFINITY
    for (const owner of this.#queued.keys()) restMs = Math.min(restMs, Math.max(0, this.#readyAt(owner, now) - now))
    restMs = Math.ceil(restMs)
    if (now + restMs >= this.#turnAtMs) return
    this.#turnAtMs = now + restMs
    const turn = ++this.#turn
    this.#defer(() => this.#serve(turn), restMs)
  }
}

const NO_OPTIONS: SliceOptions = {}

/** Does all of the work synchronously, for callers that cannot wait. Throws if the work yields a promise. */
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

/** Work without duration: it is done when it is the owner's turn. */
export function* ownTurn(): Sliced<void> {
  yield
}

/** Wraps work that cannot be cut: it gets a slice of its own, with other work before and after it. */
export function* uncut<Result>(work: () => Result): Sliced<Result> {
  yield
  const result = work()
  yield
  return result
}

/** The queue of this process. There is one event loop, so the gateway and all plugins share it. */
export const slices: SliceQueue = new SliceQueue(
  () => performance.now(),
  (turn, restMs) => void (restMs === 0 ? setImmediate(turn) : setTimeout(turn, restMs)),
  threadCpuMs,
)

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
