/**
 * Where a request of the dashboard comes from. A browser sends the session's cookie with whatever a page asks of it, so a
 * change is made only when the browser says that it was our own page that asked (`Sec-Fetch-Site`, or `Origin`), in a form
 * that no page of another origin can send without asking first (JSON, and a header of our own).
 */
import type { IncomingMessage } from 'node:http'
import { refuse } from '#contract'

/** The header that the page sends with every change. */
export const PAGE_HEADER = 'x-tollgate-dashboard'

/**
 * The origin that a request is for, by its `Host`. Throws `unknown_host` for any other name: it may be an attacker's that
 * was made to lead here (DNS rebinding).
 */
export function originOf(request: IncomingMessage, origins: readonly string[]): string {
  const host = request.headers.host
  const found = origins.find(origin => host !== undefined && hostOf(origin, host) === new URL(origin).host)
  if (found === undefined) {
    throw refuse('unknown_host', { message: 'The dashboard does not serve that host name. See dashboard_url.' })
  }
  return found
}

/** Throws `cross_site_request` unless our own page asks for the change. */
export function checkOwnPage(request: IncomingMessage, origins: readonly string[]): void {
  const { origin } = request.headers
  const site = request.headers['sec-fetch-site']
  // `null` is what a page that hides its origin says of itself; then only the browser's own word counts.
  const isOther = origin !== undefined && origin !== 'null' && !origins.includes(origin)
  const isOwn = site === undefined ? origin !== undefined && origins.includes(origin) : site === 'same-origin'
  if (!isOwn || isOther) throw refuse('cross_site_request')
  if (request.headers[PAGE_HEADER] !== '1') {
    throw refuse('cross_site_request', { message: `Changes need the header ${PAGE_HEADER}: 1.` })
  }
}

/** Throws unless the body is JSON, which no form of another page can send. */
export function checkJson(request: IncomingMessage): void {
  const [type] = (request.headers['content-type'] ?? '').split(';')
  if (type!.trim().toLowerCase() === 'application/json') return
  throw refuse('unsupported_media_type', { message: 'Send the header Content-Type: application/json.' })
}

/** A `Host` header as the origin would write it: in lower case, without the port that goes without saying. */
function hostOf(origin: string, host: string): string | null {
  const url = `${origin.slice(0, origin.indexOf(':'))}://${host}`
  return URL.canParse(url) ? new URL(url).host : null
}
