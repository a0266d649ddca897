/** Random requests as bytes. Most are nearly valid, because parsers differ on such requests. */
import { seeded } from '../../helpers/seeded.ts'

const METHODS = [
  'GET',
  'POST',
  'POST',
  'POST',
  'PUT',
  'HEAD',
  'OPTIONS',
  'DELETE',
  'CONNECT',
  'get',
  'PRI',
  'M-SEARCH',
  'POST ',
  '',
]
const TARGETS = [
  '/',
  '/v1',
  '/a?b=c',
  '//x',
  '*',
  'x',
  'http://a/b',
  'a:80',
  '/#f',
  '/a b',
  '/\xe9',
  '/%00',
  '',
  '/\t',
  '/\x7f',
]
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/0.9',
  'HTTP/2.0',
  'HTTP/1.2',
  'http/1.1',
  'HTTP/1.1 ',
  '',
]
const LINES = [
  'Host: a',
  'Host: a.b:80',
  'Host: [::1]:80',
  'Host: a, b',
  'Host: me@a',
  'Host:',
  'host: b',
  'Connection: close',
  'Connection: keep-alive',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Content-Length: 4',
  'Content-Length: 04',
  'Content-Length: +4',
  'Content-Length: 4, 4',
  'Content-Length: 0',
  'Content-Length: 99',
  'Content-Length: 99999999999999999999',
  'Content-Length : 4',
  'Content_Length: 4',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: Chunked',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding: chunked ',
  'Transfer-Encoding: xchunked',
  'Transfer_Encoding: chunked',
  'Expect: 100-continue',
  'Expect: 100-Continue',
  'Expect: more',
  'Authorization: Bearer x',
  'Authorization: Basic y',
  'Content-Type: application/json',
  'Idempotency-Key: k',
  'Idempotency_Key: k',
  'Cookie: a=b',
  'X-A: 1',
  'x-a:2',
  'X-B: \xe9',
  `X-Long: ${'x'.repeat(900)}`,
  '__proto__: 1',
  ' folded: 1',
  '\tfolded',
  'no colon',
  ': no name',
  'TE: trailers',
]
/** Any combination of these is a valid head. */
const GOOD_LINES = [
  'X-A: 1',
  'x-a:2',
  'X-B: \xe9',
  'Cookie: a=b',
  'Accept: */*',
  'Connection: keep-alive',
  'TE: trailers',
  'X-C:',
]
const BODIES = [
  '',
  '',
  'body',
  'body',
  'bod',
  'body and more',
  '4\r\nbody\r\n0\r\n\r\n',
  '4\r\nbody\r\n0\r\n\r\n',
  '4;a=b\r\nbody\r\n0\r\nX-T: 1\r\n\r\n',
  '4\nbody\r\n0\r\n\r\n',
  '4 \r\nbody\r\n0\r\n\r\n',
  '04\r\nbody\r\n00\r\n\r\n',
  '0x4\r\nbody\r\n0\r\n\r\n',
  '-4\r\nbody\r\n0\r\n\r\n',
  '5\r\nbody\r\n0\r\n\r\n',
  '3\r\nbody\r\n0\r\n\r\n',
  '4\r\nbody0\r\n\r\n',
  '4\r\nbody\r\n0\r\n',
  'fffffffffffffffff\r\nbody',
  '0\r\nContent-Length: 4\r\n\r\n',
]
const ENDS = ['\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\r\n ']
/** Bytes with a meaning in HTTP, and bytes that parsers wrongly give one. */
const BYTES = '\r\n\t :;,/?#0aA\0\x01\x0b\x0c\x7f\x80\xff_-"'

/** The bytes for one connection, from a seed. Latin-1, in one or two pieces. */
export function headOf(seed: number): readonly string[] {
  const random = seeded(seed)
  const below = (count: number) => Math.floor(random() * count)
  const one = <T>(list: readonly T[]): T => list[below(list.length)]!
  const request = () => {
    const end = one([...ENDS.slice(0, 4), one(ENDS)])
    const lines = Array.from({ length: below(5) }, () => one(random() < 0.8 ? GOOD_LINES : LINES))
    if (random() < 0.95) lines.splice(below(lines.length + 1), 0, 'Host: a')
    // About as many headers as the limit.
    if (random() < 0.01) lines.push(...Array.from({ length: 95 + below(10) }, (_, at) => `X-${at}: 1`))
    const framed = below(3)
    if (framed === 1) lines.push('Content-Length: 4')
    if (framed === 2) lines.push('Transfer-Encoding: chunked')
    const body = random() < 0.85 ? ['', 'body', '4\r\nbody\r\n0\r\n\r\n'][framed]! : one(BODIES)
    const isOdd = random() < 0.1
    const start = isOdd
      ? `${one(METHODS)} ${one(TARGETS)} ${one(VERSIONS)}`
      : `${framed === 0 ? one(METHODS.slice(0, 4)) : 'POST'} /v1 HTTP/1.1`
    return [start, ...lines, '', ''].join(end) + body
  }
  let bytes = Array.from({ length: 1 + below(3) }, request).join('')
  for (let changes = random() < 0.6 ? 0 : below(4); changes > 0; changes--) {
    const at = below(bytes.length)
    const put = random() < 0.5 ? BYTES[below(BYTES.length)]! : ''
    bytes = bytes.slice(0, at) + put + bytes.slice(at + (random() < 0.7 ? 1 : 0))
  }
  if (random() < 0.7) return [bytes]
  const cut = below(bytes.length)
  return [bytes.slice(0, cut), bytes.slice(cut)].filter(piece => piece !== '')
}
