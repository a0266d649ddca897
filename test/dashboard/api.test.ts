/** The page's API client: its requests, and its results for every kind of response. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ApiError, api, onSignedOut, search } from '../../src/dashboard/lib/api.ts'

let origin: string
let close: () => Promise<void>
let seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[]
let answer: (response: ServerResponse) => void

// A browser knows its own origin; here it is put before the path.
const browserFetch = fetch

beforeEach(async () => {
  seen = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    seen.push({ method: request.method!, url: request.url!, headers: request.headers, body })
    answer(response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  close = () => {
    server.closeAllConnections()
    return new Promise(resolve => server.close(() => resolve()))
  }
  vi.stubGlobal('fetch', (path: string, init: RequestInit) => browserFetch(origin + path, init))
})

afterEach(async () => {
  vi.unstubAllGlobals()
  onSignedOut(null)
  await close()
})

const refuse =
  (status: number, error: object | string, headers: Record<string, string> = {}) =>
  (response: ServerResponse): void => {
    response.writeHead(status, headers)
    response.end(typeof error === 'string' ? error : JSON.stringify({ error }))
  }

const failure = async (work: Promise<unknown>): Promise<ApiError> => {
  const error = await work.then(
    () => null,
    (caught: unknown) => caught,
  )
  expect(error).toBeInstanceOf(ApiError)
  return error as ApiError
}

test.each([
  [
    'the gateway refuses with everything it can say',
    refuse(
      429,
      { message: 'Too many.', type: 'rate_limit_error', param: 'email', code: 'too_many_attempts' },
      { 'x-request-id': 'req_1', 'retry-after': '2', 'retry-after-ms': '1500' },
    ),
    {
      status: 429,
      code: 'too_many_attempts',
      message: 'Too many.',
      param: 'email',
      requestId: 'req_1',
      retryAfterMs: 1500,
    },
  ],
  [
    'it says only seconds',
    refuse(503, { message: 'Busy.', type: 'server_error', param: null, code: 'overloaded' }, { 'retry-after': '3' }),
    { status: 503, code: 'overloaded', param: null, requestId: null, retryAfterMs: 3000 },
  ],
  [
    'the wait is nonsense',
    refuse(503, { message: 'Busy.', code: 'overloaded' }, { 'retry-after': 'soon' }),
    { code: 'overloaded', retryAfterMs: null },
  ],
  [
    'a proxy answers with a page',
    refuse(502, '<html>Bad gateway</html>'),
    { status: 502, code: 'unreadable_answer', message: expect.stringContaining('HTTP 502') },
  ],
  ['the envelope is empty', refuse(500, {}), { status: 500, code: 'unreadable_answer' }],
  ['the error is null', refuse(500, 'null'), { status: 500, code: 'unreadable_answer' }],
  [
    'an answer that should be JSON is not',
    refuse(200, '<html>Welcome to the hotel</html>'),
    { status: 200, code: 'unreadable_answer' },
  ],
])('%s', async (_name, given, expected) => {
  answer = given
  expect(await failure(api.get('account'))).toMatchObject(expected)
})

test('an unreachable gateway becomes an error with a sentence', async () => {
  await close()
  const error = await failure(api.get('account'))
  expect(error).toMatchObject({ status: 0, code: 'unreachable' })
  expect(error.message).toContain('could not be reached')
})

test('an aborted request is not an error of the gateway', async () => {
  answer = () => {}
  const stop = new AbortController()
  const work = api.get('account', undefined, { signal: stop.signal })
  stop.abort()
  await expect(work).rejects.toMatchObject({ name: 'AbortError' })
})

test('only "not signed in" ends the session in the page, and a wrong password does not', async () => {
  const ended = vi.fn()
  onSignedOut(ended)
  answer = refuse(401, { message: 'Wrong.', code: 'wrong_credentials' })
  await failure(api.post('session', {}))
  expect(ended).not.toHaveBeenCalled()
  answer = refuse(401, { message: 'Not signed in.', code: 'not_signed_in' })
  await failure(api.get('keys'))
  expect(ended).toHaveBeenCalledOnce()
  await failure(api.stream('playground', {}))
  expect(ended).toHaveBeenCalledTimes(2)
})

test('a redirect is not followed: it could lead to another origin', async () => {
  answer = response => response.writeHead(302, { location: '/api/account' }).end()
  expect(await failure(api.get('account'))).toMatchObject({ code: 'unreachable' })
  expect(seen).toHaveLength(1)
})

test('every request has the header of the page, and a body only if one is given', async () => {
  answer = response => response.end('{}')
  await api.get('usage', { from: 'a b', step: 'day', by: null })
  await api.post('keys/k/revoke')
  await api.put('keys/k/budgets/day', { amount: '5' })
  await api.patch('keys/k', { name: 'n' })
  await api.delete('session')
  expect(seen.map(({ method, url, body }) => [method, url, body])).toEqual([
    ['GET', '/api/usage?from=a+b&step=day', ''],
    ['POST', '/api/keys/k/revoke', '{}'],
    ['PUT', '/api/keys/k/budgets/day', '{"amount":"5"}'],
    ['PATCH', '/api/keys/k', '{"name":"n"}'],
    ['DELETE', '/api/session', ''],
  ])
  for (const { headers } of seen) expect(headers['x-tollgate-dashboard']).toBe('1')
  expect(seen.map(({ headers }) => headers['content-type'])).toEqual([
    undefined,
    'application/json',
    'application/json',
    'application/json',
    undefined,
  ])
})

test('a 204 returns undefined', async () => {
  answer = response => response.writeHead(204).end()
  await expect(api.delete('operator/links/l')).resolves.toBeUndefined()
})

test('a stream is returned with its head before its body has arrived', async () => {
  answer = response => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'exc_1' })
    response.end('data: [DONE]\n\n')
  }
  const response = await api.stream('playground', { model: 'm' })
  expect(response.headers.get('x-request-id')).toBe('exc_1')
  expect(await response.text()).toBe('data: [DONE]\n\n')
})

test.each([
  [{}, ''],
  [{ a: null, b: undefined, c: '' }, ''],
  [{ a: 0, b: false, c: 'x&y=z' }, '?a=0&b=false&c=x%26y%3Dz'],
])('a query: %o', (given, expected) => {
  expect(search(given)).toBe(expected)
})
