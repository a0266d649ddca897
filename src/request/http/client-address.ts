/** The client's address: the socket's, or the one that trusted proxies state. */
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/**
 * The client's address behind `hops` trusted proxies: the entry of X-Forwarded-For that the outermost trusted one wrote. Entries to its
 * left come from the client and are not trusted. With 0 hops the header is ignored.
 */
export function clientAddress(request: IncomingMessage, hops: number): string {
  const socketAddress = plain(request.socket.remoteAddress ?? '')
  if (hops === 0) return socketAddress
  const header = request.headers['x-forwarded-for']
  const entries = (Array.isArray(header) ? header.join(',') : (header ?? '')).split(',').map(entry => entry.trim())
  const entry = plain(entries.at(-hops) ?? '')
  return isIP(entry) ? entry : socketAddress
}

/** IPv4-mapped IPv6 addresses count as IPv4. */
function plain(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address
}
