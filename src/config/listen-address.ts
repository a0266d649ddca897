/** Parses addresses to listen on, formats them for URLs, and recognizes this machine. */
import type { Address, RouteConfig } from './configuration.ts'

const EXAMPLES = 'write "127.0.0.1:8080", ":8080" for all interfaces, or "[::1]:8080"'

/**
 * `127.0.0.1:8080`, `localhost:8080`, `:8080` (all interfaces), `[::1]:8080`; port 0 lets the system choose one.
 * Throws an Error whose message is for the author of the file.
 */
export function parseAddress(text: string): Address {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):(\d{1,5})$/.exec(text)
  if (!match) throw new Error(`is not an address with a port; ${EXAMPLES}`)
  const port = Number(match[2])
  if (port > 65_535) throw new Error('has a port above 65535')
  const host = match[1]!.replace(/^\[|\]$/g, '')
  if (match[1]!.startsWith('[') && URL.parse(`http://${match[1]}/`) === null)
    throw new Error(`is not an IPv6 address; ${EXAMPLES}`)
  return { host: host === '' ? '0.0.0.0' : host, port }
}

/** A host in the form for a URL: an IPv6 address in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

type Paths = readonly Pick<RouteConfig, 'kind' | 'path'>[]

/** The path of the first chat route; undefined without one. */
export function chatPath(routes: Paths): string | undefined {
  return routes.find(({ kind }) => kind === 'chat')?.path
}

/** The path of the first chat route up to `/v1`, which ends the base URL of clients. */
export function basePath(routes: Paths): string {
  return (chatPath(routes) ?? '/v1/chat/completions').replace(/\/chat\/completions$/, '')
}

/** Whether a URL's host name means this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}

/** The URL of a listener from this machine. */
export function urlOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `http://${urlHost(shown)}:${port}`
}
