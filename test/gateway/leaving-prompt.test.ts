/**
 * The client disconnects before any of its answer has arrived. A prompt that the provider has received is charged once, and at most the
 * hold. A prompt that it has not received, or has refused, is not charged.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ChargeSource, definePlugin, type Receipt } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import {
  type Behaviour,
  blackHole,
  type Call,
  errorAnswer,
  exact,
  type FakeProvider,
  sse,
  startFakeProvider,
  withhold,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'

const counts = countsOf('floods')

/** A long prompt, and its estimate: a quarter of its bytes, and four. */
const CONTENT = 'word '.repeat(19_200)
const TOKENS = CONTENT.length / 4 + 4
const ESTIMATE = BigInt(TOKENS) * 1_000n

let provider: FakeProvider
let gateway: InProcess

/** Resolves when the gateway has noticed the disconnect. */
let noticed = Promise.withResolvers<void>()
const notices = definePlugin({
  name: 'notices',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    ctx.exchange.signal.addEventListener('abort', () => noticed.resolve(), { once: true })
    return next()
  },
})

const policy = (credits: object, route: object = FIVE_STEPS[4]!) => [
  ...FIVE_STEPS.slice(0, 3),
  { use: 'credits', with: credits },
  { use: 'notices' },
  route,
]
const target = { targets: [{ provider: 'p', model: 'theirs' }], price: PRICE, context: 131_072, max_output: 1_000 }

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    credit: '100',
    plugins: [notices],
    steps: policy({}),
    policies: {
      drain: policy({ on_disconnect: 'drain' }),
      free: policy({ on_disconnect: 'cancel_free' }),
      retries: policy({}, { use: 'route' }),
    },
    yaml: {
      models: { m: target, dear: { ...target, price: { ...PRICE, input: '$1000' } } },
      routes: ['test', 'drain', 'free', 'retries'].map(name => ({
        path: name === 'test' ? '/v1/chat/completions' : `/${name}/v1/chat/completions`,
        policy: name,
      })),
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

interface Disconnect {
  readonly stream?: boolean
  readonly policy?: string
  /** The request at the provider that the test waits for, counted from the next one. */
  readonly nth?: number
  /** Called when the provider has the request, before the disconnect. */
  before?(): Promise<unknown>
  /** Called when the gateway has noticed the disconnect. */
  after?(): unknown
}

/** Sends a request, disconnects when the provider has it, and returns the receipt. */
async function leave(
  script: Behaviour | Behaviour[],
  { stream = true, policy, nth = 0, before, after }: Disconnect = {},
) {
  provider.script(script)
  noticed = Promise.withResolvers()
  const [since, index] = [gateway.log.length, provider.requests.length]
  const controller = new AbortController()
  const asked = post(policy ? `/${policy}` : '', stream, controller.signal)
  const request = await provider.waitForRequest(index + nth)
  await before?.()
  controller.abort()
  await asked
  await noticed.promise
  if (after) await after()
  const line = await gateway.waitForLog(line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= since)
  await provider.waitForClose(request)
  expect(gateway.balance().held).toBe(0n)
  return receiptOf(String(line['id']))
}

const post = (at: string, stream: boolean, signal: AbortSignal) =>
  fetch(`${gateway.url}${at}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: CONTENT }] }),
    signal,
  }).then(
    answer => answer.text().catch(() => ''),
    () => '',
  )

function receiptOf(id: string): Receipt {
  const receipt = gateway.running.store.reads.findReceipt(id)!
  expect(receipt.charged! <= receipt.held).toBe(true)
  return receipt
}

const silent: Behaviour = { name: 'silent', run: call => call.closed }
const begins = (event: string): Behaviour => ({
  name: 'begins',
  async run(call) {
    call.head(200, { 'content-type': 'text/event-stream' })
    await call.step(() => call.write(event))
    await call.closed
  },
})
const chunk = (fields: object) => sse({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'x', ...fields })
const role = chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })

test('many simultaneous disconnects: every prompt is charged', async () => {
  provider.script(silent)
  const many = counts(20, 200)
  const [since, index, before] = [gateway.log.length, provider.requests.length, gateway.balance().posted]
  const controllers = Array.from({ length: many }, () => new AbortController())
  const asked = controllers.map(({ signal }, nth) => post('', nth % 2 === 0, signal))
  await provider.waitForRequest(index + many - 1)
  for (const controller of controllers) controller.abort()
  await Promise.all(asked)
  const lines = () => gateway.log.slice(since).filter(line => line['msg'] === 'exchange')
  await expect.poll(() => lines().length).toBe(many)
  const sent = provider.requests.slice(index).length
  expect(before - gateway.balance().posted).toBe(BigInt(sent) * ESTIMATE)
  expect(sent).toBe(many)
  expect(gateway.balance().held).toBe(0n)
})

type ExpectedReceipt = Partial<Receipt> & { readonly source: ChargeSource }
const PROMPT: ExpectedReceipt = {
  charged: ESTIMATE,
  source: 'prompt_estimated',
  outcome: 'client_left',
  usage: { input: TOKENS },
}
const NOTHING: ExpectedReceipt = { charged: 0n, source: 'released', outcome: 'client_left', usage: {} }
const step = () => provider.step()

test.each<[name: string, script: Behaviour | Behaviour[], leaving: Disconnect, expected: ExpectedReceipt]>([
  ['before the head of a stream', silent, {}, PROMPT],
  ['before the head of a whole answer', silent, { stream: false }, PROMPT],
  ['after the head, before the first token', begins(role), { before: step }, PROMPT],
  ['of a stream, if the policy does not charge the prompt', silent, { policy: 'free' }, NOTHING],
  ['of a whole answer, if the policy does not charge the prompt', silent, { policy: 'free', stream: false }, NOTHING],
  [
    'and the drained answer reports its usage',
    withhold(exact({ tokens: 3 })),
    { policy: 'drain', after: step },
    { charged: 16_000n, source: 'reported' },
  ],
  ['and the drained answer is an error', withhold(errorAnswer(503)), { policy: 'drain', after: step }, NOTHING],
  [
    'and the drained answer breaks off without a token',
    { name: 'breaks', run: async (call: Call) => void (await call.step(async () => call.reset())) },
    { policy: 'drain', after: step },
    NOTHING,
  ],
  ['while a second attempt is silent', [errorAnswer(503), silent], { policy: 'retries', nth: 1 }, PROMPT],
])('the client disconnects %s', async (_name, script, leaving, expected) => {
  expect(await leave(script, leaving)).toMatchObject(expected)
})

test('a shutdown cuts a drained answer: the prompt is charged anyway', async () => {
  await using other = await startInProcess({
    provider: provider.baseUrl,
    plugins: [notices],
    steps: policy({ on_disconnect: 'drain' }),
    model: { context: 131_072 },
  })
  provider.script(silent)
  noticed = Promise.withResolvers()
  const index = provider.requests.length
  const controller = new AbortController()
  const messages = [{ role: 'user', content: CONTENT }]
  const asked = other.chat({ stream: true, messages }, { signal: controller.signal }).catch(() => {})
  const request = await provider.waitForRequest(index)
  controller.abort()
  await asked
  await noticed.promise
  await other.stop()
  await provider.waitForClose(request)
  const line = other.log.find(line => line['msg'] === 'exchange')
  expect(line).toMatchObject({ outcome: 'cut', charged: '0.024004000' })
})

test('the client disconnects while the connection to the provider opens: nothing is sent or charged', async () => {
  await using hole = await blackHole()
  await using other = await startInProcess({
    provider: `${hole.url}/v1`,
    plugins: [notices],
    steps: policy({}),
    model: { context: 131_072 },
  })
  const controller = new AbortController()
  const messages = [{ role: 'user', content: CONTENT }]
  const asked = other.chat({ stream: true, messages }, { signal: controller.signal }).catch(() => {})
  await expect.poll(() => other.running.store.openHolds()).toBe(1)
  await new Promise(resolve => setTimeout(resolve, 100))
  controller.abort()
  await asked
  const line = await other.waitForLog(line => line['msg'] === 'exchange')
  expect(line).toMatchObject({ outcome: 'client_left', charged: '0.000000000' })
})
