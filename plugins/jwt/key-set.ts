/**
 * The public keys of an identity provider: written out, or fetched from its address. A fetched set is used while it is
 * renewed, and goes on being used while the provider cannot be reached; nobody can make it be fetched again and again.
 */

import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import type { Clock, Log, SettingsProblem } from '#contract'
import { fetchKeys } from './fetch-keys.ts'
import type { Jwks } from './jwks.ts'
import { isForSignatures, whyUnusable } from './usable.ts'

export interface KeySet {
  /** The set as it is known; the same object as long as it is the same set. Rejects with `KeysUnavailable`. */
  current(): Promise<JWTVerifyGetKey>
  /** A set that has another content than this one; null when there is none, or when it is too soon to ask again. */
  newerThan(set: JWTVerifyGetKey): Promise<JWTVerifyGetKey | null>
  close(): void
}

export interface KeySetParts {
  readonly clock: Clock
  readonly log: Log
  readonly refreshMs: number
  readonly keepMs: number
  readonly cooldownMs: number
  readonly timeoutMs: number
}

/** There is no set, or it is too old to be believed, or a newer one may be needed and cannot be had. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable'
  readonly retryAfterMs: number

  constructor(retryAfterMs: number) {
    super('the keys of the identity provider cannot be had')
    this.retryAfterMs = retryAfterMs
  }
}

/** After a fetch that failed the next one may come sooner than `cooldown` says: everyone waits for it. */
const AFTER_FAILURE_MS = 5_000

/** Loaded with the first step that needs it: a gateway without tokens starts without it. */
export function loadJose(): Promise<typeof import('jose')> {
  return (jose ??= import('jose'))
}
let jose: Promise<typeof import('jose')> | undefined

/** The keys that are written out and can check no signature, each at its place below `with`. */
export function complaintsAbout(jwks: string | Jwks): SettingsProblem[] {
  if (typeof jwks === 'string') return []
  return jwks.keys.flatMap((key, i) => {
    const why = isForSignatures(key) ? whyUnusable(key) : null
    return why === null ? [] : [{ at: `/jwks/keys/${i}`, message: `this key can check no signature: ${why}` }]
  })
}

/** Throws for a key that is written out and can check no signature. */
export function createKeySet(jwks: string | Jwks, parts: KeySetParts): KeySet {
  if (typeof jwks === 'string') return createRemoteSet(jwks, parts)
  const [wrong] = complaintsAbout(jwks)
  if (wrong !== undefined) throw new Error(`${wrong.at}: ${wrong.message}`)
  const set = toSet(jwks)
  set.catch(() => {})
  return { current: () => set, newerThan: async () => null, close() {} }
}

async function toSet(jwks: Jwks): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet } = await loadJose()
  // Of the operations of a key only checking is asked for; who lists others beside it would make its import fail.
  const keys = jwks.keys.map(({ key_ops: operations, ...key }) =>
    operations === undefined || (Array.isArray(operations) && operations.includes('verify'))
      ? key
      : { ...key, key_ops: operations },
  )
  return createLocalJWKSet({ keys } as JSONWebKeySet)
}

/** A fetched set. */
interface Fetched {
  readonly text: string
  readonly set: JWTVerifyGetKey
  readonly atMs: number
}

/**
 * By gateway (its clock is what stays from generation to generation) and address: a reload while the provider is down must
 * not lock everybody out.
 */
const remembered = new WeakMap<Clock, Map<string, Fetched>>()

function memoryOf(clock: Clock): Map<string, Fetched> {
  let memory = remembered.get(clock)
  if (!memory) remembered.set(clock, (memory = new Map()))
  return memory
}

/**
 * Not jose's `createRemoteJWKSet`: with it, fetching through `fetchKeys`, 11 of this file's 33 tests fail. It reads
 * `Date.now()`, it fetches again for each token while the provider is down (its cooldown counts from the last success), it
 * gives up the keys after `cacheMaxAge`, and its function is the same for each set, so no token can be remembered by its set.
 */
function createRemoteSet(url: string, { clock, log, ...times }: KeySetParts): KeySet {
  const memory = memoryOf(clock)
  const closing = new AbortController()
  let fetched = memory.get(url) ?? null
  let triedAtMs = Number.NEGATIVE_INFINITY
  let hasFailed = false
  let pending: Promise<void> | null = null

  /** One fetch at a time, for all who want it. Never rejects. */
  function load(): Promise<void> {
    triedAtMs = clock.now()
    pending ??= fetchOnce().finally(() => (pending = null))
    return pending
  }

  async function fetchOnce(): Promise<void> {
    try {
      const { text, jwks, leftOut } = await fetchKeys(url, { timeoutMs: times.timeoutMs, signal: closing.signal })
      const isNew = fetched?.text !== text
      if (isNew && leftOut.length > 0) {
        const fields = { jwks: new URL(url).host, left_out: leftOut }
        log.warn(fields, "keys of the identity provider's set can check no signature and are left out")
      }
      const set = fetched && !isNew ? fetched.set : await toSet(jwks)
      fetched = { text, set, atMs: clock.now() }
      memory.set(url, fetched)
      hasFailed = false
    } catch (error) {
      hasFailed = true
      if (closing.signal.aborted) return
      const fields = { jwks: new URL(url).host, error: detailOf(error) }
      log.warn(fields, "the identity provider's keys could not be fetched")
    }
  }

  /** Milliseconds until a fetch may be tried again. A clock that was set back must not put it off. */
  function untilNextMs(): number {
    const pauseMs = hasFailed ? Math.min(AFTER_FAILURE_MS, times.cooldownMs) : times.cooldownMs
    const sinceMs = clock.now() - triedAtMs
    return sinceMs < 0 ? 0 : Math.max(0, pauseMs - sinceMs)
  }

  function believed(): Fetched | null {
    return fetched && clock.now() - fetched.atMs < times.keepMs + times.refreshMs ? fetched : null
  }

  const unavailable = () => new KeysUnavailable(Math.max(1000, untilNextMs()))

  void load()
  return {
    async current() {
      const known = believed()
      if (known) {
        if (clock.now() - known.atMs >= times.refreshMs && untilNextMs() === 0) void load()
        return known.set
      }
      if (pending || untilNextMs() === 0) await (pending ?? load())
      const loaded = believed()
      if (!loaded) throw unavailable()
      return loaded.set
    },
    async newerThan(set) {
      if (fetched?.set === set && (pending || untilNextMs() === 0)) await (pending ?? load())
      if (fetched && fetched.set !== set) return fetched.set
      if (hasFailed) throw unavailable()
      return null
    },
    close: () => closing.abort(),
  }
}

/** Of what `fetch` throws the cause says more. */
function detailOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}
