/** A serving thread's connection to the ledger's thread, which the main thread owns. */
import type { MessagePort } from 'node:worker_threads'
import { createPair, type Link, LinkEnd, type LinkEvents, type ThreadState } from './link.ts'
import type { ClientParts } from './thread-host.ts'
import type { LinkSource } from './writer-client.ts'

export class ThreadClient implements LinkSource {
  readonly owner = null
  readonly #state: ThreadState
  readonly #port: MessagePort
  #link: LinkEnd | null = null

  constructor({ state, port }: ClientParts) {
    this.#state = state
    this.#port = port
    port.on('message', (reason: string) => {
      const link = this.#link
      this.#link = null
      link?.over(new Error(reason))
    })
    port.unref()
  }

  start(events: LinkEvents): Link {
    const { here, there } = createPair()
    this.#link = new LinkEnd(here, this.#state, this.#port, events)
    this.#port.postMessage(there, [there.port])
    return this.#link
  }
}
