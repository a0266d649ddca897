/**
 * One life of the ledger's thread, seen from the thread that serves: two mailboxes in shared memory, a port for what is
 * too large for them, and a few words of state. Nothing here waits: the thread is woken only when it sleeps, and its
 * answers wake this side through `Atomics.waitAsync`.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { Connector } from './database.ts'
import {
  createMailbox,
  createMailboxMemory,
  ELSEWHERE,
  HEAD,
  type Mailbox,
  type MailboxMemory,
  TAIL,
} from './mailbox.ts'

/** What the thread is given at its birth. */
export interface ThreadParts {
  readonly path: string
  readonly connector: Connector | null
  readonly requests: MailboxMemory
  readonly replies: MailboxMemory
  /** Indexes below. */
  readonly state: Int32Array<SharedArrayBuffer>
  /** For texts that are too large for a mailbox; each has its mark there. */
  readonly port: MessagePort
}

/** In `state`: 1 while the thread sleeps, or is about to look once more and then sleep. */
export const SLEEPING = 0
/** In `state`: 1 when the last commit succeeded. */
export const HEALTHY = 1
/** In `state`: how many holds are open. */
export const OPEN_HOLDS = 2

/** The text that ends the thread. */
export const END = ''

export interface LinkOptions {
  readonly path: string
  readonly connector: Connector | null
  /** A text of the thread. */
  onReply(text: string): void
  /** The thread is gone, and every text it wrote was handed over. */
  onEnd(error: Error): void
}

export interface Link {
  /** False when there is no room until the thread has read. */
  send(text: string): boolean
  healthy(): boolean
  openHolds(): number
  /** Whether the process has to live for this thread; at first it has. */
  keepAlive(busy: boolean): void
}

/** Each way: some thousand exchanges at once. */
const MAILBOX_BYTES = 1 << 20

/** What it needs is a few; beyond this the thread ends, and not the process. */
const MOST_MEMORY_MB = 512

export function startThread({ path, connector, onReply, onEnd }: LinkOptions): Link {
  const { port1: port, port2 } = new MessageChannel()
  const state = new Int32Array(new SharedArrayBuffer(12))
  const memory = { requests: createMailboxMemory(MAILBOX_BYTES), replies: createMailboxMemory(MAILBOX_BYTES) }
  const requests = createMailbox(memory.requests)
  const replies = createMailbox(memory.replies)
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
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MB },
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
    for (let text = receive(replies, port); text !== undefined; text = receive(replies, port)) onReply(text)
    // The thread waits when its mailbox is full.
    Atomics.notify(memory.replies.ends, HEAD)
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
    send(text) {
      if (!send(requests, port, text)) return false
      if (Atomics.load(state, SLEEPING) === 1) Atomics.notify(memory.requests.ends, TAIL)
      return true
    },
    healthy: () => Atomics.load(state, HEALTHY) === 1,
    openHolds: () => Atomics.load(state, OPEN_HOLDS),
    keepAlive: busy => (busy ? worker.ref() : worker.unref()),
  }
}

/** Writes a text, through the port when it is too large. False when there is no room now. */
export function send(mailbox: Mailbox, port: MessagePort, text: string): boolean {
  // Three bytes of UTF-8 at most for each of its characters: so most texts need not be measured.
  if (text.length * 3 <= mailbox.largest || Buffer.byteLength(text) <= mailbox.largest) return mailbox.write(text)
  if (!mailbox.writable()) return false
  // First the text, so that it is there when its mark is found.
  port.postMessage(text)
  return mailbox.writeElsewhere()
}

/** The next text, wherever it lies; undefined when there is none. */
export function receive(mailbox: Mailbox, port: MessagePort): string | undefined {
  const text = mailbox.read()
  return text === ELSEWHERE ? (receiveMessageOnPort(port)!.message as string) : text
}
