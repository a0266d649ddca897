/**
 * The upstream path of a raw request: the route's path with the client's part in place of `{id}`, and the client's query. If a
 * server could read the URL as another path, the request is refused: no request can leave its route.
 */
import { refuse } from '#contract'

/** The placeholder in a route's path for the rest, one segment or several. */
const PLACE = '{id}'

export interface RawRoute {
  /** The route's path. */
  readonly route: string
  /** The path at the provider, with the placeholder if the route has one. */
  readonly upstream: string
  /** The paths of all routes, in matching order. */
  readonly routes: readonly string[]
}

/**
 * Returns the path and query for the provider, as written in the request line.
 *
 * @param asked the path of the request, still encoded
 */
export function upstreamPath({ route, upstream, routes }: RawRoute, asked: string, query: string): string {
  const at = route.indexOf(PLACE)
  if (at === -1) return upstream + queryOf(query)
  const end = asked.length - (route.length - at - PLACE.length)
  const rest = asked.slice(at, end)
  const meant = rest.split('/').map(meaningOf)
  if (meant.includes(null)) {
    throw refuse('unknown_url', {
      message: 'The URL has a segment that is not allowed: empty, dots, %2F, or needlessly percent-encoded.',
    })
  }
  const loose = (asked.slice(0, at) + meant.join('/') + asked.slice(end)).toLowerCase()
  const other = routes.slice(0, routes.indexOf(route)).find(each => fits(each.toLowerCase(), loose))
  if (other !== undefined)
    throw refuse('unknown_url', { message: `The URL is too similar to ${other}. Write that path exactly.` })
  if (holdsKey(asked)) throw refuse('bad_request', { message: KEY_IN_URL })
  return upstream.replace(PLACE, () => rest) + queryOf(query)
}

/** RFC 3986: the characters of a segment. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+$/
/** RFC 3986, 6.2.2.2: letters, digits and `-._~` need no encoding, and any server may decode them. */
const NEEDLESS = /%(?:3[0-9]|[46][1-9a-f]|[57][0-9a]|2[de]|5f|7e)/i
/** Decoded characters that end a segment for some servers, would be decoded again, or are invisible. */
const OTHER_PLACE = /[/\\%\0-\x1f\x7f-\x9f]/

/**
 * The meaning of a segment to the most lenient server: decoded, normalised, without parameters, and without dots and blanks at its end.
 * Null if it is not allowed or empty (`.` and `..` are other folders).
 */
function meaningOf(segment: string): string | null {
  if (!SEGMENT.test(segment) || NEEDLESS.test(segment)) return null
  try {
    // Normalisation turns full-width slashes and dots into plain ones.
    const text = decodeURIComponent(segment).normalize('NFKC')
    return OTHER_PLACE.test(text) ? null : bare(text) || null
  } catch {
    return null
  }
}

/** Removes parameters, blanks around it and dots after it. By hand, because a regular expression would check each blank anew. */
function bare(text: string): string {
  let end = text.search(/[;?#]|$/)
  while (end > 0 && /[\s.]/.test(text[end - 1]!)) end--
  return text.slice(0, end).trimStart()
}

/** Whether a route's path matches: its placeholder needs at least one character. */
function fits(route: string, path: string): boolean {
  const at = route.indexOf(PLACE)
  if (at === -1) return route === path
  const behind = route.slice(at + PLACE.length)
  return path.length > at + behind.length && path.startsWith(route.slice(0, at)) && path.endsWith(behind)
}

/** The client's query, without parameters that may hold a key: keys of this gateway are never sent upstream. */
function queryOf(query: string): string {
  if (query === '') return ''
  if (!isEncoded(query)) throw refuse('bad_request', { message: 'The query of the URL is not percent-encoded UTF-8.' })
  const kept = parametersOf(query)
    .map(each => each.filter(piece => !SECRET_PARAMETERS.has(wordOf(piece))).join(';'))
    .filter(each => each !== '')
    .join('&')
  if (holdsKey(kept)) throw refuse('bad_request', { message: KEY_IN_URL })
  return kept === '' ? '' : `?${kept}`
}

/** Whether a query names a model: it must not compete with the one in the body. */
export function queryNamesModel(query: string): boolean {
  return parametersOf(query).some(each => each.some(piece => MODEL_PARAMETERS.has(wordOf(piece))))
}

/** Some servers also split at semicolons. */
const parametersOf = (query: string) => query.split('&').map(each => each.split(';'))

/** A parameter's name, reduced to letters and digits: `X-Api-Key`, `x_api_key` and `apiKey[]` are the same. */
function wordOf(parameter: string): string {
  const name = decoded(parameter.split('=')[0]!)
  return name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A signature covers the decoded query, and a key could hide in one that cannot be decoded. */
function isEncoded(query: string): boolean {
  if (!/^[!-~]*$/.test(query)) return false
  try {
    decodeURIComponent(query)
    return true
  } catch {
    return false
  }
}

const SECRET_PARAMETERS = new Set([
  'key',
  'apikey',
  'xapikey',
  'xgoogapikey',
  'token',
  'accesstoken',
  'auth',
  'authorization',
  'bearer',
])
const MODEL_PARAMETERS = new Set(['model', 'modelid', 'modelname', 'deployment', 'deploymentid', 'engine'])

const KEY_IN_URL = 'The URL contains a key of this gateway. Revoke it, and send a new one in the Authorization header.'
const KEY = /tg_(?:live|test)_[0-9A-Za-z]{36}/

/** Also finds keys that are encoded several times, as in an address within an address. */
function holdsKey(text: string): boolean {
  let from = text
  for (let round = 0; round < 4; round++) {
    if (KEY.test(from)) return true
    const next = decoded(from)
    if (next === from) return false
    from = next
  }
  return KEY.test(from)
}
