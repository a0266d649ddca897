import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ChatCompletion, definePlugin, type FactName, type RouteKind, type StepPlace } from '#contract'
import { countsOf } from '../../test/helpers/counts.ts'
import {
  type AnswerOptions,
  type Behaviour,
  errorAnswer,
  type FakeProvider,
  type ProviderRequest,
  startFakeProvider,
  stream,
  whole,
} from '../../test/helpers/fake-provider.ts'
import { type Account, shareGateways, startInProcess } from '../../test/helpers/in-process.ts'
import { chunksOf, contentOf, parseSse, readSse, textOf } from '../../test/helpers/sse.ts'
import { readSettings } from '../../test/helpers/step.ts'
import cache from './index.ts'
import { keyOf } from './key.ts'

const counts = countsOf('corpus')

const clock = { time: Date.UTC(2026, 0, 1), now: () => clock.time }

/** The plugin with the clock of this file, under another name than the built-in one. */
const timed = definePlugin<never, never, 'clock' | 'cache'>({
  ...cache,
  name: 'cache-here',
  needs: cache.needs as (settings: never, kind: RouteKind) => readonly FactName[],
  uses: ['clock', 'cache'],
  create: (settings: never, services: object, place: StepPlace) =>
    cache.create(settings, { ...services, clock } as never, place),
})

let provider: FakeProvider
beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
})
afterAll(() => provider.close())
beforeEach(() => provider.script(numbered()))

/** Whole or as a stream, as the request says; each answer has its own number. */
function numbered(options: AnswerOptions = {}): (request: ProviderRequest) => Behaviour {
  return request => {
    const tokens = options.tokens ?? ['answer ', `#${request.index}`]
    return (request.body?.['stream'] ? stream : whole)({ ...options, tokens })
  }
}

const share = shareGateways(() => ({ provider: provider.baseUrl, plugins: [timed] }))
/** A new account, without cached answers. */
const start = (settings: object = {}, credit = '10'): Promise<Account> =>
  share({
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'credits' },
      { use: 'cache-here', id: 'cache', with: settings },
      { use: 'route', with: { attempts: 1 } },
    ],
    credit,
  })

/** By default the cache takes only requests with this temperature. */
const COLD = { temperature: 0 }

interface CacheAnswer {
  readonly status: number
  readonly cache: string | null
  readonly age: string | null
  readonly text: string
  readonly answer: Response
}

async function ask(gateway: Account, body: object = {}, headers: Record<string, string> = {}): Promise<CacheAnswer> {
  const init = { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}`, ...headers }
  const answer = await gateway.chat({ ...COLD, ...body }, { headers: init })
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream')
  const text = isStream
    ? contentOf(parseSse(await textOf(answer.clone())))
    : (((await answer.clone().json()) as ChatCompletion).choices?.[0]?.message.content ?? '')
  const { headers: got } = answer
  return { status: answer.status, cache: got.get('x-tollgate-cache'), age: got.get('age'), text, answer }
}

describe('settings', () => {
  test.each([
    ['an unknown scope', { scope: 'tenant' }],
    ['an age without a number', { ttl: 'soon' }],
    ['a size without a number', { size: 'large' }],
    ['a price in words', { price: 'cheap' }],
    ['an empty price', { price: {} }],
    ['a price for tokens without `per`', { price: { input: '$1' } }],
    ['`per` without a price for tokens', { price: { per: '1M tokens' } }],
    ['a mistyped name in a price', { price: { request: '$1', inptu: '$1' } }],
    ['an unknown kind to skip', { skip: ['images'] }],
    ['an unknown name', { tttl: '1h' }],
  ])('%s is refused', (_name, settings) => {
    expect(() => readSettings(cache, settings)).toThrow('cache:')
  })

  test.each([
    [{}, ['chat', 'model', 'account']],
    [{ scope: 'key' }, ['chat', 'model', 'key']],
    [{ scope: 'everybody' }, ['chat', 'model']],
    [{ price: { request: '$0.01' } }, ['chat', 'model', 'account', 'hold']],
  ])('%o needs %o', (settings, needs) => {
    const read = readSettings(cache, settings)
    expect((cache.needs as (settings: unknown, kind: RouteKind) => readonly string[])(read, 'chat')).toEqual(needs)
  })

  test('a price before the step that charges is refused, and the error suggests an order that works', async () => {
    const price = { price: { request: '$0.01' } }
    const steps = [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'cache-here', with: price },
      { use: 'credits' },
      { use: 'route' },
    ]
    const refused = share({ steps }).catch(error => error)
    const { problems } = (await refused) as { problems: { message: string; suggestion: string }[] }
    expect(problems[0]!.message).toMatch(/"cache-here" needs hold, which the step "credits" gives too late/)
    expect(problems[0]!.suggestion).toBe('this order works: api-key, schema, credits, cache-here, route')
  })
})

describe('the cache does not keep', () => {
  test.each<[string, (request: ProviderRequest) => Behaviour, object, number]>([
    ['an error', () => errorAnswer(500), {}, 502],
    ['a refusal of the model', () => whole({ finish: 'content_filter' }), {}, 200],
    ['an answer larger than the largest', numbered({ tokens: ['x'.repeat(600)] }), {}, 200],
    ['a stream larger than the largest', numbered({ tokens: Array(300).fill('xx') }), { stream: true }, 200],
    ['an incomplete stream', () => stream({ done: false, finish: '' }), { stream: true }, 200],
  ])('%s', async (_name, script, body, status) => {
    const gateway = await start({ largest: 500 })
    provider.script(script)
    const before = provider.requests.length
    for (let i = 0; i < 2; i++) {
      const answer = await gateway.chat({ ...COLD, ...body })
      await textOf(answer)
      expect(answer.status).toBe(status)
      expect(answer.headers.get('x-tollgate-cache')).not.toBe('hit')
    }
    expect(provider.requests.length - before).toBe(2)
  })

  test('an answer whose client disconnected', async () => {
    const gateway = await start()
    provider.script(stream({ tokens: 50_000 }))
    const client = new AbortController()
    const answer = await gateway.chat(
      { ...COLD, stream: true, max_tokens: 1000 },
      {
        signal: client.signal,
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      },
    )
    client.abort()
    await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    provider.script(numbered())
    expect(await ask(gateway, { stream: true, max_tokens: 1000 })).toMatchObject({ cache: 'miss' })
  })

  test('an answer with a cap that was lowered for lack of credit', async () => {
    const body = { max_tokens: 900 }
    const gateway = await start({}, '0.0014')
    const first = await ask(gateway, body)
    expect(first.answer.headers.get('x-tollgate-max-output-tokens')).not.toBeNull()
    // With more credit the request keeps its cap, so it has another key.
    const { running } = gateway
    await running.store.credit({ account: gateway.accountId, amount: 10n ** 9n, reference: 'more', actor: 'test' })
    expect(await ask(gateway, body)).toMatchObject({ cache: 'miss' })
  })

  test('an answer with a cap that a later `credits` lowered', async () => {
    const steps = [{ use: 'api-key' }, { use: 'schema' }, { use: 'cache-here' }, { use: 'credits' }, { use: 'route' }]
    const gateway = await share({ steps, credit: '0.0014' })
    expect((await ask(gateway, { max_tokens: 900 })).answer.headers.get('x-tollgate-max-output-tokens')).not.toBeNull()
    expect(await ask(gateway, { max_tokens: 900 })).toMatchObject({ cache: 'miss' })
  })
})

describe('requests that bypass the cache have', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  test.each<[string, object, object, Record<string, string>]>([
    ['a temperature that is not 0', {}, { temperature: 0.1 }, {}],
    ['no temperature', {}, { temperature: undefined }, {}],
    ['tools', {}, { tools }, {}],
    ['several choices', {}, { n: 2 }, {}],
    ['no-store', { temperature: 'any' }, {}, { 'cache-control': 'max-age=0, No-Store' }],
    ['logprobs', {}, { logprobs: true }, {}],
    ['storage at the provider', {}, { store: true }, {}],
  ])('%s', async (_name, settings, body, headers) => {
    const gateway = await start(settings)
    for (let i = 0; i < 2; i++) expect(await ask(gateway, body, headers)).toMatchObject({ status: 200, cache: 'skip' })
    const { answer } = await ask(gateway, body, headers)
    expect(JSON.stringify(gateway.receipt(answer)!.trail)).toContain('not cached')
  })

  test.each<[string, object, object]>([
    ['any temperature', { temperature: 'any' }, { temperature: 1 }],
    ['tools', { skip: [] }, { tools }],
    ['several choices', { skip: ['tools'] }, { n: 2 }],
  ])('%s: cached if the policy says so', async (_name, settings, body) => {
    const gateway = await start(settings)
    expect(await ask(gateway, body)).toMatchObject({ cache: 'miss' })
    expect(await ask(gateway, body)).toMatchObject({ cache: 'hit' })
  })
})

describe('a hit', () => {
  test.each([
    ['whole after whole', false, false],
    ['whole after a stream', true, false],
    ['a stream after whole', false, true],
    ['a stream after a stream', true, true],
  ])('%s', async (_name, first, second) => {
    const gateway = await start()
    const before = provider.requests.length
    const miss = await ask(gateway, { stream: first })
    clock.time += 2500
    const hit = await ask(gateway, { stream: second, ...(second ? { stream_options: { include_usage: true } } : {}) })
    expect([miss.cache, miss.age, hit.cache, hit.age]).toEqual(['miss', null, 'hit', '2'])
    expect(hit.text).toBe(miss.text)
    expect(hit.text).toContain('answer #')
    expect(provider.requests.length - before).toBe(1)
    if (second) {
      const sent = chunksOf(await readSse(hit.answer))
      expect(sent.map(chunk => chunk.choices[0]?.finish_reason)).toEqual([null, 'stop', undefined])
      expect(sent.at(-1)!.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 2 })
    } else {
      const body = (await hit.answer.json()) as ChatCompletion
      expect(body).toMatchObject({ id: hit.answer.headers.get('x-request-id'), object: 'chat.completion', model: 'm' })
      expect(body.choices).toEqual([
        {
          index: 0,
          message: { role: 'assistant', content: miss.text, refusal: null },
          finish_reason: 'stop',
          ...(first ? {} : {}),
        },
      ])
      expect(body.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 })
    }
  })

  test('repeats tool calls as they were, whole and as a stream', async () => {
    const gateway = await start({ skip: [] })
    const toolCalls = [
      { name: 'find', arguments: ['{"a":', '1}'] },
      { name: 'keep', arguments: ['{}'] },
    ]
    provider.script(request => (request.body?.['stream'] ? stream : whole)({ toolCalls }))
    const tools = [{ type: 'function', function: { name: 'find' } }]
    await ask(gateway, { tools, stream: true })
    const { answer } = await ask(gateway, { tools })
    const [choice] = ((await answer.json()) as ChatCompletion).choices
    expect(choice!.finish_reason).toBe('tool_calls')
    expect(choice!.message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      tool_calls: [
        { id: 'call_0', type: 'function', function: { name: 'find', arguments: '{"a":1}' } },
        { id: 'call_1', type: 'function', function: { name: 'keep', arguments: '{}' } },
      ],
    })
  })

  test.each<[string, object, boolean]>([
    ['another message', { messages: [{ role: 'user', content: 'Other' }] }, false],
    ['another order of members', { messages: [{ content: 'Hello', role: 'user' }] }, true],
    ['another cap', { max_tokens: 7 }, false],
    ['another seed', { seed: 1 }, false],
    ['the cap that is the default', { max_completion_tokens: 1000 }, true],
    ['the cap under its old name', { max_tokens: 1000 }, true],
    ['null for nothing', { stop: null }, true],
    ['another user', { user: 'u', metadata: { a: 'b' } }, true],
    ['another schema order', { response_format: { type: 'json_object' } }, false],
  ])('with %s: %o is the same question: %s', async (_name, body, isSame) => {
    const gateway = await start()
    await ask(gateway)
    expect(await ask(gateway, body)).toMatchObject({ cache: isSame ? 'hit' : 'miss' })
  })

  test('an earlier step that edits a hit does not change it for later requests', async () => {
    let count = 0
    const marker = definePlugin({
      name: 'marker',
      settings: { type: 'object', additionalProperties: false, properties: {} },
      create: () => (ctx, next) => {
        const mark = ++count
        ctx.exchange.edit(chunk => {
          for (const choice of chunk.choices) if (choice.delta.content) choice.delta.content += ` +${mark}`
          return chunk
        })
        return next()
      },
    })
    const steps = [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'marker' },
      { use: 'cache-here' },
      { use: 'credits' },
      { use: 'route' },
    ]
    await using gateway = await startInProcess({ provider: provider.baseUrl, plugins: [timed, marker], steps })
    const texts: string[] = []
    for (let i = 0; i < 3; i++) texts.push((await ask(gateway)).text)
    expect(texts.map(text => text.replace(/#\d+/, ''))).toEqual(['answer  +1', 'answer  +2', 'answer  +3'])
  })
})

describe('age', () => {
  test('an answer is repeated until its ttl', async () => {
    const gateway = await start({ ttl: '10s' })
    await ask(gateway)
    clock.time += 9_999
    expect(await ask(gateway)).toMatchObject({ cache: 'hit', age: '9' })
    clock.time += 1
    expect(await ask(gateway)).toMatchObject({ cache: 'miss' })
    expect(await ask(gateway)).toMatchObject({ cache: 'hit', age: '0' })
  })

  test('a client may ask for a younger or a new answer, which is then kept', async () => {
    const gateway = await start()
    const first = await ask(gateway)
    clock.time += 5_000
    expect(await ask(gateway, {}, { 'cache-control': 'max-age=5' })).toMatchObject({ cache: 'hit', text: first.text })
    const second = await ask(gateway, {}, { 'cache-control': 'max-age=4' })
    expect(second).toMatchObject({ cache: 'miss' })
    expect(await ask(gateway)).toMatchObject({ cache: 'hit', text: second.text })
    const third = await ask(gateway, {}, { 'cache-control': 'no-cache' })
    expect(third.cache).toBe('miss')
    expect(new Set([first.text, second.text, third.text]).size).toBe(3)
    expect(await ask(gateway)).toMatchObject({ cache: 'hit', text: third.text })
  })
})

test('memory is limited in bytes: the least recently used answer is removed', async () => {
  // About two answers of 2,000 characters.
  provider.script(numbered({ tokens: ['y'.repeat(2000)] }))
  const gateway = await start({ size: '11kB' })
  const question = (content: string) => ({ messages: [{ role: 'user', content }] })
  for (const content of ['a', 'b']) await ask(gateway, question(content))
  expect(await ask(gateway, question('a'))).toMatchObject({ cache: 'hit' })
  expect(await ask(gateway, question('c'))).toMatchObject({ cache: 'miss' })
  expect(await ask(gateway, question('a'))).toMatchObject({ cache: 'hit' })
  expect(await ask(gateway, question('b'))).toMatchObject({ cache: 'miss' })
})

describe('a hit costs', () => {
  // The request has 10 tokens of prompt and 2 of answer.
  test.each<[string, object | undefined, bigint]>([
    ['nothing by default', undefined, 0n],
    ['a price for each request', { request: '$0.000001' }, 1000n],
    [
      'a price for each token',
      { per: '1M tokens', input: '$0.10', output: '$0.20', request: '$0.000001' },
      10n * 100n + 2n * 200n + 1000n,
    ],
    ['a price for 1,000 tokens', { per: '1K tokens', output: '$0.0002' }, 2n * 200n],
    ['never more than the hold', { request: '$5' }, -1n],
  ])('%s', async (_name, price, charged) => {
    const gateway = await start(price ? { price } : {})
    await ask(gateway)
    for (const body of [{}, { stream: true }]) {
      const before = gateway.balance().posted
      const { cache, answer } = await ask(gateway, body)
      expect(cache).toBe('hit')
      const receipt = gateway.receipt(answer)!
      const expected = charged < 0n ? receipt.held : charged
      expect(receipt).toMatchObject({ source: 'cached', outcome: 'answered', charged: expected, attempts: [] })
      expect(before - gateway.balance().posted).toBe(expected)
      expect(gateway.balance().held).toBe(0n)
    }
  })
})

test('a client that may not see reasoning shares no answers with one that may', () => {
  const body = { model: 'm', messages: [] }
  const question = { owner: 'o', modelId: 'm', cap: 1, choices: 1, body, bytes: Buffer.from('') }
  const key = keyOf(question)
  expect(keyOf({ ...question, hidesReasoning: false })).toBe(key)
  expect(keyOf({ ...question, hidesReasoning: true })).not.toBe(key)
})

test('by chance: no account gets an answer to another one', async () => {
  const gateway = await start({ size: '16MiB', temperature: 'any' })
  const accounts = await Promise.all(Array.from({ length: 8 }, () => gateway.account('1000')))
  const owners = new Map<string, Account>()
  const seen = { hit: 0, miss: 0 }
  const requests = fc.sample(fc.tuple(fc.nat(7), fc.nat(19), fc.boolean()), { numRuns: counts(300, 20_000), seed: 6 })
  const queue = requests.values()
  const worker = async () => {
    for (const [who, what, isStream] of queue) {
      const person = accounts[who]!
      const { status, cache, text } = await ask(person, { stream: isStream, seed: what })
      expect(status).toBe(200)
      seen[cache as 'hit' | 'miss']++
      const owner = owners.get(text) ?? person
      owners.set(text, owner)
      expect(owner).toBe(person)
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  expect(seen.hit + seen.miss).toBe(requests.length)
  expect(seen.hit).toBeGreaterThan(requests.length / 2)
  expect(seen.miss).toBeGreaterThan(0)
})

test.each([
  ['key', 'miss'],
  ['account', 'hit'],
  ['everybody', 'hit'],
])('with the scope %s another key of the account has a %s', async (scope, cached) => {
  const gateway = await start({ scope })
  const { token } = await gateway.running.store.createKey({ account: gateway.accountId, name: 'other' })
  await ask(gateway)
  expect(await ask(gateway, {}, { authorization: `Bearer ${token}` })).toMatchObject({ cache: cached })
})
