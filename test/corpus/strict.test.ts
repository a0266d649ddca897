/**
 * The gateway's own output (the demo provider's answers, errors, the catalog, answers of steps) fits OpenAI's strict schema.
 * The schema is in the corpus that CORPUS_DIR names.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ChatCompletion, definePlugin, ERRORS, type ErrorCode, refuse } from '#contract'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { CORPUS, describeWith, WITHOUT_CORPUS } from '../helpers/missing.ts'
import { readSse } from '../helpers/sse.ts'
import { type Judge, openSchemas } from './schemas.ts'

const WEATHER = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const SHAPE = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city'],
}

const QUESTIONS: readonly (readonly [title: string, body: Readonly<Record<string, unknown>>])[] = [
  ['a text', {}],
  ['an empty answer', { stop: ['I', 'Y', ' '] }],
  ['three choices', { n: 3 }],
  ['a cap that is reached', { max_completion_tokens: 3 }],
  ['a tool call', { tools: [WEATHER], tool_choice: 'required' }],
  ['log probabilities', { logprobs: true, top_logprobs: 2 }],
  ['JSON of a shape', { response_format: { type: 'json_schema', json_schema: { name: 'place', schema: SHAPE } } }],
  ['thinking', { model: 'thinking', reasoning_effort: 'low' }],
]

/** An answer that a step gives without the provider, as a cache does. */
const EARLY: ChatCompletion = {
  id: 'chatcmpl-kept',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'm',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: 'kept',
        refusal: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } }],
      },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
}

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

/** Refuses with a code or answers without the provider, as the request's `user` demands. */
const actor = definePlugin({
  name: 'actor',
  settings: NO_SETTINGS,
  create: () => async (ctx, next) => {
    const wish = ctx.get('x-wish')
    if (wish === 'early') return ctx.exchange.answer(structuredClone(EARLY))
    if (wish !== '') throw refuse(wish as ErrorCode, { retryAfterMs: 1000 })
    await next()
  },
})

describeWith(WITHOUT_CORPUS, "OpenAI's strict schema", () => {
  let judge: Judge
  let gateway: InProcess

  beforeAll(async () => {
    judge = openSchemas(CORPUS, 'strict')
    const price = { per: '1M tokens', input: '$1', output: '$2' }
    const model = (target: string, reasoning: boolean) => ({
      targets: [{ provider: 'p', model: target }],
      price,
      context: 8192,
      max_output: 1000,
      reasoning,
    })
    gateway = await startInProcess({
      plugins: [actor],
      // After `schema`: only then is it known whether a stream was requested.
      steps: FIVE_STEPS.toSpliced(2, 0, { use: 'actor' }),
      yaml: { models: { m: model('demo-small', false), thinking: model('demo-reasoning', true) } },
    })
  })
  afterAll(() => gateway?.stop())

  describe.each(QUESTIONS)('the demo: %s', (_title, body) => {
    test('whole', async () => {
      const answer = await gateway.chat(body)
      expect(answer.status).toBe(200)
      expect(judge('CreateChatCompletionResponse', await answer.json())).toEqual([])
    })

    test.each([true, false])('streamed (with usage: %s)', async include_usage => {
      const answer = await gateway.chat({ ...body, stream: true, stream_options: { include_usage } })
      expect(await mistakesIn(answer)).toEqual([])
    })
  })

  test('an answer that a step gives', async () => {
    const init = { headers: { ...headers(gateway), 'x-wish': 'early' } }
    const whole = await gateway.chat({}, init)
    expect(judge('CreateChatCompletionResponse', await whole.json())).toEqual([])
    expect(await mistakesIn(await gateway.chat({ stream: true }, init))).toEqual([])
    const asked = { stream: true, stream_options: { include_usage: true } }
    expect(await mistakesIn(await gateway.chat(asked, init))).toEqual([])
  })

  test.each(Object.keys(ERRORS))('the error %s', async code => {
    const answer = await gateway.chat({}, { headers: { ...headers(gateway), 'x-wish': code } })
    expect(answer.status).toBe(ERRORS[code as ErrorCode].status)
    expect(judge('ErrorResponse', await answer.json())).toEqual([])
  })

  test('the catalog', async () => {
    const list = await fetch(`${gateway.url}/v1/models`, { headers: headers(gateway) })
    expect(list.status).toBe(200)
    expect(judge('ListModelsResponse', await list.json())).toEqual([])
    const one = await fetch(`${gateway.url}/v1/models/thinking`, { headers: headers(gateway) })
    expect(one.status).toBe(200)
    expect(judge('Model', await one.json())).toEqual([])
  })

  /** Schema errors in the chunks of a stream that must end well. */
  async function mistakesIn(answer: Response): Promise<string[]> {
    expect(answer.status).toBe(200)
    const { events, done } = await readSse(answer)
    expect(done).toBe(true)
    expect(events.length).toBeGreaterThan(1)
    return events.flatMap(({ data }) => judge('CreateChatCompletionStreamResponse', JSON.parse(data)))
  }
})

function headers({ key }: InProcess): Record<string, string> {
  return { 'content-type': 'application/json', authorization: `Bearer ${key}` }
}
