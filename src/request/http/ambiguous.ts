/**
 * Rejects what Node's HTTP parser accepts and a gateway must not: requests that two servers could read differently, or that no client
 * library sends.
 */
import type { IncomingMessage } from 'node:http'
import { type Refusal, refuse } from '#contract'

/** Headers that may occur once: a second one would be dropped silently, or read by another server. Each has its bit. */
const ONCE: ReadonlyMap<string, number> = new Map(
  ['host', 'authorization', 'content-type', 'content-length', 'transfer-encoding', 'idempotency-key'].map(
    (name, place) => [name, 1 << place],
  ),
)
const PROTO = '__proto__'
/** Only names of these lengths are checked further. */
const LENGTHS: ReadonlySet<number> = new Set([...ONCE.keys(), PROTO].map(({ length }) => length))

const malformed = (message: string): Refusal => refuse('bad_request', { message })

/** A name, an address or nothing, and a port. Otherwise `a, b` or `me@a` could be one host here and another elsewhere. */
const HOST = /^([a-z0-9._~-]*|\[[0-9a-f:.]+\])(:\d{0,5})?$/i

const MAX_HEADERS = 100

/** The first problem of a request's head, or null. */
export function headProblem(request: IncomingMessage): Refusal | null {
  const { rawHeaders, httpVersion, url = '', headers } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return malformed('Only HTTP/1.1 is supported.')
  if (httpVersion === '1.1' && headers.host === undefined) return malformed('The header Host is missing.')
  if (headers.host !== undefined && !HOST.test(headers.host)) return malformed('The header Host is not a host name.')
  // RFC 9112, 3.2: a fragment is never sent. One server cuts it off, another takes it as part of the path.
  if (!url.startsWith('/') || url.includes('#')) return malformed('The request target must be a path.')
  if (rawHeaders.length > MAX_HEADERS * 2) {
    return refuse('headers_too_large', { message: `There are more than ${MAX_HEADERS} headers.` })
  }
  let seen = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (!LENGTHS.has(rawHeaders[index]!.length)) continue
    const name = rawHeaders[index]!.toLowerCase()
    if (name.includes('_') && ONCE.has(name.replaceAll('_', '-'))) {
      return malformed(`The header ${name.slice(0, 40)} is written with an underscore.`)
    }
    if (name === PROTO) return malformed('A header has a name that is not allowed.')
    const bit = ONCE.get(name) ?? 0
    if ((seen & bit) !== 0) return malformed(`The header ${name} occurs twice.`)
    seen |= bit
  }
  const encoding = headers['transfer-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked') {
    return malformed('Transfer-Encoding must be chunked, or absent.')
  }
  // RFC 9112, 6.1: HTTP/1.0 does not define it, so a proxy may have seen another end of the body.
  if (encoding !== undefined && httpVersion === '1.0') return malformed('HTTP/1.0 has no Transfer-Encoding.')
  if (encoding !== undefined && headers['content-length'] !== undefined) {
    return malformed('Content-Length and Transfer-Encoding exclude each other.')
  }
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') {
    return malformed('Expect must be 100-continue, or absent.')
  }
  const hasBody = encoding !== undefined || (headers['content-length'] ?? '0') !== '0'
  if (hasBody && (request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS')) {
    return malformed(`A ${request.method} request has no body.`)
  }
  return null
}

/** Checks that the body is declared as JSON, without an encoding. The parameter `charset` may only be utf-8. */
export function mediaTypeProblem(request: IncomingMessage): Refusal | null {
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return refuse('unsupported_media_type', { message: 'The body must not be compressed (Content-Encoding).' })
  }
  const type = request.headers['content-type'] ?? ''
  if (isJson(type)) return null
  return refuse('unsupported_media_type', {
    message:
      type === '' ? 'Send the header Content-Type: application/json.' : 'The Content-Type must be application/json.',
  })
}

/** Checks piece by piece: one expression for all of it takes half a second for 16 KiB of blanks. */
function isJson(contentType: string): boolean {
  if (!/^[\t -~]*$/.test(contentType)) return false
  const [type, charset = '', ...more] = contentType.split(';')
  if (type!.trimEnd().toLowerCase() !== 'application/json' || more.some(each => each.trim() !== '')) return false
  return charset.trim() === '' || isUtf8(charset)
}

function isUtf8(parameter: string): boolean {
  const [name, value = '', ...more] = parameter.split('=')
  if (name!.trim().toLowerCase() !== 'charset' || more.length > 0) return false
  return ['utf-8', '"utf-8"'].includes(value.trim().toLowerCase())
}

/** Whether a request asks for a WebSocket. Codex asks for one first, and falls back to HTTP at once only on status 426. */
export function wantsWebSocket(request: IncomingMessage): boolean {
  return request.method === 'GET' && wantsUpgrade(request) && /^websocket$/i.test(request.headers.upgrade!)
}

/** Like the parser (RFC 9110, 7.8), requires both headers. */
export function wantsUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /(^|[\s,])upgrade([\s,]|$)/i.test(headers.connection ?? '')
}
