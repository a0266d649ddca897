/** Raw routes with a placeholder in their path: its value is sent to the provider, and no value leads to another place. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Behaviour, type FakeProvider, type ProviderRequest, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { expectRefusal } from './refusal.ts'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: json({}) })
  const raw = { kind: 'raw', policy: 'test', provider: 'p', price: 'free' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }],
    policies: { chat: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] },
    yaml: {
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: { m: { targets: [{ provider: 'p', model: 'x' }], price: PRICE, context: 8192, max_output: 1000 } },
      routes: [
        { path: '/v1/chat/completions', policy: 'chat' },
        { ...raw, path: '/v1/files/{id}', methods: ['GET'] },
        { ...raw, path: '/v1/moved/{id}', upstream_path: '/kept/here', methods: ['GET', 'POST'] },
        { ...raw, path: '/v1/threads/{id}/runs' },
        { ...raw, path: '/v1/images/generations' },
        { ...raw, path: '/v1/images/{id}' },
        { ...raw, path: '/v1/{id}', methods: ['GET', 'POST'] },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

function json(value: unknown): Behaviour {
  return {
    name: 'json',
    async run(call) {
      call.head(200, { 'content-type': 'application/json' })
      await call.end(JSON.stringify(value))
    },
  }
}

/** The next request at the provider. */
function nextRequest(): Promise<ProviderRequest> {
  return provider.waitForRequest(provider.requests.length)
}

describe('a part of the path', () => {
  test.each([
    ['/v1/files/file-1', '/v1/files/file-1'],
    ['/v1/files/a/b/c', '/v1/files/a/b/c'],
    ['/v1/files/a%20b', '/v1/files/a%20b'],
    ['/v1/files/a.b..c', '/v1/files/a.b..c'],
    ['/v1/files/arn:aws:x;v=1,2', '/v1/files/arn:aws:x;v=1,2'],
    ['/v1/files/%C3%A4', '/v1/files/%C3%A4'],
    ['/v1/files/file-1?after=%2F..%2F&x', '/v1/files/file-1?after=%2F..%2F&x'],
    ['/v1/files/$&', '/v1/files/$&'],
    ['/v1/moved/x', '/v1/kept/here/x'],
    ['/v1/moved/x?key=secret&a=1', '/v1/kept/here/x?a=1'],
    ['/v1/images/generations', '/v1/images/generations'],
    ['/v1/images/edits', '/v1/images/edits'],
    ['/v1/images/generations/x', '/v1/images/generations/x'],
    ['/v1/images/generation%C3%9F', '/v1/images/generation%C3%9F'],
    ['/v1/images/arn:aws:x;v=1,2', '/v1/images/arn:aws:x;v=1,2'],
    ['/v1/images/titan%3A0', '/v1/images/titan%3A0'],
    ['/v1/Other', '/v1/Other'],
  ])('%s passes as %s', async (path, theirs) => {
    provider.script(json({ fine: true }))
    const asked = nextRequest()
    const response = await get(path, /^\/v1\/(files|moved)/.test(path) ? 'GET' : 'POST')
    expect(response.status).toBe(200)
    expect((await asked).path).toBe(theirs)
  })

  test('in the middle', async () => {
    provider.script(json({ fine: true }))
    const asked = nextRequest()
    const headers = { authorization: `Bearer ${gateway.key}` }
    const response = await fetch(`${gateway.url}/v1/threads/t1/runs`, { method: 'POST', headers, body: '{}' })
    expect(response.status).toBe(200)
    expect((await asked).path).toBe('/v1/threads/t1/runs')
  })

  test.each([
    '/v1/files/..',
    '/v1/files/../secret',
    '/v1/files/a/../../../secret',
    '/v1/files/.',
    '/v1/files/./a',
    '/v1/files/%2e%2e/secret',
    '/v1/files/%2E%2E%2Fsecret',
    '/v1/files/.%2e/secret',
    '/v1/files/a%2fb',
    '/v1/files/a%2Fb',
    '/v1/files/a%5cb',
    '/v1/files/a\\b',
    '/v1/files/..\\secret',
    '/v1/files/%252e%252e/secret',
    '/v1/files/a%252fb',
    '/v1/files/..;/secret',
    '/v1/files/..;x=1/secret',
    '/v1/files/%2e%2e%3b/secret',
    '/v1/files/ ..'.replace(' ', '%20'),
    '/v1/files/..%20/secret',
    '/v1/files/..%00/secret',
    '/v1/files/a%00',
    '/v1/files/a%0d%0ax',
    '/v1/files/a%7f',
    '/v1/files//a',
    '/v1/files/a//b',
    '/v1/files/a/',
    '/v1/files/',
    '/v1/files/%',
    '/v1/files/%zz',
    '/v1/files/%c0%ae%c0%ae/secret',
    '/v1/files/%c0%af',
    '/v1/files/%ff',
    '/v1/files/%ef%bc%8e%ef%bc%8e/secret',
    '/v1/files/%ef%bc%8f',
    '/v1/files/%u002e%u002e',
    '/v1/files/"a"',
    '/v1/files/a|b',
    '/v1/%66iles/a',
    '/v1/files%2Fa',
    '/v1//files/a',
    '/v1/x/../files/a',
    '/v1/moved/../files/a',
    '/v1/moved/%2e%2e/%2e%2e/secret',
    '/v1/threads/../runs',
    '/v1/threads//runs',
    '/v1/threads/a%2f/runs',
    // Encoded letters that need no encoding: the provider would read another path than the router.
    '/v1/files/%61',
    '/v1/files/a%2Db',
    '/v1/images/%67enerations',
    '/v1/images/generation%73',
    '/v1/chat/%63ompletions',
    // Another route for more lenient servers.
    '/v1/chat/completions;x',
    '/v1/chat/completions%3Bx',
    '/v1/chat;x/completions',
    '/v1/chat/completions%3Fx',
    '/v1/chat/completions%20',
    '/v1/chat/completions.',
    '/v1/chat/Completions',
    '/v1/chat/%EF%BD%83ompletions',
    '/v1/chat/completions/',
    '/v1/chat//completions',
    '/v1/chat/;x/completions',
    '/v1/chat/%20/completions',
    '/v1/images/generations;x',
    '/v1/images/Generations',
    '/v1/images/generations/',
    '/v1/Images/other',
    '/v1/images;a/other',
    '/v1/Threads/a/runs',
    '/v1/threads/a/runs;x',
    '/v1/Models/x',
  ])('%s is refused', async path => {
    const asked = provider.requests.length
    const answer = await get(path, /^\/v1\/(files|moved)/.test(path) ? 'GET' : 'POST')
    await expectRefusal(answer, 'unknown_url')
    expect(provider.requests.length).toBe(asked)
  })

  test.each(['.', '%20', ';'])('fifteen thousand of %s are scanned once', async text => {
    const path = `/v1/files/${text.repeat(15_000 / text.length)}x`
    const startedMs = performance.now()
    await get(path)
    expectWithin(performance.now() - startedMs, 1000)
  })

  const tokens = ['live', 'test'].map(kind => `tg_${kind}_${'aB3'.repeat(12)}`)

  test.each([
    'key',
    'api_key',
    'apiKey',
    'x-api-key',
    'X-API-Key',
    'x_goog_api_key',
    'authorization',
    'Auth',
    'access_token',
    'key[]',
    '%6bey',
    'a=1;key',
    'a=1;b=2;%41uth',
  ])('a query parameter %s is not sent', async name => {
    provider.script(json({ fine: true }))
    for (const value of ['other', encodeURIComponent(`Bearer ${tokens[0]}`)]) {
      const asked = nextRequest()
      expect((await get(`/v1/files/a?x=%20&${name}=${value}&y=1;z`)).status).toBe(200)
      const kept = name.startsWith('a=1;') ? name.split(';').slice(0, -1).join(';') : ''
      expect((await asked).path).toBe(`/v1/files/a?x=%20&${kept === '' ? '' : `${kept}&`}y=1;z`)
    }
  })

  test.each(
    tokens.flatMap(token => [
      `/v1/files/a?file=${token}`,
      `/v1/files/a?file=x${token}x`,
      `/v1/files/a?${token}`,
      `/v1/files/a?file=${token.replace('tg', '%74g')}`,
      `/v1/files/a?at=${encodeURIComponent(`https://example.com/?t=${encodeURIComponent(token.replace('tg', '%74g'))}`)}`,
      `/v1/files/${token}`,
    ]),
  )('a key in %s is refused', async path => {
    const asked = provider.requests.length
    await expectRefusal(await get(path), 'bad_request')
    expect(provider.requests.length).toBe(asked)
  })

  test.each(['?a=%', '?a=%zz', '?a=%ff'])('an undecodable query %s is refused', async query => {
    const asked = provider.requests.length
    await expectRefusal(await get(`/v1/files/a${query}`), 'bad_request')
    expect(provider.requests.length).toBe(asked)
  })

  /** Sends the path unchanged: fetch would normalize it. */
  async function get(path: string, method = 'GET') {
    const raw = await openRaw(gateway.url)
    try {
      await raw.send(
        `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Length: 0\r\n\r\n`,
      )
      return await raw.readResponse()
    } finally {
      raw.socket.destroy()
    }
  }
})
