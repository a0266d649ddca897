/**
 * Authenticates readers of metrics with `metrics: token`. The store has the tokens. While the store cannot be read, a recently
 * verified token can still read the metrics, and nothing else: they show that the store has failed.
 */
import { hash } from 'node:crypto'
import type { Context } from 'koa'
import { type Clock, isRefusal } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { Store } from '../store/store.ts'
import { bearerOf, tokenOf } from './server.ts'

/** How long after its last verification a token can read metrics without the store. After a day, operators work on the outage. */
export const TOKEN_KEPT_MS = 24 * 60 * 60_000
/** The maximum number of tokens in memory. Above it the least recent one is removed. */
const MAX_TOKENS = 100

/** Whether a request has a valid token of an operator. Throws `store_unavailable` if that is not known. */
export function createObservers(store: Pick<Store, 'people'>, clock: Clock): (ctx: Context) => Promise<boolean> {
  /** By digest of a token: the end of its access without the store. */
  const known = boundedMap<number>(MAX_TOKENS)
  return async ctx => {
    const secret = bearerOf(ctx)
    if (secret === null) return false
    const digest = hash('sha256', secret)
    try {
      const token = await tokenOf(secret, store)
      if (token) known.set(digest, Math.min(clock.now() + TOKEN_KEPT_MS, token.expiresAt ?? Infinity))
      else known.delete(digest)
      return token !== undefined
    } catch (error) {
      const isDown = isRefusal(error) && error.code === 'store_unavailable'
      if (isDown && clock.now() < (known.get(digest) ?? 0)) return true
      throw error
    }
  }
}
