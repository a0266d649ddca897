import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatCompletion, Chunk } from '#contract'
import { createDemo } from '../../src/upstream/demo/demo.ts'
import type { SetTimer } from '../../src/upstream/demo/play.ts'
import { countTokens, splitTokens } from '../../src/upstream/demo/tokens.ts'
import type { AnswerHandler } from '../../src/upstream/handler.ts'
import { counts } from '../helpers/counts.ts'
import { parseSse } from '../helpers/sse.ts'

const PACE_MS = 20
const NOW = 1_790_000_000_123

describe('giving up', () => {
  const body = { model: 'demo', stream: true, messages: [user('Hello')] }

  const moments: [string, (recorder: Recorder) => void][] = [
    ['in onConnect', recorder => (recorder.onCall = name => name === 'connect' && recorder.abort())],
    ['before the head', recorder => recorder.abort()],
    ['in onHeaders', recorder => (recorder.onCall = name => name === 'headers' && recorder.abort())],
    ['in the first data', recorder => (recorder.onCall = name => name === 'data' && recorder.abort())],
    ['in the twentieth data', recorder => (recorder.onCall = () => recorder.data.length === 20 && recorder.abort())],
    [
      'in the last data',
      recorder => (recorder.onCall = () => recorder.text().endsWith('[DONE]\n\n') && recorder.abort()),
    ],
  ]
  it.each(moments)('%s: nothing is called afterwards and no timer is left', (when, prepare) => {
    const time = new Time()
    const recorder = new Recorder()
    let calls = -1
    recorder.abort = () => {
      calls = recorder.calls.length
    }
    if (when !== 'before the head') prepare(recorder)
    dispatch(body, recorder, time)
    if (when === 'before the head') prepare(recorder)
    time.runAll()
    expect(calls).toBeGreaterThan(0)
    expect(recorder.calls.length).toBe(calls)
    expect(time.pending).toBe(0)
    recorder.resume()
    expect(time.pending).toBe(0)
  })

  it('between two tokens, and while paused', () => {
    for (const paused of [false, true]) {
      const time = new Time()
      const recorder = new Recorder()
      dispatch(body, recorder, time)
      time.advance(3 * PACE_MS)
      recorder.full = paused
      time.advance(PACE_MS)
      const calls = recorder.calls.length
      recorder.abort()
      recorder.resume()
      expect(time.pending).toBe(0)
      time.runAll()
      expect(recorder.calls.length).toBe(calls)
    }
  })

  it('a handler that throws hears of it once, and the timers go', () => {
    const time = new Time()
    const recorder = new Recorder()
    recorder.onCall = name => {
      if (name === 'data') throw new Error('full up')
    }
    dispatch(body, recorder, time)
    time.runAll()
    expect(recorder.calls).toEqual(['connect', 'headers', 'data', 'error: full up'])
    expect(time.pending).toBe(0)
  })
})

describe('backpressure', () => {
  it.each([true, false])('false pauses until resume, also before the end (stream: %s)', stream => {
    const time = new Time()
    const recorder = new Recorder()
    recorder.full = true
    dispatch({ model: 'demo', stream, messages: [user('Hello')] }, recorder, time)
    let pieces = 0
    while (!recorder.over) {
      time.runAll()
      pieces++
      expect(recorder.data.length).toBe(pieces)
      expect(time.pending).toBe(0)
      recorder.resume()
      time.runAll()
    }
    expect(pieces).toBe(stream ? recorder.text().split('\n\n').length - 1 : 1)
  })

  it('resume from inside onData outweighs its false, and the pace stays', () => {
    const time = new Time()
    const recorder = new Recorder()
    recorder.full = true
    recorder.onCall = name => name === 'data' && recorder.resume()
    dispatch({ model: 'demo', stream: true, messages: [user('count to 12')] }, recorder, time)
    time.advance(5 * PACE_MS)
    expect(contentPieces(recorder.text()).length).toBe(5)
    expect(time.pending).toBe(1)
    time.runAll()
    expect(recorder.calls.at(-1)).toBe('complete')
  })
})

describe('what is refused, as api.openai.com would', () => {
  const messages = [user('Hello')]
  const tool = { type: 'function', function: { name: 'get_time' } }
  const rows: [string, unknown, number, string, string | null][] = [
    ['no JSON', '{"model": "demo"', 400, 'invalid_json', null],
    ['a list', [], 400, 'invalid_json', null],
    ['no model', { messages }, 400, 'missing_required_parameter', 'model'],
    ['no messages', { model: 'demo' }, 400, 'missing_required_parameter', 'messages'],
    ['empty messages', { model: 'demo', messages: [] }, 400, 'invalid_value', 'messages'],
    ['a message that is text', { model: 'demo', messages: ['hi'] }, 400, 'invalid_type', 'messages[0]'],
    ['a cap of 0', { model: 'demo', messages, max_tokens: 0 }, 400, 'invalid_value', 'max_tokens'],
    [
      'half a token',
      { model: 'demo', messages, max_completion_tokens: 1.5 },
      400,
      'invalid_type',
      'max_completion_tokens',
    ],
    ['129 choices', { model: 'demo', messages, n: 129 }, 400, 'invalid_value', 'n'],
    ['stream as text', { model: 'demo', messages, stream: 'yes' }, 400, 'invalid_type', 'stream'],
    ['5 stops', { model: 'demo', messages, stop: ['1', '2', '3', '4', '5'] }, 400, 'invalid_value', 'stop'],
    [
      'an unknown effort',
      { model: 'demo', messages, reasoning_effort: 'huge' },
      400,
      'invalid_value',
      'reasoning_effort',
    ],
    [
      'a choice without tools',
      { model: 'demo', messages, tool_choice: 'required' },
      400,
      'invalid_value',
      'tool_choice',
    ],
    [
      'an unknown tool by name',
      { model: 'demo', messages, tools: [tool], tool_choice: { type: 'function', function: { name: 'x' } } },
      400,
      'invalid_value',
      'tool_choice',
    ],
    [
      'a custom tool',
      { model: 'demo', messages, tools: [{ type: 'custom' }] },
      400,
      'unsupported_parameter',
      'tools[0].type',
    ],
    ['functions', { model: 'demo', messages, functions: [{ name: 'x' }] }, 400, 'unsupported_parameter', 'functions'],
    ['audio', { model: 'demo', messages, modalities: ['text', 'audio'] }, 400, 'unsupported_parameter', 'modalities'],
    [
      'an unknown format',
      { model: 'demo', messages, response_format: { type: 'xml' } },
      400,
      'invalid_value',
      'response_format.type',
    ],
  ]
  it.each(rows)('%s', (_title, body, status, code, param) => {
    const answer = ask(body)
    expect(answer.status).toBe(status)
    expect(answer.headers['content-type']).toBe('application/json')
    expect(JSON.parse(answer.text).error).toEqual({
      message: expect.stringMatching(/\.$/),
      type: 'invalid_request_error',
      param,
      code,
    })
  })

  it('another path', () => {
    const time = new Time()
    const recorder = new Recorder()
    demoWith(time).dispatch({ path: '/embeddings', body: Buffer.from('{}') }, recorder)
    time.runAll()
    expect(recorder.status).toBe(404)
    expect(JSON.parse(recorder.text()).error.code).toBe('unknown_url')
  })

  it.each([-1, Number.NaN, Infinity])('a pace of %s', paceMs => {
    expect(() => createDemo({ paceMs, clock: { now: () => NOW } })).toThrow('paceMs')
  })
})

describe('time', () => {
  it('a stream begins at once, its first token comes after one pace, and each next one a pace later', () => {
    const time = new Time()
    const recorder = new Recorder()
    dispatch({ model: 'demo', stream: true, messages: [user('count to 12')] }, recorder, time)
    time.advance(0)
    expect(recorder.status).toBe(200)
    expect(chunksOf(recorder.text()).map(chunk => chunk.choices[0]!.delta.role)).toEqual(['assistant'])
    for (let tokens = 1; !recorder.over; tokens++) {
      time.advance(PACE_MS - 1)
      expect(contentPieces(recorder.text()).length).toBe(tokens - 1)
      time.advance(1)
      expect(contentPieces(recorder.text()).length).toBe(tokens)
    }
    expect(contentPieces(recorder.text()).join('')).toBe('1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.')
  })

  it.each([
    ['as long as its stream', 'count to 12', PACE_MS * countTokens('1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.')],
    ['at most two seconds', 'count to 500', 2000],
  ])('a whole answer takes %s', (_title, said, ms) => {
    const time = new Time()
    const recorder = new Recorder()
    dispatch({ model: 'demo', messages: [user(said)] }, recorder, time)
    time.advance(ms - 1)
    expect(recorder.calls).toEqual(['connect'])
    time.advance(1)
    expect(recorder.calls).toEqual(['connect', 'headers', 'data', 'complete'])
    expect(recorder.headers['content-length']).toBe(String(recorder.data[0]!.length))
  })

  it('choices are made at the same time', () => {
    const time = new Time()
    const recorder = new Recorder()
    dispatch({ model: 'demo', stream: true, n: 3, messages: [user('count to 12')] }, recorder, time)
    time.advance(2 * PACE_MS)
    expect(contentPieces(recorder.text())).toEqual(['1,', '1,', '1,', ' 2,', ' 2,', ' 2,'])
  })

  it('runs on real timers, without a pause between tokens', async () => {
    const recorder = new Recorder()
    const demo = createDemo({ paceMs: 0, clock: { now: () => NOW } })
    const done = new Promise<void>(resolve => (recorder.onCall = name => name === 'complete' && resolve()))
    demo.dispatch(callOf({ model: 'demo', stream: true, messages: [user('count to 1000')] }), recorder)
    await done
    expect(contentPieces(recorder.text()).join('')).toMatch(/^1, 2, .* 999, 1000\.$/)
  })
})

describe('the shape of a stream', () => {
  const body = { model: 'demo-small', stream: true, messages: [user('Hello')] }

  it('role first, one finish, [DONE]; one id, time and model; no usage key unless asked', () => {
    const { text, headers } = ask(body)
    expect(headers['content-type']).toMatch(/^text\/event-stream/)
    const sse = parseSse(text)
    expect(sse.done).toBe(true)
    const chunks = chunksOf(text)
    expect(chunks[0]!.choices).toEqual([
      { index: 0, delta: { role: 'assistant', content: '', refusal: null }, logprobs: null, finish_reason: null },
    ])
    expect(chunks.at(-1)!.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }])
    const between = chunks.slice(1, -1)
    expect(between.every(chunk => Object.keys(chunk.choices[0]!.delta).join() === 'content')).toBe(true)
    expect(new Set(chunks.map(({ id, created, model, object }) => `${id} ${created} ${model} ${object}`))).toEqual(
      new Set([`${chunks[0]!.id} 1790000000 demo-small chat.completion.chunk`]),
    )
    expect(chunks[0]!.id).toMatch(/^chatcmpl-[0-9A-Za-z]{29}$/)
    expect(chunks.some(chunk => 'usage' in chunk || 'system_fingerprint' in chunk)).toBe(false)
  })

  it('asked for usage: null in each chunk, then one chunk without choices', () => {
    const chunks = chunksOf(ask({ ...body, stream_options: { include_usage: true } }).text)
    expect(chunks.slice(0, -1).every(chunk => chunk.usage === null && chunk.choices.length === 1)).toBe(true)
    const { choices, usage } = chunks.at(-1)!
    expect(choices).toEqual([])
    expect(usage!.completion_tokens).toBe(chunks.length - 3)
    expect(usage!.total_tokens).toBe(usage!.prompt_tokens + usage!.completion_tokens)
    expect(usage!.prompt_tokens_details).toMatchObject({ cached_tokens: 0 })
  })

  it('a call right at the start: role, name and empty arguments in one chunk, content null', () => {
    const chunks = chunksOf(ask({ ...body, tools: [weather], messages: [user("What's the weather in Paris?")] }).text)
    expect(chunks[0]!.choices[0]!.delta).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      tool_calls: [
        {
          index: 0,
          id: expect.stringMatching(/^call_[0-9A-Za-z]{24}$/),
          type: 'function',
          function: { name: 'get_weather', arguments: '' },
        },
      ],
    })
    expect(chunks.slice(1, -1).map(chunk => Object.keys(chunk.choices[0]!.delta.tool_calls![0]!).join())).toEqual(
      chunks.slice(1, -1).map(() => 'index,function'),
    )
    expect(chunks.at(-1)!.choices[0]).toMatchObject({ delta: {}, finish_reason: 'tool_calls' })
  })

  const asked = [
    { messages: [user('Hello')], n: 3 },
    { messages: [user('Tell me a story about €uros and 😀')], max_tokens: 9, n: 2, logprobs: true, top_logprobs: 3 },
    { messages: [user("What's the weather in Paris?")], tools: [weather], max_tokens: 7 },
    { messages: [user('Is 7 prime?')], model: 'demo-thinking', reasoning_effort: 'high' },
    { messages: [user('count to 10')], stop: ['7'] },
  ]
  it.each(asked)('adds up to the whole answer: %j', fields => {
    const whole: ChatCompletion = JSON.parse(ask({ model: 'demo', ...fields }).text)
    const stream = chunksOf(
      ask({ model: 'demo', ...fields, stream: true, stream_options: { include_usage: true } }).text,
    )
    expect(stream.at(-1)!.usage).toEqual(whole.usage)
    for (const choice of whole.choices) {
      const own = stream.flatMap(chunk => chunk.choices).filter(({ index }) => index === choice.index)
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(choice.message.content ?? '')
      expect(own.map(({ delta }) => delta.reasoning_content ?? '').join('')).toBe(
        choice.message.reasoning_content ?? '',
      )
      expect(own.map(({ delta }) => delta.tool_calls?.[0]?.function?.arguments ?? '').join('')).toBe(
        choice.message.tool_calls?.[0]?.function?.arguments ?? '',
      )
      expect(own.filter(({ finish_reason }) => finish_reason).map(({ finish_reason }) => finish_reason)).toEqual([
        choice.finish_reason,
      ])
      const logprobs = own.flatMap(({ logprobs }) => (logprobs as { content: unknown[] } | null)?.content ?? [])
      expect(logprobs).toEqual((choice['logprobs'] as { content: unknown[] } | null)?.content ?? [])
    }
  })
})

describe('what it says', () => {
  it('the same to the same conversation, something else with another seed, and never the same id', () => {
    const body = { model: 'demo', messages: [user('Tell me something.')] }
    const time = new Time()
    const demo = demoWith(time)
    const [first, second] = [ask(body, time, demo), ask(body, time, demo)].map(
      ({ text }) => JSON.parse(text) as ChatCompletion,
    )
    expect(first!.choices).toEqual(second!.choices)
    expect(first!.id).not.toBe(second!.id)
    const others = [1, 2, 3, 4, 5].map(seed => said({ ...body, seed }))
    expect(new Set(others).size).toBeGreaterThan(1)
  })

  it('repeats the question, counts the turns and remembers what was said before', () => {
    const one = said({ model: 'demo', messages: [user('What is a gateway?')] })
    expect(one).toContain('"What is a gateway?", which is 4 words')
    const messages = [
      user('What is a gateway?'),
      { role: 'assistant', content: one },
      user([{ type: 'text', text: 'Why?' }]),
    ]
    expect(said({ model: 'demo', messages })).toContain(
      'turn 2 of our conversation; before it you wrote "What is a gateway?"',
    )
  })

  it.each([
    ['say: this is a test', 'this is a test'],
    ['count from 3 to 5', '3, 4, 5.'],
    ['count from 5 to 3', 'I only count upwards, and 3 is below 5.'],
    [' ', 'I am ready. Send a user message, and I will answer it.'],
  ])('%j -> %j', (message, answer) => {
    expect(said({ model: 'demo', messages: [user(message)] })).toBe(answer)
  })

  it('answers a tool result in text, by the name of the tool', () => {
    const messages = [
      user("What's the weather in Paris?"),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: '{"celsius": 12}' },
    ]
    expect(said({ model: 'demo', messages, tools: [weather] })).toContain('get_weather returned: {"celsius": 12}.')
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

  it('the smaller of both caps holds', () => {
    const body = { model: 'demo', messages: [user('Hello')] }
    for (const [max_tokens, max_completion_tokens] of [
      [4, 9],
      [9, 4],
    ]) {
      const answer = JSON.parse(ask({ ...body, max_tokens, max_completion_tokens }).text) as ChatCompletion
      expect(answer.usage!.completion_tokens).toBe(4)
    }
  })

  it('exactly enough is not a cut', () => {
    const body = { model: 'demo', messages: [user('say: one two')] }
    expect(JSON.parse(ask({ ...body, max_tokens: 2 }).text).choices[0]).toMatchObject({ finish_reason: 'stop' })
    expect(JSON.parse(ask({ ...body, max_tokens: 1 }).text).choices[0]).toMatchObject({ finish_reason: 'length' })
  })

  it('a stop sequence is left out with all behind it', () => {
    const answer = JSON.parse(
      ask({ model: 'demo', messages: [user('count to 9')], stop: ['7', ' 5,'] }).text,
    ) as ChatCompletion
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: '1, 2, 3, 4,' } })
  })

  it('thinking grows with the effort, is counted, and the cap includes it', () => {
    const body = { model: 'demo-thinking', messages: [user('Is 7 prime?')] }
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

  it('log probabilities: one entry a token, as many alternatives as asked', () => {
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

describe('which tool is called', () => {
  const time = { type: 'function', function: { name: 'get_time', description: 'Tells the local clock of a city' } }
  const tools = [weather, time]
  const byName = { type: 'function', function: { name: 'get_time' } }
  const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [byName] } }
  const rows: [string, string, object, string[]][] = [
    ['nothing fits', 'Hello there', {}, []],
    ['it is forbidden', 'What is the weather in Paris?', { tool_choice: 'none' }, []],
    ['a word of the name fits', 'What is the weather in Paris?', {}, ['get_weather']],
    ['two words of the description fit', 'Which local clocks do they have?', {}, ['get_time']],
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

  it('arguments are made from the schema and the message', () => {
    const message = 'What is the weather in Paris for 5 days?'
    const { choices } = JSON.parse(ask({ model: 'demo', messages: [user(message)], tools }).text) as ChatCompletion
    expect(JSON.parse(choices[0]!.message.tool_calls![0]!.function!.arguments!)).toEqual({
      city: 'Paris',
      unit: 'celsius',
      days: 5,
    })
  })
})

describe('structured output', () => {
  const node = {
    type: 'object',
    properties: { value: { type: 'string' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
    required: ['value', 'next'],
    additionalProperties: false,
  }
  const tree = { type: 'object', properties: { kids: { type: 'array', items: { $ref: '#' } } }, required: ['kids'] }
  const schemas: [string, object][] = [
    [
      'nested objects',
      {
        type: 'object',
        properties: { a: { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] } },
        required: ['a'],
        additionalProperties: false,
      },
    ],
    [
      'enum and const',
      { type: 'object', properties: { kind: { const: 'x' }, unit: { enum: [3, 4] } }, required: ['kind', 'unit'] },
    ],
    ['lists', { type: 'array', items: { type: 'integer', multipleOf: 5 }, minItems: 4, uniqueItems: true }],
    ['tuples', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'boolean' }], items: false, minItems: 2 }],
    ['unique choices', { type: 'array', items: { enum: ['a', 'b', 'c'] }, minItems: 3, uniqueItems: true }],
    ['empty lists', { type: 'array', items: { type: 'string' }, maxItems: 0 }],
    ['bounds', { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }],
    ['below zero', { type: 'integer', maximum: -7 }],
    ['lengths', { type: 'string', minLength: 40, maxLength: 41 }],
    ['short', { type: 'string', maxLength: 2 }],
    ['or null', { type: ['string', 'null'] }],
    [
      'all of',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { properties: { b: { type: 'null' } }, required: ['b'] },
        ],
      },
    ],
    [
      'any of',
      { anyOf: [{ type: 'null' }, { type: 'object', properties: { z: { type: 'boolean' } }, required: ['z'] }] },
    ],
    [
      'references',
      {
        type: 'object',
        properties: { 'a/b': { $ref: '#/$defs/x~1y' } },
        required: ['a/b'],
        $defs: { 'x/y': { type: 'integer', minimum: 9 } },
      },
    ],
    ['a chain without end', { $ref: '#/$defs/node', $defs: { node } }],
    ['a tree without end', tree],
    [
      'formats',
      {
        type: 'object',
        properties: { at: { type: 'string', format: 'date-time' }, id: { type: 'string', format: 'uuid' } },
        required: ['at', 'id'],
      },
    ],
    [
      'a name that JavaScript knows',
      { type: 'object', properties: { ['__proto__']: { type: 'integer' } }, required: ['__proto__'] },
    ],
    ['names only', { type: 'object', required: ['x'], additionalProperties: { type: 'integer' }, minProperties: 3 }],
  ]
  it.each(schemas)('is valid: %s', (_title, schema) => {
    const answer = said({
      ...asking('Add 2 and 3 for "Ada"'),
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)
    expect(validate(JSON.parse(answer)), `${answer} ${JSON.stringify(validate.errors)}`).toBe(true)
  })

  it.each([
    ['a pattern', { type: 'string', pattern: '^(a+)+$' }, 'it uses "pattern"'],
    [
      'no end',
      {
        $ref: '#/$defs/a',
        $defs: { a: { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] } },
      },
      'too large',
    ],
    ['a circle', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, 'circle'],
    ['a billion', { $defs: doublings(25), allOf: [{ $ref: '#/$defs/d25' }] }, 'too large'],
    ['a million items', { type: 'array', items: { type: 'null' }, minItems: 1_000_000 }, 'too long a list'],
    ['a reference to nowhere', { $ref: '#/$defs/a' }, 'leads nowhere'],
    ['a remote reference', { $ref: 'https://example.com/x' }, 'outside'],
    ['nothing', { type: 'integer', minimum: 2, maximum: 1 }, 'no value'],
  ])('is refused, not faked: %s', (_title, schema, message) => {
    const answer = ask({
      ...asking('Hello'),
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text).error).toMatchObject({
      param: 'response_format.json_schema.schema',
      message: expect.stringMatching(message),
    })
  })

  it('json_object is an object', () => {
    expect(JSON.parse(said({ ...asking('Hello'), response_format: { type: 'json_object' } }))).toMatchObject({
      turn: 1,
    })
  })
})

describe('any input', () => {
  it('tokens are at most four bytes, split no code point and lose nothing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => {
        const tokens = splitTokens(text)
        expect(tokens.join('')).toBe(text)
        expect(countTokens(text)).toBe(tokens.length)
        expect(tokens.every(token => token !== '' && Buffer.byteLength(token) <= 4)).toBe(true)
        expect(tokens.every(token => token.isWellFormed())).toBe(true)
      }),
      { numRuns: counts(300, 5_000) },
    )
  })

  it('is answered or refused, never broken', () => {
    const words = fc.oneof(fc.string(), fc.constantFrom('weather in Paris', 'count to 30', 'get_weather', 'say: x'))
    const message = fc.record({
      role: fc.constantFrom('user', 'system', 'assistant', 'tool'),
      content: fc.oneof(words, fc.jsonValue()),
    })
    const odd = <T>(arbitrary: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 9, arbitrary }, { weight: 1, arbitrary: fc.jsonValue() })
    const body = fc.record(
      {
        model: odd(fc.constantFrom('demo', 'demo-thinking')),
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
      { numRuns: counts(300, 5_000) },
    )
  })
})

describe.skipIf(!process.env['CORPUS_DIR'])("the provider's own schema", () => {
  it('holds for every answer, chunk and error', () => {
    const schema = JSON.parse(readFileSync(`${process.env['CORPUS_DIR']}/openai-chat.schema.json`, 'utf8'))
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(schema, 'openai')
    const check = (name: string, value: unknown) => {
      const validate = ajv.getSchema(`openai#/$defs/${name}`)!
      expect(validate(value), JSON.stringify([validate.errors, value])).toBe(true)
    }
    const asked = [
      asking('Hello'),
      { ...asking('Hello'), n: 2, max_tokens: 3, logprobs: true, top_logprobs: 2 },
      { ...asking("What's the weather in Paris?"), tools: [weather] },
      { ...asking('Is 7 prime?'), model: 'demo-thinking' },
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

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The forecast for a place',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { enum: ['celsius', 'fahrenheit'] },
        days: { type: 'integer', minimum: 2 },
      },
      required: ['city', 'unit', 'days'],
    },
  },
}

function user(content: unknown) {
  return { role: 'user', content }
}

function asking(content: string) {
  return { model: 'demo', messages: [user(content)] }
}

/** Definitions of which each refers to the one before twice. */
function doublings(count: number): Record<string, object> {
  const definitions: Record<string, object> = { d0: { type: 'object' } }
  for (let at = 1; at <= count; at++) {
    definitions[`d${at}`] = { allOf: [{ $ref: `#/$defs/d${at - 1}` }, { $ref: `#/$defs/d${at - 1}` }] }
  }
  return definitions
}

function demoWith(time: Time) {
  return createDemo({ paceMs: PACE_MS, clock: { now: () => NOW }, setTimer: time.setTimer })
}

function callOf(body: unknown) {
  return { path: '/chat/completions', body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) }
}

function dispatch(body: unknown, recorder: Recorder, time: Time) {
  demoWith(time).dispatch(callOf(body), recorder)
}

/** The answer to a body, to its end. */
function ask(body: unknown, time = new Time(), demo = demoWith(time)) {
  const recorder = new Recorder()
  demo.dispatch(callOf(body), recorder)
  time.runAll()
  expect(recorder.calls.at(-1)).toBe('complete')
  return { status: recorder.status, headers: recorder.headers, text: recorder.text() }
}

function said(body: unknown): string {
  return (JSON.parse(ask(body).text) as ChatCompletion).choices[0]!.message.content!
}

function chunksOf(text: string): Chunk[] {
  return parseSse(text).events.map(({ data }) => JSON.parse(data) as Chunk)
}

function contentPieces(text: string): string[] {
  const deltas = chunksOf(text).flatMap(chunk => chunk.choices.map(({ delta }) => delta.content))
  return deltas.filter(content => typeof content === 'string' && content !== '') as string[]
}

/** A handler that writes down what it is told. */
class Recorder implements AnswerHandler {
  readonly calls: string[] = []
  readonly data: Buffer[] = []
  status = 0
  headers: Record<string, string> = {}
  /** What `onData` returns is the opposite. */
  full = false
  onCall: (name: string) => unknown = () => {}
  abort = (): void => {}
  resume = (): void => {}

  get over(): boolean {
    return /^complete|^error/.test(this.calls.at(-1) ?? '')
  }
  text(): string {
    return Buffer.concat(this.data).toString('utf8')
  }
  onConnect(abort: () => void): void {
    const wrapped = this.abort
    this.abort = () => {
      abort()
      wrapped()
    }
    this.called('connect')
  }
  onHeaders(status: number, headers: Record<string, string>, resume: () => void): void {
    Object.assign(this, { status, headers, resume })
    this.called('headers')
  }
  onData(bytes: Buffer): boolean {
    this.data.push(bytes)
    this.called('data')
    return !this.full
  }
  onComplete(): void {
    this.called('complete')
  }
  onError(error: Error): void {
    this.called(`error: ${error.message}`)
  }
  private called(name: string): void {
    this.calls.push(name)
    this.onCall(name)
  }
}

/** Time that stands still until it is told to go on. */
class Time {
  private now = 0
  private timers: { due: number; run: () => void }[] = []

  get pending(): number {
    return this.timers.length
  }
  readonly setTimer: SetTimer = (run, ms) => {
    const timer = { due: this.now + ms, run }
    this.timers.push(timer)
    return () => {
      this.timers = this.timers.filter(other => other !== timer)
    }
  }
  advance(ms: number): void {
    const until = this.now + ms
    for (let next = this.next(until); next; next = this.next(until)) {
      this.now = Math.max(this.now, next.due)
      this.timers = this.timers.filter(timer => timer !== next)
      next.run()
    }
    this.now = until
  }
  /** Runs until nothing waits any more. */
  runAll(): void {
    this.advance(1e9)
  }
  private next(until: number) {
    return this.timers.filter(({ due }) => due <= until).toSorted((a, b) => a.due - b.due)[0]
  }
}
