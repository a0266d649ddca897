/**
 * Watches for changes of keys or accounts by other processes, and then drops cached keys. The server announces each change (LISTEN). A
 * check each second finds missed changes and dead connections.
 */
import { Client } from 'pg'
import type { Log } from '#contract'
import { KEY_CHANGES } from './ledger-batches.ts'
import { clientConfig } from './postgres-client.ts'

export interface KeyChangesParts {
  readonly url: string
  readonly log: Log
  /** Drops cached keys. */
  forget(): void
}

const LOOK_EVERY_MS = 1000
/** A slower answer counts as a failure. */
const TIMEOUT_MS = 1000
/** How long cached keys are trusted while it is unknown whether they were changed. */
const TRUSTED_MS = 5000

export class KeyChanges {
  readonly #parts: KeyChangesParts
  #client: Client | null = null
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> = Promise.resolve()
  /** The number of changes at the last check. */
  #seen: string | null = null
  #lookedAtMs = performance.now()
  #isLost = false
  #isClosed = false

  constructor(parts: KeyChangesParts) {
    this.#parts = parts
    this.#look()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#looking
    const client = this.#client
    if (client === null) return
    // A frozen server does not close its end.
    const late = setTimeout(() => streamOf(client).destroy(), TIMEOUT_MS)
    await client.end().catch(() => {})
    clearTimeout(late)
  }

  #look(): void {
    this.#looking = this.#lookOnce().then(() => {
      if (this.#isClosed) return
      this.#timer = setTimeout(() => this.#look(), LOOK_EVERY_MS)
      this.#timer.unref()
    })
  }

  async #lookOnce(): Promise<void> {
    const { forget, log } = this.#parts
    try {
      this.#client ??= await this.#connect()
      const { rows } = await this.#client.query<{ value: string }>('SELECT value FROM meta WHERE name = $1', [
        KEY_CHANGES,
      ])
      const value = rows[0]?.value ?? ''
      if (value !== this.#seen) forget()
      this.#seen = value
      this.#lookedAtMs = performance.now()
      if (this.#isLost) log.info({}, 'changes of keys are received again')
      this.#isLost = false
    } catch (error) {
      this.#drop()
      if (performance.now() - this.#lookedAtMs < TRUSTED_MS) return
      forget()
      if (!this.#isLost)
        log.warn({ error: String(error) }, 'changes of keys are not received: the cache of keys is cleared each second')
      this.#isLost = true
    }
  }

  async #connect(): Promise<Client> {
    const client = new Client({
      ...clientConfig(this.#parts.url),
      application_name: 'tollgate (changes)',
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
      keepAlive: true,
    })
    // The next check notices it and connects again.
    client.on('error', () => this.#drop())
    client.on('notification', () => this.#parts.forget())
    try {
      await client.connect()
      await client.query(`SET idle_session_timeout = 0; LISTEN ${KEY_CHANGES}`)
      return client
    } catch (error) {
      void client.end().catch(() => {})
      throw error
    }
  }

  #drop(): void {
    const client = this.#client
    this.#client = null
    void client?.end().catch(() => {})
  }
}

const streamOf = (client: Client): { destroy(): void } =>
  (client as unknown as { readonly connection: { readonly stream: { destroy(): void } } }).connection.stream
