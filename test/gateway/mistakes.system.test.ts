/** Errors of plugins and providers in a gateway with its own process: unawaited promises, and a provider that echoes its key. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Call, type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { type Gateway, startGateway, temporaryDirectory } from '../helpers/gateway.ts'
import { contentOf, parseSse } from '../helpers/sse.ts'

/** No pattern for keys matches it, and half of it looks like an address. */
const SECRET = 'correct://horse.battery-staple'

const FLOATING = `
import { definePlugin } from 'tollgate/plugin'

export default definePlugin({
  name: 'floating',
  description: 'Forgets a promise.',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    if (ctx.get('x-mistake')) void Promise.reject(new Error('an unawaited error'))
    return next()
  },
})
`

let provider: FakeProvider
let gateway: Gateway

beforeAll(async () => {
  provider = await startFakeProvider({ script: gated({ tokens: ['one', ' two', ' three'] }) })
  const dir = await temporaryDirectory()
  await writeFile(join(dir, 'floating.ts'), FLOATING)
  gateway = await startGateway({
    dir,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'memory',
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl, api_key: '${PROVIDER_KEY}' } },
      models: {
        m: { targets: [{ provider: 'p', model: 'upstream' }], price: 'free', context: '4Ki', max_output: '1Ki' },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'main', public: true },
        { path: '/v1/embeddings', policy: 'raw', kind: 'raw', provider: 'p', public: true, price: 'free' },
      ],
    },
    policies: {
      main: { steps: [{ use: '../floating.ts' }, { use: 'schema' }, { use: 'route' }] },
      raw: { steps: [{ use: '../floating.ts' }] },
    },
    env: { PROVIDER_KEY: SECRET },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const ask = (path: string, fields: object = {}, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...fields }),
  })

test('unawaited rejections are logged and counted, and no stream ends', async () => {
  const asked = ask('chat/completions', { stream: true }, { 'x-mistake': 'yes' })
  await (await provider.waitForRequest()).step(2)
  const answer = await asked
  await ask('chat/completions', { messages: [] }, { 'x-mistake': 'yes' })
  const mistakes = () => gateway.logs().filter(line => line['msg'] === 'unhandled promise rejection')
  await gateway.waitForLog(() => mistakes().length === 2)
  expect(mistakes()[0]).toMatchObject({ level: 'error', error: { message: 'an unawaited error' } })
  expect(JSON.stringify(mistakes()[0])).toContain('/floating.ts')
  expect(await (await fetch(`${gateway.adminUrl}/metrics`)).text()).toContain('tollgate_unhandled_rejections_total 2\n')
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)

  provider.release()
  const events = parseSse(await answer.text())
  expect(contentOf(events)).toBe('one two three')
})

test.each(['chat/completions', 'embeddings'])(
  'a provider that echoes its key on /v1/%s: it appears nowhere',
  async path => {
    provider.script({
      name: 'an echo',
      async run(call: Call) {
        const error = { message: `This is not for ${call.request.headers['authorization']}.`, type: 'x', param: SECRET }
        call.head(400, { 'content-type': 'application/json' })
        await call.end(JSON.stringify({ error }))
      },
    })
    const answer = await ask(path)
    expect(answer.status).toBe(400)
    const text = await answer.text()
    expect(text).toContain('This is not for')
    expect(text).not.toMatch(/horse|battery|staple/)
    expect(JSON.stringify(gateway.logs())).not.toMatch(/horse|battery|staple/)
  },
)

test('an uncaught error ends the process, and the log has the reason', async () => {
  const dir = await temporaryDirectory()
  const throwing = FLOATING.replace('void Promise.reject(', 'setImmediate(() => { throw ').replace(
    "error'))",
    "error') })",
  )
  await writeFile(join(dir, 'floating.ts'), throwing)
  const other = await startGateway({
    dir,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: 'memory',
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {
        m: { targets: [{ provider: 'p', model: 'upstream' }], price: 'free', context: '4Ki', max_output: '1Ki' },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'main', public: true }],
    },
    policies: { main: { steps: [{ use: '../floating.ts' }, { use: 'schema' }, { use: 'route' }] } },
  })
  const asked = fetch(`${other.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-mistake': 'yes', 'content-type': 'application/json' },
    body: '{}',
  })
  await asked.catch(() => {})
  expect(await other.exited).not.toBe(0)
  // The line of the exchange may come after it.
  const errors = other.logs().filter(({ level }) => level === 'error')
  expect(errors).toMatchObject([{ error: { message: 'an unawaited error' } }])
})
