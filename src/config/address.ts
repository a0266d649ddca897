/** Addresses to listen on, and what counts as this machine. */
import type { Address } from './configuration.ts'

const EXAMPLES = 'write "127.0.0.1:8080", ":8080" for all interfaces, or "[::1]:8080"'

/**
 * `127.0.0.1:8080`, `localhost:8080`, `:8080` (all interfaces), `[::1]:8080`; port 0 lets the system choose one.
 * Throws an Error whose message is the sentence for the one who wrote it.
 */
export function parseAddress(text: string): Address {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):(\d{1,5})$/.exec(text)
  if (!match) throw new Error(`is not an address with a port; ${EXAMPLES}`)
  const port = Number(match[2])
  if (port > 65_535) throw new Error('has a port above 65535')
  const host = match[1]!.replace(/^\[|\]$/g, '')
  if (match[1]!.startsWith('[') && URL.parse(`http://${match[1]}/`) === null)
    throw new Error(`is no IPv6 address; ${EXAMPLES}`)
  return { host: host === '' ? '0.0.0.0' : host, port }
}

/** Whether a URL's host name is this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}
