/**
 * The public keys of an identity provider: in the configuration, or fetched from its address. A fetched set stays in use while it is
 * renewed and while the provider cannot be reached. Clients cannot cause more fetches than the cooldown allows.
 */

import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import type { Clock, Log, SettingsProblem } from '#contract'
import { fetchKeys } from './fetch-keys.ts'
import type { Jwks } from './jwks.ts'
import { isForSignatures, whyUnusable } from './usable.ts'

export interface KeySet {
  /** The current set; the same object as long as its content is the same. Rejects with `KeysUnavailable`. */
  current(): Promise<JWTVerifyGetKey>
  /** A set with another content than this one; null if no such set exists, or if the cooldown has not ended. */
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

/** The set is missing or too old, or a newer one may be needed and cannot be fetched. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable'
  readonly retryAfterMs: number

  constructor(retryAfterMs: number) {
    super('failed to fetch the keys of the identity provider')
    this.retryAfterMs = retryAfterMs
  }
}

/** After a failed fetch the next one may come before the end of the cooldown, because all callers wait for it. */
const AFTER_FAILURE_MS = 5_000

/** Loads jose with the first step that needs it. */
export function loadJose(): Promise<typeof import('jose')> {
  return (jose ??= import('jose'))
}
let jose: Promise<typeof import('jose')> | undefined

/** The problems of keys in the configuration that cannot check signatures, each with its place below `with`. */
export function problemsOf(jwks: string | Jwks): SettingsProblem[] {
  if (typeof jwks === 'string') return []
  return jwks.keys.flatMap((key, i) => {
    const why = isForSignatures(key) ? whyUnusable(key) : null
    return why === null ? [] : [{ at: `/jwks/keys/${i}`, message: `this key cannot check signatures: ${why}` }]
  })
}

/** Throws for a key in the configuration that cannot check signatures. */
export function createKeySet(jwks: string | Jwks, parts: KeySetParts): KeySet {
  if (typeof jwks === 'string') return createRemoteSet(jwks, parts)
  const [wrong] = problemsOf(jwks)
  if (wrong !== undefined) throw new Error(`${wrong.at}: ${wrong.message}`)
  const set = toSet(jwks)
  set.catch(() => {})
  return { current: () => set, newerThan: async () => null, close() {} }
}

async function toSet(jwks: Jwks): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet } = await loadJose()
  // jose refuses to import a key that lists other operations beside `verify`.
  const keys = jwks.keys.map(({ key_ops: operations, ...key }) =>
    operations === undefined || (Array.isArray(operations) && operations.includes('verify'))
      ? key
      : { ...key, key_ops: operations },
  )
  return createLocalJWKSet({ keys } as JSONWebKeySet)
}

interface FetchedSet {
  readonly text: string
  readonly set: JWTVerifyGetKey
  readonly atMs: number
}

/**
 * Sets by gateway and address: a reload while the provider is down must not lock out all callers. The clock identifies the gateway,
 * because it stays the same over reloads.
 */
const remembered = new WeakMap<Clock, Map<string, FetchedSet>>()

function memoryOf(clock: Clock): Map<string, FetchedSet> {
  let memory = remembered.get(clock)
  if (!memory) remembered.set(clock, (memory = new Map()))
  return memory
}

/**
 * jose's `createRemoteJWKSet` does not replace this: with it, fetching through `fetchKeys`, 11 of this file's 33 tests fail. It reads
 * `Date.now()`. While the provider is down it fetches again for each token, because its cooldown counts from the last success. It
 * drops the keys after `cacheMaxAge`. Its function is the same for each set, so verified tokens cannot be cached by their set.
 */
function createRemoteSet(url: string, { clock, log, ...times }: KeySetParts): KeySet {
  const memory = memoryOf(clock)
  const closing = new AbortController()
  let fetched = memory.get(url) ?? null
  let triedAtMs = Number.NEGATIVE_INFINITY
  let hasFailed = false
  let pending: Promise<void> | null = null

  /** One fetch at a time, shared by all callers. Never rejects. */
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
        log.warn(fields, 'ignoring keys of the identity provider that cannot check signatures')
      }
      const set = fetched && !isNew ? fetched.set : await toSet(jwks)
      fetched = { text, set, atMs: clock.now() }
      memory.set(url, fetched)
      hasFailed = false
    } catch (error) {
      hasFailed = true
      if (closing.signal.aborted) return
      const fields = { jwks: new URL(url).host, error: detailOf(error) }
      log.warn(fields, "failed to fetch the identity provider's keys")
    }
  }

  /** Milliseconds until the next fetch is allowed. A clock that was set back must not delay it. */
  function untilNextMs(): number {
    const pauseMs = hasFailed ? Math.min(AFTER_FAILURE_MS, times.cooldownMs) : times.cooldownMs
    const sinceMs = clock.now() - triedAtMs
    return sinceMs < 0 ? 0 : Math.max(0, pauseMs - sinceMs)
  }

  function usable(): FetchedSet | null {
    return fetched && clock.now() - fetched.atMs < times.keepMs + times.refreshMs ? fetched : null
  }

  const unavailable = () => new KeysUnavailable(Math.max(1000, untilNextMs()))

  void load()
  return {
    async current() {
      const known = usable()
      if (known) {
        if (clock.now() - known.atMs >= times.refreshMs && untilNextMs() === 0) void load()
        return known.set
      }
      if (pending || untilNextMs() === 0) await (pending ?? load())
      const loaded = usable()
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

/** The message of an error of `fetch` with its cause, which is more exact. */
function detailOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}
