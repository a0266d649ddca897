/**
 * The writer for all threads but the ledger's own. It writes the operations of one turn of the event loop into the thread's mailbox
 * together, and wakes the thread once. A slow commit delays only its own callers.
 *
 * When the thread dies, operations that it had received fail with `unknown`: send them again with the same id. The thread is restarted,
 * a few times. Meanwhile the process keeps the lock on the store.
 */
import type { Clock } from '#contract'
import { StoreError } from '../error.ts'
import { StoreUnavailable } from '../store.ts'
import type { CommitFigures, WriterFigures } from '../store-figures.ts'
import type { Name, Request, Result, Writer } from '../writer.ts'
import type { NumberedOperation, Reply } from './codec.ts'
import type { PortEvents, WriterPort } from './mailbox-port.ts'

/** Connects a writer to the thread. */
export interface PortSource {
  /** A port to the next run of the thread. The first reply, to the operation 0, shows whether the database is open. */
  start(events: PortEvents): WriterPort
  /** Of the thread's owner; null for its other clients. */
  readonly owner: ThreadOwner | null
}

/** Duties of the thread's owner. */
export interface ThreadOwner {
  /** Called when the database is open. */
  opened(): void
  /** Called at each end of the thread, also when it is restarted. */
  closed(error: Error): void
  /** Ends the thread after everything before. */
  end(nowMs: number): void
  /** Registers a callback for clients that need the thread while it is not running. */
  onWanted(start: () => void): void
  /** Figures of its commits, over all restarts. */
  commits(): CommitFigures
}

export interface ThreadWriterOptions {
  readonly source: PortSource
  readonly clock: Clock
  /** Calls its argument once, after the callbacks that are ready now: `setImmediate`. */
  readonly schedule: (fn: () => void) => void
}

interface PendingOperation extends NumberedOperation {
  id: number
  resolve(result: unknown): void
  reject(error: unknown): void
}

/**
 * The operations that the thread has received, by reused numbers from 1. Not a Map: while entries are added and removed, V8 allocates new
 * tables again and again. The old tables keep finished entries alive (see common/chain.ts).
 */
class SentOperations {
  readonly #places: (PendingOperation | null)[] = [null]
  readonly #free: number[] = []

  get size(): number {
    return this.#places.length - 1 - this.#free.length
  }

  add(waiting: PendingOperation): void {
    waiting.id = this.#free.pop() ?? this.#places.length
    this.#places[waiting.id] = waiting
  }

  take(id: number): PendingOperation {
    const waiting = this.#places[id]!
    this.#places[id] = null
    this.#free.push(id)
    return waiting
  }

  takeAll(): PendingOperation[] {
    return this.#places.flatMap(waiting => (waiting === null ? [] : [this.take(waiting.id)]))
  }
}

/** Maximum number of restarts within a minute. If the data makes the thread crash, it crashes after every restart. */
const MAX_STARTS = 5
const MINUTE_MS = 60_000

/** Starts the thread; rejects if it cannot open the database. */
export async function createThreadWriter(options: ThreadWriterOptions): Promise<Writer> {
  const writer = new ThreadWriter(options)
  await writer.start()
  return writer
}

class ThreadWriter implements Writer {
  readonly #source: PortSource
  readonly #clock: Clock
  readonly #schedule: (fn: () => void) => void
  readonly #flushNow: () => void
  #queue: PendingOperation[] = []
  readonly #sent = new SentOperations()
  #phase: 'starting' | 'ready' | 'dead' | 'closed' = 'dead'
  #writerPort!: WriterPort
  // The last one that was ready: its count of open holds outlives it.
  #latest!: WriterPort
  #starts: number[] = []
  #lastError: Error | undefined
  // After the death of the thread only a commit proves that writes work.
  #proven = true
  #closing = false
  #armed = false
  #alive = false
  #idlers: (() => void)[] = []
  #onClosed: () => void = () => {}
  #mailboxFull = 0

  constructor({ source, clock, schedule }: ThreadWriterOptions) {
    this.#source = source
    this.#clock = clock
    this.#schedule = schedule
    const flush = () => this.#flush()
    this.#flushNow = flush
    source.owner?.onWanted(() => {
      if (this.#phase === 'dead') this.#startAgain()
    })
  }

  start(): Promise<void> {
    return new Promise((resolve, reject) => this.#start(resolve, reject))
  }

  op<N extends Name>(name: N, request: Request<N>): Promise<Result<N>> {
    return this.#closing ? Promise.reject(new StoreError('The store is closed.')) : this.#enqueue(name, request)
  }

  openHolds(): number {
    return this.#latest.openHolds()
  }

  healthy(): boolean {
    return this.#phase === 'ready' && this.#proven && this.#writerPort.healthy()
  }

  figures(): WriterFigures {
    return {
      commits: this.#source.owner?.commits() ?? null,
      waiting: this.#queue.length + this.#sent.size,
      mailboxFill: this.#writerPort.fill(),
      mailboxFull: this.#mailboxFull,
    }
  }

  async close(): Promise<void> {
    await this.#idle()
    this.#closing = true
    const { owner } = this.#source
    if (owner === null) {
      this.#phase = 'closed'
      return
    }
    // A disk that refuses this has refused more important writes; an older open_from is still correct.
    await this.#enqueue('last', this.#clock.now()).catch(() => {})
    // If that last operation killed the thread, wait for its replacement, which is still starting.
    await this.#idle()
    const running = this.#phase === 'ready'
    this.#phase = 'closed'
    if (!running) return
    await new Promise<void>(resolve => {
      this.#onClosed = resolve
      this.#writerPort.keepAlive(true)
      owner.end(this.#clock.now())
    })
  }

  #start(onReady: () => void, onFailure: (error: Error) => void): void {
    this.#phase = 'starting'
    let refusal: Error | undefined
    this.#writerPort = this.#source.start({
      onReply: reply => {
        if (reply.id !== 0) this.#finish(reply)
        else if (reply.error !== undefined) refusal = reply.error
        else {
          this.#phase = 'ready'
          this.#latest = this.#writerPort
          this.#source.owner?.opened()
          onReady()
        }
      },
      onReplies: () => this.#progress(),
      onEnd: error => {
        const before = this.#phase
        if (before === 'closed') return this.#onClosed()
        this.#phase = 'dead'
        if (before === 'ready') this.#died(error)
        else onFailure(refusal ?? error)
      },
    })
    // A new thread keeps the process alive until its first reply.
    this.#alive = true
  }

  /** Operations that the thread had received are in doubt; those in the queue wait for the next thread. */
  #died(error: Error): void {
    this.#lastError = new Error(`the thread that writes has ended (${error.message})`, { cause: error })
    this.#proven = false
    for (const waiting of this.#sent.takeAll()) waiting.reject(new StoreUnavailable('unknown', this.#lastError))
    this.#startAgain()
    this.#progress()
  }

  #startAgain(): void {
    const now = this.#clock.now()
    this.#starts = this.#starts.filter(startedAtMs => Math.abs(now - startedAtMs) < MINUTE_MS)
    if (this.#starts.length < MAX_STARTS) {
      this.#starts.push(now)
      this.#start(
        () => void this.#enqueue('probe', now).catch(() => {}),
        error => this.#died(error),
      )
      return
    }
    // No more automatic restarts: the first operation after the minute starts the thread.
    const refused = this.#queue
    this.#queue = []
    for (const { reject } of refused) reject(new StoreUnavailable('not_written', this.#lastError))
    this.#source.owner?.closed(this.#lastError!)
  }

  #enqueue<N extends Name>(name: N, request: Request<N>): Promise<Result<N>> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ id: 0, name, request, resolve: resolve as (result: unknown) => void, reject })
      if (this.#phase === 'dead') this.#startAgain()
      this.#progress()
    })
  }

  #finish({ id, result, error }: Reply): void {
    const waiting = this.#sent.take(id)
    if (error !== undefined) {
      waiting.reject(error)
    } else {
      this.#proven = true
      waiting.resolve(result)
    }
  }

  /** Call it after each change of state: schedules a flush, and resolves idle waiters. */
  #progress(): void {
    const busy = this.#phase === 'starting' || this.#queue.length + this.#sent.size > 0
    if (busy !== this.#alive) {
      this.#alive = busy
      this.#writerPort.keepAlive(busy)
    }
    if (!busy) {
      for (const resolve of this.#idlers) resolve()
      this.#idlers = []
    } else if (this.#phase === 'ready' && !this.#armed && this.#queue.length > 0) {
      this.#armed = true
      this.#schedule(this.#flushNow)
    }
  }

  #flush(): void {
    this.#armed = false
    if (this.#phase !== 'ready') return
    const now = this.#clock.now()
    // No room until the thread has read. Its next reply comes after that and calls progress().
    const left = this.#queue.findIndex(waiting => !this.#put(waiting, now))
    this.#writerPort.send()
    this.#queue = left === -1 ? [] : this.#queue.slice(left)
    if (left !== -1) this.#mailboxFull++
    // If no operation could be encoded, the writer is idle now.
    if (left === -1) this.#progress()
  }

  /** False if the mailbox is full. */
  #put(waiting: PendingOperation, now: number): boolean {
    this.#sent.add(waiting)
    try {
      if (this.#writerPort.put(waiting, now)) return true
      this.#sent.take(waiting.id)
      return false
    } catch (error) {
      // An operation that cannot be encoded fails alone.
      this.#sent.take(waiting.id)
      waiting.reject(error)
      return true
    }
  }

  #idle(): Promise<void> {
    return new Promise(resolve => {
      this.#idlers.push(resolve)
      this.#progress()
    })
  }
}
