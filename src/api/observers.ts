/**
 * Who may read the figures with `metrics: token`. The store knows the tokens. While it cannot be read, one that it has known
 * lately is let in to the figures, and to nothing else: they say that the store is away.
 */
import { hash } from 'node:crypto'
import type { Context } from 'koa'
import { type Clock, isRefusal } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { Store } from '../store/store.ts'
import { bearerOf, tokenOf } from './server.ts'

/** So long after the store has last known a token: an outage is over by then, or somebody works on it. */
export const TOKEN_KEPT_MS = 24 * 60 * 60_000
/** Beyond so many tokens, the one that was used longest ago is forgotten. */
const MAX_TOKENS = 100

/** Answers whether a request brings an operator's token. Throws `store_unavailable` when nobody can say. */
export function createObservers(store: Pick<Store, 'people'>, clock: Clock): (ctx: Context) => Promise<boolean> {
  /** By a token's digest: until when it is let in without the store. */
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
      const isAway = isRefusal(error) && error.code === 'store_unavailable'
      if (isAway && clock.now() < (known.get(digest) ?? 0)) return true
      throw error
    }
  }
}
