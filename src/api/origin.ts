/**
 * Protects the dashboard against cross-site requests: a browser sends the session's cookie with requests of any page. So each
 * change needs a browser that names our own page as the source (`Sec-Fetch-Site`, or `Origin`). It also needs JSON and our own
 * header, which other origins can send only after a preflight.
 */
import type { IncomingMessage } from 'node:http'
import { refuse } from '#contract'

/** The header that the page sends with each change. */
export const PAGE_HEADER = 'x-tollgate-dashboard'

/** The origin of a request by its `Host`. Throws `unknown_host` for other names, against DNS rebinding. */
export function originOf(request: IncomingMessage, origins: readonly string[]): string {
  const host = request.headers.host
  const found = origins.find(origin => host !== undefined && hostOf(origin, host) === new URL(origin).host)
  if (found === undefined) {
    throw refuse('unknown_host', { message: 'The dashboard does not serve that host name. See dashboard_url.' })
  }
  return found
}

/** Throws `cross_site_request` unless the change comes from our own page. */
export function checkOwnPage(request: IncomingMessage, origins: readonly string[]): void {
  const { origin } = request.headers
  const site = request.headers['sec-fetch-site']
  // A page that hides its origin sends `null`: then only `Sec-Fetch-Site` counts.
  const isOther = origin !== undefined && origin !== 'null' && !origins.includes(origin)
  const isOwn = site === undefined ? origin !== undefined && origins.includes(origin) : site === 'same-origin'
  if (!isOwn || isOther) throw refuse('cross_site_request')
  if (request.headers[PAGE_HEADER] !== '1') {
    throw refuse('cross_site_request', { message: `Changes need the header ${PAGE_HEADER}: 1.` })
  }
}

/** Throws unless the body is JSON, which a form of another page cannot send. */
export function checkJson(request: IncomingMessage): void {
  const [type] = (request.headers['content-type'] ?? '').split(';')
  if (type!.trim().toLowerCase() === 'application/json') return
  throw refuse('unsupported_media_type', { message: 'Send the header Content-Type: application/json.' })
}

/** A `Host` header in the form of an origin: in lower case, without the default port. */
function hostOf(origin: string, host: string): string | null {
  const url = `${origin.slice(0, origin.indexOf(':'))}://${host}`
  return URL.canParse(url) ? new URL(url).host : null
}
