/** Large answers: a picture in one event passes, and an answer beyond `limits.answer` is charged once and not retried. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Behaviour,
  exact,
  type FakeProvider,
  sendStreamHead,
  sse,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { parseSse, textOf } from '../helpers/sse.ts'
import { expectRefusal } from './refusal.ts'

const MIB = 1024 * 1024
const LIMIT = 4 * MIB

let provider: FakeProvider
let gateway: InProcess
/** The default number of attempts. */
const STEPS = FIVE_STEPS.map(step => ((step as { use: string }).use === 'route' ? { use: 'route' } : step))
const ROUTES = {
  routes: [
    { path: '/v1/chat/completions', policy: 'test' },
    { path: '/v1/images', kind: 'raw', policy: 'raw', provider: 'p', price: 'free' },
  ],
}

beforeAll(async () => {
  provider = await startFakeProvider({ script: picture(2 * MIB) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    steps: STEPS,
    policies: { raw: [{ use: 'api-key' }, { use: 'credits' }] },
    yaml: { limits: { answer: '4MiB', bodies_in_flight: '64MiB' }, ...ROUTES },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const answerOf = (size: number, field: 'delta' | 'message') => ({
  id: 'c',
  object: field === 'delta' ? 'chat.completion.chunk' : 'chat.completion',
  created: 1,
  model: 'upstream-model',
  choices: [
    {
      index: 0,
      [field]: {
        role: 'assistant',
        content: null,
        images: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(size)}` } }],
      },
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
})

/** A picture of this size, in the requested form. */
function picture(size: number): Behaviour {
  return {
    name: `a picture of ${size} bytes`,
    async run(call) {
      const streams = (call.request.body as { stream?: boolean }).stream === true
      if (streams) {
        sendStreamHead(call)
        await call.write(sse(answerOf(size, 'delta')))
        await call.end('data: [DONE]\n\n')
      } else {
        call.head(200, { 'content-type': 'application/json' })
        await call.end(JSON.stringify(answerOf(size, 'message')))
      }
    },
  }
}

const raw = (of: InProcess, body: object) =>
  fetch(`${of.url}/v1/images`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${of.key}` },
    body: JSON.stringify(body),
  })

const WAYS: readonly [name: string, ask: (of: InProcess, stream: boolean) => Promise<Response>][] = [
  ['chat', (of, stream) => of.chat({ stream })],
  ['a raw route', (of, stream) => raw(of, { stream })],
]

test.each(WAYS)('%s: a picture of 3 MiB passes, whole and as an event', async (_name, ask) => {
  provider.script(picture(3 * MIB))
  for (const stream of [false, true]) {
    const answer = await ask(gateway, stream)
    expect(answer.status).toBe(200)
    const text = await textOf(answer)
    expect(text.length).toBeGreaterThan(3 * MIB)
    if (stream) expect(parseSse(text)).toMatchObject({ done: true, rest: '' })
  }
})

test.each(WAYS)(
  '%s: one beyond `limits.answer` is requested once, and the client must not retry',
  async (_name, ask) => {
    provider.script(picture(LIMIT + MIB))
    for (const stream of [false, true]) {
      const before = provider.requests.length
      const answer = await ask(gateway, stream)
      await expectRefusal(answer, 'upstream_too_large')
      expect(answer.headers.get('x-should-retry')).toBe('false')
      expect(provider.requests.length - before).toBe(1)
      const line = gateway.log.find(line => line['exchange'] === answer.headers.get('x-request-id'))
      expect(line).toMatchObject({ code: 'upstream_too_large', detail: expect.stringContaining('limits.answer') })
    }
    expect(gateway.balance().held).toBe(0n)
  },
)

test('an answer without room in the gateway: the client should retry, and the gateway does not', async () => {
  await using crowded = await startInProcess({
    provider: provider.baseUrl,
    credit: '1000',
    steps: STEPS,
    policies: { raw: [{ use: 'api-key' }, { use: 'credits' }] },
    yaml: {
      limits: { bodies_in_flight: '40MiB', body: '4MiB' },
      ...ROUTES,
      providers: {
        p: { dialect: 'openai', base_url: provider.baseUrl },
        q: { dialect: 'openai', base_url: provider.baseUrl },
      },
      models: {
        m: {
          targets: ['p', 'q'].map(of => ({ provider: of, model: 'upstream-model' })),
          price: PRICE,
          context: '100M',
          max_output: '50M',
        },
      },
    },
  })
  provider.script(exact({ tokens: ['x'.repeat(16 * MIB)] }))
  const deaf = await openRaw(crowded.url)
  const request = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }
  await deaf.post('/v1/chat/completions', request, { authorization: `Bearer ${crowded.key}` })
  await deaf.readUntil('xxx')
  deaf.pause()
  const { posted } = crowded.balance()
  provider.script(picture(12 * MIB))
  for (const [name, ask] of WAYS)
    for (const stream of [false, true]) {
      const before = provider.requests.length
      const answer = await ask(crowded, stream)
      await expectRefusal(answer, 'overloaded')
      expect(answer.headers.get('retry-after')).toBe('1')
      expect(answer.headers.get('x-should-retry')).toBe(null)
      expect(provider.requests.length - before, `${name}, stream: ${stream}`).toBe(1)
      const line = await crowded.waitForLog(line => line['exchange'] === answer.headers.get('x-request-id'))
      expect(line).toMatchObject({ code: 'overloaded', detail: expect.stringContaining('limits.bodies_in_flight') })
    }
  expect(crowded.balance()).toEqual(expect.objectContaining({ posted, held: 0n }))
  deaf.socket.destroy()
})
