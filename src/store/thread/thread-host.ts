/** The main thread's side of the ledger's thread: starts and restarts it, and attaches clients in other threads of the process. */
import { extname } from 'node:path'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Connector } from '../engine/database.ts'
import { startWorker } from '../start-worker.ts'
import { type CommitFigures, type CommitWords, createCommitWords, readCommits } from '../store-figures.ts'
import type { Replica } from '../writer.ts'
import type { Pair } from './codec.ts'
import { createPair, createThreadState, MailboxPort, type PortEvents, type ThreadState } from './mailbox-port.ts'
import type { PortSource, ThreadOwner } from './writer-client.ts'

/** Arguments of a new thread. */
export interface ThreadParts {
  readonly path: string
  readonly connector: Connector | null
  readonly replica: Replica | null
  readonly state: ThreadState
  /** Where it counts its commits. */
  readonly words: CommitWords
  /** The pair of its first client, the main thread. */
  readonly pair: Pair
}

/** Everything that a client in another thread needs. It may be sent once, with its port in the list of transfers. */
export interface ClientParts {
  readonly state: ThreadState
  /** Receives the client's new pairs, and reports the end of the thread. */
  readonly port: MessagePort
}

/** It needs a few MB. Above this limit the thread ends instead of the process. */
const MAX_MEMORY_MB = 512

export class ThreadHost implements PortSource, ThreadOwner {
  readonly owner = this
  readonly #path: string
  readonly #connector: Connector | null
  readonly #replica: Replica | null
  readonly #state = createThreadState()
  readonly #words = createCommitWords()
  /** By their numbers: each client's port, and a pair that is not attached to the thread yet. */
  readonly #clients = new Map<number, { readonly port: MessagePort; waiting: Pair | null }>()
  #writerPort: MailboxPort | null = null
  #isOpen = false
  #wanted: () => void = () => {}

  /** @param replica the replica as which the thread writes, see writer.ts */
  constructor(path: string, connector: Connector | null, replica: Replica | null) {
    this.#path = path
    this.#connector = connector
    this.#replica = replica
  }

  /** Starts the thread. Its first reply, to the operation 0, shows whether the database is open. */
  start(events: PortEvents): MailboxPort {
    const { here, there } = createPair()
    const parts: ThreadParts = {
      path: this.#path,
      connector: this.#connector,
      replica: this.#replica,
      state: this.#state,
      words: this.#words,
      pair: there,
    }
    // In the package both files are compiled, so the extension is that of this file.
    const worker = startWorker(new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url), {
      name: 'tollgate-ledger',
      workerData: parts,
      transferList: [there.port],
      resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
    })
    const port = new MailboxPort(here, this.#state, worker, events)
    let failure: Error | undefined
    worker.once('error', error => {
      failure = error as Error
    })
    worker.once('exit', code => {
      const error = failure ?? new Error(`it ended with code ${code}`)
      this.#isOpen = false
      this.closed(error)
      port.over(error)
    })
    this.#writerPort = port
    return port
  }

  opened(): void {
    this.#isOpen = true
    for (const [number, client] of this.#clients) this.#attach(number, client)
  }

  closed(error: Error): void {
    for (const client of this.#clients.values()) {
      client.waiting = null
      client.port.postMessage(error.message)
    }
  }

  end(nowMs: number): void {
    this.#writerPort!.end(nowMs)
  }

  onWanted(start: () => void): void {
    this.#wanted = start
  }

  commits(): CommitFigures {
    return readCommits(this.#words)
  }

  /** Prepares a client. @param number of no other client */
  client(number: number): ClientParts {
    const { port1, port2 } = new MessageChannel()
    const client = { port: port1, waiting: null as Pair | null }
    this.#clients.set(number, client)
    port1.on('message', (pair: Pair) => {
      client.waiting = pair
      if (this.#isOpen) this.#attach(number, client)
      else this.#wanted()
    })
    port1.unref()
    return { state: this.#state, port: port2 }
  }

  /** Removes a client. The operation `detach` takes the operations that the client had published. */
  forget(number: number): void {
    this.#clients.get(number)?.port.close()
    this.#clients.delete(number)
  }

  #attach(number: number, client: { waiting: Pair | null }): void {
    const { waiting } = client
    if (waiting === null || !this.#isOpen) return
    if (this.#writerPort!.attach(number, waiting)) {
      client.waiting = null
      this.#writerPort!.send()
    } else setImmediate(() => this.#attach(number, client))
  }
}
