/**
 * Requests as bytes that a gateway must refuse, or must read like all other servers. Node's parser refuses some; others it accepts
 * although two servers could read them differently (RFC 9112).
 */
import type { ErrorCode } from '#contract'
import { CHAT_BODY as BODY } from './framing-table.ts'

export interface MalformedRequest {
  readonly name: string
  /** The bytes, as Latin-1. */
  readonly bytes: string
  readonly code: ErrorCode
  /** A part of the message. */
  readonly says?: RegExp
}

const CHAT = '/v1/chat/completions'
const LENGTH = `Content-Length: ${BODY.length}`
/** The head of a POST with these lines, and the bytes after it. */
const post = (lines: readonly string[], body = '', start = `POST ${CHAT} HTTP/1.1`) =>
  `${[start, 'Host: gateway', 'Content-Type: application/json', ...lines].join('\r\n')}\r\n\r\n${body}`
const get = (lines: readonly string[] = [], start = 'GET /v1/models HTTP/1.1') =>
  `${[start, 'Host: gateway', ...lines].join('\r\n')}\r\n\r\n`
const CHUNKED = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`

const row = (name: string, bytes: string, says?: RegExp, code: ErrorCode = 'bad_request'): MalformedRequest => ({
  name,
  bytes,
  code,
  ...(says ? { says } : {}),
})

export const MALFORMED: readonly MalformedRequest[] = [
  // The request line.
  row('garbage', 'hello there\r\n\r\n'),
  row('another protocol', 'SSH-2.0-OpenSSH_9.9\r\n\r\n'),
  row('a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'),
  row('HTTP/0.9', 'GET /v1/models\r\n\r\n', /HTTP\/1.1/),
  row('the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  row('HTTP/2.0 in the line', get([], 'GET /v1/models HTTP/2.0'), /HTTP\/1.1/),
  row('a version that there is not', get([], 'GET /v1/models HTTP/1.2')),
  row('a method that there is not', get([], 'BREW /v1/models HTTP/1.1')),
  row('a method in lower case', get([], 'get /v1/models HTTP/1.1')),
  row('an absolute target', get([], 'GET http://gateway/v1/models HTTP/1.1'), /target/),
  row('the absolute target of another host', get([], 'GET http://evil.example/v1/models HTTP/1.1'), /target/),
  row('a star for a target', get([], 'OPTIONS * HTTP/1.1'), /target/),
  row('CONNECT', 'CONNECT gateway:443 HTTP/1.1\r\nHost: gateway:443\r\n\r\n', /target/),
  row('a fragment in the target', get([], 'GET /v1/models#x HTTP/1.1'), /target/),
  row('a blank in the target', get([], 'GET /v1/models x HTTP/1.1')),
  row('a NUL in the target', get([], 'GET /v1/mod\0els HTTP/1.1')),
  row('Latin-1 in the target', get([], 'GET /v1/mod\xe4els HTTP/1.1')),
  row('line feeds alone', 'GET /v1/models HTTP/1.1\nHost: gateway\n\n'),

  // Host.
  row('no Host', 'GET /v1/models HTTP/1.1\r\n\r\n', /Host is missing/),
  row('two Hosts', get(['Host: evil.example']), /host occurs twice/),
  row('two hosts in one', get().replace('gateway', 'gateway, evil.example'), /not a host name/),
  row('a user in the Host', get().replace('gateway', 'gateway@evil.example'), /not a host name/),
  row('a path in the Host', get().replace('gateway', 'gateway/v1'), /not a host name/),
  row('a blank in the Host', get().replace('gateway', 'gate way'), /not a host name/),
  row('an invalid port', get().replace('gateway', 'gateway:80x'), /not a host name/),

  // Names that may occur once.
  row('two Authorizations', get(['Authorization: Bearer a', 'authorization: Bearer b']), /authorization occurs twice/),
  row('two Content-Types', post(['content-type: text/plain', LENGTH], BODY), /content-type occurs twice/),
  row('two Idempotency-Keys', get(['Idempotency-Key: a', 'Idempotency-Key: b']), /idempotency-key occurs twice/),
  row('Content_Length', post([`Content_Length: ${BODY.length}`], BODY), /underscore/),
  row('Transfer_Encoding', post(['Transfer_Encoding: chunked'], CHUNKED), /underscore/),
  row('__proto__ for a name', get(['__proto__: x']), /not allowed/),

  // The end of the body.
  row('Content-Length and chunks', post([LENGTH, 'Transfer-Encoding: chunked'], CHUNKED)),
  row('chunks and Content-Length', post(['Transfer-Encoding: chunked', LENGTH], CHUNKED)),
  row('two lengths', post([LENGTH, LENGTH], BODY)),
  row('two lengths in one', post([`${LENGTH}, ${BODY.length}`], BODY)),
  row('a length with a plus', post([`Content-Length: +${BODY.length}`], BODY)),
  row('a length below nothing', post(['Content-Length: -1'])),
  row('a length in hexadecimal', post([`Content-Length: 0x${BODY.length.toString(16)}`], BODY)),
  row('a length beyond 64 bits', post(['Content-Length: 99999999999999999999'])),
  row('an empty length', post(['Content-Length:'], BODY)),
  row('a blank before the colon', post(['Transfer-Encoding : chunked'], CHUNKED)),
  row('chunked behind nothing', post(['Transfer-Encoding: ,chunked'], CHUNKED), /must be chunked/),
  row('chunked twice', post(['Transfer-Encoding: chunked, chunked'], CHUNKED)),
  row('chunked in two headers', post(['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], CHUNKED)),
  row('gzip and chunked', post(['Transfer-Encoding: gzip, chunked'], CHUNKED), /must be chunked/),
  row('identity', post(['Transfer-Encoding: identity'], BODY)),
  row('a vertical tab before chunked', post(['Transfer-Encoding: \x0bchunked'], CHUNKED)),
  row('chunks in HTTP/1.0', post(['Transfer-Encoding: chunked'], CHUNKED, `POST ${CHAT} HTTP/1.0`), /HTTP\/1.0/),
  row('a GET with a length', `${get(['Content-Length: 2'])}{}`, /no body/),
  row('a GET with chunks', `${get(['Transfer-Encoding: chunked'])}${CHUNKED}`, /no body/),
  row('an OPTIONS with a length', `${get(['Content-Length: 2'], `OPTIONS ${CHAT} HTTP/1.1`)}{}`, /no body/),
  row('an unknown expectation', post(['Expect: weird', LENGTH], BODY), /Expect/),
  row('an expectation too many', post(['Expect: 100-continue, weird', LENGTH], BODY), /Expect/),

  // Other headers.
  row('a name with a blank', get(['bad header: x'])),
  row('an empty name', get([': x'])),
  row('a line without a colon', get(['x'])),
  row('a carriage return in a value', get(['x: a\rb'])),
  row('a line feed in a value', get(['x: a\nb: c'])),
  row('a NUL in a value', get(['x: a\0b'])),
  row('a control character in a value', get(['x: a\x01b'])),
  row('a value over two lines', get(['x: a\r\n b'])),
  row('101 headers', get(Array.from({ length: 100 }, (_, at) => `x-${at}: y`)), /100 headers/, 'headers_too_large'),
  row('3,000 headers', get(Array.from({ length: 3000 }, () => 'x:')), undefined, 'headers_too_large'),
  row('20 KiB in one header', get([`x: ${'y'.repeat(20_480)}`]), undefined, 'headers_too_large'),
  row('20 KiB of target', get([], `GET /v1/models?${'y'.repeat(20_480)} HTTP/1.1`), undefined, 'headers_too_large'),
]

/** Bodies that break off or have a wrong length. They are read after the head, so they reach the exchange, but no step. */
export const BAD_BODIES: readonly MalformedRequest[] = [
  row('a chunk without a size', post(['Transfer-Encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n')),
  row('a chunk of a size below nothing', post(['Transfer-Encoding: chunked'], '-1\r\n{}\r\n0\r\n\r\n')),
  row('a chunk of a size beyond 64 bits', post(['Transfer-Encoding: chunked'], `${'f'.repeat(17)}\r\n{}\r\n`)),
  row('a chunk that is longer than it says', post(['Transfer-Encoding: chunked'], '1\r\n{}\r\n0\r\n\r\n')),
  row('chunks that end in line feeds', post(['Transfer-Encoding: chunked'], '2\n{}\n0\n\n')),
]

/** Unusual forms of valid HTTP: each is answered like a plain request. */
export const ODD_BUT_GOOD: readonly { readonly name: string; readonly bytes: (key: string) => string }[] = [
  { name: 'blank lines before it', bytes: key => `\r\n\r\n${get([`Authorization: Bearer ${key}`])}` },
  { name: 'a length of nothing', bytes: key => get([`Authorization: Bearer ${key}`, 'Content-Length: 0']) },
  { name: 'an empty Host', bytes: key => get([`Authorization: Bearer ${key}`]).replace(' gateway', '') },
  { name: 'Latin-1 in a value', bytes: key => get([`Authorization: Bearer ${key}`, 'x: \xe4']) },
  { name: 'an unsupported upgrade', bytes: key => get([`Authorization: Bearer ${key}`, 'Upgrade: h2c']) },
  { name: 'names in upper case', bytes: key => get([`AUTHORIZATION: BEARER ${key}`]) },
  { name: 'a scheme in lower case', bytes: key => get([`authorization: bearer ${key}`]) },
  {
    name: '100 headers',
    bytes: key => get([`Authorization: Bearer ${key}`, ...Array.from({ length: 98 }, (_, at) => `x-${at}: y`)]),
  },
  { name: 'HTTP/1.0', bytes: key => get([`Authorization: Bearer ${key}`], 'GET /v1/models HTTP/1.0') },
  { name: 'a query', bytes: key => get([`Authorization: Bearer ${key}`], 'GET /v1/models?a=%ff&__proto__=1 HTTP/1.1') },
]
