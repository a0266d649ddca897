/**
 * Several targets, and failing attempts. Another target is tried only before anything of an answer was sent, and within limits.
 * All attempts of an exchange are one charge.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { errorAnswer, exact, type FakeProvider, gated, sse, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, type InProcessOptions, PRICE, startInProcess } from '../helpers/in-process.ts'
import { contentOf, parseSse, textOf } from '../helpers/sse.ts'

/** 10 prompt tokens at 1,000 and 3 at 2,000 nano-dollars. */
const CHARGE = 16_000n
const GOOD = exact({ tokens: 3 })

let first: FakeProvider
let second: FakeProvider
const running: InProcess[] = []

beforeAll(async () => {
  first = await startFakeProvider({ script: GOOD })
  second = await startFakeProvider({ script: GOOD })
})
beforeEach(async () => {
  first.script(GOOD)
  second.script(GOOD)
})
afterAll(async () => {
  await Promise.all(running.map(each => each.stop()))
  await Promise.all([first.close(), second.close()])
})

const modelAt = (targets: readonly object[]) => ({ targets, price: PRICE, context: 8192, max_output: 1000 })

/** The two providers, with their dialects. */
function providersOf(one: 'openai' | 'anthropic', two: 'openai' | 'anthropic') {
  const at = (dialect: string, { baseUrl, url }: FakeProvider) => ({
    dialect,
    base_url: dialect === 'openai' ? baseUrl : url,
  })
  return { one: at(one, first), two: at(two, second) }
}

/** Both providers behind one model, in this order. Each test has its own, because the health of targets persists. */
async function start(route: object = {}, more: Partial<InProcessOptions> = {}): Promise<InProcess> {
  const gateway = await startInProcess({
    env: { ONE: 'key-one', TWO: 'key-two' },
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'credits' },
      { use: 'route', with: { order: 'listed', ...route } },
    ],
    yaml: {
      providers: {
        one: { dialect: 'openai', base_url: first.baseUrl, timeouts: { first_byte: '300ms' } },
        two: { dialect: 'openai', base_url: second.baseUrl },
      },
      models: {
        m: modelAt([
          { provider: 'one', model: 'a' },
          { provider: 'two', model: 'b' },
        ]),
      },
    },
    ...more,
  })
  running.push(gateway)
  return gateway
}

/** Sends one request; returns its result and the number of attempts at each provider. */
async function ask(gateway: InProcess, streams: boolean) {
  const before = [first.requests.length, second.requests.length]
  const posted = gateway.balance().posted
  const answer = await gateway.chat({ stream: streams })
  const text = await textOf(answer)
  const { attempts } = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
  return {
    status: answer.status,
    content:
      answer.status !== 200 ? null : streams ? contentOf(parseSse(text)) : JSON.parse(text).choices[0].message.content,
    text,
    asked: [first.requests.length - before[0]!, second.requests.length - before[1]!],
    attempts,
    charged: posted - gateway.balance().posted,
    receipt: gateway.receipt(answer),
  }
}

const errorFirst = {
  name: 'an error as the first event',
  async run(call) {
    call.head(200, { 'content-type': 'text/event-stream' })
    await call.write(sse({ error: { message: 'Overloaded', type: 'overloaded_error' } }))
    await call.end()
  },
} satisfies Parameters<FakeProvider['script']>[0]

describe('an attempt that fails before anything of its answer was sent', () => {
  test.each([
    ['500', errorAnswer(500)],
    ['503', errorAnswer(503)],
    ['429', errorAnswer(429)],
    ['401, for its own key', errorAnswer(401)],
    ['404, for its own name of the model', errorAnswer(404)],
  ])('%s: the next target answers, whole and streamed, for one charge', async (_name, script) => {
    for (const streams of [false, true]) {
      const gateway = await start()
      first.script(script)
      const result = await ask(gateway, streams)
      expect(result).toMatchObject({ status: 200, asked: [1, 1], attempts: 2, charged: CHARGE })
      expect(result.content).not.toBe('')
      expect(result.receipt?.attempts).toMatchObject([
        { target: 'one/a' },
        { target: 'two/b', status: 200, code: null },
      ])
    }
  })

  test('an error as the first event of a stream with status 200, too', async () => {
    const gateway = await start()
    first.script(errorFirst)
    expect(await ask(gateway, true)).toMatchObject({ status: 200, asked: [1, 1], attempts: 2, charged: CHARGE })
  })

  test('a role, and then the end: nothing of that attempt is sent', async () => {
    const gateway = await start()
    first.script({
      name: 'a role only',
      async run(call) {
        call.head(200, { 'content-type': 'text/event-stream' })
        const choices = [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]
        await call.write(sse({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'a', choices }))
        await call.end()
      },
    })
    const { status, text, asked } = await ask(gateway, true)
    expect({ status, asked }).toEqual({ status: 200, asked: [1, 1] })
    expect(text.match(/"role":"assistant"/g)).toHaveLength(1)
  })

  test.each([
    ['400, an error of the request', errorAnswer(400), 400],
    ['413', errorAnswer(413), 413],
  ])('%s: no other target is tried', async (_name, script, status) => {
    const gateway = await start()
    first.script(script)
    expect(await ask(gateway, false)).toMatchObject({ status, asked: [1, 0], attempts: 1, charged: 0n })
  })

  test('all fail: the last failure is returned, and nothing is charged', async () => {
    const gateway = await start()
    first.script(errorAnswer(500))
    second.script(errorAnswer(503))
    // The last one is tried twice: no other target exists.
    expect(await ask(gateway, true)).toMatchObject({ status: 503, asked: [1, 2], attempts: 3, charged: 0n })
  })

  test('`attempts: 1`: no second attempt', async () => {
    const gateway = await start({ attempts: 1 })
    first.script(errorAnswer(500))
    expect(await ask(gateway, false)).toMatchObject({ status: 502, asked: [1, 0], attempts: 1 })
  })

  test.each([
    ['500', errorAnswer(500), {}, 'false'],
    ['429 with a time', errorAnswer(429, undefined, { 'retry-after': '7' }), {}, null],
    ['503 with a time', errorAnswer(503, undefined, { 'retry-after': '7' }), {}, null],
    ['503 without a time', errorAnswer(503), {}, 'false'],
    ['500, the only attempt', errorAnswer(500), { attempts: 1 }, null],
  ] as const)('all fail with %s: whether a client should try again', async (_name, script, settings, should) => {
    const gateway = await start(settings)
    first.script(script)
    second.script(script)
    for (const stream of [false, true]) {
      const answer = await gateway.chat({ stream })
      expect(answer.status).toBeGreaterThanOrEqual(429)
      expect(answer.headers.get('x-should-retry')).toBe(should)
      await answer.text()
    }
  })

  test('one target only: it is retried after a pause', async () => {
    const gateway = await start(
      {},
      { model: {}, yaml: { providers: { p: { dialect: 'openai', base_url: first.baseUrl } } } },
    )
    first.script([errorAnswer(500), GOOD])
    expect(await ask(gateway, false)).toMatchObject({ status: 200, asked: [2, 0], attempts: 2, charged: CHARGE })
  })
})

test('after content was sent, no second attempt is made', async () => {
  const gateway = await start()
  first.script({
    name: 'breaks off',
    async run(call) {
      call.head(200, { 'content-type': 'text/event-stream' })
      await call.write(
        sse({
          id: 'x',
          object: 'chat.completion.chunk',
          created: 1,
          model: 'a',
          choices: [{ index: 0, delta: { content: 'Hel' }, finish_reason: null }],
        }),
      )
      await call.end()
    },
  })
  const { status, text, asked } = await ask(gateway, true)
  expect({ status, asked }).toEqual({ status: 200, asked: [1, 0] })
  expect(text).toContain('"code":"upstream_truncated"')
  expect(text).not.toContain('[DONE]')
})

test('a target that fails repeatedly is tried after the others', async () => {
  const gateway = await start()
  first.script(errorAnswer(500))
  const asked: number[] = []
  for (let round = 0; round < 8; round++) asked.push((await ask(gateway, false)).asked[0]!)
  expect(asked).toEqual([1, 1, 1, 1, 1, 0, 0, 0])
})

test('the retry budget: of many failures, few are retried', async () => {
  const gateway = await start({ attempts: 2 })
  first.script(errorAnswer(500))
  second.script(errorAnswer(500))
  const before = first.requests.length + second.requests.length
  const n = 200
  for (let round = 0; round < n; round++) await gateway.chat()
  const sent = first.requests.length + second.requests.length - before
  expect(sent).toBeGreaterThan(n)
  expect(sent).toBeLessThanOrEqual(n * 1.2 + 20)
})

describe('several credentials of one provider', () => {
  const withKeys = (...api_keys: string[]) =>
    start(
      {},
      {
        model: {},
        yaml: { providers: { p: { dialect: 'openai', base_url: first.baseUrl, api_keys, allow_insecure: true } } },
      },
    )
  const refusing =
    (...keys: string[]): Parameters<FakeProvider['script']>[0] =>
    request =>
      keys.some(key => request.headers['authorization'] === `Bearer ${key}`) ? errorAnswer(401) : GOOD
  const used = (since: number) => first.requests.slice(since).map(({ headers }) => headers['authorization'])

  test('after a refused one the next is used at once; the operator is notified, and it is skipped', async () => {
    const gateway = await withKeys('${ONE}', '${TWO}')
    first.script(refusing('key-one'))
    const since = first.requests.length
    expect(await ask(gateway, true)).toMatchObject({ status: 200, asked: [2, 0], attempts: 2, charged: CHARGE })
    expect(await ask(gateway, false)).toMatchObject({ status: 200, asked: [1, 0], attempts: 1 })
    expect(used(since)).toEqual(['Bearer key-one', 'Bearer key-two', 'Bearer key-two'])
    const line = await gateway.waitForLog(({ msg }) => msg === 'the provider refuses this credential')
    expect(line).toMatchObject({ level: 'error', provider: 'p', credential: 1, left: 1 })
    expect(JSON.stringify(gateway.log)).not.toContain('key-one')
  })

  test('all refused: 502, which does not reveal the key', async () => {
    const gateway = await withKeys('${ONE}', '${TWO}')
    first.script(refusing('key-one', 'key-two'))
    const result = await ask(gateway, false)
    expect(result).toMatchObject({ status: 502, asked: [2, 0], charged: 0n })
    expect(JSON.parse(result.text).error.code).toBe('upstream_auth')
  })

  test.each([
    [
      'whose quota is used up',
      errorAnswer(429, { error: { message: 'No.', type: 'insufficient_quota', code: 'insufficient_quota' } }),
    ],
    ['with a long rate limit', errorAnswer(429, undefined, { 'retry-after': '60' })],
  ])('after one %s the next is used at once, and it is skipped', async (_name, failure) => {
    const gateway = await withKeys('${ONE}', '${TWO}')
    first.script(request => (request.headers['authorization'] === 'Bearer key-one' ? failure : GOOD))
    expect(await ask(gateway, false)).toMatchObject({ status: 200, asked: [2, 0], attempts: 2, charged: CHARGE })
    for (let i = 0; i < 3; i++) expect(await ask(gateway, true)).toMatchObject({ status: 200, asked: [1, 0] })
  })

  test('none of many requests with a refused one fails: another credential costs no retry', async () => {
    const gateway = await withKeys('${ONE}', '${TWO}')
    first.script(refusing('key-one'))
    const answers = await Promise.all(Array.from({ length: 100 }, () => gateway.chat()))
    expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  })

  test('take turns', async () => {
    const gateway = await withKeys('${ONE}', '${TWO}')
    const since = first.requests.length
    for (let i = 0; i < 4; i++) await ask(gateway, false)
    expect(used(since)).toEqual(['Bearer key-one', 'Bearer key-two', 'Bearer key-one', 'Bearer key-two'])
  })
})

test('`max_inflight` of a target: further requests use the next one, and without one they get 503 with Retry-After', async () => {
  const narrow = (provider: string) => ({ provider, model: 'x', max_inflight: 1 })
  const gateway = await start(
    {},
    {
      yaml: {
        providers: providersOf('openai', 'openai'),
        models: { m: modelAt([narrow('one'), narrow('two')]) },
      },
    },
  )
  first.script(gated({ tokens: 3 }))
  second.script(gated({ tokens: 3 }))
  const [one, two] = [first.requests.length, second.requests.length]
  const pending = [gateway.chat({ stream: true })]
  const held = [await first.waitForRequest(one)]
  pending.push(gateway.chat({ stream: true }))
  held.push(await second.waitForRequest(two))
  const third = await gateway.chat()
  expect(third.status).toBe(503)
  expect(third.headers.get('retry-after')).toBe('1')
  expect(await third.json()).toMatchObject({ error: { code: 'overloaded' } })
  for (const request of held) request.release()
  for (const answer of pending) expect((await (await answer).text()).endsWith('data: [DONE]\n\n')).toBe(true)
  first.script(GOOD)
  expect(await ask(gateway, false)).toMatchObject({ status: 200, asked: [1, 0] })
})

test('`priority`: the second target is a spare, whatever its weight', async () => {
  const gateway = await start(
    { order: 'weights' },
    {
      yaml: {
        providers: providersOf('openai', 'openai'),
        models: {
          m: modelAt([
            { provider: 'two', model: 'b', weight: 100, priority: 2 },
            { provider: 'one', model: 'a', weight: 1 },
          ]),
        },
      },
    },
  )
  for (let i = 0; i < 5; i++) expect(await ask(gateway, false)).toMatchObject({ asked: [1, 0] })
  first.script(errorAnswer(503))
  expect(await ask(gateway, false)).toMatchObject({ status: 200, asked: [1, 1] })
})

test('no further attempt is made for a client that disconnects during the pause', async () => {
  const gateway = await start(
    {},
    { model: {}, yaml: { providers: { p: { dialect: 'openai', base_url: first.baseUrl } } } },
  )
  first.script(errorAnswer(429, undefined, { 'retry-after': '2' }))
  const since = first.requests.length
  const posted = gateway.balance().posted
  const controller = new AbortController()
  const pending = gateway.chat({ stream: true }, { signal: controller.signal }).catch((error: Error) => error.name)
  await first.waitForClose(await first.waitForRequest(since))
  await gateway.waitForLog(({ msg }) => msg === 'an attempt failed')
  controller.abort()
  expect(await pending).toBe('AbortError')
  const line = await gateway.waitForLog(({ msg }) => msg === 'exchange')
  expect(line).toMatchObject({ outcome: 'client_left', attempts: 1 })
  expect(first.requests.length).toBe(since + 1)
  expect(gateway.balance()).toMatchObject({ posted, held: 0n })
})

describe('a target that does not support the request', () => {
  /** The first provider speaks Anthropic's format, which has no `n` and no `seed`, and reads text only. */
  const unlike = (route: object = {}, ...more: object[]) =>
    start(route, {
      yaml: {
        providers: providersOf('anthropic', 'openai'),
        models: { m: modelAt([{ provider: 'one', model: 'a', input_modalities: ['text'] }, ...more]) },
      },
    })
  const likeOpenAi = { provider: 'two', model: 'b' }
  const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const seen = { messages: [{ role: 'user', content: [{ type: 'text', text: 'Look.' }, PICTURE] }] }

  test.each([
    ['at all', {}, { n: 2 }],
    ['because its model reads text only', {}, seen],
    ['completely, if configured', { on_dropped: 'refuse' }, { seed: 7 }],
  ])('%s is skipped, without an attempt', async (_name, route, body) => {
    const gateway = await unlike(route, likeOpenAi)
    const before = [first.requests.length, second.requests.length] as const
    const answer = await gateway.chat(body)
    expect(answer.status).toBe(200)
    expect(answer.headers.has('x-tollgate-dropped')).toBe(false)
    expect([first.requests.length, second.requests.length]).toEqual([before[0], before[1] + 1])
    expect(gateway.receipt(answer)?.attempts).toMatchObject([{ target: 'two/b' }])
  })

  test.each([
    ['at all', {}, { n: 2 }, 'n'],
    ['because its model reads text only', {}, seen, 'messages[0].content[1]'],
    ['completely, if configured', { on_dropped: 'refuse' }, { seed: 7 }, 'seed'],
  ])('%s and is the only one: the client gets the parameter, free of charge', async (_name, route, body, param) => {
    const gateway = await unlike(route)
    const answer = await gateway.chat(body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ error: { code: 'unsupported_parameter', param } })
    expect(gateway.balance().held).toBe(0n)
    // Refused before the hold, so without a receipt.
    expect(gateway.receipt(answer)?.attempts ?? []).toEqual([])
  })

  test('after one that failed: the failure is returned', async () => {
    const gateway = await start(
      {},
      {
        yaml: {
          providers: providersOf('openai', 'anthropic'),
          models: {
            m: modelAt([
              { provider: 'one', model: 'a' },
              { provider: 'two', model: 'b' },
            ]),
          },
        },
      },
    )
    first.script(errorAnswer(500))
    const answer = await gateway.chat({ n: 2 })
    expect(answer.status).toBe(502)
    // The other one cannot help, so this one was retried.
    const again = { target: 'one/a', code: 'upstream_error' }
    expect(gateway.receipt(answer)?.attempts).toMatchObject([again, again, again])
  })

  test('while the supporting one is full: 503 with Retry-After, not "unsupported"', async () => {
    const gateway = await start(
      {},
      {
        yaml: {
          providers: providersOf('openai', 'anthropic'),
          models: {
            m: modelAt([
              { provider: 'one', model: 'a', max_inflight: 1 },
              { provider: 'two', model: 'b' },
            ]),
          },
        },
      },
    )
    first.script(gated({ tokens: 3 }))
    const index = first.requests.length
    const busy = gateway.chat({ stream: true })
    const held = await first.waitForRequest(index)
    const answer = await gateway.chat({ n: 2 })
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ error: { code: 'overloaded' } })
    held.release()
    await (await busy).text()
  })
})

describe('failures that do not count against a target', () => {
  const behindOne = (settings: object, model: Record<string, unknown> = {}) =>
    start(
      { attempts: 1 },
      { model, yaml: { providers: { p: { dialect: 'openai', base_url: first.baseUrl, ...settings } } } },
    )

  test('no free connection: 503 overloaded, the provider is not called, and the target is not ejected', async () => {
    const gateway = await behindOne({ connections: 1, timeouts: { first_byte: '200ms' } })
    first.script(gated({ tokens: 3 }))
    const index = first.requests.length
    const busy = await (async () => {
      const pending = gateway.chat({ stream: true })
      await (await first.waitForRequest(index)).step(2)
      return pending
    })()
    const waiting = await Promise.all(Array.from({ length: 6 }, () => gateway.chat()))
    for (const answer of waiting) {
      expect(answer.status).toBe(503)
      expect(await answer.json()).toMatchObject({ error: { code: 'overloaded' } })
    }
    expect(first.requests.length).toBe(index + 1)
    first.requests[index]!.release()
    await busy.text()
    expect(gateway.log.filter(({ msg }) => /a target fails/.test(String(msg)))).toEqual([])
  })
})

test('the cost of the operator is counted for the target that answered', async () => {
  const cost = { per: '1M tokens', input: '$0.50', output: '$1' }
  const gateway = await start(
    {},
    {
      yaml: {
        admin: '127.0.0.1:0',
        providers: providersOf('openai', 'openai'),
        models: {
          m: modelAt([
            { provider: 'one', model: 'a' },
            { provider: 'two', model: 'b', cost },
          ]),
        },
      },
    },
  )
  await ask(gateway, false)
  first.script(errorAnswer(500))
  await ask(gateway, false)
  const page = await (await fetch(`${gateway.running.adminUrl}/metrics`)).text()
  // 10 prompt tokens at 500 and 3 at 1,000 nano-dollars, once: the first target has no cost.
  expect(page.match(/^tollgate_cost_dollars_total.*$/gm)).toEqual([
    'tollgate_cost_dollars_total{route="/v1/chat/completions",model="m",provider="two",target="two/b"} 0.000008000',
  ])
})
