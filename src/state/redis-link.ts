/**
 * The connection to a state server. A call takes at most `CALL_MS`; after one that fails or takes longer nothing is sent
 * for requests until the server renews this replica's lease again. So a request waits for a lost server once at most.
 */
import { randomInt, randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { Log } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import { addressOf, userOf, withoutUser } from './redis-address.ts'
import { checkServer, failureText, type ServerAddress } from './redis-check.ts'
import { BUCKET, DECLARE, ENTER, LEAVE, RENEW, VERSION } from './redis-scripts.ts'

/** The longest that a request waits for one call. */
export const CALL_MS = 50
/** How long what a dead replica held counts; a lease is renewed five times in that time. */
const LEASE_MS = 15_000
/** How often a lost server is tried again; and after how many tries the connection is made anew. */
const TRY_MS = 250
const TRIES = 4
/** How long the start waits for the server. */
const CONNECT_MS = 2_000
/** A name without any exchange for so long is forgotten; no exchange takes that long. */
const HASH_MS = '86400000'
/** A version that nobody has changed for so long becomes another one. */
const VERSION_MS = 30 * 86_400_000
/** So many changes are told to a server that was lost, and so many of them at a time: each has to be answered in time. */
const MOST_CHANGED = 65_536
const TOLD_AT_A_TIME = 100
/** In place of the number of a change that the server is yet to be told. */
const UNTOLD = 0

/** The numbers of versions are below 2 to the power of this. */
export const LINK_VERSION_BITS = 40

export const PREFIX = 'tollgate:'
const LEASES = `${PREFIX}replicas`

/** The client with the scripts, which are sent once and then named by their digest. */
interface Scripted extends Redis {
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

interface Pending {
  readonly until: number
  readonly reject: (error: Error) => void
}

export interface LinkOptions {
  readonly url: string
  readonly log: Log
  /** Milliseconds that never step back. */
  readonly now?: () => number
  /** For tests. */
  readonly leaseMs?: number
  /** For tests. */
  readonly connectMs?: number
}

export class RedisLink {
  readonly #redis: Scripted
  readonly #server: ServerAddress
  readonly #log: Log
  readonly #now: () => number
  readonly #leaseMs: number
  /** Another one after each loss: what was sent before, and is done late or never, counts for nobody. */
  #replica: string = randomUUID()
  #former: string | null = null
  /** Calls that have no answer yet, the oldest first. */
  readonly #pending = new Set<Pending>()
  #expiry: NodeJS.Timeout | null = null
  #next: NodeJS.Timeout | null = null
  /** Calls wait for it. */
  #joining: Promise<void> | null = null
  #failed = 0
  #closed = false
  #isUp = false
  /** Until then a loss is told by a failed start. */
  #hasBegun = false
  #replicas = 1
  #lost = 0
  #losses = 0
  #why: unknown = null
  /** The new versions that the server may not know, or `UNTOLD`. */
  readonly #changed = boundedMap<number>(MOST_CHANGED)
  /** The slots of this process, to be said again to a server that may not know them. */
  slots: { counts(): Iterable<readonly [name: string, count: number]> } | null = null

  /** Rejects with a `StateError` for a server that cannot be used. */
  static async open(options: LinkOptions): Promise<RedisLink> {
    const server = addressOf(options.url)
    const { connectMs = CONNECT_MS } = options
    const { Redis } = await import('ioredis')
    const redis = new Redis(withoutUser(options.url), {
      ...userOf(options.url),
      lazyConnect: true,
      connectTimeout: connectMs,
      disconnectTimeout: TRY_MS,
      // What was not sent is answered here; and what was sent is never sent again: it may have been done.
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
    const link = new RedisLink(redis as Scripted, server, options)
    await link.#renew(connectMs)
    // The second one names the script by its digest, as all later ones do.
    if (link.isUp) await link.#renew(connectMs)
    link.#hasBegun = true
    // Calls for requests must not wait for the timer of this one.
    clearTimeout(link.#expiry ?? undefined)
    link.#expiry = null
    if (!link.isUp) {
      await link.close()
      throw failureText(server, link.#why)
    }
    return link
  }

  private constructor(redis: Scripted, server: ServerAddress, options: LinkOptions) {
    const { log, now = () => performance.now(), leaseMs = LEASE_MS } = options
    this.#redis = redis
    this.#server = server
    this.#log = log
    this.#now = now
    this.#leaseMs = leaseMs
    redis.on('end', this.#joinAgain)
  }

  /** Whether the server is asked. */
  get isUp(): boolean {
    return this.#isUp
  }

  /** How many replicas had a lease when the server last said so. */
  get replicas(): number {
    return this.#replicas
  }

  /** How many calls the server did not answer in time. */
  get lost(): number {
    return this.#lost
  }

  /** How often the server was lost. What it knows afterwards may be older than what it knew before. */
  get losses(): number {
    return this.#losses
  }

  take(name: string, capacity: number, refill: number, amount: number): Promise<[taken: 0 | 1, units: string]> {
    return this.#timed(() => this.#redis.bucket(`${PREFIX}bucket:${name}`, capacity, refill, amount, 'take'))
  }

  give(name: string, capacity: number, refill: number, amount: number): void {
    this.#aside(() => this.#redis.bucket(`${PREFIX}bucket:${name}`, capacity, refill, amount, 'give'))
  }

  enter(name: string, limit: number): Promise<number> {
    return this.#timed(() => this.#redis.enter(`${PREFIX}slots:${name}`, LEASES, this.#replica, limit, HASH_MS))
  }

  leave(name: string): void {
    this.#aside(() => this.#redis.leave(`${PREFIX}slots:${name}`, this.#replica))
  }

  get(key: string): Promise<string | null> {
    return this.#timed(() => this.#redis.get(PREFIX + key))
  }

  set(key: string, value: string, ttlMs: number): void {
    this.#aside(() => this.#redis.set(PREFIX + key, value, 'PX', Math.ceil(ttlMs)))
  }

  delete(key: string): void {
    this.#aside(() => this.#redis.del(PREFIX + key))
  }

  async version(name: string): Promise<number> {
    if (this.#changed.get(name) === UNTOLD) {
      await this.#tellVersion(name)
      if (!this.#isUp) throw new Error('the state server is lost')
    }
    return Number(await this.#timed(() => this.#redis.version(versionKey(name), newVersion(), VERSION_MS)))
  }

  /** Resolves when the server knows it, or is lost: then it is told when it is back. */
  async changeVersion(name: string): Promise<void> {
    if (this.#isUp) await this.#tellVersion(name)
    else this.#changed.set(name, UNTOLD)
  }

  /** Another number each time: what was sent before may be done later, and must not bring back a number. */
  async #tellVersion(name: string): Promise<void> {
    const version = newVersion()
    this.#changed.set(name, version)
    try {
      await this.#timed(() => this.#redis.set(versionKey(name), version, 'PX', VERSION_MS))
      if (this.#changed.get(name) === version) this.#changed.delete(name)
    } catch {
      // The server is lost now.
      if (this.#changed.get(name) === version) this.#changed.set(name, UNTOLD)
    }
  }

  async #tellVersions(): Promise<void> {
    // A copy: each look moves a name to the end of the map.
    const names = [...this.#changed.keys()]
    for (let from = 0; from < names.length && this.#isUp; from += TOLD_AT_A_TIME) {
      const untold = names.slice(from, from + TOLD_AT_A_TIME).filter(name => this.#changed.get(name) === UNTOLD)
      await Promise.all(untold.map(name => this.#tellVersion(name)))
    }
  }

  /** Gives up the lease: what this replica held is free at once. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#next ?? undefined)
    if (this.#isUp) await this.#timed(() => this.#redis.zrem(LEASES, this.#replica)).catch(() => {})
    clearTimeout(this.#expiry ?? undefined)
    this.#isUp = false
    this.#redis.disconnect()
  }

  /** Nobody waits for the answer, and a failure is one of the server. */
  #aside(call: () => Promise<unknown>): void {
    this.#timed(call).catch(() => {})
  }

  #timed<Answer>(call: () => Promise<Answer>, withinMs = CALL_MS): Promise<Answer> {
    const answer = this.#joining === null ? call() : this.#joining.then(call)
    return new Promise((resolve, reject) => {
      const pending: Pending = { until: this.#now() + withinMs, reject }
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

  /** The event loop may have been busy for longer than a call may take: answers that have come are read first. */
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
   * A server or a firewall ends a connection that nobody has used for a while. Nothing is lost by that, unless the server cannot
   * be reached again. Calls that were under way fail, and the server is lost by them.
   */
  readonly #joinAgain = (): void => {
    if (!this.#isUp || this.#closed || this.#pending.size > 0) return
    // Behind the same address there may be another server by now, which knows older versions.
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
    this.#why = error
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
    this.#renewIn(TRY_MS)
  }

  #renewIn(ms: number): void {
    clearTimeout(this.#next ?? undefined)
    this.#next = setTimeout(() => void this.#renew(), ms)
    this.#next.unref()
  }

  /** Also the probe: it writes, so a server that is full, read-only or loading is still a lost one. */
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
      if (!this.#isUp) this.#found()
      this.#renewIn(this.#leaseMs / 5)
    } catch (error) {
      if (this.#closed) return
      this.#why = error
      this.#failed++
      // A connection into nothing is not noticed for minutes.
      if (this.#failed % TRIES === 0) this.#redis.disconnect()
      this.#renewIn(TRY_MS)
    }
  }

  /** What is sent later on this connection is done later. */
  #declare(): void {
    for (const [name, count] of this.slots?.counts() ?? []) {
      this.#aside(() => this.#redis.declare(`${PREFIX}slots:${name}`, this.#replica, count, HASH_MS))
    }
  }

  #found(): void {
    this.#isUp = true
    const former = this.#former
    if (former !== null) this.#aside(() => this.#redis.zrem(LEASES, former))
    this.#former = null
    void this.#tellVersions()
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
/** No count: a server that has lost its memory would come to the same numbers again. Above those of `createVersions`. */
const newVersion = () => randomInt(2 ** 32, 2 ** LINK_VERSION_BITS)

/** What a client's error says, without what it quotes of the command. */
function reasonOf(error: unknown): string {
  return (error as Error).message.split('\n', 1)[0]!.slice(0, 200)
}
