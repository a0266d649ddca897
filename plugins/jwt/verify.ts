/**
 * Whether a token is good: signed by a key of the provider's, by an algorithm that is allowed, for us, and now. What was
 * found good is remembered by the token's hash until the keys change, because a signature costs as much as the rest of a request.
 */
import { hash } from 'node:crypto'
import type { errors, JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'
import { type Clock, refuse } from '#contract'
import { malformed, unauthorized } from './bearer.ts'
import type { Claims, Identity } from './identity.ts'
import { type KeySet, KeysUnavailable, loadJose } from './key-set.ts'

export interface VerifierParts {
  readonly keys: KeySet
  readonly clock: Clock
  readonly issuer: string
  readonly audience: string | readonly string[]
  readonly algorithms: readonly string[]
  readonly toleranceMs: number
  read(claims: Claims): Identity
}

/** Each entry has the claims of its token, so tokens also count by their length. */
const MAX_KNOWN = 4096
const MAX_KNOWN_CHARACTERS = 4 * 1024 * 1024

/** A token that was found good. */
interface Verified {
  readonly keys: JWTVerifyGetKey
  readonly identity: Identity
  /** Of the token. */
  readonly length: number
}

/** Throws the refusal for a token that is not good. */
export function createVerifier({ keys, clock, read, ...rules }: VerifierParts): (token: string) => Promise<Identity> {
  const known = new Map<string, Verified>()
  let characters = 0

  /** The first that came goes first: who sends its token again is checked again. */
  function remember(name: string, entry: Verified): void {
    forget(name)
    for (const first of known.keys()) {
      if (known.size < MAX_KNOWN && characters + entry.length <= MAX_KNOWN_CHARACTERS) break
      forget(first)
    }
    characters += entry.length
    known.set(name, entry)
  }

  function forget(name: string): void {
    characters -= known.get(name)?.length ?? 0
    known.delete(name)
  }

  async function check(token: string, by: JWTVerifyGetKey): Promise<Identity> {
    const { jwtVerify } = await loadJose()
    const options: JWTVerifyOptions = {
      issuer: rules.issuer,
      audience: [...[rules.audience].flat()],
      algorithms: [...rules.algorithms],
      clockTolerance: rules.toleranceMs / 1000,
      currentDate: new Date(clock.now()),
      requiredClaims: ['exp'],
    }
    let payload: JWTPayload
    try {
      ;({ payload } = await jwtVerify(token, by, options))
    } catch (error) {
      if (codeOf(error) !== 'ERR_JWKS_MULTIPLE_MATCHING_KEYS') throw error
      payload = await withOneOf(error as errors.JWKSMultipleMatchingKeys, token, options)
    }
    return read(payload)
  }

  /** A key that nobody knows may be a new one: then the set is fetched again, if that is not too soon. */
  async function checkWithNewer(token: string, than: JWTVerifyGetKey, error: unknown) {
    const isUnknown = codeOf(error) === 'ERR_JWKS_NO_MATCHING_KEY'
    if (!isUnknown && codeOf(error) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw error
    const newer = await keys.newerThan(than).catch((reason: unknown) => {
      // By a key that is there the signature is wrong, whatever the provider would say now.
      throw isUnknown ? reason : error
    })
    if (newer === null) throw error
    return { by: newer, identity: await check(token, newer) }
  }

  return async token => {
    const name = hash('sha256', token, 'base64')
    try {
      const by = await keys.current()
      const before = known.get(name)
      if (before?.keys === by && clock.now() < before.identity.expiresAt + rules.toleranceMs) return before.identity
      forget(name)
      const found = await check(token, by).then(
        identity => ({ by, identity }),
        (error: unknown) => checkWithNewer(token, by, error),
      )
      remember(name, { keys: found.by, identity: found.identity, length: token.length })
      return found.identity
    } catch (error) {
      throw refusalFor(error)
    }
  }
}

/** Several keys would do when the token names none: the one that has signed it does. */
async function withOneOf(candidates: errors.JWKSMultipleMatchingKeys, token: string, options: JWTVerifyOptions) {
  const { jwtVerify } = await loadJose()
  let wrong: unknown = candidates
  for await (const key of candidates) {
    try {
      return (await jwtVerify(token, key, options)).payload
    } catch (error) {
      if (codeOf(error) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw error
      wrong = error
    }
  }
  throw wrong
}

/**
 * What the client is told. The library's own errors hold the claims, so they go nowhere: its code is enough for the log.
 * Claims are checked after the signature, so only who has a real token learns which of them is wrong.
 */
function refusalFor(error: unknown): unknown {
  if (error instanceof KeysUnavailable) {
    return refuse('overloaded', {
      message:
        "The identity provider's keys cannot be had at the moment, so no token can be checked. Try again shortly.",
      retryAfterMs: error.retryAfterMs,
      detail: 'no keys of the identity provider',
    })
  }
  const detail = codeOf(error)
  if (detail === undefined) return error
  switch (detail) {
    case 'ERR_JWT_EXPIRED':
      return unauthorized('expired_api_key', {
        message: 'The token has expired. Get a new one from your identity provider.',
        detail,
      })
    case 'ERR_JWT_CLAIM_VALIDATION_FAILED':
      return unauthorized('invalid_api_key', { message: claimSentence(error as Failed), detail })
    case 'ERR_JWS_INVALID':
    case 'ERR_JWT_INVALID':
      return malformed()
    default:
      return unauthorized('invalid_api_key', {
        message: 'The token is not accepted here: its signature, its key or its algorithm is not known.',
        detail,
      })
  }
}

type Failed = Pick<errors.JWTClaimValidationFailed, 'claim' | 'reason'>

function claimSentence({ claim, reason }: Failed): string {
  if (claim === 'nbf' && reason === 'check_failed') return 'The token is not valid yet.'
  if (reason === 'missing') return `The token has no claim "${claim}".`
  return `The claim "${claim}" of the token is not what is expected here.`
}

/** The code of an error of jose; undefined for any other error. */
function codeOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && /^ERR_J(OSE|W)/.test(code) ? code : undefined
}
