import type { IncomingMessage } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { headProblem, mediaTypeProblem } from '../../../src/request/http/ambiguous.ts'
import { type Listener, listen } from './listener.ts'

const listeners: Listener[] = []
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener[Symbol.asyncDispose]()
})

/** The answer's status and message for raw bytes; 200 if the head was accepted. */
async function answerTo(bytes: string): Promise<string> {
  const listener = await listen((request, response) => {
    const problem = headProblem(request)
    response.writeHead(problem?.status ?? 200, { connection: 'close' })
    response.end(JSON.stringify({ error: { message: problem?.message ?? 'ok', code: problem?.code } }))
  })
  listeners.push(listener)
  const client = await listener.send(bytes)
  const response = await client.readResponse()
  return `${response.status} ${JSON.parse(response.text()).error.message}`
}

const head = (...lines: string[]) =>
  `POST /v1/x HTTP/1.1\r\nhost: a\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`

describe('a head that two servers could read differently', () => {
  test.each<[name: string, bytes: string, answer: string]>([
    ['no Host', 'POST / HTTP/1.1\r\n\r\n', '400 The header Host is missing.'],
    ['two Hosts', head('host: b'), '400 The header host occurs twice.'],
    [
      'two Authorizations',
      head('authorization: Bearer a', 'Authorization: Bearer b'),
      '400 The header authorization occurs twice.',
    ],
    [
      'two Content-Types',
      head('content-type: application/json', 'content-type: text/plain'),
      '400 The header content-type occurs twice.',
    ],
    [
      'two Idempotency-Keys',
      head('idempotency-key: a', 'idempotency-key: b'),
      '400 The header idempotency-key occurs twice.',
    ],
    ['two Content-Lengths', head('content-length: 0', 'content-length: 0'), '400 The HTTP request is malformed.'],
    [
      'Content-Length and chunks',
      head('content-length: 5', 'transfer-encoding: chunked'),
      '400 The HTTP request is malformed.',
    ],
    ['Content_Length', head('content_length: 5'), '400 The header content_length is written with an underscore.'],
    [
      'Transfer_Encoding',
      head('TRANSFER_ENCODING: chunked'),
      '400 The header transfer_encoding is written with an underscore.',
    ],
    ['Idempotency_Key', head('idempotency_key: x'), '400 The header idempotency_key is written with an underscore.'],
    ['__proto__', head('__proto__: x'), '400 A header has a name that is not allowed.'],
    ['an absolute target', 'GET http://evil/ HTTP/1.1\r\nhost: a\r\n\r\n', '400 The request target must be a path.'],
    ['a star for a target', 'OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n', '400 The request target must be a path.'],
    [
      'an encoding that is not chunked',
      head('transfer-encoding: gzip, chunked').replace('\r\n\r\n', '\r\n\r\n0\r\n\r\n'),
      '400 Transfer-Encoding must be chunked, or absent.',
    ],
    [
      'chunked twice',
      head('transfer-encoding: chunked, chunked').concat('0\r\n\r\n'),
      '400 The HTTP request is malformed.',
    ],
    [
      'an empty encoding before chunked',
      head('transfer-encoding: ,chunked').concat('0\r\n\r\n'),
      '400 Transfer-Encoding must be chunked, or absent.',
    ],
    [
      'a GET with a length',
      'GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello',
      '400 A GET request has no body.',
    ],
    [
      'a GET in chunks',
      'GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      '400 A GET request has no body.',
    ],
    [
      'an OPTIONS with a length',
      'OPTIONS / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx',
      '400 A OPTIONS request has no body.',
    ],
    [
      'too many headers',
      head(...Array.from({ length: 100 }, (_, i) => `x-${i}: 1`)),
      '431 There are more than 100 headers.',
    ],
    ['too large headers', head(`x-large: ${'x'.repeat(20_000)}`), '431 The request has too many or too large headers.'],
    ['a line feed in a header', head('x: a\nb'), '400 The HTTP request is malformed.'],
    ['no version', 'GET /\r\n\r\n', '400 Only HTTP/1.1 is supported.'],
    ['HTTP/0.9', 'GET / HTTP/0.9\r\nhost: a\r\n\r\n', '400 Only HTTP/1.1 is supported.'],
    ['HTTP/2.0', 'GET / HTTP/2.0\r\nhost: a\r\n\r\n', '400 Only HTTP/1.1 is supported.'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.0\r\n', '400 The HTTP request is malformed.'],
    ['a bad length', head('content-length: -1'), '400 The HTTP request is malformed.'],
    ['two lengths in one', head('content-length: 5, 5'), '400 The HTTP request is malformed.'],
  ])('%s is refused', async (_name, bytes, answer) => {
    expect(await answerTo(bytes)).toBe(answer)
  })
})

describe('a head as clients write it', () => {
  test.each<[name: string, bytes: string]>([
    ['a POST with a length', `${head('content-length: 2')}{}`],
    ['a POST in chunks', `${head('transfer-encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`],
    ['a POST in Chunks', `${head('Transfer-Encoding: Chunked')}0\r\n\r\n`],
    ['a POST without a body', head('content-length: 0')],
    ['a GET', 'GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n'],
    ['a GET with a length of 0', 'GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n'],
    ['HTTP/1.0 without a Host', 'GET / HTTP/1.0\r\n\r\n'],
    ['headers that may occur twice', head('accept: a', 'accept: b', 'x-forwarded-for: 1', 'x-forwarded-for: 2')],
    ['other names with underscores', head('x_custom: 1')],
    ['a hundred headers', head(...Array.from({ length: 99 }, (_, i) => `x-${i}: 1`))],
    ['a path with a query', 'GET /v1/models?x=1 HTTP/1.1\r\nhost: a\r\n\r\n'],
  ])('%s is accepted', async (_name, bytes) => {
    expect(await answerTo(bytes)).toBe('200 ok')
  })
})

describe('only the beginning of a long name is shown', () => {
  test('a long header with an underscore', async () => {
    expect(await answerTo(head(`${'x_'.repeat(500)}: 1`))).toBe('200 ok')
  })
})

describe('the media type', () => {
  const problem = (headers: Record<string, string>) => mediaTypeProblem({ headers } as unknown as IncomingMessage)

  test.each([
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json ; charset = "utf-8"',
    'application/json;\tcharset=utf-8 ',
    'application/json;',
  ])('%j is JSON', type => {
    expect(problem({ 'content-type': type })).toBeNull()
  })

  test.each([
    '',
    'text/plain',
    'application/jsonp',
    'application/json+x',
    'application/vnd.api+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json, text/plain',
    'application/json; charset=utf-16',
    'application/json; charset=latin1',
    'application/json; x=1',
    'application/json; charset=utf-8; charset=utf-16',
    'application/json\u00a0',
    '\tapplication/json',
    'application/json\u0000',
    'application/json; charset=utf-8\nx',
    'text/plain; application/json',
    `application/json${' '.repeat(10_000)}x`,
    `application/json;${'\t'.repeat(10_000)}x`,
  ])('%j is not', type => {
    expect(problem({ 'content-type': type })).toMatchObject({ code: 'unsupported_media_type', status: 415 })
  })

  test('a missing one: the error states what to send', () => {
    expect(problem({})!.message).toBe('Send the header Content-Type: application/json.')
  })

  test.each([
    ['gzip', false],
    ['br', false],
    ['identity, gzip', false],
    ['', false],
    ['identity', true],
    ['IDENTITY', true],
  ])('the encoding %j is accepted: %j', (encoding, taken) => {
    expect(problem({ 'content-type': 'application/json', 'content-encoding': encoding }) === null).toBe(taken)
  })
})
