/** Token counts before a request: by the official libraries, free of charge, and by the provider if it supports them. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Behaviour,
  errorAnswer,
  exact,
  type FakeProvider,
  type ProviderRequest,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { mock } from '../helpers/own-answer.ts'
import { HELLO, modelAt, providersWith } from './rig.system.ts'

const COUNTED = 4321

const json = (status: number, body: string): Behaviour => ({
  name: `answer ${status}`,
  async run(call) {
    call.head(status, { 'content-type': 'application/json' })
    await call.end(body)
  },
})

const count = json(200, JSON.stringify({ input_tokens: COUNTED }))

/** The provider's answer to a count. */
let counting: Behaviour = count
const script = (request: ProviderRequest) => (request.path.endsWith('/count_tokens') ? counting : exact())

const LIMITED = FIVE_STEPS.map(step =>
  'use' in step && step.use === 'rate-limit'
    ? { use: 'rate-limit', with: { per: 'key', requests: '2 per hour', tokens: '1000 per hour' } }
    : step,
)
const CACHED = FIVE_STEPS.toSpliced(3, 0, { use: 'cache', with: { temperature: 'any' } })
const GUARDED = FIVE_STEPS.toSpliced(3, 0, {
  use: 'guard',
  with: { rules: [{ name: 'secret', pattern: 'swordfish', action: 'redact' }] },
})
const MOCKED = [{ use: 'api-key' }, { use: 'schema' }, { use: 'mock' }, { use: 'route' }]

let provider: FakeProvider
let gateway: InProcess
let anthropic: Anthropic
let openai: OpenAI

beforeAll(async () => {
  provider = await startFakeProvider({ script })
  const claude = { dialect: 'anthropic', base_url: provider.baseUrl, api_key: '${CLAUDE_KEY}' }
  gateway = await startInProcess({
    env: { CLAUDE_KEY: 'claude-key' },
    plugins: [mock('mock')],
    policies: { limited: LIMITED, cached: CACHED, guarded: GUARDED, mocked: MOCKED, thrice: withAttempts(3) },
    yaml: {
      providers: {
        ...providersWith(provider),
        claude,
        slow: { ...claude, timeouts: { first_byte: '100ms' } },
      },
      models: {
        m: modelAt('scripted', 'upstream-model'),
        claude: modelAt('claude', 'claude-sonnet-4-5', { reasoning: true, context: 200_000, max_output: 64_000 }),
        slow: modelAt('slow', 'claude-sonnet-4-5'),
        mixed: {
          ...modelAt('scripted', 'upstream-model'),
          targets: [
            { provider: 'scripted', model: 'upstream-model' },
            { provider: 'claude', model: 'claude-sonnet-4-5', priority: 2 },
          ],
        },
      },
      routes: [
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        ...['limited', 'cached', 'guarded', 'thrice'].map(policy => ({ path: `/${policy}/v1/messages`, policy })),
        { path: '/mocked/v1/messages', policy: 'mocked', unmetered: true },
      ],
    },
  })
  anthropic = anthropicAt('')
  openai = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, logLevel: 'off', maxRetries: 0 })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})
beforeEach(() => {
  counting = count
})

function withAttempts(attempts: number) {
  return FIVE_STEPS.map(step => ('use' in step && step.use === 'route' ? { use: 'route', with: { attempts } } : step))
}

const anthropicAt = (prefix: string, apiKey = gateway.key) =>
  new Anthropic({ apiKey, baseURL: `${gateway.url}${prefix}`, logLevel: 'off', maxRetries: 0 })

const ASK = { model: 'claude', messages: HELLO }

/** The result of a counted request: how it was estimated, its charge, and the provider's requests. */
async function resultOf(response: Response) {
  const line = await gateway.exchangeLine(response.headers.get('x-request-id')!)
  expect(response.headers.has('x-tollgate-cost')).toBe(false)
  expect(gateway.running.store.reads.findReceipt(response.headers.get('x-request-id')!)).toBe(undefined)
  expect(line).not.toHaveProperty('charged')
  return { estimated: response.headers.get('x-tollgate-estimated'), outcome: line['outcome'] }
}

describe('by the provider', () => {
  test('the official library gets the number of the provider, and nothing is charged', async () => {
    const before = { balance: gateway.balance(), asked: provider.requests.length }
    const request = {
      ...ASK,
      system: 'Be brief.',
      tools: [{ name: 'clock', input_schema: { type: 'object' as const } }],
    }
    const { data, response } = await anthropic.messages.countTokens(request).withResponse()
    expect(data).toEqual({ input_tokens: COUNTED })
    expect(await resultOf(response)).toEqual({ estimated: null, outcome: 'answered' })
    expect(gateway.balance()).toEqual(before.balance)
    const [asked, ...others] = provider.requests.slice(before.asked)
    expect(others).toEqual([])
    expect(asked).toMatchObject({
      method: 'POST',
      path: '/v1/messages/count_tokens',
      headers: { 'x-api-key': 'claude-key' },
    })
    expect(asked!.body).toEqual({
      model: 'claude-sonnet-4-5',
      system: 'Be brief.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
      tools: [{ name: 'clock', input_schema: { type: 'object' } }],
    })
  })

  test('the request of Claude Code: a beta, thinking with a budget, and blocks of reasoning', async () => {
    const asked = await anthropic.beta.messages.countTokens({
      ...ASK,
      betas: ['token-counting-2024-11-01'],
      thinking: { type: 'enabled', budget_tokens: 1024 },
    })
    expect(asked.input_tokens).toBe(COUNTED)
    expect(provider.requests.at(-1)!.body).toMatchObject({ thinking: { type: 'enabled' } })
  })

  test('a model with several targets uses the one that can count', async () => {
    const { data, response } = await anthropic.messages.countTokens({ ...ASK, model: 'mixed' }).withResponse()
    expect(data.input_tokens).toBe(COUNTED)
    expect(await resultOf(response)).toEqual({ estimated: null, outcome: 'answered' })
  })

  test('a step that rewrites the request changes the count', async () => {
    const messages = [{ role: 'user' as const, content: 'the word is swordfish' }]
    await anthropicAt('/guarded').messages.countTokens({ ...ASK, messages })
    const sent = JSON.stringify(provider.requests.at(-1)!.body)
    expect(sent).not.toContain('swordfish')
    expect(sent).toContain('the word is')
  })
})

describe('estimated', () => {
  test.each([
    ['messages', async () => anthropic.messages.countTokens({ ...ASK, model: 'm' }).withResponse()],
    ['responses', async () => openai.responses.inputTokens.count({ model: 'm', input: 'Hello' }).withResponse()],
  ])('%s: the tokens that would be charged without a usage', async (format, ask) => {
    const before = { balance: gateway.balance(), asked: provider.requests.length }
    const { data, response } = await ask()
    expect(data).toEqual({
      ...(format === 'responses' ? { object: 'response.input_tokens' } : {}),
      // A quarter of five bytes, plus four for the message.
      input_tokens: 6,
    })
    expect(await resultOf(response)).toEqual({ estimated: 'input_tokens', outcome: 'answered' })
    expect(gateway.balance()).toEqual(before.balance)
    expect(provider.requests.length).toBe(before.asked)
  })

  test.each<[string, Behaviour, string]>([
    ['has no such endpoint', errorAnswer(404), 'claude'],
    ['is rate limited', errorAnswer(429), 'claude'],
    ['refuses the credential', errorAnswer(401), 'claude'],
    ['fails', errorAnswer(500), 'claude'],
    ['answers without a number', json(200, '{"input_tokens":"many"}'), 'claude'],
    ['answers without an object', json(200, 'null'), 'claude'],
    ['answers without JSON', json(200, '<html>'), 'claude'],
    ['answers endlessly', json(200, ' '.repeat(200_000)), 'claude'],
    ['breaks off', { name: 'reset', run: async call => call.reset() }, 'claude'],
    ['does not answer', { name: 'hang', run: async call => call.closed }, 'slow'],
  ])('if the provider %s, after one attempt that has no effect on its health', async (_name, behaviour, model) => {
    counting = behaviour
    const asked = provider.requests.length
    const { data, response } = await anthropicAt('/thrice')
      .messages.countTokens({ ...ASK, model })
      .withResponse()
    expect(data.input_tokens).toBe(6)
    expect(await resultOf(response)).toEqual({ estimated: 'input_tokens', outcome: 'answered' })
    expect(provider.requests.length).toBe(asked + 1)
    // Neither the target nor its credential is ejected. On a busy machine the slow one may be too late again.
    counting = count
    await expect.poll(async () => (await anthropic.messages.countTokens({ ...ASK, model })).input_tokens).toBe(COUNTED)
  })

  test('if the target that can count does not support the request, but another does', async () => {
    const source = { type: 'url' as const, url: 'http://image.example/a.png' }
    const messages = [{ role: 'user' as const, content: [{ type: 'image' as const, source }] }]
    const { data, response } = await anthropic.messages.countTokens({ ...ASK, model: 'mixed', messages }).withResponse()
    expect(data.input_tokens).toBe(1028)
    expect((await resultOf(response)).estimated).toBe('input_tokens')
  })
})

describe('authorisation of counts', () => {
  test('a count needs a key, and the key must allow the model', async () => {
    const refused = (client: Anthropic, model = 'claude') =>
      client.messages.countTokens({ ...ASK, model }).then(
        () => null,
        (error: InstanceType<typeof Anthropic.APIError>) => [error.status, error.type],
      )
    expect(await refused(anthropicAt('', 'tg_live_nobody'))).toEqual([401, 'authentication_error'])
    expect(await refused(anthropic, 'gpt-none')).toEqual([404, 'not_found_error'])
    const { token } = await gateway.running.store.createKey({ account: gateway.accountId, name: 'one', models: ['m'] })
    expect(await refused(anthropicAt('', token))).toEqual([404, 'not_found_error'])
    expect(await refused(anthropicAt('', token), 'm')).toBe(null)
  })

  test('a count is free, even without credit', async () => {
    const { id } = await gateway.running.store.createAccount({ name: 'poor' })
    const { token } = await gateway.running.store.createKey({ account: id, name: 'poor' })
    const poor = anthropicAt('', token)
    await expect(poor.messages.create({ ...ASK, max_tokens: 10 })).rejects.toMatchObject({ status: 402 })
    expect((await poor.messages.countTokens(ASK)).input_tokens).toBe(COUNTED)
  })

  test('counts use the request limit, not the token limit', async () => {
    const client = anthropicAt('/limited')
    const long = [{ role: 'user' as const, content: 'x'.repeat(100_000) }]
    for (const left of ['1', '0']) {
      const { response } = await client.messages.countTokens({ ...ASK, messages: long }).withResponse()
      expect(response.headers.get('x-ratelimit-remaining-requests')).toBe(left)
      expect(response.headers.has('x-ratelimit-remaining-tokens')).toBe(false)
    }
    await expect(client.messages.countTokens(ASK)).rejects.toMatchObject({ status: 429, type: 'rate_limit_error' })
  })

  test('a count neither reads nor writes the cache', async () => {
    const client = anthropicAt('/cached')
    const counted = await client.messages.countTokens(ASK).withResponse()
    expect(counted.response.headers.get('x-tollgate-cache')).toBe('skip')
    const asked = await client.messages.create({ ...ASK, model: 'm', max_tokens: 100 }).withResponse()
    expect(asked.response.headers.get('x-tollgate-cache')).toBe('miss')
    const again = await client.messages.countTokens({ ...ASK, model: 'm' }).withResponse()
    expect(again.data).toEqual({ input_tokens: 6 })
  })
})

describe('in each client format', () => {
  test('if a step answers without a provider, the count is that of its answer', async () => {
    expect(await anthropicAt('/mocked').messages.countTokens({ ...ASK, model: 'm' })).toEqual({ input_tokens: 3 })
  })

  test.each([
    ['/v1/messages/count_tokens', { model: 'm' }, 'messages'],
    ['/v1/messages/count_tokens', { model: 'm', messages: HELLO, prompt: 'x' }, 'prompt'],
    ['/v1/responses/input_tokens', { model: 'm' }, 'input'],
    ['/v1/responses/input_tokens', { model: 'm', input: 'x', messages: [] }, 'messages'],
  ])('%s names the wrong parameter of %j', async (path, body, param) => {
    const answer = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify(body),
    })
    expect(answer.status).toBe(400)
    const { type, error } = (await answer.json()) as { type?: string; error: { param: string } }
    expect(error.param).toBe(param)
    expect(type).toBe(path.includes('messages/') ? 'error' : undefined)
  })

  const TEXT_ONLY = [
    { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'http://a.example/a.png' } }] },
  ]
  test.each<[string, string, object, string]>([
    ['messages', 'an image that no target supports', { model: 'claude', messages: TEXT_ONLY }, 'messages[0]'],
    ['messages', 'an unknown parameter', { model: 'm', messages: HELLO, promt: 1 }, 'promt'],
    ['messages', 'a tool of an unknown type', { model: 'm', messages: HELLO, tools: [{ type: 'a' }] }, 'tools[0].type'],
    ['messages', 'an invalid stream', { model: 'm', messages: HELLO, stream: 'yes' }, 'stream'],
    ['messages', 'an invalid cap', { model: 'm', messages: HELLO, max_tokens: 0 }, 'max_tokens'],
    ['responses', 'an unknown parameter', { model: 'm', input: 'x', promt: 1 }, 'promt'],
    ['responses', 'an invalid stream', { model: 'm', input: 'x', stream: 'yes' }, 'stream'],
  ])('on %s, a count refuses %s with the same error as the request', async (format, _name, body, param) => {
    const post = async (path: string, more: object = {}) => {
      const answer = await fetch(`${gateway.url}/v1/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify({ ...more, ...body }),
      })
      const { error } = (await answer.json()) as { error?: { message: string; param: string } }
      return { status: answer.status, message: error?.message, param: error?.param }
    }
    const [counted, answered] =
      format === 'messages'
        ? [await post('messages/count_tokens'), await post('messages', { max_tokens: 50 })]
        : [await post('responses/input_tokens'), await post('responses')]
    expect(answered).toMatchObject({ status: 400, param: expect.stringContaining(param) })
    expect(counted).toEqual(answered)
  })

  test('parameters that affect only the answer are accepted and dropped', async () => {
    const body = { ...ASK, model: 'm', max_tokens: 5, stream: true }
    const answer = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': gateway.key },
      body: JSON.stringify(body),
    })
    expect([answer.status, await answer.json()]).toEqual([200, { input_tokens: 6 }])
  })
})
