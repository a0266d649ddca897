/**
 * One life of the ledger's thread, seen from the thread that serves: two mailboxes in shared memory, a port for what is
 * too large for them, and a few words of state. Nothing here waits: the thread is woken only when it sleeps, and its
 * answers wake this side through `Atomics.waitAsync`.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { type Numbered, type Reply, readReply, type Way, writeEnd, writeRequest } from './codec.ts'
import type { Connector } from './database.ts'
import { createMailbox, createMailboxMemory, HEAD, type MailboxMemory, NONE, TAIL } from './mailbox.ts'

/** What the thread is given at its birth. */
export interface ThreadParts {
  readonly path: string
  readonly connector: Connector | null
  readonly requests: MailboxMemory
  readonly replies: MailboxMemory
  /** Indexes below. */
  readonly state: Int32Array<SharedArrayBuffer>
  /** For what is too large for a mailbox; each has its mark there. */
  readonly port: MessagePort
}

/** In `state`: 1 while the thread sleeps, or is about to look once more and then sleep. */
export const SLEEPING = 0
/** In `state`: 1 when the last commit succeeded. */
export const HEALTHY = 1
/** In `state`: how many holds are open. */
export const OPEN_HOLDS = 2

export interface LinkOptions {
  readonly path: string
  readonly connector: Connector | null
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
  /** Ends the thread when it has done everything before. */
  end(sentAtMs: number): void
  healthy(): boolean
  openHolds(): number
  /** Whether the process has to live for this thread; at first it has. */
  keepAlive(busy: boolean): void
}

/** Each way: some thousand exchanges at once. */
const MAILBOX_BYTES = 1 << 20

/** What it needs is a few; beyond this the thread ends, and not the process. */
const MAX_MEMORY_MB = 512

export function startThread({ path, connector, onReply, onReplies, onEnd }: LinkOptions): Link {
  const { port1: port, port2 } = new MessageChannel()
  const state = new Int32Array(new SharedArrayBuffer(12))
  const memory = { requests: createMailboxMemory(MAILBOX_BYTES), replies: createMailboxMemory(MAILBOX_BYTES) }
  const requests: Way = { ring: createMailbox(memory.requests), port }
  const replies: Way = { ring: createMailbox(memory.replies), port }
  const parts: ThreadParts = { path, connector, ...memory, state, port: port2 }
  // Where types are not stripped, both files are compiled ones.
  const entry = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const cache = getCompileCacheDir()
  const worker = new Worker(entry, {
    name: 'tollgate-ledger',
    workerData: parts,
    transferList: [port2],
    // It says nothing; and the pipes that it would get otherwise make the process's own output non-blocking.
    stdout: true,
    stderr: true,
    // Nothing of the process's environment is its affair. With the cache it need not strip the types of its files again: 36 MiB.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
    resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
  })
  let failure: Error | undefined
  let over = false
  worker.once('error', error => {
    failure = error as Error
  })
  worker.once('exit', code => {
    over = true
    handOver()
    // Whoever still waits for it, in vain.
    Atomics.notify(memory.replies.ends, TAIL)
    port.close()
    onEnd(failure ?? new Error(`it ended with code ${code}`))
  })

  function handOver(): void {
    const { ring } = replies
    let at = ring.next()
    if (at === NONE) return
    for (; at !== NONE; at = ring.next()) onReply(readReply(replies, at))
    ring.release()
    // The thread waits when its mailbox is full.
    Atomics.notify(memory.replies.ends, HEAD)
    onReplies()
  }

  function send(): void {
    requests.ring.publish()
    if (Atomics.load(state, SLEEPING) === 1) Atomics.notify(memory.requests.ends, TAIL)
  }

  function listen(): void {
    while (!over) {
      const seen = Atomics.load(memory.replies.ends, TAIL)
      handOver()
      const change = Atomics.waitAsync(memory.replies.ends, TAIL, seen)
      if (change.async) return void change.value.then(listen)
    }
  }

  // Behind the return: what it hands over is for whoever started the thread, and has it by then.
  queueMicrotask(listen)
  return {
    put: (operation, sentAtMs) => writeRequest(requests, operation, sentAtMs),
    send,
    end(sentAtMs) {
      writeEnd(requests.ring, sentAtMs)
      send()
    },
    healthy: () => Atomics.load(state, HEALTHY) === 1,
    openHolds: () => Atomics.load(state, OPEN_HOLDS),
    keepAlive: busy => (busy ? worker.ref() : worker.unref()),
  }
}
