/** Finds the keys of a set that can check signatures. Runs when the set is read, not when a token names a key. */
import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'

/** For RS and PS signatures (RFC 7518, 3.3 and 3.5). */
const MIN_RSA_BITS = 2048
const CURVES: ReadonlySet<unknown> = new Set(['P-256', 'P-384', 'P-521'])

/** Whether a key is for signatures, or has no `use`. This step ignores other keys. */
export function isForSignatures(jwk: Readonly<Record<string, unknown>>): boolean {
  const { kty, use } = jwk
  return (kty === 'RSA' || kty === 'EC' || kty === 'OKP') && (use === undefined || use === 'sig')
}

/** The reason why a key cannot check signatures; null: it can. The sentence contains no part of the key. */
export function whyUnusable(jwk: Readonly<Record<string, unknown>>): string | null {
  const { kty, crv } = jwk
  if (jwk['d'] !== undefined) return 'it has a part of a private key'
  if (kty === 'EC' && !CURVES.has(crv)) return 'its crv is not P-256, P-384 or P-521'
  if (kty === 'OKP' && crv !== 'Ed25519') return 'its crv is not Ed25519'
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' } as JsonWebKeyInput)
    const bits = key.asymmetricKeyDetails?.modulusLength
    if (bits !== undefined && bits < MIN_RSA_BITS) return `it has ${bits} bits, and the minimum is ${MIN_RSA_BITS}`
    return null
  } catch {
    return `it is not a public key of the family ${kty}`
  }
}
