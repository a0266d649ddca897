/** The owners of work: an account, or the network of a client without an account. */
import { hash, randomInt } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import { SliceQueue, slices, WorkOwner } from '#contract'

/** Maximum number of accounts, and of credentials. The least recently seen are dropped. */
const MAX_OWNERS = 10_000
const CREDENTIAL_MS = 600_000
const NETWORKS = 256
/** Node's limit for a head is the same. */
const MAX_HEAD_BYTES = 16 * 1024
const CREDENTIAL = /\r\n(authorization|x-api-key|api-key|cookie):[ \t]*([^\r\n]+)/i

export class WorkOwners {
  /** All clients without an account share one weight. */
  readonly #strangers = new WorkOwner()
  readonly #accounts = new LRUCache<string, WorkOwner>({ max: MAX_OWNERS })
  /**
   * Networks are hashed into a fixed number of queues (stochastic fairness queueing), so that any number of addresses keeps the queue
   * short.
   */
  readonly #networks = Array.from({ length: NETWORKS }, () => new WorkOwner(this.#strangers))
  readonly #seed = randomInt(2 ** 32)
  /** Owners by the digest of their credential. */
  readonly #credentials = new LRUCache<string, WorkOwner>({ max: MAX_OWNERS, ttl: CREDENTIAL_MS })

  /** Records that a request with these headers was accepted. */
  remember(headers: IncomingHttpHeaders, owner: WorkOwner): void {
    const credential = credentialOf(headers)
    if (credential !== undefined) this.#credentials.set(credential, owner)
  }

  /** The owner of a request by its headers; undefined if no request with its credential was accepted before. */
  find(headers: IncomingHttpHeaders): WorkOwner | undefined {
    const credential = credentialOf(headers)
    return credential === undefined ? undefined : this.#credentials.get(credential)
  }

  /** The owner of the first credential in a head; undefined if no request with it was accepted before. */
  recall(bytes: Buffer): WorkOwner | undefined {
    const [, name, value] = CREDENTIAL.exec(bytes.toString('latin1', 0, MAX_HEAD_BYTES)) ?? []
    return name === undefined ? undefined : this.#credentials.get(digest(name.toLowerCase(), value!.trimEnd()))
  }

  /** @param weight left out: unchanged */
  account(id: string, weight?: number): WorkOwner {
    let owner = this.#accounts.get(id)
    if (owner === undefined) this.#accounts.set(id, (owner = new WorkOwner()))
    if (weight !== undefined) owner.weight = weight
    return owner
  }

  /** @param network as `addressGroup` writes it */
  network(network: string): WorkOwner {
    // FNV-1a: a digest costs two microseconds for each request of a public route.
    let place = this.#seed
    for (let at = 0; at < network.length; at++) place = Math.imul(place ^ network.charCodeAt(at), 0x01000193)
    // The upper bits differ most if addresses differ in their last part.
    return this.#networks[(place >>> 24) % NETWORKS]!
  }
}

function credentialOf(headers: IncomingHttpHeaders): string | undefined {
  for (const name of ['authorization', 'x-api-key', 'api-key', 'cookie'] as const) {
    const value = headers[name]
    if (typeof value === 'string') return digest(name, value)
  }
  return undefined
}

const digest = (name: string, value: string): string => hash('sha256', `${name} ${value}`, 'base64')

/** The work of one thread: its queue, and the owners. */
export interface WorkQueue {
  readonly slices: SliceQueue
  readonly owners: WorkOwners
  /** The clock of the queue, in milliseconds. */
  now(): number
  /** Bytes of connections that wait to be parsed. */
  unparsedBytes: number
}

/** A queue of work whose clock is always 0, for simulated time. */
export function createTimelessQueue(): WorkQueue {
  const now = () => 0
  return {
    slices: new SliceQueue(now, turn => void setImmediate(turn)),
    owners: new WorkOwners(),
    now,
    unparsedBytes: 0,
  }
}

export const THREAD_QUEUE: WorkQueue = {
  slices,
  owners: new WorkOwners(),
  now: () => performance.now(),
  unparsedBytes: 0,
}
