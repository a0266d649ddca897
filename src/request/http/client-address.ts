/** Whose request it is, by address: the socket's, or what trusted proxies say. */
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/**
 * The client's address behind `hops` trusted proxies: the entry of X-Forwarded-For that the outermost trusted one wrote.
 * What stands left of it was written by the client and is nobody's word. With 0 hops the header is not looked at.
 */
export function clientAddress(request: IncomingMessage, hops: number): string {
  const socketAddress = plain(request.socket.remoteAddress ?? '')
  if (hops === 0) return socketAddress
  const header = request.headers['x-forwarded-for']
  const entries = (Array.isArray(header) ? header.join(',') : (header ?? '')).split(',').map(entry => entry.trim())
  const entry = plain(entries.at(-hops) ?? '')
  return isIP(entry) ? entry : socketAddress
}

/** IPv4 in IPv6's clothes is IPv4. */
function plain(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address
}
