/** Usage without a provider's report: the client gets the estimate that is charged, marked as an estimate. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ChatCompletion, WireUsage } from '#contract'
import { type AnswerOptions, exact, type FakeProvider, startFakeProvider, whole } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { chunksOf, readSse } from '../helpers/sse.ts'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: {
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const ASK = { model: 'm', messages: [{ role: 'user' as const, content: 'Hello' }] }
const TOKENS = ['one', ' two', ' three', ' four']
/** A quarter of five bytes and four per message; a token per piece, or a quarter of the bytes. */
const ESTIMATE = { prompt_tokens: 6, completion_tokens: 5, total_tokens: 11, source: 'estimated' }

const usageOf = (prompt: number, completion: number): WireUsage => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
})

/** The charged usage in the receipt. */
async function receiptOf(id: string | null) {
  await gateway.exchangeLine(id!)
  const { usage, source, charged } = gateway.running.store.reads.findReceipt(id!)!
  const { input = 0, output = 0 } = usage
  expect(charged).toBe(BigInt(input * 1000 + output * 2000))
  return { prompt_tokens: input, completion_tokens: output, source }
}

describe('chat completions', () => {
  test.each<[string, AnswerOptions]>([
    ['none', { usage: null }],
    ['zeros', { usage: usageOf(0, 0) }],
    ['no numbers', { usage: {} as WireUsage }],
  ])('a whole answer with %s', async (_name, options) => {
    provider.script(exact({ tokens: TOKENS, ...options }))
    const response = await gateway.chat()
    const data = (await response.json()) as ChatCompletion
    expect(data.choices[0]?.message.content).toBe('one two three four')
    expect(data.usage).toMatchObject(ESTIMATE)
    expect(response.headers.get('x-tollgate-estimated')).toBe('usage')
    const { total_tokens: _, ...charged } = ESTIMATE
    expect(await receiptOf(response.headers.get('x-request-id'))).toEqual(charged)
  })

  test.each<[string, AnswerOptions]>([
    ['none', { includeUsage: false }],
    ['zeros', { usage: usageOf(0, 0) }],
  ])('a stream with %s, on request', async (_name, options) => {
    provider.script(exact({ tokens: TOKENS, ...options }))
    const response = await gateway.chat({ stream: true, stream_options: { include_usage: true } })
    const chunks = chunksOf(await readSse(response))
    const last = chunks.at(-1)!
    expect(last).toMatchObject({
      object: 'chat.completion.chunk',
      choices: [],
      usage: { ...ESTIMATE, completion_tokens: 5 },
    })
    expect(last).toMatchObject({ id: chunks[0]!.id, created: chunks[0]!.created, model: 'm' })
    const { total_tokens: _, ...charged } = ESTIMATE
    expect(await receiptOf(response.headers.get('x-request-id'))).toEqual(charged)
  })

  test('a stream without a request for usage has none', async () => {
    provider.script(exact({ tokens: TOKENS, includeUsage: false }))
    const chunks = chunksOf(await readSse(await gateway.chat({ stream: true })))
    expect(chunks.length).toBeGreaterThan(0)
    for (const chunk of chunks) expect(chunk).not.toHaveProperty('usage')
  })

  test('all choices are counted', async () => {
    provider.script(exact({ tokens: TOKENS, usage: null }))
    const { usage } = (await (await gateway.chat({ n: 3 })).json()) as ChatCompletion
    expect(usage).toMatchObject({ completion_tokens: 14, source: 'estimated' })
  })

  test.each([false, true])('what the provider reports is left as it is (stream %s)', async stream => {
    const usage = usageOf(9, 4)
    provider.script(exact({ tokens: TOKENS, usage }))
    const answer = await gateway.chat({ stream, ...(stream ? { stream_options: { include_usage: true } } : {}) })
    const text = await answer.text()
    expect(text).toContain(`"usage":${JSON.stringify(usage)}`)
    expect(text.split('prompt_tokens').length).toBe(2)
    expect(answer.headers.has('x-tollgate-estimated')).toBe(false)
  })
})

test.each([
  ['/v1/messages', { ...ASK, max_tokens: 100 }],
  ['/v1/responses', { model: 'm', input: 'Hello' }],
])('a whole answer of %s marks its usage as an estimate in a header', async (path, body) => {
  const ask = () =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  provider.script(whole({ tokens: TOKENS, usage: null }))
  const estimated = await ask()
  expect(estimated.headers.get('x-tollgate-estimated')).toBe('usage')
  expect(await estimated.json()).toMatchObject({ usage: { input_tokens: 6, output_tokens: 5 } })
  provider.script(whole({ tokens: TOKENS }))
  expect((await ask()).headers.has('x-tollgate-estimated')).toBe(false)
})
