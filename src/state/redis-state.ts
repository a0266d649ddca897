/**
 * State that all replicas share, on a server with the protocol of Redis. While the server is lost, each replica uses its share of a limit:
 * buckets and slots divided by the number of replicas. Buckets start from the last known level.
 */
import type { BucketShape, Buckets, Cache, Clock, Grant, KeyValue, Versions } from '#contract'
import { checkGive, checkTake, createApart, createBuckets, grantOf, type LocalBuckets } from './buckets.ts'
import { checkTtl, createKeyValue } from './key-value.ts'
import { type ConnectionOptions, RedisConnection, SERVER_VERSION_BITS } from './redis-connection.ts'
import { LocalSlots, type SlotCounter } from './slots.ts'
import { KV_BYTES, type State } from './state.ts'
import { createVersions, type LocalVersions } from './versions.ts'

export interface RedisStateOptions extends ConnectionOptions {
  readonly clock: Clock
}

/** Rejects with a `StateError` for a server that cannot be used. */
export async function openRedisState({ clock, ...options }: RedisStateOptions): Promise<State> {
  const connection = await RedisConnection.open(options)
  const slots = new LocalSlots(slotCounter(connection))
  connection.slots = slots
  return {
    buckets: new RedisBuckets(connection, createBuckets(clock)),
    slots,
    queued: () => slots.waiting,
    kv: keyValue(connection, 'kv', createKeyValue(clock, KV_BYTES)),
    versions: versionsOf(connection, createVersions()),
    cacheOf: configuration => cacheOf(connection, configuration),
    health: () => ({ isUp: connection.isUp, lost: connection.lost }),
    close: () => connection.close(),
  }
}

const MAX_OWED = 65_536

class RedisBuckets implements Buckets {
  readonly #connection: RedisConnection
  /** Each has this replica's share of the server's last level. */
  readonly #local: LocalBuckets
  /** Units that were taken from a share and that the server does not know of. */
  readonly #owedBy = createApart<number>(MAX_OWED)

  constructor(connection: RedisConnection, local: LocalBuckets) {
    this.#connection = connection
    this.#local = local
  }

  take(name: string, shape: BucketShape, amount: number): Grant | Promise<Grant> {
    checkTake(amount)
    if (!this.#connection.isUp) return this.#takeShare(name, shape, amount)
    if (this.#owedBy(name).size > 0) this.#pay(name, shape)
    return this.#connection.take(name, shape.capacity, shape.refillPerMs, amount).then(
      ([taken, text]) => {
        const units = Number(text)
        this.#local.put(name, units / this.#connection.replicas)
        return grantOf(taken === 1, units, shape, amount)
      },
      () => this.#takeShare(name, shape, amount),
    )
  }

  give(name: string, shape: BucketShape, amount: number): void {
    checkGive(amount)
    if (this.#connection.isUp) this.#connection.give(name, shape.capacity, shape.refillPerMs, amount)
    else {
      this.#local.give(name, this.#shareOf(shape), amount)
      this.#owe(name, -amount)
    }
  }

  /** A request that fits the whole bucket must not be too large for a share of it. */
  #takeShare(name: string, shape: BucketShape, amount: number): Grant {
    const share = this.#shareOf(shape)
    const most = amount > shape.capacity ? amount : Math.min(amount, share.capacity)
    const grant = this.#local.take(name, share, most)
    if (grant.taken) this.#owe(name, most)
    return grant
  }

  #owe(name: string, units: number): void {
    const owed = this.#owedBy(name)
    owed.set(name, (owed.get(name) ?? 0) + units)
  }

  /** Charges the server for what was taken while it was lost and has not refilled, so that a limit holds over short losses too. */
  #pay(name: string, shape: BucketShape): void {
    const owed = this.#owedBy(name).get(name)
    if (owed === undefined) return
    this.#owedBy(name).delete(name)
    const share = this.#shareOf(shape)
    const missing = share.capacity - this.#local.take(name, share, 0).remaining
    if (owed > 0) this.#connection.give(name, shape.capacity, shape.refillPerMs, -Math.min(owed, missing))
  }

  #shareOf({ capacity, refillPerMs }: BucketShape): BucketShape {
    const { replicas } = this.#connection
    return { capacity: Math.max(Math.min(1, capacity), capacity / replicas), refillPerMs: refillPerMs / replicas }
  }
}

function slotCounter(connection: RedisConnection): SlotCounter {
  return {
    enter: (name, limit) => (connection.isUp ? connection.enter(name, limit).catch(() => null) : null),
    leave(name) {
      if (connection.isUp) connection.leave(name)
    },
    share: limit => Math.max(1, Math.floor(limit / connection.replicas)),
  }
}

/** @param local used while the server is lost; null: nothing is found then */
function keyValue(connection: RedisConnection, prefix: string, local: KeyValue | null): KeyValue {
  const localValue = (name: string) => local?.get(name) as string | undefined
  return {
    get(name) {
      if (!connection.isUp) return localValue(name)
      return connection.get(`${prefix}:${name}`).then(
        value => value ?? undefined,
        () => localValue(name),
      )
    },
    set(name, value, ttlMs) {
      checkTtl(ttlMs)
      local?.set(name, value, ttlMs)
      if (connection.isUp) connection.set(`${prefix}:${name}`, value, ttlMs)
    },
    delete(name) {
      local?.delete(name)
      if (connection.isUp) connection.delete(`${prefix}:${name}`)
    },
  }
}

/** How many losses versions can distinguish while numbers stay exact. */
const LOSSES = 2 ** (53 - SERVER_VERSION_BITS)

/**
 * Each loss changes all numbers. The server may come back with a number from before a change. A number of this process does not
 * include changes by others since the last loss.
 *
 * @param local used while the server is lost; changes are sent to the server when it is back
 */
function versionsOf(connection: RedisConnection, local: LocalVersions): Versions {
  const since = () => (connection.losses % LOSSES) * 2 ** SERVER_VERSION_BITS
  const own = (name: string) => since() + local.get(name)
  return {
    get(name) {
      if (!connection.isUp) return own(name)
      const before = since()
      return connection.version(name).then(
        version => before + version,
        () => own(name),
      )
    },
    change(name) {
      local.change(name)
      return connection.changeVersion(name)
    },
  }
}

/** Replicas with the same configuration share the cache. The server limits its memory. */
function cacheOf(connection: RedisConnection, configuration: string): Cache {
  return { open: scope => keyValue(connection, `cache:${configuration}:${scope}`, null) }
}
