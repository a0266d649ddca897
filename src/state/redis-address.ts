/** The address of a state server, for its client and for messages. */
import { decodedPart } from '../common/server-address.ts'
import type { ServerAddress } from './redis-check.ts'

/** Removes the user: the client does not start with a lone `%` in a password. */
export function withoutUser(url: string): string {
  const address = new URL(url)
  address.username = ''
  address.password = ''
  return address.href
}

export function userOf(url: string): { username?: string; password?: string } {
  const { username, password } = new URL(url)
  if (password === '') return {}
  return { ...(username === '' ? {} : { username: decodedPart(username) }), password: decodedPart(password) }
}

export function addressOf(url: string): ServerAddress {
  const { hostname, port } = new URL(url)
  return { shown: `${hostname}:${port || 6379}` }
}
