/**
 * Where a raw request goes at its provider: the route's own path, with what the client has put in place of `{id}`, and
 * the client's query. What would mean another place to anybody on the way is refused: nothing leads out of the route.
 */
import { refuse } from '#contract'

/** What stands in a route's path for the rest, one segment or several. */
const PLACE = '{id}'

export interface RawRoute {
  /** The route's path. */
  readonly route: string
  /** The one at the provider; has the place where the route has one. */
  readonly upstream: string
  /** The paths of all routes, in the order in which they are tried. */
  readonly routes: readonly string[]
}

/**
 * The path and query for the provider, as they stand in the request line.
 *
 * @param asked the path that the client asked for, still encoded
 */
export function upstreamPath({ route, upstream, routes }: RawRoute, asked: string, query: string): string {
  const at = route.indexOf(PLACE)
  if (at === -1) return upstream + queryOf(query)
  const end = asked.length - (route.length - at - PLACE.length)
  const rest = asked.slice(at, end)
  const meant = rest.split('/').map(meaningOf)
  if (meant.includes(null)) {
    throw refuse('unknown_url', {
      message:
        'The URL has a part that may not be passed on: an empty one, dots, %2F, or percent-encoding that is not needed.',
    })
  }
  const loose = (asked.slice(0, at) + meant.join('/') + asked.slice(end)).toLowerCase()
  const other = routes.slice(0, routes.indexOf(route)).find(each => fits(each.toLowerCase(), loose))
  if (other !== undefined)
    throw refuse('unknown_url', { message: `The URL is almost that of ${other}; write it as it is.` })
  if (holdsKey(asked)) throw refuse('bad_request', { message: KEY_IN_URL })
  return upstream.replace(PLACE, () => rest) + queryOf(query)
}

/** RFC 3986: what a segment may hold. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+$/
/** RFC 3986, 6.2.2.2: letters, digits and `-._~`, which nobody has to encode and everybody may decode. */
const NEEDLESS = /%(?:3[0-9]|[46][1-9a-f]|[57][0-9a]|2[de]|5f|7e)/i
/** Decoded: what ends a segment somewhere, what would be decoded once more, and what nobody sees. */
const OTHER_PLACE = /[/\\%\0-\x1f\x7f-\x9f]/

/**
 * What a segment says to the most generous reader: decoded, normalised, without parameters, dots and blanks at its end.
 * Null when it is not to be passed on, or when nothing is left (`.` and `..` are other folders).
 */
function meaningOf(segment: string): string | null {
  if (!SEGMENT.test(segment) || NEEDLESS.test(segment)) return null
  try {
    // Full-width slashes and dots become plain ones where names are normalised.
    const text = decodeURIComponent(segment).normalize('NFKC')
    return OTHER_PLACE.test(text) ? null : bare(text) || null
  } catch {
    return null
  }
}

/** Without parameters, blanks around it and dots behind it; by hand, because an expression would look at each blank anew. */
function bare(text: string): string {
  let end = text.search(/[;?#]|$/)
  while (end > 0 && /[\s.]/.test(text[end - 1]!)) end--
  return text.slice(0, end).trimStart()
}

/** Whether a route's path fits: its place stands for at least one character. */
function fits(route: string, path: string): boolean {
  const at = route.indexOf(PLACE)
  if (at === -1) return route === path
  const behind = route.slice(at + PLACE.length)
  return path.length > at + behind.length && path.startsWith(route.slice(0, at)) && path.endsWith(behind)
}

/** The client's own query, without what some clients put a key in: keys of this gateway never go upstream. */
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

/** Whether a query names a model: beside the one of the body it has no say. */
export function queryNamesModel(query: string): boolean {
  return parametersOf(query).some(each => each.some(piece => MODEL_PARAMETERS.has(wordOf(piece))))
}

/** Some readers also part them at semicolons. */
const parametersOf = (query: string) => query.split('&').map(each => each.split(';'))

/** A parameter's name without what is written in different ways: `X-Api-Key`, `x_api_key` and `apiKey[]`. */
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

const KEY_IN_URL = 'The URL holds a key of this gateway. Send it in the Authorization header, and take a new one.'
const KEY = /tg_(?:live|test)_[0-9A-Za-z]{36}/

/** Also where it was encoded, as an address within an address is. */
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
