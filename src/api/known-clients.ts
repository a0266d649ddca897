/**
 * Who signs in: somebody in a browser, or from a network address, in which this person's password was right before, or a
 * stranger. Strangers' guesses lock out strangers only. A browser is known by a cookie of its own, which outlives sessions;
 * an address is remembered in memory, by the same signed text.
 */

import { addressGroup } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import { DEVICE_MS, type People } from '../store/people/people.ts'
import { cookieIn } from './sessions.ts'

/** What a person is known by; null: a stranger. */
export type KnownBy = { readonly browser: string } | { readonly address: string } | null

export interface Known {
  /** @param device The text of the browser's cookie. */
  by(personId: string | undefined, address: string, device: string | null): Promise<KnownBy>
  /** The password was right: answers with the text for the browser's cookie; undefined when the person is gone. */
  remember(personId: string, address: string): Promise<string | undefined>
}

/** Beyond so many pairs of person and address, the one that was used longest ago is forgotten. */
const MAX_ADDRESSES = 20_000

export function createKnown(people: Pick<People, 'createDevice' | 'findDevice'>): Known {
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

/** As that of the session (sessions.ts), with a name of its own. */
export function deviceCookieName(secure: boolean): string {
  return secure ? '__Host-tollgate-device' : 'tollgate-device'
}

/** The `Set-Cookie` by which a browser is known from now on. Signing out does not take it back. */
export function deviceCookieFor(text: string, secure: boolean): string {
  const flags = `Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
  return `${deviceCookieName(secure)}=${text}; ${flags}; Max-Age=${DEVICE_MS / 1000}`
}

/** The device's text of a `Cookie` header; null when there is none, or two. Whether it is one, the store knows. */
export function readDevice(header: string | undefined, secure: boolean): string | null {
  return cookieIn(header, deviceCookieName(secure))
}
