/** A serving thread's connection to the ledger's thread, which the main thread owns. */
import type { MessagePort } from 'node:worker_threads'
import { createPair, MailboxPort, type PortEvents, type ThreadState, type WriterPort } from './mailbox-port.ts'
import type { ClientParts } from './thread-host.ts'
import type { PortSource } from './writer-client.ts'

export class ThreadClient implements PortSource {
  readonly owner = null
  readonly #state: ThreadState
  readonly #port: MessagePort
  #writerPort: MailboxPort | null = null

  constructor({ state, port }: ClientParts) {
    this.#state = state
    this.#port = port
    port.on('message', (reason: string) => {
      const port = this.#writerPort
      this.#writerPort = null
      port?.over(new Error(reason))
    })
    port.unref()
  }

  start(events: PortEvents): WriterPort {
    const { here, there } = createPair()
    this.#writerPort = new MailboxPort(here, this.#state, this.#port, events)
    this.#port.postMessage(there, [there.port])
    return this.#writerPort
  }
}
