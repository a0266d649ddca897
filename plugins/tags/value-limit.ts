/** Limits the number of different values of a tag in each account, with a bucket that refills evenly over a day. */
import type { BucketShape, Buckets, Grant, KeyValue } from '#contract'

const DAY_MS = 86_400_000

/** A counted value stays counted for a day. With a state server all replicas share the counts. */
export class ValueLimit {
  readonly #prefix: string
  readonly #shape: BucketShape
  readonly #buckets: Buckets
  readonly #kv: KeyValue

  /** @param prefix has the policy, the step and the tag */
  constructor(prefix: string, atMost: number, { buckets, kv }: { readonly buckets: Buckets; readonly kv: KeyValue }) {
    this.#prefix = prefix
    this.#shape = { capacity: atMost, refillPerMs: atMost / DAY_MS }
    this.#buckets = buckets
    this.#kv = kv
  }

  /** Whether the account may use the value. Two requests at once with a new value may count it twice. */
  admits(accountId: string, value: string): boolean | Promise<boolean> {
    const place = `${this.#prefix}/${accountId}`
    const name = `${place}/${value}`
    const known = this.#kv.get(name)
    if (known instanceof Promise) return known.then(text => text !== undefined || this.#count(place, name))
    return known !== undefined || this.#count(place, name)
  }

  #count(place: string, name: string): boolean | Promise<boolean> {
    const grant = this.#buckets.take(place, this.#shape, 1)
    return grant instanceof Promise ? grant.then(each => this.#keep(name, each)) : this.#keep(name, grant)
  }

  #keep(name: string, { taken }: Grant): boolean {
    if (taken) this.#kv.set(name, '1', DAY_MS)
    return taken
  }
}
