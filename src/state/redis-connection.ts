/**
 * The connection to a state server. A call takes at most `CALL_MS`. After a failure or a timeout no request calls the server until it
 * renews this replica's lease again. So a request waits for a lost server at most once.
 */
import { randomInt, randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { Log } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import { addressOf, userOf, withoutUser } from './redis-address.ts'
import { checkServer, failureText, type ServerAddress } from './redis-check.ts'
import { BUCKET, DECLARE, ENTER, LEAVE, RENEW, VERSION } from './redis-scripts.ts'

/** Timeout of a call that a request waits for. */
export const CALL_MS = 50
/** How long slots of a dead replica count. A lease is renewed five times in that time. */
const LEASE_MS = 15_000
/** The interval of attempts to reach a lost server, and how many of them use the same connection. */
const RETRY_MS = 250
const RETRIES = 4
/** How long the start waits for the server. */
const CONNECT_MS = 2_000
/** Lifetime of a name's slots without any exchange; no exchange takes that long. */
const HASH_MS = '86400000'
/** Lifetime of a version without a change; then it gets another number. */
const VERSION_MS = 30 * 86_400_000
/** How many changes are kept for a lost server, and how many are sent at a time: each has to be answered in time. */
const MOST_CHANGED = 65_536
const SENT_AT_A_TIME = 100
/** Instead of a number: the change has not been sent to the server yet. */
const UNSENT = 0

/** Versions have at most this many bits. */
export const SERVER_VERSION_BITS = 40

export const PREFIX = 'tollgate:'
const LEASES = `${PREFIX}replicas`

/** The client with the scripts, which are sent once and then named by their digest. */
interface ScriptClient extends Redis {
  bucket(
    key: string,
    capacity: number,
    refill: number,
    amount: number,
    verb: 'take' | 'give',
  ): Promise<[taken: 0 | 1, units: string]>
  enter(hash: string, leases: string, replica: string, limit: number, keptMs: string): Promise<number>
  leave(hash: string, replica: string): Promise<null>
  declare(hash: string, replica: string, count: number, keptMs: string): Promise<null>
  version(key: string, fresh: number, keptMs: number): Promise<string>
  renew(leases: string, replica: string, leaseMs: number): Promise<[held: 0 | 1, replicas: number]>
}

interface PendingCall {
  readonly until: number
  readonly reject: (error: Error) => void
}

export interface ConnectionOptions {
  readonly url: string
  readonly log: Log
  /** Milliseconds that never step back. */
  readonly now?: () => number
  /** For tests. */
  readonly leaseMs?: number
  /** For tests. */
  readonly connectMs?: number
}

export class RedisConnection {
  readonly #redis: ScriptClient
  readonly #server: ServerAddress
  readonly #log: Log
  readonly #now: () => number
  readonly #leaseMs: number
  /** Replaced after each loss, so that earlier calls that the server executes late do not count. */
  #replica: string = randomUUID()
  #former: string | null = null
  /** Calls without an answer, oldest first. */
  readonly #pending = new Set<PendingCall>()
  #expiry: NodeJS.Timeout | null = null
  #next: NodeJS.Timeout | null = null
  /** Calls wait for this connection attempt. */
  #joining: Promise<void> | null = null
  #failed = 0
  #closed = false
  #isUp = false
  /** False during the start, whose failure reports a loss. */
  #hasBegun = false
  #replicas = 1
  #lost = 0
  #losses = 0
  #lastError: unknown = null
  /** New versions that the server may not know, or `UNSENT`. */
  readonly #changed = boundedMap<number>(MOST_CHANGED)
  /** The slots of this process, which are declared to a server that may not know them. */
  slots: { counts(): Iterable<readonly [name: string, count: number]> } | null = null

  /** Rejects with a `StateError` for a server that cannot be used. */
  static async open(options: ConnectionOptions): Promise<RedisConnection> {
    const server = addressOf(options.url)
    const { connectMs = CONNECT_MS } = options
    const { Redis } = await import('ioredis')
    const redis = new Redis(withoutUser(options.url), {
      ...userOf(options.url),
      lazyConnect: true,
      connectTimeout: connectMs,
      disconnectTimeout: RETRY_MS,
      // Commands that were not sent fail here. Sent commands are never sent again, because they may have been done.
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: null,
      enableReadyCheck: false,
      disableClientInfo: true,
      protocol: 2,
    })
    // Without a listener the client writes to stderr itself.
    let last: unknown = null
    redis.on('error', error => {
      last = error
    })
    for (const [name, numberOfKeys, lua] of SCRIPTS) redis.defineCommand(name, { numberOfKeys, lua })
    try {
      await checkServer(redis, server, connectMs, () => last)
    } catch (error) {
      redis.disconnect()
      throw error
    }
    const connection = new RedisConnection(redis as ScriptClient, server, options)
    await connection.#renew(connectMs)
    // The second call names the script by its digest, as all later ones do.
    if (connection.isUp) await connection.#renew(connectMs)
    connection.#hasBegun = true
    // Calls of requests must not wait for this call's timer.
    clearTimeout(connection.#expiry ?? undefined)
    connection.#expiry = null
    if (!connection.isUp) {
      await connection.close()
      throw failureText(server, connection.#lastError)
    }
    return connection
  }

  private constructor(redis: ScriptClient, server: ServerAddress, options: ConnectionOptions) {
    const { log, now = () => performance.now(), leaseMs = LEASE_MS } = options
    this.#redis = redis
    this.#server = server
    this.#log = log
    this.#now = now
    this.#leaseMs = leaseMs
    redis.on('end', this.#joinAgain)
  }

  /** Whether the server is in use. */
  get isUp(): boolean {
    return this.#isUp
  }

  /** The number of replicas with a lease, as the server last reported it. */
  get replicas(): number {
    return this.#replicas
  }

  /** The number of calls that the server did not answer in time. */
  get lost(): number {
    return this.#lost
  }

  /** The number of losses of the server. Its state afterwards may be older than before. */
  get losses(): number {
    return this.#losses
  }

  take(name: string, capacity: number, refill: number, amount: number): Promise<[taken: 0 | 1, units: string]> {
    return this.#timed(() => this.#redis.bucket(`${PREFIX}bucket:${name}`, capacity, refill, amount, 'take'))
  }

  give(name: string, capacity: number, refill: number, amount: number): void {
    this.#send(() => this.#redis.bucket(`${PREFIX}bucket:${name}`, capacity, refill, amount, 'give'))
  }

  enter(name: string, limit: number): Promise<number> {
    return this.#timed(() => this.#redis.enter(`${PREFIX}slots:${name}`, LEASES, this.#replica, limit, HASH_MS))
  }

  leave(name: string): void {
    this.#send(() => this.#redis.leave(`${PREFIX}slots:${name}`, this.#replica))
  }

  get(key: string): Promise<string | null> {
    return this.#timed(() => this.#redis.get(PREFIX + key))
  }

  set(key: string, value: string, ttlMs: number): void {
    this.#send(() => this.#redis.set(PREFIX + key, value, 'PX', Math.ceil(ttlMs)))
  }

  delete(key: string): void {
    this.#send(() => this.#redis.del(PREFIX + key))
  }

  async version(name: string): Promise<number> {
    if (this.#changed.get(name) === UNSENT) {
      await this.#sendVersion(name)
      if (!this.#isUp) throw new Error('the state server is lost')
    }
    return Number(await this.#timed(() => this.#redis.version(versionKey(name), newVersion(), VERSION_MS)))
  }

  /** Resolves when the server has the change. Also when the server is lost: then the change is sent when it is back. */
  async changeVersion(name: string): Promise<void> {
    if (this.#isUp) await this.#sendVersion(name)
    else this.#changed.set(name, UNSENT)
  }

  /** Uses a new number each time: an earlier call that the server executes late must not restore an old number. */
  async #sendVersion(name: string): Promise<void> {
    const version = newVersion()
    this.#changed.set(name, version)
    try {
      await this.#timed(() => this.#redis.set(versionKey(name), version, 'PX', VERSION_MS))
      if (this.#changed.get(name) === version) this.#changed.delete(name)
    } catch {
      // The server is lost now.
      if (this.#changed.get(name) === version) this.#changed.set(name, UNSENT)
    }
  }

  async #sendVersions(): Promise<void> {
    // A copy, because each access moves a name to the end of the map.
    const names = [...this.#changed.keys()]
    for (let from = 0; from < names.length && this.#isUp; from += SENT_AT_A_TIME) {
      const unsent = names.slice(from, from + SENT_AT_A_TIME).filter(name => this.#changed.get(name) === UNSENT)
      await Promise.all(unsent.map(name => this.#sendVersion(name)))
    }
  }

  /** Gives up the lease, so that the slots of this replica are free at once. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#next ?? undefined)
    if (this.#isUp) await this.#timed(() => this.#redis.zrem(LEASES, this.#replica)).catch(() => {})
    clearTimeout(this.#expiry ?? undefined)
    this.#isUp = false
    this.#redis.disconnect()
  }

  /** Sends a call without waiting for its answer. A failure counts as a loss of the server. */
  #send(call: () => Promise<unknown>): void {
    this.#timed(call).catch(() => {})
  }

  #timed<Answer>(call: () => Promise<Answer>, withinMs = CALL_MS): Promise<Answer> {
    const answer = this.#joining === null ? call() : this.#joining.then(call)
    return new Promise((resolve, reject) => {
      const pending: PendingCall = { until: this.#now() + withinMs, reject }
      this.#pending.add(pending)
      this.#expiry ??= setTimeout(this.#expireSoon, withinMs)
      answer.then(
        value => {
          this.#pending.delete(pending)
          resolve(value)
        },
        error => {
          if (this.#pending.delete(pending)) this.#lose(error)
          reject(error)
        },
      )
    })
  }

  /** The event loop may have been blocked for longer than the timeout: received answers are read first. */
  readonly #expireSoon = (): void => void setImmediate(this.#expire)

  readonly #expire = (): void => {
    this.#expiry = null
    const now = this.#now()
    for (const pending of this.#pending) {
      if (pending.until > now) {
        this.#expiry = setTimeout(this.#expireSoon, Math.ceil(pending.until - now))
        return
      }
      this.#pending.delete(pending)
      const late = new Error('no answer in time')
      this.#lose(late)
      pending.reject(late)
    }
  }

  /**
   * Reconnects after a server or a firewall has closed an idle connection. Nothing is lost unless the server cannot be reached again. Calls
   * in progress fail, and thereby count as a loss.
   */
  readonly #joinAgain = (): void => {
    if (!this.#isUp || this.#closed || this.#pending.size > 0) return
    // Another server may be at the address now, with older versions.
    this.#losses++
    const joining = this.#redis.connect()
    const isOver = () => {
      if (this.#joining === joining) this.#joining = null
    }
    this.#joining = joining
    joining.then(isOver, isOver)
    clearTimeout(this.#next ?? undefined)
    void this.#renew()
  }

  #lose(error: unknown): void {
    this.#lost++
    this.#lastError = error
    if (!this.#isUp || this.#closed) return
    this.#isUp = false
    this.#losses++
    this.#failed = 0
    this.#former = this.#replica
    this.#replica = randomUUID()
    if (this.#hasBegun) {
      this.#log.error(
        { server: this.#server.shown, reason: reasonOf(error) },
        'the state server is lost: each replica limits by its share',
      )
    }
    this.#renewIn(RETRY_MS)
  }

  #renewIn(ms: number): void {
    clearTimeout(this.#next ?? undefined)
    this.#next = setTimeout(() => void this.#renew(), ms)
    this.#next.unref()
  }

  /** Also serves as the probe: it writes, so a server that is full, read-only or loading stays lost. */
  async #renew(withinMs = CALL_MS): Promise<void> {
    try {
      if (this.#redis.status === 'end') await this.#timed(() => this.#redis.connect())
      const [held, replicas] = await this.#timed(
        () => this.#redis.renew(LEASES, this.#replica, this.#leaseMs),
        withinMs,
      )
      if (this.#closed) return
      this.#replicas = replicas
      if (held === 0 || !this.#isUp) this.#declare()
      if (!this.#isUp) this.#markUp()
      this.#renewIn(this.#leaseMs / 5)
    } catch (error) {
      if (this.#closed) return
      this.#lastError = error
      this.#failed++
      // A dead connection is not noticed for minutes, so a new one is made.
      if (this.#failed % RETRIES === 0) this.#redis.disconnect()
      this.#renewIn(RETRY_MS)
    }
  }

  /** Declares the slots of this replica. The server executes later calls of this connection afterwards. */
  #declare(): void {
    for (const [name, count] of this.slots?.counts() ?? []) {
      this.#send(() => this.#redis.declare(`${PREFIX}slots:${name}`, this.#replica, count, HASH_MS))
    }
  }

  #markUp(): void {
    this.#isUp = true
    const former = this.#former
    if (former !== null) this.#send(() => this.#redis.zrem(LEASES, former))
    this.#former = null
    void this.#sendVersions()
    if (this.#lost > 0) this.#log.info({ server: this.#server.shown }, 'the state server answers again')
  }
}

const SCRIPTS: readonly [name: string, keys: number, lua: string][] = [
  ['bucket', 1, BUCKET],
  ['enter', 2, ENTER],
  ['leave', 1, LEAVE],
  ['declare', 1, DECLARE],
  ['renew', 1, RENEW],
  ['version', 1, VERSION],
]

const versionKey = (name: string) => `${PREFIX}version:${name}`
/** Random, because a server that lost its memory would repeat counted numbers. Above the numbers of `createVersions`. */
const newVersion = () => randomInt(2 ** 32, 2 ** SERVER_VERSION_BITS)

/** The message of the client's error, without the command that it quotes. */
function reasonOf(error: unknown): string {
  return (error as Error).message.split('\n', 1)[0]!.slice(0, 200)
}
