/** Reads the token of a request. No refusal repeats a part of it. */
import { type ErrorCode, type RefusalOptions, refuse } from '#contract'

/** In characters. Longer tokens are refused before any computation; usual ones have some hundred characters. */
const LONGEST = 8192

/** Three parts of base64url (RFC 7515, 7.1). */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** Reads the raw headers: Node silently drops the second of two Authorization headers, and a proxy may have checked that one. */
export function bearerToken(rawHeaders: readonly string[]): string {
  let value: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() !== 'authorization') continue
    if (value !== undefined) throw refuse('bad_request', { message: 'There are two Authorization headers; send one.' })
    value = rawHeaders[i + 1]!
  }
  const token = /^bearer +(\S.*)$/i.exec(value ?? '')?.[1]
  if (token === undefined) {
    throw unauthorized('missing_api_key', {
      message: 'No token. Send that of your identity provider as: Authorization: Bearer TOKEN',
      isSent: false,
    })
  }
  if (token.length > LONGEST) {
    throw unauthorized('malformed_api_key', { message: `The token is longer than ${LONGEST} characters.` })
  }
  if (!TOKEN.test(token)) throw malformed()
  return token
}

/** Whether the token names this issuer. It is not verified here. */
export function saysIssuer(rawHeaders: readonly string[], issuer: string): boolean {
  const at = rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === 'authorization')
  const token = at < 0 ? undefined : /^bearer +(\S.*)$/i.exec(rawHeaders[at + 1]!)?.[1]
  if (token === undefined || token.length > LONGEST || !TOKEN.test(token)) return false
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
    return Object(claims)['iss'] === issuer
  } catch {
    return false
  }
}

/** The refusal of a text that is not a signed token. */
export function malformed() {
  const message = 'After Bearer, send one signed JWT of your identity provider: three parts separated by dots.'
  return unauthorized('malformed_api_key', { message })
}

interface UnauthorizedOptions extends RefusalOptions {
  /** Whether there was a token. */
  readonly isSent?: boolean
}

/** A 401 with the authentication scheme, and whether the token is invalid (RFC 9110, 11.6.1; RFC 6750, 3). */
export function unauthorized(code: ErrorCode, { isSent = true, ...options }: UnauthorizedOptions) {
  return refuse(code, {
    ...options,
    headers: { 'www-authenticate': isSent ? 'Bearer error="invalid_token"' : 'Bearer' },
  })
}
