/** Compares our response head with Node's: the methods of both return, throw and send the same. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CutResponse } from '../../../src/request/http/cut-response.ts'
import { countsOf } from '../../helpers/counts.ts'

/** A call of a method, with any arguments that a step in JavaScript could pass. */
type Call = readonly [method: string, ...args: unknown[]]

/** The result or error of each call, and the bytes on the wire. */
function resultOf(
  Response: typeof ServerResponse,
  calls: readonly Call[],
  of: { method?: string; version?: string } = {},
) {
  const request = new IncomingMessage(new Socket())
  const [major, minor] = (of.version ?? '1.1').split('.').map(Number)
  Object.assign(request, { method: of.method ?? 'GET', httpVersionMajor: major, httpVersionMinor: minor })
  const response = new Response(request)
  let wire = ''
  const socket = new Duplex({
    read() {},
    write(piece: Buffer, _encoding, done) {
      wire += piece.toString('latin1')
      done()
    },
  })
  response.assignSocket(socket as Socket)
  const results = calls.map(([method, ...args]) => {
    try {
      const result: unknown = (response as unknown as Record<string, (...args: unknown[]) => unknown>)[method]!(...args)
      return result === response ? 'itself' : JSON.stringify(result)
    } catch (error) {
      const { name, code, message } = error as NodeJS.ErrnoException
      return { name, code, message }
    }
  })
  const state = [response.headersSent, response.statusCode, response.statusMessage, response.getHeaders()]
  return { results, state, wire: wire.replace(/Date: [^\r]*GMT/, 'Date: now') }
}

/** Compares both classes. `calls` creates the arguments for each, because some are mutable. */
function expectSame(calls: () => readonly Call[], of?: Parameters<typeof resultOf>[2]): ReturnType<typeof resultOf> {
  const nodes = resultOf(ServerResponse, calls(), of)
  expect(resultOf(CutResponse as unknown as typeof ServerResponse, calls(), of)).toEqual(nodes)
  return nodes
}

const ALL: readonly Call[] = [
  ['getHeaderNames'],
  ['getRawHeaderNames'],
  ['getHeaders'],
  ['getHeader', 'x-A'],
  ['hasHeader', 'X-a'],
]
const SENT: readonly Call[] = [['write', 'body'], ['end']]

test.each<readonly [name: string, calls: readonly Call[]]>([
  ['a name with a blank', [['setHeader', 'a b', '1']]],
  ['an empty name', [['setHeader', '', '1']]],
  ['a name that is a number', [['setHeader', 5, '1']]],
  ['no value', [['setHeader', 'x-a', undefined]]],
  ['a line end in a value', [['setHeader', 'x-a', 'a\r\nb: c']]],
  ['a character beyond Latin-1', [['setHeader', 'x-a', '€']]],
  ['a bad one of several values', [['setHeader', 'x-a', ['1', '2\n']]]],
  [
    'reading by a name that is a number',
    [
      ['getHeader', 5],
      ['hasHeader', null],
      ['removeHeader', undefined],
    ],
  ],
  ['reading by nothing, with a header', [['setHeader', 'x-a', '1'], ['getHeader'], ['hasHeader'], ['removeHeader']]],
  ['a bad name in writeHead', [['setHeader', 'x-a', '1'], ['writeHead', 200, { 'x-b': '2', 'x c': '3' }], ...ALL]],
  ['a bad value in writeHead', [['setHeader', 'x-a', '1'], ['writeHead', 200, { 'x-b': '\n' }], ...SENT]],
  ['no value in writeHead', [['setHeader', 'x-a', '1'], ['writeHead', 200, { 'x-b': undefined }], ...SENT]],
  ['a bad status', [['setHeader', 'x-a', '1'], ['writeHead', 5, { 'x-b': '2' }], ...SENT]],
  ['a bad reason', [['setHeader', 'x-a', '1'], ['writeHead', 200, 'a\nb', { 'x-b': '2' }], ...SENT]],
  ['a list of odd length', [['setHeader', 'x-a', '1'], ['writeHead', 200, ['x-b']], ...SENT]],
  ['a list of pairs', [['setHeader', 'x-a', '1'], ['writeHead', 200, [['x-b', '2']]], ...SENT]],
  [
    'a trailer without chunks',
    [
      ['setHeader', 'trailer', 'x'],
      ['setHeader', 'content-length', 4],
      ['writeHead', 200],
    ],
  ],
  [
    'changes after the head',
    [
      ['setHeader', 'x-a', '1'],
      ['writeHead', 200],
      ['setHeader', 'x-b', '2'],
    ],
  ],
  ['removing after the head', [['setHeader', 'x-a', '1'], ['flushHeaders'], ['removeHeader', 'x-a'], ...ALL]],
  ['appending after the head', [['flushHeaders'], ['appendHeader', 'x-a', '1'], ['setHeaders', new Map()], ...ALL]],
  ['two heads', [['setHeader', 'x-a', '1'], ['writeHead', 200], ['writeHead', 500], ...SENT]],
  ['setHeaders of an object', [['setHeader', 'x-a', '1'], ['setHeaders', { a: '1' }], ...ALL]],
])('refused as by Node: %s', (_name, calls) => {
  const { results } = expectSame(() => calls)
  expect(results.some(result => typeof result === 'object')).toBe(true)
})

test.each<readonly [name: string, calls: () => readonly Call[]]>([
  ['none', () => [...ALL, ...SENT, ...ALL]],
  ['a number', () => [['setHeader', 'X-A', 5], ...ALL, ...SENT, ...ALL]],
  [
    'one name in two cases',
    () => [['setHeader', 'X-A', '1'], ['setHeader', 'x-b', '2'], ['setHeader', 'x-a', '3'], ...ALL, ...SENT],
  ],
  [
    'removed and set again',
    () => [
      ['setHeader', 'x-a', '1'],
      ['setHeader', 'x-b', '2'],
      ['removeHeader', 'X-A'],
      ...ALL,
      ['setHeader', 'x-a', '3'],
      ...SENT,
    ],
  ],
  ['the empty value', () => [['setHeader', 'x-a', ''], ...ALL, ...SENT]],
  [
    'cookies',
    () => [
      ['setHeader', 'x-b', '1'],
      ['setHeader', 'Set-Cookie', ['a=1', 'b=2']],
      ...ALL,
      ['appendHeader', 'set-cookie', 'c=3'],
      ...ALL,
      ...SENT,
      ...ALL,
    ],
  ],
  ['several values, one of them undefined', () => [['setHeader', 'x-a', ['1', undefined]], ...SENT]],
  ['appended', () => [['appendHeader', 'x-A', '1'], ['appendHeader', 'x-a', ['2', '3']], ...ALL, ...SENT]],
  [
    'a map',
    () => [
      ['setHeader', 'x-b', '1'],
      [
        'setHeaders',
        new Map([
          ['x-a', '1'],
          ['set-cookie', 'a'],
        ]),
      ],
      ...ALL,
      ...SENT,
    ],
  ],
  [
    'in writeHead',
    () => [['setHeader', 'x-a', '1'], ['writeHead', 201, { 'X-A': '2', '': '3', 'x-c': 4 }], ...ALL, ...SENT],
  ],
  ['in writeHead only', () => [['writeHead', 201, { 'X-A': '2', 'x-c': 4 }], ...ALL, ...SENT]],
  [
    'in writeHead with a reason',
    () => [['setHeader', 'x-a', '1'], ['writeHead', 201, 'Ok', { 'x-b': '2' }], ...ALL, ...SENT],
  ],
  ['a reason and no headers', () => [['setHeader', 'x-a', '1'], ['writeHead', 201, 'Ok'], ...SENT]],
  [
    'a list in writeHead',
    () => [['setHeader', 'x-a', '1'], ['writeHead', 200, ['x-A', '2', 'x-a', '3']], ...ALL, ...SENT],
  ],
  ['a list only', () => [['writeHead', 200, ['x-A', '2', 'x-a', '3']], ...ALL, ...SENT]],
  [
    'cookies in writeHead',
    () => [['setHeader', 'x-a', '1'], ['writeHead', 200, { 'set-cookie': ['a', 'b'] }], ...ALL, ...SENT],
  ],
  [
    'inherited in writeHead',
    () => [['setHeader', 'x-a', '1'], ['writeHead', 200, Object.create({ 'x-b': '2' })], ...SENT],
  ],
  [
    'a file name in UTF-8, and a length',
    () => [
      ['setHeader', 'content-length', 4],
      ['setHeader', 'Content-Disposition', 'attachment; filename="\xc3\xa9\xe4\xb8\xad"'],
      ...ALL,
      ...SENT,
    ],
  ],
  ['a length', () => [['setHeader', 'content-length', 4], ...SENT]],
  [
    'no length, one piece',
    () => [
      ['setHeader', 'x-a', '1'],
      ['end', 'body'],
    ],
  ],
  ['no date', () => [['setHeader', 'x-a', '1'], ['removeHeader', 'date'], ...SENT]],
  ['a date', () => [['setHeader', 'Date', 'today'], ...SENT]],
  ['a date, removed', () => [['setHeader', 'Date', 'today'], ['removeHeader', 'Date'], ...SENT]],
  ['connection: close', () => [['setHeader', 'Connection', 'close'], ...SENT]],
  ['no connection header', () => [['setHeader', 'x-a', '1'], ['removeHeader', 'Connection'], ...SENT]],
  [
    'neither length nor chunks',
    () => [
      ['removeHeader', 'transfer-encoding'],
      ['removeHeader', 'content-length'],
      ['setHeader', 'x-a', '1'],
      ...SENT,
    ],
  ],
  ['chunks asked for', () => [['setHeader', 'Transfer-Encoding', 'chunked'], ...SENT]],
  ['trailers', () => [['setHeader', 'Trailer', 'x-t'], ['write', 'a'], ['addTrailers', { 'x-t': '1' }], ['end']]],
  ['a Keep-Alive header', () => [['setHeader', 'Keep-Alive', 'timeout=1'], ...SENT]],
  ['204', () => [['setHeader', 'x-a', '1'], ['writeHead', 204], ['end']]],
  ['304 with chunks', () => [['setHeader', 'transfer-encoding', 'chunked'], ['writeHead', 304], ['end']]],
  [
    '100 and 103 before it',
    () => [['setHeader', 'x-a', '1'], ['writeContinue'], ['writeEarlyHints', { link: '</a>; rel=preload' }], ...SENT],
  ],
  ['__proto__', () => [['setHeader', '__proto__', '1'], ...ALL, ...SENT]],
])('as Node writes it: %s', (_name, calls) => {
  for (const of of [{}, { method: 'HEAD' }, { version: '1.0' }]) expectSame(calls, of)
})

test('any calls in any order have the results of Node', () => {
  const name = fc.constantFrom(
    'x-a',
    'X-A',
    'x-b',
    'connection',
    'content-length',
    'set-cookie',
    'date',
    'trailer',
    'bad name',
  )
  const value = fc.constantFrom<unknown>('1', 'close', 4, '', 'é', '€', 'a\nb', undefined, ['1', '2'], [])
  const headers = fc.dictionary(name, value, { maxKeys: 3 })
  const call = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(fc.constantFrom('setHeader', 'appendHeader'), name, value) },
    { weight: 3, arbitrary: fc.tuple(fc.constantFrom('getHeader', 'hasHeader', 'removeHeader'), name) },
    fc.tuple(fc.constantFrom('getHeaderNames', 'getRawHeaderNames', 'getHeaders', 'flushHeaders')),
    fc.tuple(fc.constant('writeHead'), fc.constantFrom(200, 204, 304, 500), headers),
    fc.tuple(fc.constant('writeHead'), fc.constantFrom(200, 404), fc.constant('Said'), headers),
    fc.tuple(
      fc.constant('writeHead'),
      fc.constant(200),
      fc.array(fc.constantFrom('x-a', 'x-b', '1'), { maxLength: 4 }),
    ),
    fc.tuple(fc.constant('write'), fc.constantFrom('a', 'body')),
  ) as fc.Arbitrary<Call>
  fc.assert(
    fc.property(fc.array(call, { maxLength: 10 }), calls => {
      expectSame(() => structuredClone([...calls, ['end', 'last']]))
    }),
    { numRuns: countsOf('corpus')(300, 20_000) },
  )
})
