/** `x-tollgate-decision`: every refusal names the step that decided, in any client format. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin, refuse } from '#contract'
import { errorAnswer, exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

/** Refuses on request; its own header must not hide the decider. */
const moody = definePlugin({
  name: 'moody',
  settings: NO_SETTINGS,
  create: () => async (ctx, next) => {
    const mood = ctx.get('x-mood')
    ctx.set('x-tollgate-decision', 'no-step')
    if (mood === 'before') throw refuse('forbidden', { headers: { 'x-tollgate-decision': 'me' } })
    if (mood === 'koa') {
      ctx.body = { mine: true }
      return
    }
    if (mood === 'bug') throw new Error('never thought of that')
    if (mood === 'edit') {
      ctx.exchange.edit(() => {
        throw refuse('content_filter')
      })
    }
    await next()
    if (mood === 'after') throw refuse('forbidden')
    ctx.remove('x-tollgate-decision')
  },
})

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  const raw = { kind: 'raw', provider: 'p', price: 'free' }
  gateway = await startInProcess({
    provider: provider.baseUrl,
    plugins: [moody],
    steps: [{ use: 'api-key' }, { use: 'moody', id: 'mine' }, ...FIVE_STEPS.slice(1)],
    policies: {
      raw: [{ use: 'api-key' }, { use: 'moody', id: 'mine' }],
      paid: [{ use: 'api-key' }, { use: 'credits' }, { use: 'moody' }],
      catalog: [{ use: 'api-key', id: 'door' }],
    },
    yaml: {
      limits: { body: '64KiB' },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        { path: '/v1/raw', policy: 'raw', ...raw },
        { path: '/v1/paid', policy: 'paid', ...raw, price: { per: '1M tokens', input: '$1' }, models: ['embedder'] },
        { path: '/v1/models', policy: 'catalog' },
        { path: '/v1/receipts/{id}', policy: 'catalog' },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const ASKED: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { model: 'm', messages: MESSAGES },
  '/v1/messages': { model: 'm', max_tokens: 50, messages: MESSAGES },
  '/v1/responses': { model: 'm', input: 'Hello' },
  '/v1/raw': { anything: true },
}

interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly method?: string
  readonly stream?: boolean
}

async function decision(
  path: string,
  { headers = {}, body, method = 'POST', stream }: RequestOptions = {},
): Promise<string | null> {
  const asked = method === 'POST' ? (body ?? JSON.stringify({ ...ASKED[path], ...(stream ? { stream } : {}) })) : null
  const answer = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...headers },
    body: asked,
  })
  const text = await answer.text()
  const said = answer.headers.get('x-tollgate-decision')
  if (answer.status < 400) expect(said).toBe(null)
  // If the body has a code, the header has the same one.
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  if (said !== null && code !== undefined) expect(said).toContain(`; code=${code}`)
  return said
}

describe.each(Object.keys(ASKED))('%s', path => {
  const isRaw = path === '/v1/raw'

  test.each<[string, RequestOptions, string]>([
    ['a body that is too large', { body: ' '.repeat(70_000) }, 'gateway; code=request_too_large'],
    ['another method', { method: 'DELETE' }, 'gateway; code=method_not_allowed'],
    ['no key', { headers: { authorization: '' } }, 'api-key; code=missing_api_key'],
    ['a step of the policy', { headers: { 'x-mood': 'before' } }, 'mine; code=forbidden'],
    ["a step's mistake", { headers: { 'x-mood': 'bug' } }, 'mine; code=plugin_error'],
    ...(isRaw
      ? []
      : ([
          ['another media type', { headers: { 'content-type': 'text/plain' } }, 'gateway; code=unsupported_media_type'],
          ['no JSON', { body: '{' }, 'schema; code=invalid_json'],
          ['after a whole answer', { headers: { 'x-mood': 'after' } }, 'mine; code=forbidden'],
          ['a stream, before it began', { stream: true, headers: { 'x-mood': 'before' } }, 'mine; code=forbidden'],
        ] as [string, RequestOptions, string][])),
  ])('%s', async (_name, sent, header) => {
    provider.script(exact({ tokens: 3 }))
    expect(await decision(path, sent)).toBe(header)
  })

  test.each(isRaw ? [] : [false, true])('an error of the provider names the stage `send` (stream %s)', async stream => {
    provider.script(errorAnswer(500))
    expect(await decision(path, { stream })).toBe('send; code=upstream_error')
  })

  test('an answer has no decision', async () => {
    provider.script(exact({ tokens: 3 }))
    expect(await decision(path)).toBe(null)
  })
})

test('an edit that refuses a whole answer', async () => {
  provider.script(exact({ tokens: 3 }))
  expect(await decision('/v1/chat/completions', { headers: { 'x-mood': 'edit' } })).toBe('mine; code=content_filter')
})

test("the catalog's routes", async () => {
  const asked = (path: string, key?: string) =>
    decision(path, { method: 'GET', ...(key === undefined ? {} : { headers: { authorization: key } }) })
  expect(await asked('/v1/models', 'Bearer tg_live_nothing')).toBe('door; code=malformed_api_key')
  expect(await asked('/v1/receipts/req_0')).toBe('send; code=receipt_not_found')
  expect(await asked('/v1/models')).toBe(null)
})

test('without a route no decision is sent', async () => {
  expect(await decision('/v1/nothing')).toBe(null)
})

test.each<[string, string, object, 'answered' | 'refused' | 'failed', string | null]>([
  [
    'a tool that no target takes',
    '/v1/messages',
    { ...ASKED['/v1/messages'], tools: [{ type: 'bash_20250124', name: 'bash' }] },
    'refused',
    'unsupported_parameter',
  ],
  ['a model that its route does not list', '/v1/paid', { model: 'other' }, 'refused', 'model_not_found'],
  ['a step that answers like Koa', '/v1/paid', {}, 'answered', null],
  ['a provider that fails', '/v1/messages', ASKED['/v1/messages']!, 'failed', 'upstream_error'],
])('receipt and log have the same outcome: %s', async (_name, path, body, outcome, code) => {
  provider.script(errorAnswer(500))
  const mood: Record<string, string> = code === null ? { 'x-mood': 'koa' } : {}
  const answer = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...mood },
    body: JSON.stringify(body),
  })
  await answer.arrayBuffer()
  expect(gateway.receipt(answer)).toMatchObject({ outcome, code, charged: 0n })
  const id = answer.headers.get('x-request-id')!
  expect(await gateway.exchangeLine(id)).toMatchObject(code === null ? { outcome } : { outcome, code })
})

test('the log has the same decision', async () => {
  const answer = await gateway.chat({}, { headers: { 'content-type': 'application/json' } })
  expect(await gateway.exchangeLine(answer.headers.get('x-request-id')!)).toMatchObject({
    code: 'missing_api_key',
    decided_by: 'api-key',
  })
})
