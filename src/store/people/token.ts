/**
 * Tokens and their digests: of gateway keys (`tg_live_`), and of operators' programs (`tg_oper_`).
 *
 *     tg_live_ <30 random base62> <6 base62: CRC-32 of everything before>
 *
 * The checksum rejects mistyped and incomplete tokens without a database lookup, and helps secret scanners to recognize real ones. The
 * randomness is 178 bits, so a fast keyed digest protects it. With a slow one (scrypt, 140 ms), a few clients could use up the CPU.
 */
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const KEY = 'tg_live_'
const OPERATOR = 'tg_oper_'
const RANDOM_CHARACTERS = 30
const CHECKSUM_CHARACTERS = 6
const RANDOM_AND_CHECKSUM = /^[0-9A-Za-z]{36}$/
const SECRET = /^[0-9A-Za-z_-]{43}$/
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

type Source = (size: number) => Uint8Array

/** A new token of a gateway key. @param source only for tests */
export function createToken(source: Source = randomBytes): string {
  return create(KEY, source)
}

/** A new token of an operator's program. @param source only for tests */
export function createOperatorToken(source: Source = randomBytes): string {
  return create(OPERATOR, source)
}

/** Whether a text has the shape of a gateway key and its checksum is right. It may still be unknown. */
export function isToken(text: string): boolean {
  return fits(KEY, text)
}

/** The same for an operators' token. No text is both. */
export function isOperatorToken(text: string): boolean {
  return fits(OPERATOR, text)
}

/** A secret of a session or a link, which people never type: 256 bits, 43 characters that need no escape in a URL. */
export function createSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Whether a text has the shape of such a secret. */
export function isSecret(text: string): boolean {
  return SECRET.test(text)
}

/** The secret in the form that `digest` needs. Make it once. */
export function digestKey(secret: string): KeyObject {
  return createSecretKey(secret, 'utf8')
}

/** HMAC-SHA-256 of a token: 32 bytes, the only part that is stored. */
export function digest(key: KeyObject, token: string): Buffer {
  return createHmac('sha256', key).update(token).digest()
}

/** The part of a token that lists show. */
export function last4(token: string): string {
  return token.slice(-4)
}

function create(prefix: string, source: Source): string {
  let body = prefix
  while (body.length < prefix.length + RANDOM_CHARACTERS) {
    for (const byte of source(RANDOM_CHARACTERS)) {
      // 248 is the largest multiple of 62 in a byte: above it some characters would be likelier than others.
      if (byte < 248 && body.length < prefix.length + RANDOM_CHARACTERS) body += ALPHABET[byte % 62]
    }
  }
  return body + checksum(body)
}

function fits(prefix: string, text: string): boolean {
  if (!text.startsWith(prefix) || !RANDOM_AND_CHECKSUM.test(text.slice(prefix.length))) return false
  return checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS)
}

function checksum(body: string): string {
  let text = ''
  for (let rest = crc32(body); text.length < CHECKSUM_CHARACTERS; rest = Math.floor(rest / 62)) {
    text = ALPHABET[rest % 62] + text
  }
  return text
}
