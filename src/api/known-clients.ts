/**
 * Known clients: browsers and network addresses from which a person has signed in before. Wrong passwords of unknown clients lock
 * out unknown clients only. A browser is known by its own cookie, which outlives sessions. An address is known by the same signed
 * text in memory.
 */

import { addressGroup } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import { DEVICE_MS, type People } from '../store/people/people.ts'
import { cookieIn } from './sessions.ts'

/** How the client is known; null: it is unknown. */
export type KnownBy = { readonly browser: string } | { readonly address: string } | null

export interface KnownClients {
  /** @param device The text of the browser's cookie. */
  by(personId: string | undefined, address: string, device: string | null): Promise<KnownBy>
  /** Call after a correct password: returns the text for the browser's cookie; undefined: the person was removed. */
  remember(personId: string, address: string): Promise<string | undefined>
}

/** The maximum number of pairs of person and address. Above it the least recent one is removed. */
const MAX_ADDRESSES = 20_000

export function createKnownClients(people: Pick<People, 'createDevice' | 'findDevice'>): KnownClients {
  const addresses = boundedMap<string>(MAX_ADDRESSES)
  const isOf = async (text: string | null | undefined, personId: string) => {
    const device = text ? await people.findDevice(text) : undefined
    return device?.personId === personId ? device : undefined
  }
  return {
    async by(personId, address, text) {
      if (personId === undefined) return null
      const device = await isOf(text, personId)
      if (device) return { browser: device.id }
      const subject = addressGroup(address)
      return (await isOf(addresses.get(`${personId} ${subject}`), personId)) ? { address: subject } : null
    },
    async remember(personId, address) {
      const text = await people.createDevice(personId)
      if (text !== undefined) addresses.set(`${personId} ${addressGroup(address)}`, text)
      return text
    },
  }
}

/** Like the name of the session's cookie (sessions.ts). */
export function deviceCookieName(secure: boolean): string {
  return secure ? '__Host-tollgate-device' : 'tollgate-device'
}

/** The `Set-Cookie` that makes a browser known. Signing out does not remove it. */
export function deviceCookieFor(text: string, secure: boolean): string {
  const flags = `Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
  return `${deviceCookieName(secure)}=${text}; ${flags}; Max-Age=${DEVICE_MS / 1000}`
}

/** The text of the browser's cookie in a `Cookie` header; null: missing, or twice. The store verifies it. */
export function readDevice(header: string | undefined, secure: boolean): string | null {
  return cookieIn(header, deviceCookieName(secure))
}
