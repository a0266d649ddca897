/** Which keys of a set can check a signature. One that cannot is found when the set is read, and not by whoever names it. */
import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'

/** What RS and PS signatures take (RFC 7518, 3.3 and 3.5). */
const MIN_RSA_BITS = 2048
const CURVES: ReadonlySet<unknown> = new Set(['P-256', 'P-384', 'P-521'])

/** Whether a key says that it is for signatures, or does not say what for. The others are no business of this step. */
export function isForSignatures(jwk: Readonly<Record<string, unknown>>): boolean {
  const { kty, use } = jwk
  return (kty === 'RSA' || kty === 'EC' || kty === 'OKP') && (use === undefined || use === 'sig')
}

/** Why this key can check nothing; null when it can. Nothing of the key is in the sentence. */
export function whyUnusable(jwk: Readonly<Record<string, unknown>>): string | null {
  const { kty, crv } = jwk
  if (jwk['d'] !== undefined) return 'it has a part of a private key'
  if (kty === 'EC' && !CURVES.has(crv)) return 'its crv is none of P-256, P-384 and P-521'
  if (kty === 'OKP' && crv !== 'Ed25519') return 'its crv is not Ed25519'
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' } as JsonWebKeyInput)
    const bits = key.asymmetricKeyDetails?.modulusLength
    if (bits !== undefined && bits < MIN_RSA_BITS) return `it has ${bits} bits, and ${MIN_RSA_BITS} are the least`
    return null
  } catch {
    return `it is no public key of the family ${kty}`
  }
}
