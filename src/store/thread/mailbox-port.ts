/**
 * A client's end of the connection to the ledger's thread: two mailboxes in shared memory, a port for large values, and the thread's
 * state. Nothing here blocks. The thread is woken only when it sleeps, and its replies wake this side through
 * `Atomics.waitAsync`.
 */
import { MessageChannel } from 'node:worker_threads'
import {
  type Channel,
  type NumberedOperation,
  type Pair,
  type Reply,
  readReply,
  writeAttach,
  writeEnd,
  writeRequest,
} from './codec.ts'
import { createMailbox, createMailboxMemory, fillOf, NONE, TAIL } from './mailbox.ts'

/** The thread's state in shared memory, one for all clients, kept when the thread restarts. Indexes below. */
export type ThreadState = Int32Array<SharedArrayBuffer>

/** Increases with each published record and with each release of space. The thread sleeps on it. */
export const BELL = 0
/** 1 while the thread sleeps, or is about to check once more and then sleep. */
export const SLEEPING = 1
/** 1 while the thread has replies for which a mailbox had no room. */
export const FULL = 2
/** 1 when the last commit succeeded. */
export const HEALTHY = 3
export const OPEN_HOLDS = 4

export const createThreadState = (): ThreadState => new Int32Array(new SharedArrayBuffer(20))

export interface PortEvents {
  onReply(reply: Reply): void
  /** Called after a group of replies. */
  onReplies(): void
  /** Called when the thread has ended, after all published replies. */
  onEnd(error: Error): void
}

export interface WriterPort {
  /** Writes an operation. False if the mailbox is full until the thread has read. Throws for a value that cannot be cloned. */
  put(operation: NumberedOperation, sentAtMs: number): boolean
  /** Publishes written operations, and wakes the thread if it sleeps. */
  send(): void
  healthy(): boolean
  openHolds(): number
  /** The fill of the fuller mailbox, from 0 to 1. */
  fill(): number
  /** Whether the thread keeps the process alive; at first it does. */
  keepAlive(busy: boolean): void
}

/** Each direction: some thousand exchanges at once. */
const MAILBOX_BYTES = 1 << 20

/** The two ends of a new pair, with the same memory. */
export function createPair(): { readonly here: Pair; readonly there: Pair } {
  const { port1, port2 } = new MessageChannel()
  const memory = { requests: createMailboxMemory(MAILBOX_BYTES), replies: createMailboxMemory(MAILBOX_BYTES) }
  return { here: { ...memory, port: port1 }, there: { ...memory, port: port2 } }
}

/** Keeps the event loop alive while it is referenced. */
export interface EventLoopRef {
  ref(): unknown
  unref(): unknown
}

export class MailboxPort implements WriterPort {
  readonly #pair: Pair
  readonly #state: ThreadState
  readonly #events: PortEvents
  readonly #keeper: EventLoopRef
  readonly #requests: Channel
  readonly #replies: Channel
  #isOver = false

  /** @param keeper keeps the event loop of this thread alive until `keepAlive(false)` */
  constructor(pair: Pair, state: ThreadState, keeper: EventLoopRef, events: PortEvents) {
    this.#pair = pair
    this.#state = state
    this.#events = events
    this.#keeper = keeper
    keeper.ref()
    this.#requests = { ring: createMailbox(pair.requests), port: pair.port }
    this.#replies = { ring: createMailbox(pair.replies), port: pair.port }
    // After the constructor, so that the caller has the instance before the first reply.
    queueMicrotask(() => this.#listen())
  }

  put(operation: NumberedOperation, sentAtMs: number): boolean {
    return writeRequest(this.#requests, operation, sentAtMs)
  }

  /** Makes the thread serve another client. False if the mailbox is full until the thread has read. */
  attach(client: number, pair: Pair): boolean {
    return writeAttach(this.#requests, client, pair)
  }

  send(): void {
    this.#requests.ring.publish()
    this.#ring()
  }

  /** Ends the thread after everything before. */
  end(sentAtMs: number): void {
    writeEnd(this.#requests.ring, sentAtMs)
    this.send()
  }

  /** Must be called when the thread has ended. */
  over(error: Error): void {
    this.#isOver = true
    this.#deliverReplies()
    // Wakes waiters that would otherwise never be woken.
    Atomics.notify(this.#pair.replies.ends, TAIL)
    this.#pair.port.close()
    this.#events.onEnd(error)
  }

  healthy(): boolean {
    return Atomics.load(this.#state, HEALTHY) === 1
  }

  openHolds(): number {
    return Atomics.load(this.#state, OPEN_HOLDS)
  }

  fill(): number {
    return Math.max(fillOf(this.#pair.requests), fillOf(this.#pair.replies))
  }

  keepAlive(busy: boolean): void {
    if (busy) this.#keeper.ref()
    else this.#keeper.unref()
  }

  #ring(): void {
    Atomics.add(this.#state, BELL, 1)
    if (Atomics.load(this.#state, SLEEPING) === 1) Atomics.notify(this.#state, BELL)
  }

  #deliverReplies(): void {
    const { ring } = this.#replies
    let at = ring.next()
    if (at === NONE) return
    for (; at !== NONE; at = ring.next()) this.#events.onReply(readReply(this.#replies, at))
    ring.release()
    if (Atomics.load(this.#state, FULL) === 1) this.#ring()
    this.#events.onReplies()
  }

  #listen(): void {
    while (!this.#isOver) {
      const tail = Atomics.load(this.#pair.replies.ends, TAIL)
      this.#deliverReplies()
      const change = Atomics.waitAsync(this.#pair.replies.ends, TAIL, tail)
      if (change.async) return void change.value.then(() => this.#listen())
    }
  }
}
