import { describe, expect, it } from 'vitest'
import type { ChatCompletion } from '#contract'
import { createDemo } from '../../src/providers/demo/demo.ts'
import { countTokens } from '../../src/providers/demo/tokens.ts'
import { parseSse } from '../helpers/sse.ts'
import {
  ask,
  callOf,
  chunksOf,
  contentPieces,
  demoWith,
  dispatch,
  NOW,
  PACE_MS,
  Recorder,
  Time,
  user,
  weather,
} from './demo-rig.ts'

describe('aborts', () => {
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

  it('a handler that throws gets one error, and the timers are cleared', () => {
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
  it.each([true, false])('returning false pauses until resume, even before the end (stream: %s)', stream => {
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

  it('resume inside onData overrides its false, and the pace stays the same', () => {
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

describe('refusals that match api.openai.com', () => {
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
  it('a stream starts at once and sends one token per pace', () => {
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

  it('choices are generated at the same time', () => {
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

  it('the role first, one finish reason, [DONE]; one id, time and model; no usage key unless requested', () => {
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

  it('with usage requested: null in each chunk, then one chunk without choices', () => {
    const chunks = chunksOf(ask({ ...body, stream_options: { include_usage: true } }).text)
    expect(chunks.slice(0, -1).every(chunk => chunk.usage === null && chunk.choices.length === 1)).toBe(true)
    const { choices, usage } = chunks.at(-1)!
    expect(choices).toEqual([])
    expect(usage!.completion_tokens).toBe(chunks.length - 3)
    expect(usage!.total_tokens).toBe(usage!.prompt_tokens + usage!.completion_tokens)
    expect(usage!.prompt_tokens_details).toMatchObject({ cached_tokens: 0 })
  })

  it('a call at the start: role, name and empty arguments in one chunk, content null', () => {
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
    { messages: [user('Write a story about €uros and 😀')], max_tokens: 9, n: 2, logprobs: true, top_logprobs: 3 },
    { messages: [user("What's the weather in Paris?")], tools: [weather], max_tokens: 7 },
    { messages: [user('Is 7 prime?')], model: 'demo-reasoning', reasoning_effort: 'high' },
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
