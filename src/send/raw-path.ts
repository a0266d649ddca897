/**
 * Where a raw request goes at its provider: the route's own path, with what the client has put in place of `{id}`, and
 * the client's query. What would mean another place to anybody on the way is refused: nothing leads out of the route.
 */
import { refuse } from '#contract'

/** What stands in a route's path for the rest, one segment or several. */
const PLACE = '{id}'

/**
 * The path and query for the provider, as they stand in the request line.
 *
 * @param route the route's path @param upstream the one at the provider; has the place where the route has one
 * @param asked the path that the client asked for, still encoded
 */
export function upstreamPath(route: string, upstream: string, asked: string, query: string): string {
  const at = route.indexOf(PLACE)
  if (at === -1) return upstream + queryOf(query)
  const end = asked.length - (route.length - at - PLACE.length)
  const rest = asked.slice(at, end)
  if (rest.split('/').some(segment => !isPlain(segment))) {
    throw refuse('unknown_url', {
      message: 'The URL has a part that may not be passed on: an empty one, dots, or %2F.',
    })
  }
  return upstream.replace(PLACE, () => rest) + queryOf(query)
}

/** RFC 3986: what a segment may hold. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+$/
/** Decoded: what ends a segment somewhere, what would be decoded once more, what nobody sees, and names of other folders. */
const OTHER_PLACE = /[/\\%\0-\x1f\x7f-\x9f]|^\s*\.{1,2}\s*(?:;.*)?$/

function isPlain(segment: string): boolean {
  if (!SEGMENT.test(segment)) return false
  try {
    // Full-width slashes and dots become plain ones where names are normalised.
    return !OTHER_PLACE.test(decodeURIComponent(segment).normalize('NFKC'))
  } catch {
    return false
  }
}

/** The client's own query, without what some clients put a key in: keys of this gateway never go upstream. */
function queryOf(query: string): string {
  if (query === '') return ''
  if (!isEncoded(query)) throw refuse('bad_request', { message: 'The query of the URL is not percent-encoded UTF-8.' })
  const parameters = new URLSearchParams(query)
  const secret = [...parameters.keys()].filter(name => SECRET_PARAMETERS.has(name.toLowerCase().replaceAll('-', '_')))
  if (secret.length === 0) return `?${query}`
  for (const name of secret) parameters.delete(name)
  return parameters.size === 0 ? '' : `?${parameters}`
}

/** A signature covers the decoded query, and a key in one that cannot be decoded would not be seen. */
function isEncoded(query: string): boolean {
  if (!/^[!-~]*$/.test(query)) return false
  try {
    decodeURIComponent(query)
    return true
  } catch {
    return false
  }
}

const SECRET_PARAMETERS = new Set(['key', 'api_key', 'apikey', 'access_token', 'token'])
