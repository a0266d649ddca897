/**
 * Browsers in which a person has signed in: each keeps a text that the gateway has signed. It is not a session: it gives no access
 * without the password. The store has no row for it. The signature covers the stored hash of the password, so a new password
 * invalidates all these texts.
 *
 *     per_01K9… . mk3x9f2o . 22 random characters . HMAC-SHA-256
 *     person      expires    id of the browser
 */
import { type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '#contract'
import { DEVICE_MS, type Device } from './people.ts'
import type { PersonReader } from './person-rows.ts'
import { digest } from './token.ts'

const TEXT = /^(per_[0-9A-Z]{1,40})\.([0-9a-z]{1,11})\.([0-9A-Za-z_-]{22})\.([0-9A-Za-z_-]{43})$/
const ID_BYTES = 16

export interface Devices {
  create(personId: string): string | undefined
  find(text: string): Device | undefined
}

export function createDevices({ passwordOf }: PersonReader, hmacKey: KeyObject, clock: Clock): Devices {
  /** The signed parts contain no colon, so two devices never have the same text here. */
  const sign = (signed: string, password: string) => digest(hmacKey, `device:${signed}:${password}`)
  return {
    create(personId) {
      const password = passwordOf(personId)
      if (password === undefined) return undefined
      const expires = (clock.now() + DEVICE_MS).toString(36)
      const signed = `${personId}.${expires}.${randomBytes(ID_BYTES).toString('base64url')}`
      return `${signed}.${sign(signed, password).toString('base64url')}`
    },
    find(text) {
      const [, personId, expires, id, mac] = TEXT.exec(text) ?? []
      if (personId === undefined || Number.parseInt(expires!, 36) <= clock.now()) return undefined
      const password = passwordOf(personId)
      if (password === undefined) return undefined
      const expected = sign(`${personId}.${expires}.${id}`, password)
      return timingSafeEqual(Buffer.from(mac!, 'base64url'), expected) ? { id: id!, personId } : undefined
    },
  }
}
