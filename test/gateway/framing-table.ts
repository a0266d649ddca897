/**
 * Requests as bytes, most of them around one question: where does this request end? If two servers disagree, a client can hide a second
 * request in the first. Each row has a key and a body that would be sent to the provider if it were accepted.
 */
import type { ErrorCode } from '#contract'

/** A request as bytes and its only acceptable result. */
export interface FramingCase {
  readonly name: string
  /** The bytes, as Latin-1. */
  readonly bytes: (key: string) => string
  /** The refusal, or the reading that all servers agree on: a chat, or a request for the list of models. */
  readonly becomes: ErrorCode | 'chat' | 'list'
}

/** The provider's request for every row that becomes a chat. */
export const CHAT_BODY = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
const SIZE = CHAT_BODY.length
const HEX = SIZE.toString(16)
const LENGTH = `Content-Length: ${SIZE}`
const TE = 'Transfer-Encoding: chunked'
const CHUNKED = `${HEX}\r\n${CHAT_BODY}\r\n0\r\n\r\n`

const START = 'POST /v1/chat/completions HTTP/1.1'

/** Becomes the length of a body that contains the key. */
const WHOLE = 'Content-Length'
/** A chat with these lines in its head, between the key and the type, and this body. */
const chat =
  (lines: readonly string[], body = CHAT_BODY, start = START) =>
  (key: string) => {
    const sent = body.replaceAll('KEY', key)
    const all = lines.map(line => (line === WHOLE ? `Content-Length: ${sent.length}` : line))
    const head = [start, 'Host: gateway', `Authorization: Bearer ${key}`, ...all, 'Content-Type: application/json']
    return `${head.join('\r\n')}\r\n\r\n${sent}`
  }
const list =
  (start = 'GET /v1/models HTTP/1.1', lines: readonly string[] = []) =>
  (key: string) =>
    `${[start, 'Host: gateway', `Authorization: Bearer ${key}`, ...lines].join('\r\n')}\r\n\r\n`

const rows = (becomes: FramingCase['becomes'], cases: Readonly<Record<string, FramingCase['bytes']>>): FramingCase[] =>
  Object.entries(cases).map(([name, bytes]) => ({ name, bytes, becomes }))

/** A chat in place of another one's body, which would be charged if it were found there. */
const HIDDEN = `${START}\r\nHost: gateway\r\nAuthorization: Bearer KEY\r\nContent-Type: application/json\r\n${LENGTH}\r\n\r\n${CHAT_BODY}`

const LINES = rows('bad_request', {
  'a tab in the request line': list('GET\t/v1/models\tHTTP/1.1'),
  'a blank before the method': list(' GET /v1/models HTTP/1.1'),
  'a blank behind the version': list('GET /v1/models HTTP/1.1 '),
  'the version in lower case': list('GET /v1/models http/1.1'),
  'a version with a zero before it': list('GET /v1/models HTTP/01.1'),
  'a version with a digit too many': list('GET /v1/models HTTP/1.10'),
  'a blank in the version': list('GET /v1/models HTTP /1.1'),
  'a carriage return alone behind the line': key => list()(key).replace('1.1\r\n', '1.1\r'),
  'no target': list('GET HTTP/1.1'),
  'an authority for a target': list('GET gateway:80 HTTP/1.1'),
  'a question mark for a target': list('GET ?x HTTP/1.1'),
  'backslashes for a target': list('GET \\v1\\models HTTP/1.1'),
  'an absolute target in capitals': list('GET HTTP://gateway/v1/models HTTP/1.1'),
  'an absolute target with a user': list('GET http://a:b@gateway/v1/models HTTP/1.1'),
  'CONNECT with a path': list('CONNECT /v1/models HTTP/1.1'),
  'a DEL in the target': list('GET /v1/mod\x7fels HTTP/1.1'),
  'an answer for a question': () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'two request lines': list('GET /v1/models HTTP/1.1\r\nGET /v1/models HTTP/1.1'),
  'a method without an end': () => `${'A'.repeat(2000)}\r\n\r\n`,
  'a NUL before it': key => `\0${list()(key)}`,
  'a byte order mark before it': key => `\xef\xbb\xbf${list()(key)}`,
})

const HEADERS = rows('bad_request', {
  'a blank before the first header': list('GET /v1/models HTTP/1.1\r\n x: y'),
  'a tab before a header': list(undefined, ['x: y', '\tz']),
  'a Host over two lines': key => list()(key).replace('gateway', 'gateway\r\n .evil'),
  'a NUL in the Host': key => list()(key).replace('gateway', 'gate\0way'),
  'an IPv6 host without its end': key => list()(key).replace('gateway', '[::1'),
  'a comma for a Host': key => list()(key).replace('gateway', ','),
  'a Latin-1 host': key => list()(key).replace('gateway', 'g\xe4teway'),
  'two Hosts in other letters': list(undefined, ['HOST: gateway']),
  'the same Authorization twice': key => list(undefined, [`Authorization: Bearer ${key}`])(key),
  'a DEL in a name': list(undefined, ['x\x7fy: z']),
  'Latin-1 in a name': list(undefined, ['x\xe4: z']),
  'brackets in a name': list(undefined, ['x(y): z']),
  'a NUL behind a name': chat([`Content-Length\0: ${SIZE}`]),
  'a vertical tab before a name': chat([`\x0bContent-Length: ${SIZE}`]),
  'a carriage return that hides a header': chat([`x: y\r${TE}`, LENGTH]),
  'a line feed that hides a header': chat([`x: y\n${TE}`, LENGTH]),
  'a carriage return before the end of the head': key => `${list()(key).slice(0, -2)}\r\r\n`,
})

const LENGTHS = rows('bad_request', {
  'two lengths that differ': chat([LENGTH, 'Content-Length: 0'], HIDDEN),
  'two lengths that differ, in one': chat([`Content-Length: ${SIZE}, 0`]),
  'a length with something behind it': chat([`${LENGTH};`]),
  'two numbers for a length': chat([`Content-Length: ${SIZE} ${SIZE}`]),
  'a length in quotes': chat([`Content-Length: "${SIZE}"`]),
  'a length with an exponent': chat(['Content-Length: 5e1']),
  'a length with a fraction': chat([`${LENGTH}.0`]),
  'a length of less than nothing': chat(['Content-Length: -0'], ''),
  'a length with a vertical tab': chat([`${LENGTH}\x0b`]),
  'a length with a NUL': chat([`Content-Length: \0${SIZE}`]),
  'a length with a superscript': chat(['Content-Length: \xb2']),
  'a length with an underscore': chat(['Content-Length: 5_6']),
  'a length over two lines': chat([`Content-Length:\r\n ${SIZE}`]),
  'a tab before the colon of a length': chat([`Content-Length\t: ${SIZE}`]),
  'CL.TE: a chat behind the last chunk': chat(['Content-Length: 6', TE], `0\r\n\r\n${HIDDEN}`),
  'TE.CL: a chat in a chunk': chat(
    [TE, 'Content-Length: 4'],
    `${(HIDDEN.length + 100).toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
  ),
  'TE.TE: chunked and an unknown word': chat([TE, 'Transfer-Encoding: cow'], CHUNKED),
  'TE.TE: the word first': chat(['Transfer-Encoding: cow', TE], CHUNKED),
  'CL.0: a chat as the body of a GET': chat([WHOLE], HIDDEN, 'GET /v1/models HTTP/1.1'),
  'a chat as the body of a GET in chunks': chat([TE], CHUNKED + HIDDEN, 'GET /v1/models HTTP/1.1'),
  'a length and an empty encoding': chat([LENGTH, 'Transfer-Encoding:']),
  'a length and identity': chat([LENGTH, 'Transfer-Encoding: identity']),
  'an encoding that is nearly chunked': chat(['Transfer-Encoding: xchunked'], CHUNKED),
  'chunked with a parameter': chat(['Transfer-Encoding: chunked;q=1'], CHUNKED),
  'chunked in quotes': chat(['Transfer-Encoding: "chunked"'], CHUNKED),
  'chunked, then identity': chat(['Transfer-Encoding: chunked, identity'], CHUNKED),
  'identity, then chunked': chat(['Transfer-Encoding: identity, chunked'], CHUNKED),
  'chunked and a comma': chat(['Transfer-Encoding: chunked,'], CHUNKED),
  'chunked and a NUL': chat(['Transfer-Encoding: chunked\0'], CHUNKED),
  'chunked with blanks behind the word': chat(['Transfer-Encoding: chunked \t'], CHUNKED),
  'chunked over two lines': chat(['Transfer-Encoding:\r\n chunked'], CHUNKED),
  'a name over two lines': chat(['Transfer-Encoding\r\n: chunked'], CHUNKED),
  'a blank before the encoding': chat([LENGTH, ` ${TE}`]),
  'an empty encoding': chat(['Transfer-Encoding:'], CHUNKED),
  'chunks in HTTP/1.0 that is kept alive': chat(
    [TE, 'Connection: keep-alive'],
    CHUNKED,
    'POST /v1/chat/completions HTTP/1.0',
  ),
})

const CHUNKS = rows('bad_request', {
  'a chunk size in C': chat([TE], CHUNKED.replace(HEX, `0x${HEX}`)),
  'a chunk size with a plus': chat([TE], `+${CHUNKED}`),
  'a chunk size with a blank before it': chat([TE], ` ${CHUNKED}`),
  'a chunk size with a blank behind it': chat([TE], CHUNKED.replace(HEX, `${HEX} `)),
  'a chunk size with an underscore': chat([TE], `0_${CHUNKED}`),
  'a chunk size of 2^64 and a bit': chat([TE], `1${'0'.repeat(16)}2\r\n${CHAT_BODY}\r\n0\r\n\r\n`),
  'a line feed behind a chunk size': chat([TE], CHUNKED.replace('\r\n', '\n')),
  'a carriage return behind a chunk size': chat([TE], CHUNKED.replace('\r\n', '\r')),
  'a chunk without its line break': chat([TE], CHUNKED.replace('}\r\n', '}')),
  'a chunk with another line break': chat([TE], CHUNKED.replace('}\r\n', '}XX')),
  'a chunk with a line feed behind it': chat([TE], CHUNKED.replace('}\r\n', '}\n')),
  'a line break before the chunks': chat([TE], `\r\n${CHUNKED}`),
  'a carriage return in an extension': chat([TE], CHUNKED.replace('\r\n', ';a\rb\r\n')),
  'a line feed in an extension': chat([TE], CHUNKED.replace('\r\n', ';a\nb\r\n')),
  'a chunk that is shorter than it says': chat(
    [TE],
    `${(SIZE + 2).toString(16)}\r\n${CHAT_BODY}\r\n0\r\n\r\n${HIDDEN}`,
  ),
  'an extension of 20 KiB': chat([TE], CHUNKED.replace('\r\n', `;${'a'.repeat(20_480)}\r\n`)),
  'a trailer without a colon': chat([TE], `${CHUNKED.slice(0, -2)}trailer\r\n\r\n`),
  'a trailer that says a length': chat([TE], `${CHUNKED.slice(0, -2)}Content-Length: 5\r\n\r\n`),
  'a trailer with a NUL': chat([TE], `${CHUNKED.slice(0, -2)}x: \0\r\n\r\n`),
})

const LARGE = rows('headers_too_large', {
  '2,000 tiny headers': list(
    undefined,
    Array.from({ length: 2000 }, (_, at) => `${at}:`),
  ),
  'a name of 20 KiB': list(undefined, [`${'x'.repeat(20_480)}: y`]),
  'a method of 20 KiB in good letters': list(`GET /${'x'.repeat(20_480)} HTTP/1.1`),
  'a trailer of 20 KiB': chat([TE], `${CHUNKED.slice(0, -2)}x: ${'y'.repeat(20_480)}\r\n\r\n`),
})

const BODIES_ELSEWHERE = rows('unknown_url', {
  'CL.0: a chat as the body of an unhandled POST': chat([WHOLE], HIDDEN, 'POST /v1/x HTTP/1.1'),
  'two slashes before the path': chat([LENGTH], CHAT_BODY, 'POST //v1/chat/completions HTTP/1.1'),
  'a host in the path': chat([LENGTH], CHAT_BODY, 'POST //gateway/v1/chat/completions HTTP/1.1'),
  'a dot in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/./chat/completions HTTP/1.1'),
  'an encoded dot in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/%2e/chat/completions HTTP/1.1'),
  'an encoded slash in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat%2fcompletions HTTP/1.1'),
  'a letter of the path encoded': chat([LENGTH], CHAT_BODY, 'POST /v1/%63hat/completions HTTP/1.1'),
  'a parameter in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat;a=b/completions HTTP/1.1'),
  'a NUL encoded at the end of the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat/completions%00 HTTP/1.1'),
  'a line break encoded in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat/completions%0d%0ax:%20y HTTP/1.1'),
  'half an escape in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat/completions%2 HTTP/1.1'),
  'the path in capitals': chat([LENGTH], CHAT_BODY, 'POST /V1/CHAT/COMPLETIONS HTTP/1.1'),
  'an overlong slash in the path': chat([LENGTH], CHAT_BODY, 'POST /v1/chat%c0%afcompletions HTTP/1.1'),
})

const METHODS = rows('method_not_allowed', {
  'two dots for the id of a model': chat([LENGTH], CHAT_BODY, 'POST /v1/models/%2e%2e/chat/completions HTTP/1.1'),
  ICE: list('SOURCE /v1/models ICE/1.0'),
  'another method in a header': list('POST /v1/models HTTP/1.1', ['X-HTTP-Method-Override: GET']),
  QUERY: chat([LENGTH], CHAT_BODY, 'QUERY /v1/chat/completions HTTP/1.1'),
  'a chat as the body of a DELETE': chat([WHOLE], HIDDEN, 'DELETE /v1/models/m HTTP/1.1'),
})

const READ_AS_CHAT = rows('chat', {
  'a length': chat([LENGTH]),
  'a length with zeros before it': chat([`Content-Length: 000000000${SIZE}`]),
  'a length between blanks': chat([`Content-Length: \t ${SIZE} \t`]),
  chunks: chat([TE], CHUNKED),
  'chunks by a word in capitals': chat(['TRANSFER-ENCODING: CHUNKED'], CHUNKED),
  'chunks of a byte': chat([TE], `${[...CHAT_BODY].map(letter => `1\r\n${letter}\r\n`).join('')}0\r\n\r\n`),
  'a chunk size in capitals': chat(
    [TE],
    `A\r\n${CHAT_BODY.slice(0, 10)}\r\n${(SIZE - 10).toString(16)}\r\n${CHAT_BODY.slice(10)}\r\n0\r\n\r\n`,
  ),
  'a chunk size with zeros before it': chat([TE], `0000${CHUNKED}`),
  'a last chunk of many zeros': chat([TE], CHUNKED.replace('\r\n0\r\n', '\r\n0000\r\n')),
  'an extension': chat([TE], CHUNKED.replace('\r\n', ';a=b\r\n')),
  'an extension in quotes': chat([TE], CHUNKED.replace('\r\n', ';a="b;c"\r\n')),
  'a trailer': chat([TE], `${CHUNKED.slice(0, -2)}x-sum: 1\r\n\r\n`),
  'a trailer that says another key': chat([TE], `${CHUNKED.slice(0, -2)}Authorization: Bearer x\r\nHost: evil\r\n\r\n`),
  'Expect: 100-continue': chat([LENGTH, 'Expect: 100-continue']),
  'an upgrade to HTTP/2': chat([
    LENGTH,
    'Connection: Upgrade, HTTP2-Settings',
    'Upgrade: h2c',
    'HTTP2-Settings: AAMAAABk',
  ]),
  'an upgrade to a web socket': chat([
    LENGTH,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
  ]),
  'a connection without its length': chat([LENGTH, 'Connection: content-length, authorization, keep-alive']),
  'a way for a proxy': chat([LENGTH, 'X-Original-URL: /metrics', 'X-Rewrite-URL: /metrics', 'Proxy: http://evil']),
  'a host for a proxy': chat([LENGTH, 'X-Forwarded-Host: evil', 'Forwarded: host=evil', 'X-Real-IP: 127.0.0.1']),
  'trailers are welcome': chat([LENGTH, 'TE: trailers', 'Keep-Alive: timeout=9999999']),
  'a query': chat([LENGTH], CHAT_BODY, 'POST /v1/chat/completions?a=/../%00&__proto__=1 HTTP/1.1'),
  'HTTP/1.0 that is kept alive': chat(
    [LENGTH, 'Connection: keep-alive'],
    CHAT_BODY,
    'POST /v1/chat/completions HTTP/1.0',
  ),
  'blank lines before it': key => `\r\n\r\n${chat([LENGTH])(key)}`,
})

/** Deviations that Node's parser accepts silently. None affects the end of the request. */
const READ_AS_LIST = rows('list', {
  'two blanks before the target': list('GET  /v1/models HTTP/1.1'),
  'two blanks behind the target': list('GET /v1/models  HTTP/1.1'),
  RTSP: list('GET /v1/models RTSP/1.0'),
  'a carriage return before it': key => `\r${list()(key)}`,
})

export const FRAMINGS: readonly FramingCase[] = [
  ...LINES,
  ...HEADERS,
  ...LENGTHS,
  ...CHUNKS,
  ...LARGE,
  ...BODIES_ELSEWHERE,
  ...METHODS,
  ...READ_AS_CHAT,
  ...READ_AS_LIST,
]
