/** Pages of other origins call the gateway: preflights, and what a browser lets a script read. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'

const APP = 'https://app.example.com'
const CHAT = '/v1/chat/completions'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  gateway = await startInProcess({ provider: provider.baseUrl, yaml: { cors: { origins: [APP] } } })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

interface Call {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

/** Not with fetch, which has its own rules for these headers. */
async function call({ method = 'POST', path = CHAT, headers = {}, body }: Call, of = gateway) {
  const raw = await openRaw(of.url)
  const text = body === undefined ? '' : JSON.stringify(body)
  const lines = Object.entries({
    host: new URL(of.url).host,
    'content-type': 'application/json',
    'content-length': String(text.length),
    connection: 'close',
    ...headers,
  })
  await raw.send(
    `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${text}`,
  )
  const answer = await raw.readResponse()
  return { answer, allowed: answer.header('access-control-allow-origin') }
}

const ASKED = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization, x-else' }
const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }

describe('a preflight', () => {
  test.each([CHAT, '/v1/models', '/v1/models/m', '/v1/else'])('of %s needs no key', async path => {
    const { answer, allowed } = await call({ method: 'OPTIONS', path, headers: { origin: APP, ...ASKED } })
    expect([answer.status, allowed]).toEqual([204, APP])
    expect(answer.header('access-control-allow-methods')).toContain('POST')
    expect(answer.header('access-control-allow-headers')).toBe('authorization, x-else')
    expect(answer.header('access-control-max-age')).toBe('7200')
    expect(answer.header('access-control-allow-credentials')).toBeUndefined()
    expect(answer.header('vary')).toBe('Origin')
  })

  test.each(['https://else.example.com', 'http://app.example.com', `${APP}:8443`, 'null'])(
    'of %s is not allowed',
    async origin => {
      const { answer, allowed } = await call({ method: 'OPTIONS', headers: { origin, ...ASKED } })
      expect([answer.status, allowed]).toEqual([405, undefined])
    },
  )
})

describe('a script may read', () => {
  const headers = () => ({ origin: APP, authorization: `Bearer ${gateway.key}` })

  test('an answer and its headers', async () => {
    const { answer, allowed } = await call({ headers: headers(), body: BODY })
    expect([answer.status, allowed, answer.header('access-control-expose-headers')]).toEqual([200, APP, '*'])
  })

  test('a stream', async () => {
    const { answer, allowed } = await call({ headers: headers(), body: { ...BODY, stream: true } })
    expect([answer.status, allowed]).toEqual([200, APP])
    expect(answer.text()).toContain('[DONE]')
  })

  test.each<[string, number, Call]>([
    ['of the gateway', 404, { path: '/v1/else' }],
    ['of a step', 401, { headers: { origin: APP, authorization: 'Bearer wrong' }, body: BODY }],
    ['of a body', 400, { body: { ...BODY, messages: [] } }],
  ])('an error %s', async (_name, status, what) => {
    const { answer, allowed } = await call({ headers: headers(), ...what })
    expect([answer.status, allowed]).toEqual([status, APP])
    expect(JSON.parse(answer.text())).toHaveProperty('error')
  })

  test('nothing from another origin, though the request is served', async () => {
    const { answer, allowed } = await call({
      headers: { ...headers(), origin: 'https://else.example.com' },
      body: BODY,
    })
    expect([answer.status, allowed]).toEqual([200, undefined])
  })
})

test('a star allows every page, and without the setting no page is allowed', async () => {
  await using open = await startInProcess({ provider: provider.baseUrl, yaml: { cors: { origins: ['*'] } } })
  const headers = { origin: APP, ...ASKED }
  expect((await call({ method: 'OPTIONS', headers }, open)).allowed).toBe('*')
  await using closed = await startInProcess({ provider: provider.baseUrl })
  const { answer, allowed } = await call({ method: 'OPTIONS', headers }, closed)
  expect([answer.status, allowed, answer.header('vary')]).toEqual([405, undefined, undefined])
})
