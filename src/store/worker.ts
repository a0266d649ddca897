/**
 * The writer for everybody outside the ledger's thread: what is asked in one turn of the event loop goes into the
 * thread's mailbox and wakes it once. A slow commit delays only those who wait for it.
 *
 * When the thread dies, what it had been given is in doubt and is told so (`unknown`: ask again with the same id), and
 * another thread is started, a few times. The process keeps the lock on the store all the while.
 */
import type { Clock } from '#contract'
import type { Numbered, Reply } from './codec.ts'
import type { Connector } from './database.ts'
import { StoreError } from './error.ts'
import { type Link, startThread } from './link.ts'
import { StoreUnavailable } from './store.ts'
import type { Name, Request, Result, Writer } from './writer.ts'

export interface ThreadWriterOptions {
  /** The database's file; its schema is the newest already. */
  readonly path: string
  readonly connector: Connector | null
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
export async function createThreadWriter({ path, connector, clock, schedule }: ThreadWriterOptions): Promise<Writer> {
  let queue: Waiting[] = []
  const sent = new Sent()
  let phase: 'starting' | 'ready' | 'dead' | 'closed' = 'dead'
  let link: Link
  // The one that was ready last: its count of open holds outlives it.
  let latest: Link
  let starts: number[] = []
  let lastError: Error | undefined
  // After a death only a commit shows that writing works.
  let proven = true
  let closing = false
  let armed = false
  let alive = false
  let idlers: (() => void)[] = []
  let onClosed: () => void = () => {}

  await new Promise<void>((resolve, reject) => start(resolve, reject))

  function start(onReady: () => void, onFailure: (error: Error) => void): void {
    phase = 'starting'
    let refusal: Error | undefined
    link = startThread({
      path,
      connector,
      onReply(reply) {
        if (reply.id !== 0) finish(reply)
        else if (reply.error !== undefined) refusal = reply.error
        else {
          phase = 'ready'
          latest = link
          onReady()
        }
      },
      onReplies: progress,
      onEnd(error) {
        const before = phase
        if (before === 'closed') return onClosed()
        phase = 'dead'
        if (before === 'ready') died(error)
        else onFailure(refusal ?? error)
      },
    })
    // It is born so: opening waits for it.
    alive = true
  }

  /** Who the thread had been given is in doubt; who still waits here waits for the next one. */
  function died(error: Error): void {
    lastError = new Error(`the thread that writes has ended (${error.message})`, { cause: error })
    proven = false
    for (const waiting of sent.takeAll()) waiting.reject(new StoreUnavailable('unknown', lastError))
    startAgain()
    progress()
  }

  function startAgain(): void {
    const now = clock.now()
    starts = starts.filter(startedAtMs => Math.abs(now - startedAtMs) < MINUTE_MS)
    if (starts.length < MAX_STARTS) {
      starts.push(now)
      start(() => void enqueue('probe', now).catch(() => {}), died)
      return
    }
    // Nothing more by itself: the next operation that is asked for tries again, when the minute is over.
    const refused = queue
    queue = []
    for (const { reject } of refused) reject(new StoreUnavailable('not_written', lastError))
  }

  function enqueue<N extends Name>(name: N, request: Request<N>): Promise<Result<N>> {
    return new Promise((resolve, reject) => {
      queue.push({ id: 0, name, request, resolve: resolve as (result: unknown) => void, reject })
      if (phase === 'dead') startAgain()
      progress()
    })
  }

  function finish({ id, result, error }: Reply): void {
    const waiting = sent.take(id)
    if (error !== undefined) {
      waiting.reject(error)
    } else {
      proven = true
      waiting.resolve(result)
    }
  }

  /** After anything has changed: has sent what waits, and tells who waits for an end of it. */
  function progress(): void {
    const busy = phase === 'starting' || queue.length + sent.size > 0
    if (busy !== alive) {
      alive = busy
      link.keepAlive(busy)
    }
    if (!busy) {
      for (const resolve of idlers) resolve()
      idlers = []
    } else if (phase === 'ready' && !armed && queue.length > 0) {
      armed = true
      schedule(flush)
    }
  }

  function flush(): void {
    armed = false
    if (phase !== 'ready') return
    const now = clock.now()
    // No room until the thread has read; its next answer comes after that, and progress() with it.
    const left = queue.findIndex(waiting => !put(waiting, now))
    link.send()
    queue = left === -1 ? [] : queue.slice(left)
    // Perhaps none of them could be put.
    if (left === -1) progress()
  }

  /** False when there is no room now. */
  function put(waiting: Waiting, now: number): boolean {
    sent.add(waiting)
    try {
      if (link.put(waiting, now)) return true
      sent.take(waiting.id)
      return false
    } catch (error) {
      // What cannot be said harms no neighbour.
      sent.take(waiting.id)
      waiting.reject(error)
      return true
    }
  }

  function idle(): Promise<void> {
    return new Promise(resolve => {
      idlers.push(resolve)
      progress()
    })
  }

  return {
    op: (name, request) => (closing ? Promise.reject(new StoreError('The store is closed.')) : enqueue(name, request)),
    openHolds: () => latest.openHolds(),
    healthy: () => phase === 'ready' && proven && link.healthy(),
    async close() {
      await idle()
      closing = true
      // A disk that refuses this has refused more important things already; an older open_from is as true.
      await enqueue('last', clock.now()).catch(() => {})
      // A thread that died of this has a successor by now, which is still starting.
      await idle()
      const running = phase === 'ready'
      phase = 'closed'
      if (!running) return
      await new Promise<void>(resolve => {
        onClosed = resolve
        link.keepAlive(true)
        link.end(clock.now())
      })
    },
  }
}
