/** The models that a caller may use, and the receipts of their requests. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AUDIENCE, createSigner, ISSUER, sign } from '../../plugins/jwt/test-provider.ts'
import { exact, type FakeProvider, startFakeProvider, withhold } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { readSse } from '../helpers/sse.ts'
import { expectRefusal } from './refusal.ts'

const model = (more: object = {}) => ({
  targets: [{ provider: 'p', model: 'upstream-model' }],
  price: PRICE,
  context: 8192,
  max_output: 1000,
  ...more,
})

/** 2026-03-04T00:00:00Z in seconds. */
const CREATED = 1_772_582_400

const MODELS = {
  m: model({ description: 'The plain one.', created: '2026-03-04', owned_by: 'acme', aliases: ['other-name', 'a/b'] }),
  'maker/family/one': model(),
  'odd:id@1.5+x~y': model(),
  thinking: model({ reasoning: true }),
  free: model({ price: 'free' }),
  secret: model({ public: false, aliases: ['secret-alias'] }),
  disabled: model({ enabled: false }),
}
const PUBLIC = ['m', 'maker/family/one', 'odd:id@1.5+x~y', 'thinking', 'free']

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  // The catalog's own policy lets 30 requests through at once.
  const policies = { catalog: [{ use: 'api-key' }] }
  gateway = await startInProcess({ provider: provider.baseUrl, yaml: { models: MODELS }, policies })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** A key of the account. */
async function newKey(models: readonly string[] | null = null): Promise<string> {
  return (await gateway.running.store.createKey({ account: gateway.accountId, name: 'test', models })).token
}

const get = (path: string, key: string, of: InProcess = gateway) =>
  fetch(`${of.url}${path}`, { headers: { authorization: `Bearer ${key}` } })

const getAsAnthropic = (path: string, key: string) =>
  fetch(`${gateway.url}${path}`, { headers: { 'x-api-key': key, 'anthropic-version': '2023-06-01' } })

async function json(answer: Response): Promise<Record<string, unknown>> {
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('application/json')
  expect(answer.headers.get('cache-control')).toBe('no-store')
  return answer.json() as Promise<Record<string, unknown>>
}

async function ids(key: string, of: InProcess = gateway): Promise<string[]> {
  const list = await json(await get('/v1/models', key, of))
  expect(Object.keys(list)).toEqual(['object', 'data'])
  expect(list['object']).toBe('list')
  return (list['data'] as { id: string }[]).map(({ id }) => id)
}

describe('for Anthropic’s clients', () => {
  const LIMITS = { max_input_tokens: 8192, max_tokens: 1000 }

  test('lists them with x-api-key, in the fields of their format', async () => {
    const page = await json(await getAsAnthropic('/v1/models', await newKey()))
    expect(page).toMatchObject({ has_more: false, first_id: 'm', last_id: 'free' })
    const data = page['data'] as { readonly id: string }[]
    expect(data.map(({ id }) => id)).toEqual(PUBLIC)
    expect(data[0]).toMatchObject({
      type: 'model',
      display_name: 'm',
      created_at: '2026-03-04T00:00:00.000Z',
      ...LIMITS,
    })
  })

  test('one by its id', async () => {
    const key = await newKey()
    const one = await json(await getAsAnthropic('/v1/models/m', key))
    expect(one).toMatchObject({
      id: 'm',
      type: 'model',
      display_name: 'm',
      created_at: '2026-03-04T00:00:00.000Z',
      ...LIMITS,
    })
    // The fields for other clients stay.
    expect(one).toMatchObject(await json(await get('/v1/models/m', key)))
  })

  test.each<[string, () => Promise<Response>, number, string]>([
    ['a wrong key', () => getAsAnthropic('/v1/models', 'tg_live_wrong'), 401, 'authentication_error'],
    ['an unknown model', async () => getAsAnthropic('/v1/models/none', await newKey()), 404, 'not_found_error'],
  ])('%s is an error in their form', async (_name, ask, status, type) => {
    const answer = await ask()
    expect(answer.status).toBe(status)
    expect(await answer.json()).toMatchObject({ type: 'error', error: { type } })
  })

  test('a request without a version is answered as before, even with x-api-key', async () => {
    const answer = await fetch(`${gateway.url}/v1/models`, { headers: { 'x-api-key': await newKey() } })
    const list = (await answer.json()) as { data: object[] }
    expect(Object.keys(list)).toEqual(['object', 'data'])
    expect(list.data[0]).not.toHaveProperty('type')
    await expectRefusal(await fetch(`${gateway.url}/v1/models`, { headers: { 'x-api-key': 'x' } }), 'malformed_api_key')
  })
})

describe('models that a caller may not use', () => {
  const NOT_THERE = [
    'no-such-model',
    'secret',
    'secret-alias',
    'disabled',
    'M',
    'm ',
    '__proto__',
    'constructor',
    'toString',
  ]

  test('are the same 404 by id, whether they exist or not', async () => {
    const bodies = new Set<string>()
    for (const key of [await newKey(), await newKey(['free'])]) {
      for (const id of NOT_THERE) {
        const answer = await get(`/v1/models/${encodeURIComponent(id)}`, key)
        const error = await expectRefusal(answer.clone(), 'model_not_found')
        expect(error.param).toBe('model')
        bodies.add(await answer.text())
      }
    }
    // One that exists and is public, for a key that has a list without it.
    bodies.add(await (await get('/v1/models/m', await newKey(['free']))).text())
    expect([...bodies]).toHaveLength(1)
  })

  test('are the same 404 in a request, except for the name', async () => {
    const said = new Set<string>()
    const ask = async (id: string, key: string) => {
      const answer = await gateway.chat(
        { model: id },
        { headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` } },
      )
      const { message, param } = await expectRefusal(answer, 'model_not_found')
      expect(param).toBe('model')
      expect(message).toContain(JSON.stringify(id))
      said.add(message.replace(JSON.stringify(id), 'ID'))
    }
    for (const id of NOT_THERE) await ask(id, gateway.key)
    for (const id of ['m', 'other-name', 'maker/family/one']) await ask(id, await newKey(['free', 'no-such-model']))
    expect([...said]).toHaveLength(1)
    expect(provider.requests).toHaveLength(0)
    expect(gateway.running.store.openHolds()).toBe(0)
  })

  test.each(['%ZZ', '%ff', '%00', '%2F', 'm%20', '..%2fm', 'm%0d%0ax:%20y', 'x'.repeat(8000)])(
    'nor is %s one',
    async id => {
      await expectRefusal(await get(`/v1/models/${id}`, await newKey()), 'model_not_found')
    },
  )
})

describe('the list', () => {
  test('has the public and enabled models, in the order of the file', async () => {
    expect(await ids(await newKey())).toEqual(PUBLIC)
  })

  test('of a key with its own models has those, and each exists by its id', async () => {
    const key = await newKey(['free', 'm', 'secret', 'disabled', 'no-such-model'])
    expect(await ids(key)).toEqual(['m', 'free', 'secret'])
    expect(await json(await get('/v1/models/secret', key))).toMatchObject({ id: 'secret' })
    const page = await json(await getAsAnthropic('/v1/models', key))
    expect((page['data'] as { readonly id: string }[]).map(({ id }) => id)).toEqual(['m', 'free', 'secret'])
  })

  test('of a token has the models of its claim', async () => {
    const signer = createSigner('ES256', 'one')
    const settings = { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [signer.jwk] }, account_claim: 'tenant' }
    await using own = await startInProcess({
      yaml: { models: MODELS },
      policies: { catalog: [{ use: 'jwt', with: { ...settings, models_claim: 'models' } }] },
    })
    const token = (models: unknown) => sign(signer, Date.now(), { tenant: own.accountId, models })
    expect(await ids(await token(['secret', 'free', 'disabled']), own)).toEqual(['free', 'secret'])
    expect(await ids(await token('m secret'), own)).toEqual(['m', 'secret'])
    expect(await ids(await token([]), own)).toEqual([])
  })

  test('is public if the route is, and then has public models only', async () => {
    await using open = await startInProcess({
      steps: [{ use: 'rate-limit', with: { per: 'address', requests: '1000 per minute' } }],
      yaml: {
        models: MODELS,
        routes: ['/v1/models', '/v1/models/{id}'].map(path => ({ path, policy: 'test', public: true })),
      },
    })
    const list = (await json(await fetch(`${open.url}/v1/models`)))['data'] as { id: string }[]
    expect(list.map(({ id }) => id)).toEqual(PUBLIC)
    expect((await fetch(`${open.url}/v1/models/m`)).status).toBe(200)
    await expectRefusal(await fetch(`${open.url}/v1/models/secret`), 'model_not_found')
    await expectRefusal(await fetch(`${open.url}/v1/models/disabled`), 'model_not_found')
  })
})

describe('an entry', () => {
  const FIELDS = [
    'id',
    'object',
    'created',
    'owned_by',
    'context_length',
    'max_output',
    'pricing',
    'supported_parameters',
  ]

  test("has OpenAI's four fields first, then fields that tools read elsewhere", async () => {
    const key = await newKey()
    const entry = await json(await get('/v1/models/m', key))
    expect(Object.keys(entry)).toEqual([...FIELDS.slice(0, 4), 'description', ...FIELDS.slice(4)])
    expect(entry).toMatchObject({
      id: 'm',
      object: 'model',
      created: CREATED,
      owned_by: 'acme',
      description: 'The plain one.',
      context_length: 8192,
      max_output: 1000,
      pricing: {
        unit: '1M tokens',
        input: '1.000000000',
        cached_input: '1.000000000',
        cache_write: '1.000000000',
        output: '2.000000000',
        request: '0.000000000',
        web_search: '0.000000000',
      },
    })
    expect(entry['supported_parameters']).toContain('max_completion_tokens')
    expect(entry['supported_parameters']).not.toContain('reasoning_effort')
    const { data } = (await (await get('/v1/models', key)).json()) as { data: unknown[] }
    expect(data[0]).toEqual(entry)
  })

  test('omits missing properties of a model', async () => {
    const key = await newKey()
    const thinking = await json(await get('/v1/models/thinking', key))
    expect(Object.keys(thinking)).toEqual(FIELDS)
    expect(thinking['supported_parameters']).toContain('reasoning_effort')
    expect(thinking['owned_by']).toBe('tollgate')
    expect((await json(await get('/v1/models/free', key)))['pricing']).toBe(null)
    // Seconds, not milliseconds: 2026 and not 1970 or 58,000.
    for (const path of ['/v1/models/m', '/v1/models/free']) {
      const created = Number((await json(await get(path, key)))['created'])
      expect(new Date(created * 1000).getUTCFullYear()).toBe(2026)
    }
  })

  test('contains nothing about providers', async () => {
    const text = await (await get('/v1/models', await newKey())).text()
    expect(text).not.toContain('upstream-model')
    expect(text).not.toContain(provider.baseUrl)
  })

  test.each([
    ['maker/family/one', 'maker/family/one'],
    ['maker%2Ffamily%2Fone', 'maker/family/one'],
    ['maker%2ffamily/one', 'maker/family/one'],
    ['odd:id@1.5+x~y', 'odd:id@1.5+x~y'],
    ['odd%3Aid%401.5%2Bx~y', 'odd:id@1.5+x~y'],
    ['other-name', 'm'],
    ['a/b', 'm'],
    ['a%2Fb', 'm'],
    ['m?x=y', 'm'],
  ])('is found at /v1/models/%s', async (path, id) => {
    expect((await json(await get(`/v1/models/${path}`, await newKey())))['id']).toBe(id)
  })

  test('of a private model is for keys that name it, which may also use it', async () => {
    const key = await newKey(['secret'])
    for (const id of ['secret', 'secret-alias']) {
      expect((await json(await get(`/v1/models/${id}`, key)))['id']).toBe('secret')
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
      const answer = await gateway.chat({ model: id }, { headers })
      expect(await answer.json()).toMatchObject({ model: 'secret', object: 'chat.completion' })
    }
  })
})

describe('a receipt', () => {
  const FIELDS = [
    'id',
    'object',
    'model',
    'asked_model',
    'created',
    'settled',
    'corrected',
    'outcome',
    'code',
    'held',
    'charged',
    'overrun',
    'pricing',
    'usage',
    'lines',
    'rounding',
    'cost',
    'attempts',
    'trail',
    'key',
    'idempotency_key',
    'tags',
  ]
  const idOf = (answer: Response) => answer.headers.get('x-request-id')!

  test('of another account is refused like an unknown one', async () => {
    const answer = await gateway.chat()
    await answer.text()
    const { key: theirs } = await gateway.account()
    const ours = await newKey()
    const bodies = new Set<string>()
    const ids = [
      idOf(answer).slice(0, -1),
      idOf(answer).toLowerCase(),
      'req_0',
      '__proto__',
      '%00',
      `${idOf(answer)}%2F`,
    ]
    for (const [key, id] of [[theirs, idOf(answer)] as const, ...ids.map(id => [ours, id] as const)]) {
      const refused = await get(`/v1/receipts/${id}`, key)
      await expectRefusal(refused.clone(), 'receipt_not_found')
      bodies.add(await refused.text())
    }
    expect([...bodies]).toHaveLength(1)
    expect((await get(`/v1/receipts/${idOf(answer)}`, ours)).status).toBe(200)
  })

  test('an exchange without a hold has none; its result is returned instead', async () => {
    const key = await newKey()
    const { key: theirs } = await gateway.account()
    const refused = await gateway.chat({ model: 'no-such-model' })
    const free = await gateway.chat({ model: 'free' })
    const anonymous = await gateway.chat({}, { headers: { 'content-type': 'application/json' } })
    for (const answer of [refused, free, anonymous]) {
      await answer.text()
      await gateway.exchangeLine(idOf(answer))
      await expectRefusal(await get(`/v1/receipts/${idOf(answer)}`, theirs), 'receipt_not_found')
    }
    expect(await json(await get(`/v1/receipts/${idOf(refused)}`, key))).toEqual({
      id: idOf(refused),
      object: 'exchange',
      model: null,
      created: expect.any(Number),
      outcome: 'refused',
      status: 404,
      code: 'model_not_found',
      decided_by: 'schema',
      held: '0.000000000',
      charged: '0.000000000',
      attempts: [],
      trail: [
        { step: 'api-key', verdict: 'passed' },
        { step: 'schema', verdict: 'refused', code: 'model_not_found' },
      ],
      key: expect.stringMatching(/^key_/),
    })
    expect(await json(await get(`/v1/receipts/${idOf(free)}`, key))).toMatchObject({
      object: 'exchange',
      model: 'free',
      outcome: 'answered',
      status: 200,
      code: null,
      decided_by: null,
      // The billing step's note is not included.
      trail: expect.arrayContaining([{ step: 'credits', verdict: 'passed' }]),
    })
    // The account of a request without a key is unknown.
    await expectRefusal(await get(`/v1/receipts/${idOf(anonymous)}`, key), 'receipt_not_found')
  })

  test.each([{ stream: false }, { stream: true }])('has the hold, usage and charge (stream $stream)', async mode => {
    const began = Math.floor(Date.now() / 1000)
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${gateway.key}`,
      'idempotency-key': 'order 4711',
    }
    const answer = await gateway.chat({ ...mode, model: 'other-name', max_tokens: 100 }, { headers })
    if (mode.stream) await readSse(answer)
    else await answer.text()
    // Any key of the account may read it.
    const receipt = await json(await get(`/v1/receipts/${idOf(answer)}`, await newKey()))
    expect(Object.keys(receipt)).toEqual(FIELDS)
    const stored = gateway.receipt(answer)!
    // 10 and 3 tokens at 1,000 and 2,000 nano-dollars.
    expect(receipt).toMatchObject({
      id: idOf(answer),
      object: 'receipt',
      model: 'm',
      outcome: 'answered',
      code: null,
      charged: '0.000016000',
      usage: { prompt_tokens: 10, completion_tokens: 3, reasoning_tokens: 0, cached_tokens: 0, source: 'reported' },
      pricing: { unit: '1M tokens', input: '1.000000000', output: '2.000000000' },
      attempts: [{ target: 'p/upstream-model', status: 200, code: null }],
      key: stored.keyId,
      idempotency_key: 'order 4711',
    })
    expect(Number(receipt['held'])).toBeGreaterThanOrEqual(100 * 0.000002)
    for (const time of ['created', 'settled']) {
      expect(Number(receipt[time])).toBeGreaterThanOrEqual(began)
      expect(Number(receipt[time])).toBeLessThanOrEqual(Date.now() / 1000)
    }
    if (!mode.stream) expect(answer.headers.get('x-tollgate-cost')).toBe(receipt['charged'])
    // The steps inside the billing step have ended by then.
    expect(receipt['trail']).toContainEqual({ step: 'route', verdict: 'passed' })
  })

  test('of an exchange in progress is open', async () => {
    provider.script(withhold(exact()))
    const index = provider.requests.length
    const pending = gateway.chat()
    const request = await provider.waitForRequest(index)
    const receipt = await json(await get(`/v1/receipts/${request.headers['x-request-id']}`, await newKey()))
    expect(receipt).toMatchObject({ settled: null, charged: null, outcome: null })
    expect(Number(receipt['held'])).toBeGreaterThan(0)
    request.release()
    await (await pending).text()
    provider.script(exact({ tokens: 3 }))
  })

  test('needs a key, for any id', async () => {
    await expectRefusal(await fetch(`${gateway.url}/v1/receipts/req_0`), 'missing_api_key')
  })
})

test('a free route has no receipts: its users read the results of their requests', async () => {
  await using unmetered = await startInProcess({
    provider: provider.baseUrl,
    steps: FIVE_STEPS.filter(step => 'use' in step && step.use !== 'credits'),
    yaml: { routes: [{ path: '/v1/chat/completions', policy: 'test', unmetered: true }] },
  })
  const answer = await unmetered.chat()
  expect(answer.status).toBe(200)
  expect(answer.headers.get('x-tollgate-cost')).toBe(null)
  const receipt = await get(`/v1/receipts/${answer.headers.get('x-request-id')}`, unmetered.key, unmetered)
  expect(await json(receipt)).toMatchObject({ object: 'exchange', outcome: 'answered', charged: '0.000000000' })
  expect(unmetered.balance()).toMatchObject({ posted: 10_000_000_000n, held: 0n })
})

describe('models of raw routes', () => {
  const raw = { kind: 'raw', policy: 'catalog', provider: 'p', price: 'free' }
  const routes = [
    { path: '/v1/chat/completions', policy: 'test' },
    { ...raw, path: '/v1/embeddings', models: ['embed-small', 'embed-large', 'm'] },
    { ...raw, path: '/v1/audio/speech', models: ['speaker', 'embed-small'] },
    { ...raw, path: '/v1/images/generations' },
  ]

  test('are listed after the others, each once, for keys that may use them', async () => {
    await using own = await startInProcess({
      provider: provider.baseUrl,
      yaml: { routes },
      policies: { catalog: [{ use: 'api-key' }] },
    })
    expect(await ids(own.key, own)).toEqual(['m', 'embed-small', 'embed-large', 'speaker'])
    expect(await json(await get('/v1/models/speaker', own.key, own))).toEqual({
      id: 'speaker',
      object: 'model',
      created: 0,
      owned_by: 'p',
    })
    const some = { account: own.accountId, name: 'some', models: ['embed-large'] }
    const { token } = await own.running.store.createKey(some)
    expect(await ids(token, own)).toEqual(['embed-large'])
    await expectRefusal(await get('/v1/models/speaker', token, own), 'model_not_found')
    const anthropic = await fetch(`${own.url}/v1/models`, {
      headers: { 'x-api-key': own.key, 'anthropic-version': '2023-06-01' },
    })
    expect(((await anthropic.json()) as { data: { id: string }[] }).data.map(({ id }) => id)).toEqual(['m'])
  })
})
