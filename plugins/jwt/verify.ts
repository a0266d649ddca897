/**
 * Verifies tokens: signature, key, algorithm, issuer, audience and times. A verified token is cached by its hash until the keys change,
 * because checking a signature costs as much as the rest of a request.
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

/** The cache is limited by characters too, because an entry has the claims of its token. */
const MAX_KNOWN = 4096
const MAX_KNOWN_CHARACTERS = 4 * 1024 * 1024

interface VerifiedToken {
  readonly keys: JWTVerifyGetKey
  readonly identity: Identity
  /** Characters of the token. */
  readonly length: number
}

/** Returns a function that verifies a token. It rejects with a refusal for an invalid one. */
export function createVerifier({ keys, clock, read, ...rules }: VerifierParts): (token: string) => Promise<Identity> {
  const known = new Map<string, VerifiedToken>()
  let characters = 0

  /** Removes the oldest entries first. A removed token is verified again. */
  function remember(name: string, entry: VerifiedToken): void {
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

  /** An unknown key may be new: fetches the set again, if the cooldown has ended. */
  async function checkWithNewer(token: string, than: JWTVerifyGetKey, error: unknown) {
    const isUnknown = codeOf(error) === 'ERR_JWKS_NO_MATCHING_KEY'
    if (!isUnknown && codeOf(error) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw error
    const newer = await keys.newerThan(than).catch((reason: unknown) => {
      // A wrong signature of a known key stays wrong, whatever a newer set has.
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

/** If a token names no key, several may fit: tries each. */
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
 * The refusal for an error of jose. Its errors contain claims, so only their code is logged. Claims are checked after the signature, so
 * only the owner of a real token learns which claim is wrong.
 */
function refusalFor(error: unknown): unknown {
  if (error instanceof KeysUnavailable) {
    return refuse('overloaded', {
      message:
        'The keys of the identity provider cannot be fetched at the moment, so tokens cannot be checked. Try again shortly.',
      retryAfterMs: error.retryAfterMs,
      detail: 'the keys of the identity provider cannot be fetched',
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
      return unauthorized('invalid_api_key', { message: claimSentence(error as ClaimFailure), detail })
    case 'ERR_JWS_INVALID':
    case 'ERR_JWT_INVALID':
      return malformed()
    default:
      return unauthorized('invalid_api_key', {
        message: 'The token is not accepted here: its signature is wrong, or its key or its algorithm is unknown.',
        detail,
      })
  }
}

type ClaimFailure = Pick<errors.JWTClaimValidationFailed, 'claim' | 'reason'>

function claimSentence({ claim, reason }: ClaimFailure): string {
  if (claim === 'nbf' && reason === 'check_failed') return 'The token is not valid yet.'
  if (reason === 'missing') return `The token has no claim "${claim}".`
  return `The claim "${claim}" of the token does not have the expected value.`
}

/** The code of an error of jose; undefined for any other error. */
function codeOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && /^ERR_J(OSE|W)/.test(code) ? code : undefined
}
