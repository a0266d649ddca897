/**
 * Raw routes with a price: pictures and text from sound. The operator's maximum cost of a request is held, the provider's reported usage
 * is charged, and nothing beyond the hold.
 */
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { formatMoney, parseMoney } from '#contract'
import { type Behaviour, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'

/** 5,000 nano-dollars a token of the prompt, 1,250 a cached one, 40,000 a token of the answer. */
const PRICE = { per: '1M tokens', input: '$5', cached_input: '$1.25', output: '$40' }
const HOLD = parseMoney('0.20')

let provider: FakeProvider
let gateway: InProcess
let client: OpenAI

beforeAll(async () => {
  provider = await startFakeProvider({ script: json({}) })
  const raw = { kind: 'raw', policy: 'test', provider: 'p' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }, { use: 'credits' }],
    yaml: {
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: {},
      routes: [
        { ...raw, path: '/v1/images/{id}', price: PRICE, hold: '$0.20' },
        { ...raw, path: '/v1/audio/{id}', price: { ...PRICE, request: '$0.001' }, hold: '$0.20' },
        { ...raw, path: '/v1/listed/{id}', price: PRICE, hold: '$0.20', models: ['painter', 'embedder'] },
        { ...raw, path: '/v1/embeddings', price: { per: '1M tokens', input: '$5' }, hold: '$0.20' },
      ],
    },
  })
  client = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

function json(value: unknown): Behaviour {
  return send('application/json', JSON.stringify(value))
}

function send(type: string, body: string | Buffer, broken = false): Behaviour {
  return {
    name: 'answer',
    async run(call) {
      call.head(200, { 'content-type': type })
      await call.write(body)
      if (broken) call.fin()
      else await call.end()
    },
  }
}

/** Runs an action and returns its charge; the whole hold is released. */
async function charged(run: () => Promise<unknown>): Promise<bigint> {
  const before = gateway.balance().posted
  await run()
  const { posted, held } = gateway.balance()
  expect(held).toBe(0n)
  return before - posted
}

const draw = () => client.images.generate({ model: 'painter', prompt: 'A cat' }).withResponse()
const sound = () => toFile(Buffer.alloc(3000), 'a.wav')

test.each([
  ['a model that the route lists, as JSON', 'listed/a', { model: 'painter' }, 'painter'],
  ['one that the route lists, in a form', 'listed/a', 'embedder', 'embedder'],
  ['one of a route without a list', 'images/a', { model: 'painter' }, '/v1/images/{id}'],
  ['one that the route does not list', 'listed/a', { model: 'other' }, '/v1/listed/{id}'],
  ['none', 'listed/a', {}, '/v1/listed/{id}'],
])('receipt and usage: %s', async (_, path, asked, model) => {
  provider.script(json({ usage: { input_tokens: 1000, output_tokens: 1 } }))
  const form = new FormData()
  if (typeof asked === 'string') form.set('model', asked)
  const answer = await fetch(`${gateway.url}/v1/${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.key}`,
      ...(typeof asked === 'string' ? {} : { 'content-type': 'application/json' }),
    },
    body: typeof asked === 'string' ? form : JSON.stringify(asked),
  })
  await answer.arrayBuffer()
  const receipt = gateway.running.store.reads.findReceipt(answer.headers.get('x-request-id')!)!
  expect(receipt.model).toBe(model)
  const usage = gateway.running.store.reads.reports.usage({
    step: 'day',
    by: 'model',
    from: 0,
    to: Number.MAX_SAFE_INTEGER,
  })
  expect(usage.map(row => row.model)).toContain(model)
})

test('a form is read once', async () => {
  provider.script(json({ usage: { input_tokens: 1, output_tokens: 1 } }))
  const indexOf = vi.spyOn(Buffer.prototype, 'indexOf')
  const answer = await fetch(`${gateway.url}/v1/listed/a`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'multipart/form-data; boundary=once' },
    body: '--once\r\nContent-Disposition: form-data; name="model"\r\n\r\nembedder\r\n--once--\r\n',
  })
  const searches = indexOf.mock.calls.filter(([value]) => value === '--once')
  indexOf.mockRestore()
  expect(answer.status).toBe(200)
  // For the first delimiter, the next one, and the end of the form.
  expect(searches).toHaveLength(3)
})

test('a balance below the maximum cost of a request: 402, nothing is sent', async () => {
  const account = await gateway.account(formatMoney(HOLD - 1n))
  const poor = new OpenAI({ apiKey: account.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const asked = provider.requests.length
  const going = poor.images.generate({ model: 'painter', prompt: 'A cat' })
  await expect(going).rejects.toMatchObject({
    status: 402,
    message: expect.stringContaining('This request needs $0.20'),
  })
  expect(provider.requests.length).toBe(asked)
  await gateway.running.store.credit({ account: account.accountId, amount: 1n, reference: 'a little', actor: 'test' })
  provider.script(json({ created: 1, data: [], usage: { input_tokens: 1, output_tokens: 1 } }))
  await poor.images.generate({ model: 'painter', prompt: 'A cat' })
  expect(account.balance()).toMatchObject({ posted: HOLD - 45_000n, held: 0n })
})

test('an answer that breaks off costs nothing', async () => {
  provider.script(send('application/json', '{"usage":{"input_tokens":1,"output_tokens":1}}', true))
  expect(await charged(() => expect(draw()).rejects.toMatchObject({ status: 502 }))).toBe(0n)
})

describe('a picture', () => {
  test.each<[string, unknown, bigint, object]>([
    [
      'as reported, prompt and answer',
      { input_tokens: 9, output_tokens: 1056, total_tokens: 1065 },
      9n * 5_000n + 1056n * 40_000n,
      { source: 'reported', usage: { input: 9, output: 1056 } },
    ],
    [
      'more prompt tokens than bytes: a picture was loaded by the provider',
      { input_tokens: 10_000, output_tokens: 1 },
      10_000n * 5_000n + 40_000n,
      { source: 'reported', usage: { input: 10_000 } },
    ],
    [
      'the cached part at its own price',
      { input_tokens: 100, output_tokens: 0, input_tokens_details: { cached_tokens: 60 } },
      40n * 5_000n + 60n * 1_250n,
      { usage: { cached_input: 60 } },
    ],
    [
      'more than the hold: limited to the hold',
      { input_tokens: 1, output_tokens: 1_000_000 },
      HOLD,
      { source: 'reported' },
    ],
    ['nonsense', { input_tokens: -1, output_tokens: 1e300 }, HOLD, { source: 'clamped' }],
    ['nothing', { input_tokens: 0, output_tokens: 0 }, 0n, { source: 'reported' }],
  ])('%s', async (_title, usage, nano, receipt) => {
    provider.script(json({ created: 1, data: [], usage }))
    const cost = await charged(async () => {
      const { response } = await draw()
      expect(response.headers.get('x-tollgate-cost')).toBe(formatMoney(nano))
      expect(gateway.receipt(response)).toMatchObject({ held: HOLD, ...receipt })
    })
    expect(cost).toBe(nano)
  })

  test('without usage: estimated by the bytes in both directions, and never above the hold', async () => {
    const body = JSON.stringify({ created: 1, data: [{ b64_json: 'a'.repeat(200) }] })
    provider.script(send('application/json', body))
    const index = provider.requests.length
    const cost = await charged(async () => {
      expect(gateway.receipt((await draw()).response)).toMatchObject({ source: 'estimated' })
    })
    const [up, down] = [provider.requests[index]!.raw.length, body.length]
    expect(cost).toBe(BigInt(Math.ceil(up / 4)) * 5_000n + BigInt(Math.ceil(down / 4)) * 40_000n)
    provider.script(json({ created: 1, data: [{ b64_json: 'a'.repeat(100_000) }] }))
    expect(await charged(draw)).toBe(HOLD)
  })
})

describe('a stream', () => {
  const usage = { type: 'tokens', input_tokens: 20, output_tokens: 3, total_tokens: 23 }
  const delta = 'data: {"type":"transcript.text.delta","delta":"Hi"}\n\n'

  test('is charged by its last event', async () => {
    const done = `data: ${JSON.stringify({ type: 'transcript.text.done', text: 'Hi', usage })}\n\n`
    provider.script(send('text/event-stream', delta + done))
    const types: string[] = []
    const cost = await charged(async () => {
      const stream = await client.audio.transcriptions.create({ file: await sound(), model: 'ear', stream: true })
      for await (const each of stream) types.push(each.type)
    })
    expect(types).toEqual(['transcript.text.delta', 'transcript.text.done'])
    expect(cost).toBe(20n * 5_000n + 3n * 40_000n + 1_000_000n)
  })

  test('without usage: estimated', async () => {
    provider.script(send('text/event-stream', delta))
    const index = provider.requests.length
    const cost = await charged(async () => {
      const stream = await client.audio.transcriptions.create({ file: await sound(), model: 'ear', stream: true })
      for await (const _ of stream);
    })
    const [up, down] = [provider.requests[index]!.raw.length, delta.length]
    expect(cost).toBe(BigInt(Math.ceil(up / 4)) * 5_000n + BigInt(Math.ceil(down / 4)) * 40_000n + 1_000_000n)
  })
})

test('prompts only, with a hold: the reported usage counts even beyond the bytes', async () => {
  provider.script(json({ object: 'list', data: [], usage: { prompt_tokens: 7_000, total_tokens: 7_000 } }))
  const cost = await charged(() => client.embeddings.create({ model: 'e', input: 'x', encoding_format: 'float' }))
  expect(cost).toBe(7_000n * 5_000n)
})

test('the ledger agrees', () => {
  expect(gateway.running.store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
})
