import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatCompletion } from '#contract'
import { countTokens, splitTokens } from '../../src/providers/demo/tokens.ts'
import { countsOf } from '../helpers/counts.ts'
import { CORPUS, describeWith, WITHOUT_CORPUS } from '../helpers/missing.ts'
import { parseSse } from '../helpers/sse.ts'
import { answerText, ask, asking, chunksOf, demoWith, Time, user, weather } from './demo-rig.ts'

const counts = countsOf('corpus')

describe('the answer', () => {
  it('is the same for the same conversation, differs with another seed, and always has another id', () => {
    const body = { model: 'demo', messages: [user('Say something nice.')] }
    const time = new Time()
    const demo = demoWith(time)
    const [first, second] = [ask(body, time, demo), ask(body, time, demo)].map(
      ({ text }) => JSON.parse(text) as ChatCompletion,
    )
    expect(first!.choices).toEqual(second!.choices)
    expect(first!.id).not.toBe(second!.id)
    const others = [1, 2, 3, 4, 5].map(seed => answerText({ ...body, seed }))
    expect(new Set(others).size).toBeGreaterThan(1)
  })

  it('repeats the question, counts the turns and quotes the previous question', () => {
    const one = answerText({ model: 'demo', messages: [user('What is a gateway?')] })
    expect(one).toContain('"What is a gateway?", which is 4 words')
    const messages = [
      user('What is a gateway?'),
      { role: 'assistant', content: one },
      user([{ type: 'text', text: 'Why?' }]),
    ]
    expect(answerText({ model: 'demo', messages })).toContain(
      'turn 2 of our conversation; before it you wrote "What is a gateway?"',
    )
  })

  it.each([
    ['say: this is a test', 'this is a test'],
    ['count from 3 to 5', '3, 4, 5.'],
    ['count from 5 to 3', 'I only count upwards, and 3 is below 5.'],
    [' ', 'I am ready. Send a user message, and I will answer it.'],
  ])('%j -> %j', (message, answer) => {
    expect(answerText({ model: 'demo', messages: [user(message)] })).toBe(answer)
  })

  it('answers a tool result in text that names the tool', () => {
    const messages = [
      user("What's the weather in Paris?"),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: '{"celsius": 12}' },
    ]
    expect(answerText({ model: 'demo', messages, tools: [weather] })).toContain(
      'get_weather returned: {"celsius": 12}.',
    )
  })
})

describe('limits', () => {
  it.each([
    ['max_tokens', 5],
    ['max_completion_tokens', 1],
  ])('%s: %d tokens a choice, then length', (field, cap) => {
    const { choices, usage } = JSON.parse(
      ask({ model: 'demo', messages: [user('Hello')], n: 2, [field]: cap }).text,
    ) as ChatCompletion
    expect(choices.map(choice => choice.finish_reason)).toEqual(['length', 'length'])
    expect(choices.map(choice => countTokens(choice.message.content!))).toEqual([cap, cap])
    expect(usage!.completion_tokens).toBe(2 * cap)
  })

  it('the smaller of both caps applies', () => {
    const body = { model: 'demo', messages: [user('Hello')] }
    for (const [max_tokens, max_completion_tokens] of [
      [4, 9],
      [9, 4],
    ]) {
      const answer = JSON.parse(ask({ ...body, max_tokens, max_completion_tokens }).text) as ChatCompletion
      expect(answer.usage!.completion_tokens).toBe(4)
    }
  })

  it('an answer of exactly the cap is not cut', () => {
    const body = { model: 'demo', messages: [user('say: one two')] }
    expect(JSON.parse(ask({ ...body, max_tokens: 2 }).text).choices[0]).toMatchObject({ finish_reason: 'stop' })
    expect(JSON.parse(ask({ ...body, max_tokens: 1 }).text).choices[0]).toMatchObject({ finish_reason: 'length' })
  })

  it('the answer ends before a stop sequence', () => {
    const answer = JSON.parse(
      ask({ model: 'demo', messages: [user('count to 9')], stop: ['7', ' 5,'] }).text,
    ) as ChatCompletion
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: '1, 2, 3, 4,' } })
  })

  it('reasoning grows with the effort, is counted, and is included in the cap', () => {
    const body = { model: 'demo-reasoning', messages: [user('Is 7 prime?')] }
    const thought = ['none', 'low', 'medium', 'high'].map(reasoning_effort => {
      const { choices, usage } = JSON.parse(ask({ ...body, reasoning_effort }).text) as ChatCompletion
      const tokens = usage!.completion_tokens_details!.reasoning_tokens!
      expect(countTokens(choices[0]!.message.reasoning_content ?? '')).toBe(tokens)
      expect(usage!.completion_tokens).toBe(tokens + countTokens(choices[0]!.message.content!))
      return tokens
    })
    expect(thought).toEqual([0, 16, 48, 128])
    const cut = JSON.parse(ask({ ...body, max_tokens: 30 }).text) as ChatCompletion
    expect(cut.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '' } })
    expect(cut.usage).toMatchObject({ completion_tokens: 30, completion_tokens_details: { reasoning_tokens: 30 } })
    const plain = JSON.parse(ask({ ...body, model: 'demo' }).text) as ChatCompletion
    expect(plain.choices[0]!.message).not.toHaveProperty('reasoning_content')
  })

  it('log probabilities: one entry per token, with the requested number of alternatives', () => {
    const body = { model: 'demo', messages: [user('Hello')], max_tokens: 3, logprobs: true }
    for (const top of [0, 1, 20]) {
      const choice = (JSON.parse(ask({ ...body, top_logprobs: top }).text) as ChatCompletion).choices[0]!
      const { content } = choice['logprobs'] as {
        content: { token: string; bytes: number[]; top_logprobs: { token: string }[] }[]
      }
      expect(content.map(({ token }) => token).join('')).toBe(choice.message.content)
      for (const { token, bytes, top_logprobs } of content) {
        expect(Buffer.from(bytes).toString()).toBe(token)
        expect(new Set(top_logprobs.map(one => one.token)).size).toBe(top)
      }
    }
  })
})

describe('the choice of a tool', () => {
  const time = { type: 'function', function: { name: 'get_time', description: 'Reads the local clock of a city' } }
  const tools = [weather, time]
  const byName = { type: 'function', function: { name: 'get_time' } }
  const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [byName] } }
  const rows: [string, string, object, string[]][] = [
    ['nothing fits', 'Hello there', {}, []],
    ['it is forbidden', 'What is the weather in Paris?', { tool_choice: 'none' }, []],
    ['a word of the name matches', 'What is the weather in Paris?', {}, ['get_weather']],
    ['two words of the description match', 'Which local clocks do they have?', {}, ['get_time']],
    ['one word of the description is not enough', 'I like the local food', {}, []],
    ['the full names of two are mentioned', 'call get_weather and get_time', {}, ['get_weather', 'get_time']],
    ['only one may be', 'call get_weather and get_time', { parallel_tool_calls: false }, ['get_weather']],
    ['one is required', 'Hello there', { tool_choice: 'required' }, ['get_weather']],
    ['the best of the required', 'the clock, please: get_time', { tool_choice: 'required' }, ['get_time']],
    ['one is named', 'What is the weather in Paris?', { tool_choice: byName }, ['get_time']],
    ['one is allowed', 'What is the weather in Paris?', { tool_choice: allowed }, ['get_time']],
  ]
  it.each(rows)('%s: %j', (_title, message, fields, names) => {
    const { choices } = JSON.parse(
      ask({ model: 'demo', messages: [user(message)], tools, ...fields }).text,
    ) as ChatCompletion
    expect((choices[0]!.message.tool_calls ?? []).map(call => call.function!.name)).toEqual(names)
    expect(choices[0]!.finish_reason).toBe(names.length > 0 ? 'tool_calls' : 'stop')
    expect(choices[0]!.message.content === null).toBe(names.length > 0)
  })

  it('arguments come from the schema and the message', () => {
    const message = 'What is the weather in Paris for 5 days?'
    const { choices } = JSON.parse(ask({ model: 'demo', messages: [user(message)], tools }).text) as ChatCompletion
    expect(JSON.parse(choices[0]!.message.tool_calls![0]!.function!.arguments!)).toEqual({
      city: 'Paris',
      unit: 'celsius',
      days: 5,
    })
  })
})

describe('any input', () => {
  it('tokens have at most four bytes, split no code point and lose nothing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => {
        const tokens = splitTokens(text)
        expect(tokens.join('')).toBe(text)
        expect(countTokens(text)).toBe(tokens.length)
        expect(tokens.every(token => token !== '' && Buffer.byteLength(token) <= 4)).toBe(true)
        expect(tokens.every(token => token.isWellFormed())).toBe(true)
      }),
      { numRuns: counts(75, 5_000) },
    )
  })

  it('is answered or refused, and never throws', () => {
    const words = fc.oneof(fc.string(), fc.constantFrom('weather in Paris', 'count to 30', 'get_weather', 'say: x'))
    const message = fc.record({
      role: fc.constantFrom('user', 'system', 'assistant', 'tool'),
      content: fc.oneof(words, fc.jsonValue()),
    })
    const odd = <T>(arbitrary: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 9, arbitrary }, { weight: 1, arbitrary: fc.jsonValue() })
    const body = fc.record(
      {
        model: odd(fc.constantFrom('demo', 'demo-reasoning')),
        messages: odd(fc.array(odd(message), { minLength: 1, maxLength: 4 })),
        stream: odd(fc.boolean()),
        n: odd(fc.integer({ min: 1, max: 3 })),
        max_tokens: odd(fc.integer({ min: 1, max: 100 })),
        stop: odd(fc.string()),
        tools: odd(fc.constant([weather])),
        tool_choice: odd(fc.constantFrom('auto', 'required', 'none')),
        response_format: odd(
          fc.record({
            type: fc.constantFrom('text', 'json_object', 'json_schema'),
            json_schema: fc.record({ schema: fc.jsonValue() }),
          }),
        ),
        logprobs: odd(fc.boolean()),
        stream_options: odd(fc.constant({ include_usage: true })),
      },
      { requiredKeys: ['model', 'messages'] },
    )
    fc.assert(
      fc.property(body, fields => {
        const { status, text } = ask(fields)
        expect([200, 400]).toContain(status)
        if (status === 200 && fields.stream === true) expect(parseSse(text).done).toBe(true)
        else JSON.parse(text)
      }),
      { numRuns: counts(75, 5_000) },
    )
  })
})

describeWith(WITHOUT_CORPUS, "the provider's own schema", () => {
  it('holds for every answer, chunk and error', () => {
    const schema = JSON.parse(readFileSync(`${CORPUS}/openai-chat.schema.json`, 'utf8'))
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(schema, 'openai')
    const check = (name: string, value: unknown) => {
      const validate = ajv.getSchema(`openai#/$defs/${name}`)!
      expect(validate(value), JSON.stringify([validate.errors, value])).toBe(true)
    }
    const asked = [
      asking('Hello'),
      { ...asking('Hello'), n: 2, max_tokens: 3, logprobs: true, top_logprobs: 2 },
      { ...asking("What's the weather in Paris?"), tools: [weather] },
      { ...asking('Is 7 prime?'), model: 'demo-reasoning' },
    ]
    for (const fields of asked) {
      check('CreateChatCompletionResponse', JSON.parse(ask(fields).text))
      for (const options of [undefined, { include_usage: true }]) {
        const stream = ask({ ...fields, stream: true, stream_options: options }).text
        for (const chunk of chunksOf(stream)) check('CreateChatCompletionStreamResponse', chunk)
      }
    }
    check('ErrorResponse', JSON.parse(ask({}).text))
  })
})
