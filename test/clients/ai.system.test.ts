/** The AI SDK with its provider for compatible APIs, pointed at the gateway. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  Output,
  RetryError,
  StreamProviderError,
  streamText,
  tool,
} from 'ai'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorAnswer, exact, FAULTS, gated } from '../helpers/fake-provider.ts'
import { type Rig, startRig } from './rig.system.ts'

let rig: Rig

beforeAll(async () => {
  rig = await startRig()
})
afterAll(() => rig.close())

/** A model of the gateway for the SDK. */
function modelOf(id: string, { gateway, baseURL }: Rig = rig, apiKey = gateway.key) {
  const settings = { name: 'tollgate', baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }
  return createOpenAICompatible(settings).chatModel(id)
}

describe('text', () => {
  test('generateText: the text, the reason, the usage that was charged', async () => {
    const result = await generateText({ model: modelOf('demo'), prompt: 'say: one two three' })
    expect(result).toMatchObject({ text: 'one two three', finishReason: 'stop' })
    const { inputTokens, outputTokens } = result.usage
    const receipt = rig.gateway.running.store.reads.findReceipt(result.response.headers!['x-request-id']!)
    expect(receipt?.charged).toBe(BigInt(inputTokens! * 1000 + outputTokens! * 2000))
  })

  test('streamText: the pieces, the reason, the usage', async () => {
    const result = streamText({ model: modelOf('demo'), prompt: 'count to 20' })
    const pieces = []
    for await (const piece of result.textStream) pieces.push(piece)
    expect(pieces.length).toBeGreaterThan(10)
    expect(pieces.join('')).toMatch(/^1, 2, 3,.* 20\.$/)
    expect(await result.text).toBe(pieces.join(''))
    expect(await result.finishReason).toBe('stop')
    expect(await result.usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: pieces.length })
  })

  test('reasoning arrives as reasoning', async () => {
    const whole = await generateText({ model: modelOf('thinking'), prompt: 'Hello' })
    expect(whole.reasoningText).toContain('Hello')
    const stream = streamText({ model: modelOf('thinking'), prompt: 'Hello' })
    expect(await stream.reasoningText).toBe(whole.reasoningText)
    expect(await stream.text).toBe(whole.text)
  })

  test('a cap ends the answer with the reason "length"', async () => {
    const result = await generateText({ model: modelOf('demo'), prompt: 'count to 100', maxOutputTokens: 5 })
    expect(result).toMatchObject({ finishReason: 'length', usage: { outputTokens: 5 } })
  })
})

describe('tools and objects', () => {
  const weather = (asked: unknown[]) =>
    tool({
      description: 'The weather of a city.',
      inputSchema: jsonSchema<{ city: string }>({
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
        additionalProperties: false,
      }),
      execute: async question => {
        asked.push(question)
        return { sky: 'clear', degrees: 21 }
      },
    })
  const question = { prompt: 'What is the weather in Paris?', stopWhen: isStepCount(3) }

  test('generateText runs the tool loop', async () => {
    const asked: unknown[] = []
    const result = await generateText({ model: modelOf('demo'), tools: { weather: weather(asked) }, ...question })
    expect(asked).toEqual([{ city: 'Paris' }])
    expect(result.steps.map(step => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(result.text).toContain('weather returned: {"sky":"clear","degrees":21}')
  })

  test('streamText runs the tool loop', async () => {
    const asked: unknown[] = []
    const result = streamText({ model: modelOf('demo'), tools: { weather: weather(asked) }, ...question })
    expect(await result.text).toContain('weather returned: {"sky":"clear","degrees":21}')
    expect((await result.steps).map(step => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(asked).toEqual([{ city: 'Paris' }])
  })

  const schema = {
    type: 'object',
    properties: { title: { type: 'string' }, year: { type: 'integer', minimum: 1900 } },
    required: ['title', 'year'],
    additionalProperties: false,
  } as const
  const wish = { prompt: 'A film about Paris', output: Output.object({ schema: jsonSchema<object>({ ...schema }) }) }

  test('an object by its schema, whole and in parts', async () => {
    const valid = new Ajv2020().compile(schema)
    const { output } = await generateText({ model: modelOf('demo'), ...wish })
    expect(valid(output), JSON.stringify(valid.errors)).toBe(true)

    const result = streamText({ model: modelOf('demo'), ...wish })
    const parts = []
    for await (const part of result.partialOutputStream) parts.push(part)
    expect(parts.length).toBeGreaterThan(1)
    expect(parts.at(-1)).toEqual(output)
  })
})

describe('errors', () => {
  test.each([
    ['a malformed key', 401, 'malformed_api_key', false],
    ['a model that does not exist', 404, 'model_not_found', false],
    ['too little credit', 402, 'insufficient_quota', false],
    ['a provider that fails', 502, 'upstream_error', true],
    ['a provider that limits', 429, 'upstream_rate_limited', true],
  ])('%s: %i %s, retryable: %s', async (name, statusCode, code, isRetryable) => {
    await using own = await startRig({
      credit: name === 'too little credit' ? '0.000001' : '1',
      script: errorAnswer(statusCode === 429 ? 429 : 500),
    })
    const model = modelOf(statusCode === 404 ? 'nothing' : 'm', own, statusCode === 401 ? 'nonsense' : undefined)
    const error = await generateText({ model, prompt: 'Hello', maxRetries: 0 }).catch((cause: unknown) => cause)
    expect(APICallError.isInstance(error)).toBe(true)
    expect(error).toMatchObject({ statusCode, isRetryable, data: { error: { code } } })

    // A stream reports the same to onError.
    const errors: unknown[] = []
    const onError = ({ error }: { error: unknown }) => void errors.push(error)
    await streamText({ model, prompt: 'Hello', maxRetries: 0, onError }).consumeStream()
    expect(errors).toEqual([expect.objectContaining({ statusCode, isRetryable, data: { error: expect.anything() } })])
  })

  test('the wait of the provider is respected: three requests, 20 ms apart', async () => {
    await using own = await startRig({ script: errorAnswer(429, undefined, { 'retry-after-ms': '20' }) })
    const startedAt = performance.now()
    const error = await generateText({ model: modelOf('m', own), prompt: 'Hello' }).catch((cause: unknown) => cause)
    expect(RetryError.isInstance(error)).toBe(true)
    expect(own.requests()).toBe(3)
    // The library's own waits would be 2 s and 4 s.
    expect(performance.now() - startedAt).toBeLessThan(2000)
  })

  test('an error in the middle of a stream reaches onError, and no answer looks complete', async () => {
    const fault = FAULTS.find(({ title }) => title === 'reset in the middle')!
    await using own = await startRig({ script: fault.make('stream') })
    const errors: unknown[] = []
    const result = streamText({
      model: modelOf('m', own),
      prompt: 'Hello',
      onError: ({ error }) => void errors.push(error),
    })
    const kinds: string[] = []
    let text = ''
    for await (const part of result.stream) {
      kinds.push(part.type)
      if (part.type === 'text-delta') text += part.text
    }
    expect(text).toBe('t0 t1')
    expect(kinds).toContain('error')
    await expect(result.finishReason).resolves.toBe('error')
    expect(errors).toHaveLength(1)
    expect(StreamProviderError.isInstance(errors[0])).toBe(true)
    expect(errors[0]).toMatchObject({ code: 'upstream_truncated' })
    expect(own.requests()).toBe(1)
  })
})

test('aborting a stream closes the connection to the provider within a second', async () => {
  rig.provider.script(gated({ tokens: 4 }))
  const index = rig.provider.requests.length
  const controller = new AbortController()
  let aborted = false
  const result = streamText({
    model: modelOf('m'),
    prompt: 'Hello',
    abortSignal: controller.signal,
    onAbort: () => {
      aborted = true
    },
  })
  const reading = (async () => {
    let text = ''
    for await (const part of result.stream) {
      if (part.type !== 'text-delta') continue
      text += part.text
      controller.abort()
    }
    return text
  })()
  const request = await rig.provider.waitForRequest(index)
  await request.step(2)
  const leftAt = performance.now()
  expect(await reading).toBe('t0')
  expect(aborted).toBe(true)
  const { how, at } = await rig.provider.waitForClose(request)
  expect(how).not.toBe('answered')
  expect(at - leftAt).toBeLessThan(5 * 1000)
  rig.provider.script(exact())
})
