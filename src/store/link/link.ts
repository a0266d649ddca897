/**
 * A client's end of its way to the ledger's thread: two mailboxes in shared memory, a port for what is too large for them,
 * and the thread's state. Nothing here waits: the thread is woken only when it sleeps, and its answers wake this side through
 * `Atomics.waitAsync`.
 */
import { MessageChannel } from 'node:worker_threads'
import {
  type Numbered,
  type Pair,
  type Reply,
  readReply,
  type Way,
  writeAttach,
  writeEnd,
  writeRequest,
} from './codec.ts'
import { createMailbox, createMailboxMemory, fillOf, NONE, TAIL } from './mailbox.ts'

/** The thread's state, in shared memory; one for all clients and all lives of the thread. Indexes below. */
export type ThreadState = Int32Array<SharedArrayBuffer>

/** Grows with each record that a client has published, and with each room that it has made. The thread sleeps on it. */
export const BELL = 0
/** 1 while the thread sleeps, or is about to look once more and then sleep. */
export const SLEEPING = 1
/** 1 while the thread has answers for which a mailbox had no room. */
export const FULL = 2
/** 1 when the last commit succeeded. */
export const HEALTHY = 3
/** How many holds are open. */
export const OPEN_HOLDS = 4

export const createThreadState = (): ThreadState => new Int32Array(new SharedArrayBuffer(20))

export interface LinkEvents {
  onReply(reply: Reply): void
  /** All replies that were there have been told. */
  onReplies(): void
  /** The thread is gone, and every reply that it published was told. */
  onEnd(error: Error): void
}

export interface Link {
  /** Puts an operation. False when there is no room until the thread has read. Throws for what cannot be cloned. */
  put(operation: Numbered, sentAtMs: number): boolean
  /** Hands what was put over to the thread, and wakes it when it sleeps. */
  send(): void
  healthy(): boolean
  openHolds(): number
  /** How full the fuller one of its mailboxes is, from 0 to 1. */
  fill(): number
  /** Whether the process has to live for the thread; at first it has. */
  keepAlive(busy: boolean): void
}

/** Each way: some thousand exchanges at once. */
const MAILBOX_BYTES = 1 << 20

/** The two ends of a new pair; they share its memory. */
export function createPair(): { readonly here: Pair; readonly there: Pair } {
  const { port1, port2 } = new MessageChannel()
  const memory = { requests: createMailboxMemory(MAILBOX_BYTES), replies: createMailboxMemory(MAILBOX_BYTES) }
  return { here: { ...memory, port: port1 }, there: { ...memory, port: port2 } }
}

/** What keeps the event loop going, or does not. */
export interface Keeper {
  ref(): unknown
  unref(): unknown
}

/** The client's end of a pair. */
export class LinkEnd implements Link {
  readonly #pair: Pair
  readonly #state: ThreadState
  readonly #events: LinkEvents
  readonly #keeper: Keeper
  readonly #requests: Way
  readonly #replies: Way
  #isOver = false

  /** @param keeper keeps the thread alive in which this is, until `keepAlive(false)` */
  constructor(pair: Pair, state: ThreadState, keeper: Keeper, events: LinkEvents) {
    this.#pair = pair
    this.#state = state
    this.#events = events
    this.#keeper = keeper
    keeper.ref()
    this.#requests = { ring: createMailbox(pair.requests), port: pair.port }
    this.#replies = { ring: createMailbox(pair.replies), port: pair.port }
    // Later than the constructor: what it hands over is for whoever made this, and has it by then.
    queueMicrotask(() => this.#listen())
  }

  put(operation: Numbered, sentAtMs: number): boolean {
    return writeRequest(this.#requests, operation, sentAtMs)
  }

  /** Makes the thread serve another client. False when there is no room until the thread has read. */
  attach(client: number, pair: Pair): boolean {
    return writeAttach(this.#requests, client, pair)
  }

  send(): void {
    this.#requests.ring.publish()
    this.#ring()
  }

  /** Ends the thread when it has done everything before. */
  end(sentAtMs: number): void {
    writeEnd(this.#requests.ring, sentAtMs)
    this.send()
  }

  /** To be called when the thread is gone. */
  over(error: Error): void {
    this.#isOver = true
    this.#handOver()
    // Whoever still waits for it, in vain.
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

  #handOver(): void {
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
      const seen = Atomics.load(this.#pair.replies.ends, TAIL)
      this.#handOver()
      const change = Atomics.waitAsync(this.#pair.replies.ends, TAIL, seen)
      if (change.async) return void change.value.then(() => this.#listen())
    }
  }
}
