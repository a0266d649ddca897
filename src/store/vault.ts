/**
 * Encrypts an account's data that leaves the process: reasoning that clients store for us, and responses at rest.
 *
 * A box is 16 random bytes, the ciphertext and the tag of AES-256-GCM. Its key is the HMAC-SHA-256 of purpose, account and those
 * bytes, under a key that HKDF derives from the store's secret. So each box has its own key, and a box of another account or
 * purpose fails its tag.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, randomBytes } from 'node:crypto'
import { atOnce, type Sliced } from '#contract'
import type { Vault } from './store.ts'

const CIPHER = 'aes-256-gcm'
const SALT_BYTES = 16
const TAG_BYTES = 16
/** Takes some tenths of a millisecond to decrypt. */
const SLICE_BYTES = 256 * 1024
/** A constant is safe: each key encrypts one box. */
const NONCE = Buffer.alloc(12)

/**
 * @param secret the store's: with another one no earlier box can be opened
 * @param source only for tests
 */
export function createVault(secret: string, source: (size: number) => Uint8Array = randomBytes): Vault {
  const root = createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', 'tollgate vault 1', 32)))

  const keyOf = (purpose: string, account: string, salt: Uint8Array) =>
    createHmac('sha256', root).update(`${purpose}\0${account}\0`).update(salt).digest()

  function* openInSlices(purpose: string, account: string, box: Uint8Array): Sliced<Buffer | null> {
    if (box.length < SALT_BYTES + TAG_BYTES) return null
    const key = keyOf(purpose, account, box.subarray(0, SALT_BYTES))
    const decipher = createDecipheriv(CIPHER, key, NONCE, { authTagLength: TAG_BYTES })
    decipher.setAuthTag(box.subarray(box.length - TAG_BYTES))
    const end = box.length - TAG_BYTES
    const plain = Buffer.allocUnsafe(end - SALT_BYTES)
    for (let at = SALT_BYTES; at < end; at += SLICE_BYTES) {
      if (at > SALT_BYTES) yield
      decipher.update(box.subarray(at, Math.min(at + SLICE_BYTES, end))).copy(plain, at - SALT_BYTES)
    }
    try {
      // No byte of `plain` may be used before this check of the tag.
      decipher.final()
      return plain
    } catch {
      return null
    }
  }

  return {
    seal(purpose, account, plain) {
      const salt = source(SALT_BYTES)
      const cipher = createCipheriv(CIPHER, keyOf(purpose, account, salt), NONCE)
      return Buffer.concat([salt, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
    },
    open: (purpose, account, box) => atOnce(openInSlices(purpose, account, box)),
    openInSlices,
  }
}
