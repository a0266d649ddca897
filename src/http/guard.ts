/**
 * What Node's HTTP parser lets through and a gateway must not: requests that two servers could read differently, or
 * that come in forms no client library sends.
 */
import type { IncomingMessage } from 'node:http'
import { type Refusal, refuse } from '#contract'

/** Headers of which there may be one: the second would be dropped silently, or read by somebody else. */
const ONCE = new Set([
  'host',
  'authorization',
  'content-type',
  'content-length',
  'transfer-encoding',
  'idempotency-key',
])

const MOST_HEADERS = 100

/** The first thing that is wrong with a request's head, or null. */
export function headProblem(request: IncomingMessage): Refusal | null {
  const { rawHeaders, httpVersion, url = '', headers } = request
  const malformed = (message: string) => refuse('bad_request', { message })
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return malformed('Only HTTP/1.1 is spoken here.')
  if (httpVersion === '1.1' && headers.host === undefined) return malformed('The header Host is missing.')
  if (!url.startsWith('/')) return malformed('The request target must be a path.')
  if (rawHeaders.length > MOST_HEADERS * 2) {
    return refuse('headers_too_large', { message: `There are more than ${MOST_HEADERS} headers.` })
  }
  const seen = new Set<string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase()
    if (name.includes('_') && ONCE.has(name.replaceAll('_', '-'))) {
      return malformed(`The header ${name.slice(0, 40)} is written with an underscore.`)
    }
    if (name === '__proto__') return malformed('A header has a name that is not allowed.')
    if (!ONCE.has(name)) continue
    if (seen.has(name)) return malformed(`The header ${name} stands there twice.`)
    seen.add(name)
  }
  const encoding = headers['transfer-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked') {
    return malformed('Transfer-Encoding must be chunked, or absent.')
  }
  if (encoding !== undefined && headers['content-length'] !== undefined) {
    return malformed('Content-Length and Transfer-Encoding exclude each other.')
  }
  const hasBody = encoding !== undefined || (headers['content-length'] ?? '0') !== '0'
  if (hasBody && (request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS')) {
    return malformed(`A ${request.method} request has no body.`)
  }
  return null
}

/** Whether the body is declared as JSON, not encoded. The parameter `charset` may only say utf-8. */
export function mediaTypeProblem(request: IncomingMessage): Refusal | null {
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return refuse('unsupported_media_type', { message: 'The body must not be compressed (Content-Encoding).' })
  }
  const type = request.headers['content-type'] ?? ''
  if (/^application\/json[ \t]*(;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?[ \t]*$/i.test(type)) return null
  return refuse('unsupported_media_type', {
    message:
      type === '' ? 'Send the header Content-Type: application/json.' : 'The Content-Type must be application/json.',
  })
}
