/** The token as it was sent, and the refusals that have to do with it. None repeats anything of what was sent. */
import { type ErrorCode, type RefusalOptions, refuse } from '#contract'

/** Longer ones are refused before anything is computed; with all their claims, tokens have some hundred characters. */
const LONGEST = 8192

/** Three parts of base64url (RFC 7515, 7.1). */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/

/**
 * From the raw headers: Node drops the second of two Authorization headers without a word, and a proxy before us may have
 * looked at that one.
 */
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

/** Whether the token says that it is of this issuer. Nothing is verified here. */
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

/** Something that is no signed token at all. */
export function malformed() {
  const message = 'After Bearer must come one signed JWT of your identity provider: three parts with dots between them.'
  return unauthorized('malformed_api_key', { message })
}

interface Unauthorized extends RefusalOptions {
  /** Whether there was a token. */
  readonly isSent?: boolean
}

/** RFC 9110, 11.6.1 and RFC 6750, 3: an answer 401 says which scheme would do, and that the token will not. */
export function unauthorized(code: ErrorCode, { isSent = true, ...options }: Unauthorized) {
  return refuse(code, {
    ...options,
    headers: { 'www-authenticate': isSent ? 'Bearer error="invalid_token"' : 'Bearer' },
  })
}
