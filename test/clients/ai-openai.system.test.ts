/** The AI SDK with its OpenAI provider, which uses Responses, and the official library, both pointed at the gateway. */
import { createOpenAI, type OpenAIProvider } from '@ai-sdk/openai'
import { generateText, isStepCount, jsonSchema, type ModelMessage, streamText, tool } from 'ai'
import type { ResponseInput } from 'openai/resources/responses/responses'
import { describe, expect, test } from 'vitest'
import { exact, type Script } from '../helpers/fake-provider.ts'
import { modelAt, type Rig, startRig } from './rig.system.ts'

const ROUTES = [{ path: '/v1/responses', policy: 'test' }]

/** A name that the AI SDK knows as a reasoning model. */
const MODELS = { o3: modelAt('scripted', 'upstream-thinker', { reasoning: true }) }

/** Reasons and calls a tool until it has the tool's result; then it reasons and answers. */
const REASONING_SCRIPT: Script = ({ body }) => {
  const messages = body!['messages'] as { role: string }[]
  if (messages.at(-1)!.role === 'tool') return exact({ reasoning: ['So', '.'], tokens: ['It', ' rains', '.'] })
  return exact({
    reasoning: ['I', ' must', ' look', '.'],
    toolCalls: [{ id: 'call_1', name: 'weather', arguments: ['{"city":', '"Paris"}'] }],
  })
}

const sdk = ({ baseURL, gateway }: Rig): OpenAIProvider => createOpenAI({ baseURL, apiKey: gateway.key })

const weather = tool({
  description: 'The weather of a city.',
  inputSchema: jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  }),
  execute: async () => 'rain',
})

/** The messages of the provider's request at this index. */
const sent = ({ provider }: Rig, index: number) => provider.requests[index]!.body!['messages'] as object[]

describe('reasoning in a tool loop, without kept responses', () => {
  const loop = { prompt: 'Will it rain?', tools: { weather }, stopWhen: isStepCount(3), maxRetries: 0 }
  const providerOptions = { openai: { store: false } }

  test.each([false, true])('the AI SDK: the provider gets its reasoning_content back (stream %s)', async stream => {
    await using rig = await startRig({ script: REASONING_SCRIPT, models: MODELS, yaml: { routes: ROUTES } })
    const request = { model: sdk(rig)('o3'), providerOptions, ...loop }
    const result = stream ? streamText(request) : await generateText(request)
    expect(await result.text).toBe('It rains.')
    expect(rig.provider.requests).toHaveLength(2)
    expect(sent(rig, 1)).toMatchObject([
      { role: 'user' },
      { role: 'assistant', reasoning_content: 'I must look.', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', content: 'rain' },
    ])
  })

  test.each([false, true])('the official library, which keeps only the box (stream %s)', async stream => {
    await using rig = await startRig({ script: REASONING_SCRIPT, models: MODELS, yaml: { routes: ROUTES } })
    const { responses } = rig.openai()
    const input: ResponseInput = [{ role: 'user', content: 'Will it rain?' }]
    const ask = () => {
      const request = { model: 'o3', input, store: false, include: ['reasoning.encrypted_content' as const] }
      return stream ? responses.stream(request).finalResponse() : responses.create(request)
    }
    for (const item of (await ask()).output) {
      input.push(item.type === 'reasoning' ? { ...item, summary: [] } : (item as ResponseInput[number]))
      if (item.type === 'function_call')
        input.push({ type: 'function_call_output', call_id: item.call_id, output: '1' })
    }
    expect((await ask()).output_text).toBe('It rains.')
    expect(sent(rig, 1)[1]).toMatchObject({ role: 'assistant', reasoning_content: 'I must look.' })
  })

  test('a box of another account is refused with its place', async () => {
    await using rig = await startRig({ script: REASONING_SCRIPT, models: MODELS, yaml: { routes: ROUTES } })
    const request = { model: 'o3', store: false, include: ['reasoning.encrypted_content' as const] }
    const first = await rig.openai().responses.create({ ...request, input: 'Hi' })
    const { key } = await rig.gateway.account()
    const input = [{ role: 'user', content: 'Hi' }, ...first.output] as ResponseInput
    const theirs = rig.openai({ apiKey: key, maxRetries: 0 }).responses.create({ ...request, input })
    await expect(theirs).rejects.toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'input[1].encrypted_content',
    })
    expect(rig.provider.requests).toHaveLength(1)
  })
})

const KEEPING = [{ path: '/v1/responses', policy: 'test', keep_responses: '1h' }]

describe('with kept responses, the AI SDK with its defaults', () => {
  const loop = { prompt: 'Will it rain?', tools: { weather }, stopWhen: isStepCount(3), maxRetries: 0 }

  test.each([false, true])('a tool loop on a reasoning model (stream %s)', async stream => {
    await using rig = await startRig({ script: REASONING_SCRIPT, models: MODELS, yaml: { routes: KEEPING } })
    const request = { model: sdk(rig)('o3'), ...loop }
    const result = stream ? streamText(request) : await generateText(request)
    expect(await result.text).toBe('It rains.')
    expect(await result.steps).toHaveLength(2)
    // Items that it referred to by id arrive in full.
    expect(sent(rig, 1)).toMatchObject([
      { role: 'user' },
      { role: 'assistant', reasoning_content: 'I must look.', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', content: 'rain' },
    ])
  })

  test.each([false, true])('a second turn, and a third (stream %s)', async stream => {
    await using rig = await startRig({ script: exact({ tokens: ['Fine', '.'] }), yaml: { routes: KEEPING } })
    const messages: ModelMessage[] = []
    for (const content of ['How are you?', 'Sure?', 'Really?']) {
      messages.push({ role: 'user', content })
      const request = { model: sdk(rig)('m'), messages, maxRetries: 0 }
      const result = stream ? streamText(request) : await generateText(request)
      messages.push(...(await result.response).messages)
    }
    expect(sent(rig, 2)).toEqual([
      { role: 'user', content: 'How are you?' },
      { role: 'assistant', content: 'Fine.' },
      { role: 'user', content: 'Sure?' },
      { role: 'assistant', content: 'Fine.' },
      { role: 'user', content: 'Really?' },
    ])
  })

  // Every response keeps the whole conversation: 60 of them are more than 3 MB.
  test('60 turns of 120 kB in total, with bodies of at most 256 KiB', async () => {
    const models = { m: modelAt('scripted', 'upstream-model', { context: 1_000_000 }) }
    const yaml = { routes: KEEPING, limits: { body: '256KiB' } }
    await using rig = await startRig({ script: exact({ tokens: ['a'.repeat(1000)] }), models, yaml })
    const messages: ModelMessage[] = []
    for (let turn = 0; turn < 60; turn++) {
      messages.push({ role: 'user', content: 'q'.repeat(1000) })
      const { response } = await generateText({ model: sdk(rig)('m'), messages, maxRetries: 0 })
      messages.push(...response.messages)
    }
    const last = sent(rig, 59)
    expect(last).toHaveLength(119)
    expect(last[1]).toEqual({ role: 'assistant', content: 'a'.repeat(1000) })
  })

  test('without the setting the error names store: false', async () => {
    await using rig = await startRig({ script: REASONING_SCRIPT, models: MODELS, yaml: { routes: ROUTES } })
    const failing = generateText({ model: sdk(rig)('o3'), ...loop })
    await expect(failing).rejects.toThrow('providerOptions: { openai: { store: false } }')
    await expect(failing).rejects.toMatchObject({ statusCode: 400 })
  })
})
