/** Kept responses with the official library: chains, reading, deleting, other accounts, a restart, a failing disk. */
import OpenAI from 'openai'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { exact, type Script, startFakeProvider } from '../helpers/fake-provider.ts'
import { cleanUp, createAccount, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { modelAt, type Rig, type RigOptions, startRig } from './rig.system.ts'

const KEEPING = [{ path: '/v1/responses', policy: 'test', keep_responses: '1h' }]

const LONG = modelAt('scripted', 'upstream-model', { context: 1_000_000 })

afterAll(cleanUp)

let rig: Rig
afterEach(async () => rig.close())

async function start(options: RigOptions = {}) {
  rig = await startRig({ yaml: { routes: KEEPING }, ...options })
  return rig.openai({ maxRetries: 0 }).responses
}

/** The messages of the provider's last request. */
const lastSent = () => rig.provider.requests.at(-1)!.body!['messages']

/** A library with the key of another account. */
async function stranger(): Promise<OpenAI['responses']> {
  const { key } = await rig.gateway.account()
  return rig.openai({ apiKey: key, maxRetries: 0 }).responses
}

describe.each([false, true])('a chain (stream %s)', stream => {
  const ask = (responses: OpenAI['responses'], request: { input: string; previous_response_id?: string }) =>
    stream ? responses.stream({ model: 'm', ...request }).finalResponse() : responses.create({ model: 'm', ...request })

  test('sends the earlier conversation, and is charged for it', async () => {
    const responses = await start({ script: exact({ tokens: ['Fine', '.'] }) })
    const first = await ask(responses, { input: 'How are you?' })
    expect(first).toMatchObject({ store: true, previous_response_id: null })
    const second = await ask(responses, { input: 'Sure?', previous_response_id: first.id })
    expect(second).toMatchObject({ store: true, previous_response_id: first.id })
    await ask(responses, { input: 'Really?', previous_response_id: second.id })
    expect(lastSent()).toEqual([
      { role: 'user', content: 'How are you?' },
      { role: 'assistant', content: 'Fine.' },
      { role: 'user', content: 'Sure?' },
      { role: 'assistant', content: 'Fine.' },
      { role: 'user', content: 'Really?' },
    ])
    // Two requests may follow the same answer.
    await ask(responses, { input: 'No?', previous_response_id: first.id })
    expect(lastSent()).toHaveLength(3)
  })

  test('holds credit for the full request', async () => {
    const responses = await start()
    const { store } = rig.gateway.running
    const held = async (request: Parameters<typeof ask>[1]) => {
      const answer = await ask(responses, request)
      return { answer, held: store.reads.findReceipt(answer.id.replace('resp_', 'req_'))!.held }
    }
    const long = await held({ input: 'x'.repeat(5000) })
    const alone = await held({ input: 'Hi' })
    const behind = await held({ input: 'Hi', previous_response_id: long.answer.id })
    // 5,000 more bytes cost at most 1,000 nano-dollars each, and at least a part of that.
    expect(behind.held - alone.held).toBeGreaterThan(1_000_000n)
    expect(behind.held).toBeGreaterThan(long.held)
  })
})

test('a response is read, its input listed, and deleted', async () => {
  const responses = await start()
  const input = [
    { role: 'user' as const, content: 'One' },
    { role: 'assistant' as const, content: 'Two' },
    { role: 'user' as const, content: 'Three' },
  ]
  const answer = await responses.create({ model: 'm', input, metadata: { a: 'b' } })
  const { output_text: _, _request_id: __, ...asSent } = answer as typeof answer & { _request_id: string }
  expect(await responses.retrieve(answer.id)).toMatchObject(asSent)

  const newest = await responses.inputItems.list(answer.id, { limit: 2 })
  expect(newest.data).toMatchObject([
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Three' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Two' }] },
  ])
  expect(newest.has_more).toBe(true)
  const all = []
  for await (const item of responses.inputItems.list(answer.id, { limit: 1, order: 'asc' })) all.push(item.id)
  expect(all).toHaveLength(3)
  await responses.create({
    model: 'm',
    input: [
      { type: 'item_reference', id: all[0]! },
      { role: 'user', content: 'Hi' },
    ],
  })
  expect(lastSent()).toEqual([
    { role: 'user', content: 'One' },
    { role: 'user', content: 'Hi' },
  ])

  await responses.delete(answer.id)
  const missing = { status: 404, code: 'response_not_found' }
  await expect(responses.retrieve(answer.id)).rejects.toMatchObject(missing)
  await expect(responses.delete(answer.id)).rejects.toMatchObject(missing)
  await expect(responses.inputItems.list(answer.id)).rejects.toMatchObject(missing)
  await expect(responses.create({ model: 'm', input: 'Hi', previous_response_id: answer.id })).rejects.toMatchObject({
    status: 400,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  })
  await expect(
    responses.create({ model: 'm', input: [{ type: 'item_reference', id: answer.output[0]!.id! }] }),
  ).rejects.toMatchObject({ status: 404, code: 'item_not_found', param: 'input[0]' })
})

test('ids of another account do not exist', async () => {
  const responses = await start()
  const answer = await responses.create({ model: 'm', input: 'A secret' })
  const other = await stranger()
  const never = answer.id.replace(/.{6}$/, '000000')
  const asks = [
    (id: string) => other.retrieve(id),
    (id: string) => other.delete(id),
    (id: string) => other.inputItems.list(id),
    (id: string) => other.create({ model: 'm', input: 'Hi', previous_response_id: id }),
    (id: string) => other.create({ model: 'm', input: [{ type: 'item_reference', id: id.replace('resp', 'msg') }] }),
    (id: string) =>
      other.create({ model: 'm', input: [{ type: 'item_reference', id: `${id.replace('resp', 'msg')}_0` }] }),
  ]
  const sent = rig.provider.requests.length
  for (const ask of asks) {
    const [theirs, nobodys] = await Promise.all(
      [answer.id, never].map(id => ask(id).then(String, ({ status, error }) => ({ status, error }))),
    )
    const text = JSON.stringify(theirs).replaceAll(answer.id.slice(5), never.slice(5))
    expect(JSON.parse(text)).toEqual(nobodys)
    expect(text).toContain('not found')
  }
  expect(rig.provider.requests).toHaveLength(sent)
  expect((await responses.retrieve(answer.id)).id).toBe(answer.id)
})

test('other requests are served while one is read', async () => {
  const responses = await start({ script: exact({ tokens: ['Fine.'] }) })
  const { id } = await responses.create({ model: 'm', input: 'Hi' })
  const kept = rig.gateway.running.store.responses
  const read = kept.read.bind(kept)
  let isReading = false
  let isServed = false
  kept.read = function* slow(...asked: Parameters<typeof read>) {
    isReading = true
    // If the slices were read without pauses, this loop would never end.
    for (let nth = 0; !isServed; nth++) {
      if (nth > 1e6) throw new Error('no other request was served')
      yield
    }
    return yield* read(...asked)
  }
  const uses = [
    () => responses.create({ model: 'm', input: 'More', previous_response_id: id }),
    () => responses.create({ model: 'm', input: [{ type: 'item_reference', id: `${id.replace('resp', 'msg')}_0` }] }),
    () => responses.retrieve(id),
    () => responses.inputItems.list(id),
  ]
  for (const use of uses) {
    isReading = isServed = false
    const using = use()
    await expect.poll(() => isReading).toBe(true)
    await responses.create({ model: 'm', input: 'And I?' })
    isServed = true
    await using
  }
})

test('with store: false nothing is kept, even after a kept response', async () => {
  const responses = await start()
  const kept = await responses.create({ model: 'm', input: 'Hi' })
  const brief = await responses.create({ model: 'm', input: 'Hi', store: false, previous_response_id: kept.id })
  expect(brief).toMatchObject({ store: false })
  await expect(responses.retrieve(brief.id)).rejects.toMatchObject({ status: 404 })
})

test('on a route without the setting nothing can be read, and errors name store: false', async () => {
  const responses = await start({ yaml: { routes: [{ path: '/v1/responses', policy: 'test' }] } })
  const answer = await responses.create({ model: 'm', input: 'Hi' })
  expect(answer).toMatchObject({ store: false })
  await expect(responses.retrieve(answer.id)).rejects.toMatchObject({ status: 404, code: 'not_supported' })
  for (const request of [
    { input: 'Hi', previous_response_id: answer.id },
    { input: [{ type: 'item_reference', id: 'a' }] },
  ]) {
    const failing = responses.create({ model: 'm', ...request } as Parameters<typeof responses.create>[0])
    await expect(failing).rejects.toThrow(/store: false/)
  }
})

test('a failed answer is not kept', async () => {
  const cut: Script = { name: 'cut', run: async call => call.reset() }
  const responses = await start({ script: cut })
  await expect(responses.create({ model: 'm', input: 'Hi' })).rejects.toMatchObject({ status: 502 })
  const [line] = rig.gateway.log.filter(each => each['msg'] === 'exchange')
  await expect(responses.retrieve(String(line!['id']).replace('req_', 'resp_'))).rejects.toMatchObject({ status: 404 })
})

describe('a response that cannot be kept', () => {
  test.each([
    ['the disk refuses it', {}, 'The store could not be written: the disk is full. Nothing was changed.'],
    ['it is too large', { limits: { kept_response: '1KiB' } }, 'too_large'],
  ])('because %s does not fail the answer, and the log has the reason without its text', async (_why, yaml, reason) => {
    const broken: typeof openStore = async options => {
      const store: LocalStore = await openStore(options)
      const keep = () => Promise.reject(new StoreUnavailable('not_written', new Error('the disk is full')))
      return Object.keys(yaml).length > 0 ? store : { ...store, responses: { ...store.responses, keep } }
    }
    const responses = await start({ open: broken, yaml: { routes: KEEPING, ...yaml } })
    const answer = await responses.create({ model: 'm', input: 'confidential '.repeat(100) })
    expect(answer.status).toBe('completed')
    const line = await rig.gateway.waitForLog(each => each['msg'] === 'a response was not kept')
    expect(line).toMatchObject({ level: 'warn', exchange: answer.id.replace('resp_', 'req_'), reason })
    expect(JSON.stringify(rig.gateway.log)).not.toContain('confidential')
    await expect(responses.create({ model: 'm', input: 'Hi', previous_response_id: answer.id })).rejects.toMatchObject({
      code: 'previous_response_not_found',
    })
  })
})

test('a chain larger than the body limit is refused before the provider is asked', async () => {
  const responses = await start({ yaml: { routes: KEEPING, limits: { body: '8KiB' } } })
  const first = await responses.create({ model: 'm', input: 'x'.repeat(4000), max_output_tokens: 5 })
  const second = await responses.create({ model: 'm', input: 'y'.repeat(3000), previous_response_id: first.id })
  const failing = responses.create({ model: 'm', input: 'z'.repeat(1000), previous_response_id: second.id })
  await expect(failing).rejects.toMatchObject({ status: 413, code: 'request_too_large' })
  expect(rig.provider.requests).toHaveLength(2)
})

test.each<[name: string, times: number, status: number | null]>([
  ['twice', 2, null],
  ['more often than a body allows', 4, 413],
  ['a hundred times', 100, 413],
])('an item of 10 kB that is referenced %s counts each time', async (_name, times, status) => {
  const limits = { body: '32KiB' }
  const responses = await start({ yaml: { routes: KEEPING, limits }, models: { m: LONG } })
  const first = await responses.create({ model: 'm', input: 'x'.repeat(10_000) })
  const { data } = await responses.inputItems.list(first.id)
  const reference = { type: 'item_reference' as const, id: data[0]!.id! }
  const second = responses.create({ model: 'm', input: Array.from({ length: times }, () => reference) })
  if (status === null) await second
  else await expect(second).rejects.toMatchObject({ status, code: 'request_too_large' })
  for (const { body } of rig.provider.requests) expect(JSON.stringify(body).length).toBeLessThan(32 * 1024)
  expect(rig.provider.requests).toHaveLength(status === null ? 2 : 1)
})

test('referenced items and the request itself share one body limit', async () => {
  const yaml = { routes: KEEPING, limits: { body: '32KiB' } }
  const responses = await start({ yaml, models: { m: LONG } })
  const first = await responses.create({ model: 'm', input: 'x'.repeat(20_000) })
  const next = { model: 'm', previous_response_id: first.id }
  await expect(responses.create({ ...next, input: 'y'.repeat(20_000) })).rejects.toMatchObject({ status: 413 })
  await responses.create({ ...next, input: 'y'.repeat(10_000) })
})

test('a restart keeps everything, and the file shows no text', async () => {
  rig = await startRig()
  const provider = await startFakeProvider({ script: exact({ tokens: ['Fine', '.'] }) })
  const options = {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: { m: { targets: [{ provider: 'p', model: 'u' }], price: PRICE, context: 8192, max_output: 1000 } },
      routes: KEEPING,
    },
    policies: { test: { steps: FIVE_STEPS } },
  }
  const before = await startGateway(options)
  const { key } = await createAccount(before, { credit: 1 })
  const at = (url: string) =>
    new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0, logLevel: 'off' }).responses
  const first = await at(before.url).create({ model: 'm', input: 'How are you?' })
  await before.stop()
  const after = await startGateway({ ...options, dir: before.dir })
  const second = await at(after.url).create({ model: 'm', input: 'Sure?', previous_response_id: first.id })
  expect(second.output_text).toBe('Fine.')
  expect(provider.requests.at(-1)!.body!['messages']).toHaveLength(3)
  await after.stop()
  await provider.close()
})
