/**
 * The writer for everybody outside the ledger's thread: what is asked in one turn of the event loop goes into the
 * thread's mailbox and wakes it once. A slow commit delays only those who wait for it.
 *
 * When the thread dies, what it had been given is in doubt and is told so (`unknown`: ask again with the same id), and
 * another thread is started, a few times. The process keeps the lock on the store all the while.
 */
import type { Clock } from '#contract'
import { StoreError } from '../error.ts'
import { StoreUnavailable } from '../store.ts'
import type { CommitFigures, WriterFigures } from '../store-figures.ts'
import type { Name, Request, Result, Writer } from '../writer.ts'
import type { Numbered, Reply } from './codec.ts'
import type { Link, LinkEvents } from './link.ts'

/** Where a writer gets its way to the thread. */
export interface LinkSource {
  /** A way to the thread's next life. The first reply, to the operation 0, says that it is open, or why it is not. */
  start(events: LinkEvents): Link
  /** For the thread's owner; null for its other clients. */
  readonly owner: ThreadOwner | null
}

/** What only the owner of the thread does. */
export interface ThreadOwner {
  /** The database is open. */
  opened(): void
  /** It is not open, and no life is being started. */
  closed(error: Error): void
  /** Ends the thread when it has done everything before. */
  end(nowMs: number): void
  /** Calls back when another client needs the thread while there is none. */
  onWanted(start: () => void): void
  /** How its commits did, over all its lives. */
  commits(): CommitFigures
}

export interface ThreadWriterOptions {
  readonly source: LinkSource
  readonly clock: Clock
  /** Calls back once, soon, after what is ready now: `setImmediate`. */
  readonly schedule: (fn: () => void) => void
}

interface Waiting extends Numbered {
  id: number
  resolve(result: unknown): void
  reject(error: unknown): void
}

/**
 * What the thread has been given, by numbers from 1 that are used again. Not a map: V8 gives one whose entries come and go a
 * new table again and again, and old tables keep what is over (see `Chain`).
 */
class Sent {
  readonly #places: (Waiting | null)[] = [null]
  readonly #free: number[] = []

  get size(): number {
    return this.#places.length - 1 - this.#free.length
  }

  add(waiting: Waiting): void {
    waiting.id = this.#free.pop() ?? this.#places.length
    this.#places[waiting.id] = waiting
  }

  take(id: number): Waiting {
    const waiting = this.#places[id]!
    this.#places[id] = null
    this.#free.push(id)
    return waiting
  }

  takeAll(): Waiting[] {
    return this.#places.flatMap(waiting => (waiting === null ? [] : [this.take(waiting.id)]))
  }
}

/** Threads that are started anew within a minute: one that dies of what it finds would die for ever. */
const MAX_STARTS = 5
const MINUTE_MS = 60_000

/** Starts the thread; rejects when it cannot open the database. */
export async function createThreadWriter(options: ThreadWriterOptions): Promise<Writer> {
  const writer = new ThreadWriter(options)
  await writer.start()
  return writer
}

class ThreadWriter implements Writer {
  readonly #source: LinkSource
  readonly #clock: Clock
  readonly #schedule: (fn: () => void) => void
  readonly #flushNow: () => void
  #queue: Waiting[] = []
  readonly #sent = new Sent()
  #phase: 'starting' | 'ready' | 'dead' | 'closed' = 'dead'
  #link!: Link
  // The one that was ready last: its count of open holds outlives it.
  #latest!: Link
  #starts: number[] = []
  #lastError: Error | undefined
  // After a death only a commit shows that writing works.
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
    return this.#phase === 'ready' && this.#proven && this.#link.healthy()
  }

  figures(): WriterFigures {
    return {
      commits: this.#source.owner?.commits() ?? null,
      waiting: this.#queue.length + this.#sent.size,
      mailboxFill: this.#link.fill(),
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
    // A disk that refuses this has refused more important things already; an older open_from is as true.
    await this.#enqueue('last', this.#clock.now()).catch(() => {})
    // A thread that died of this has a successor by now, which is still starting.
    await this.#idle()
    const running = this.#phase === 'ready'
    this.#phase = 'closed'
    if (!running) return
    await new Promise<void>(resolve => {
      this.#onClosed = resolve
      this.#link.keepAlive(true)
      owner.end(this.#clock.now())
    })
  }

  #start(onReady: () => void, onFailure: (error: Error) => void): void {
    this.#phase = 'starting'
    let refusal: Error | undefined
    this.#link = this.#source.start({
      onReply: reply => {
        if (reply.id !== 0) this.#finish(reply)
        else if (reply.error !== undefined) refusal = reply.error
        else {
          this.#phase = 'ready'
          this.#latest = this.#link
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
    // It is born so: opening waits for it.
    this.#alive = true
  }

  /** Who the thread had been given is in doubt; who still waits here waits for the next one. */
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
    // Nothing more by itself: the next operation that is asked for tries again, when the minute is over.
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

  /** After anything has changed: has sent what waits, and tells who waits for an end of it. */
  #progress(): void {
    const busy = this.#phase === 'starting' || this.#queue.length + this.#sent.size > 0
    if (busy !== this.#alive) {
      this.#alive = busy
      this.#link.keepAlive(busy)
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
    // No room until the thread has read; its next answer comes after that, and progress() with it.
    const left = this.#queue.findIndex(waiting => !this.#put(waiting, now))
    this.#link.send()
    this.#queue = left === -1 ? [] : this.#queue.slice(left)
    if (left !== -1) this.#mailboxFull++
    // Perhaps none of them could be put.
    if (left === -1) this.#progress()
  }

  /** False when there is no room now. */
  #put(waiting: Waiting, now: number): boolean {
    this.#sent.add(waiting)
    try {
      if (this.#link.put(waiting, now)) return true
      this.#sent.take(waiting.id)
      return false
    } catch (error) {
      // What cannot be said harms no neighbour.
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
