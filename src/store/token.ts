/**
 * A gateway key's token and its digest.
 *
 *     tg_live_ <30 random base62> <6 base62: CRC-32 of everything before>
 *
 * The checksum turns mistyped and half-copied tokens away without a question to the database, and lets secret scanners
 * tell a real one from noise. The randomness is 178 bits, so a fast keyed digest protects it; a slow one (scrypt, 140 ms)
 * would only invite floods.
 */
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const PREFIX = 'tg_live_'
const RANDOM_CHARACTERS = 30
const CHECKSUM_CHARACTERS = 6
const SHAPE = /^tg_live_[0-9A-Za-z]{36}$/
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A new token. @param source Only for tests. */
export function createToken(source: (size: number) => Uint8Array = randomBytes): string {
  let body = PREFIX
  while (body.length < PREFIX.length + RANDOM_CHARACTERS) {
    for (const byte of source(RANDOM_CHARACTERS)) {
      // 248 is the largest multiple of 62 in a byte: beyond it some characters would be likelier than others.
      if (byte < 248 && body.length < PREFIX.length + RANDOM_CHARACTERS) body += ALPHABET[byte % 62]
    }
  }
  return body + checksum(body)
}

/** Whether a text has the shape of a token and its checksum fits. Says nothing about whether it was ever issued. */
export function isToken(text: string): boolean {
  return SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS)
}

/** The secret in the form that `digest` takes: made once. */
export function digestKey(secret: string): KeyObject {
  return createSecretKey(secret, 'utf8')
}

/** HMAC-SHA-256 of a token: 32 bytes, all that is stored of it. */
export function digest(key: KeyObject, token: string): Buffer {
  return createHmac('sha256', key).update(token).digest()
}

/** What a list shows of a token. */
export function last4(token: string): string {
  return token.slice(-4)
}

function checksum(body: string): string {
  let text = ''
  for (let rest = crc32(body); text.length < CHECKSUM_CHARACTERS; rest = Math.floor(rest / 62)) {
    text = ALPHABET[rest % 62] + text
  }
  return text
}
