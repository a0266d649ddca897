/** A request that returns to the gateway that sent it, directly or through another one. */
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exact, startFakeProvider, stream } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'

/** Forwards requests to a configurable address, like a load balancer, and remembers their heads. */
async function startRelay() {
  const seen: { readonly path: string; readonly via: string | undefined }[] = []
  let to = ''
  const server = createServer((request, response) => {
    seen.push({ path: request.url!, via: request.headers.via })
    const { method, headers, url } = request
    const onward = httpRequest(to + url, { method: method!, headers }, answer => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    lead: (url: string) => void (to = url),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

const PATHS = ['chat/completions', 'messages', 'responses'] as const
const routes = [
  ...PATHS.map(path => ({ path: `/v1/${path}`, policy: 'test' })),
  { path: '/v1/embeddings', kind: 'raw', policy: 'raw', provider: 'p', price: { request: '$0.01' } },
]
const steps = [...FIVE_STEPS.slice(0, 4), { use: 'route', with: { attempts: 3 } }]
const policies = { raw: [{ use: 'api-key' }, { use: 'credits' }] }
const open = { test: [{ use: 'schema' }, { use: 'route', with: { attempts: 1 } }] }
const HELLO = [{ role: 'user', content: 'Hello' }]
const BODIES: Readonly<Record<string, object>> = {
  'chat/completions': { messages: HELLO },
  messages: { messages: HELLO, max_tokens: 10 },
  responses: { input: 'Hello' },
  embeddings: { input: 'Hello' },
}
const post = (gateway: InProcess, path: string, more: object = {}, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}`, ...headers },
    body: JSON.stringify({ model: 'm', ...BODIES[path], ...more }),
  })

describe.each(['directly', 'through another gateway'])('%s', how => {
  let relay: Awaited<ReturnType<typeof startRelay>>
  let gateway: InProcess
  let between: InProcess | null = null
  beforeAll(async () => {
    relay = await startRelay()
    const routesBetween = [{ path: '/v1/chat/completions', policy: 'test', public: true, unmetered: true }]
    if (how !== 'directly')
      between = await startInProcess({ provider: relay.url, steps: open.test, yaml: { routes: routesBetween } })
    gateway = await startInProcess({
      provider: between ? `${between.url}/v1` : relay.url,
      steps,
      policies,
      yaml: { routes },
      ...(between ? { model: { targets: [{ provider: 'p', model: 'm' }] } } : {}),
    })
    relay.lead(gateway.url)
  })
  afterAll(async () => {
    await gateway.stop()
    await between?.stop()
    await relay[Symbol.asyncDispose]()
  })

  test.each(PATHS.flatMap(path => [false, true].map(stream => [path, stream] as const)))(
    '%s (stream: %s) is refused once, and costs nothing',
    async (path, stream) => {
      const before = relay.seen.length
      const balance = gateway.balance().posted
      const answer = await post(gateway, path, { stream })
      expect(answer.status).toBe(508)
      expect(answer.headers.get('x-should-retry')).toBe('false')
      const body = (await answer.json()) as { type?: string; error: { type: string; code: string; message: string } }
      expect(body.error).toMatchObject({
        code: 'loop_detected',
        message: expect.stringContaining('returned to this gateway'),
      })
      expect(body.error.type).toBe(path === 'messages' ? 'api_error' : 'server_error')
      expect(relay.seen.length).toBe(before + 1)
      expect(relay.seen.at(-1)!.via).toMatch(
        how === 'directly' ? /^1\.1 tollgate-\w{16}$/ : /^1\.1 (tollgate-\w{16}), 1\.1 (?!\1)tollgate-\w{16}$/,
      )
      expect(gateway.balance()).toMatchObject({ posted: balance, held: 0n })
      const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
      expect(line).toMatchObject({ status: 508, code: 'loop_detected' })
    },
  )

  test('it is refused before its key, its body and the money', async () => {
    await (await post(gateway, 'chat/completions')).text()
    const { via } = relay.seen.at(-1)!
    for (const [path, type] of [
      ['chat/completions', 'server_error'],
      ['messages', 'api_error'],
      ['responses', 'server_error'],
      ['embeddings', 'server_error'],
    ]) {
      const client = await openRaw(gateway.url)
      await client.send(
        `POST /v1/${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nvia: 1.1 front\r\nvia: ${via}\r\ncontent-length: 100000\r\n\r\n`,
      )
      const answer = await client.readResponse()
      expect([path, answer.status]).toEqual([path, 508])
      expect(JSON.parse(answer.text())).toMatchObject({ error: { type, code: 'loop_detected' } })
      client.reset()
    }
  })
})

test('a raw route that points back is refused too', async () => {
  await using relay = await startRelay()
  await using gateway = await startInProcess({ provider: relay.url, steps, policies, yaml: { routes } })
  relay.lead(gateway.url)
  const answer = await post(gateway, 'embeddings')
  expect([answer.status, relay.seen.length]).toEqual([508, 1])
  expect(gateway.balance()).toMatchObject({ held: 0n })
})

test('a token count that points back is sent once, and estimated', async () => {
  await using relay = await startRelay()
  await using gateway = await startInProcess({
    provider: relay.url,
    steps,
    yaml: {
      routes: [{ path: '/v1/messages', policy: 'test' }],
      providers: { p: { dialect: 'anthropic', base_url: relay.url, api_key: '${KEY}' } },
    },
    env: { KEY: 'sk-test' },
    model: { targets: [{ provider: 'p', model: 'm' }] },
  })
  relay.lead(gateway.url)
  const answer = await post(gateway, 'messages/count_tokens', { messages: HELLO })
  expect([answer.status, answer.headers.get('x-tollgate-estimated')]).toEqual([200, 'input_tokens'])
  expect(relay.seen).toEqual([
    { path: '/v1/messages/count_tokens', via: expect.stringMatching(/^1\.1 tollgate-[0-9a-f]{16}$/) },
  ])
})

test('a provider gets the names of such gateways, and of no other proxy', async () => {
  await using provider = await startFakeProvider({ script: ({ path }) => (/chat/.test(path) ? exact() : stream()) })
  await using gateway = await startInProcess({ provider: provider.baseUrl, steps, policies, yaml: { routes } })
  const other = '1.1 tollgate-0123456789abcdef'
  for (const path of [...PATHS, 'embeddings']) {
    for (const [via, onward] of [
      [null, /^1\.1 tollgate-[0-9a-f]{16}$/],
      ['1.1 balancer.internal (nginx/1.27)', /^1\.1 tollgate-[0-9a-f]{16}$/],
      [`1.1 balancer.internal, ${other}`, /^1\.1 tollgate-0123456789abcdef, 1\.1 tollgate-[0-9a-f]{16}$/],
    ] as const) {
      await (await post(gateway, path, {}, via === null ? {} : { via })).text()
      expect(provider.requests.at(-1)!.headers['via']).toMatch(onward)
    }
  }
})
