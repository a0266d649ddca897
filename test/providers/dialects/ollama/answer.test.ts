import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { ollamaDialect } from '../../../../src/providers/dialects/ollama/index.ts'
import { COUNTED, decoded, dialect, encoded, itemsOfLines, type Line, line, NOW, USAGE, view } from './helpers.ts'

const answer = (message: object, more: object = {}): Line =>
  line(message, { done: true, done_reason: 'stop', ...COUNTED, ...more })

describe('what is no answer', () => {
  test.each<[name: string, body: unknown, code: ErrorCode]>([
    ['nothing', '', 'upstream_invalid'],
    ['no JSON', '<html>', 'upstream_invalid'],
    ['null', 'null', 'upstream_invalid'],
    ['a list', '[]', 'upstream_invalid'],
    ['no message', { done: true }, 'upstream_invalid'],
    ['half of one', answer({ content: 'a' }, { done: false }), 'upstream_invalid'],
    ['a model that was only loaded', answer({}, { done_reason: 'load' }), 'upstream_error'],
    ['a model that was thrown out', answer({}, { done_reason: 'unload' }), 'upstream_error'],
    ['an error', { error: 'model runner has unexpectedly stopped' }, 'upstream_error'],
    ['an error with its status', { StatusCode: 429, Status: '429', error: 'slow down' }, 'upstream_rate_limited'],
    ['an error in an envelope', { error: { code: 503, message: 'busy' } }, 'upstream_overloaded'],
  ])('%s', (_name, body, code) => {
    expect(decoded(body)).toMatchObject({ failure: { code } })
  })

  test('arguments that are nested without end', () => {
    const deep = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const body = `{"done":true,"message":{"tool_calls":[{"function":{"name":"a","arguments":${deep}}}]}}`
    expect(decoded(body)).toMatchObject({ failure: { code: 'upstream_invalid' } })
    expect(itemsOfLines([body])).toMatchObject([{ kind: 'failure', failure: { code: 'upstream_invalid' } }])
  })
})

describe('an answer', () => {
  test('as the client sees it', () => {
    expect(decoded(answer({ content: 'Hello' }))).toEqual({
      completion: {
        id: 'ex_7',
        object: 'chat.completion',
        created: 1_790_000_000,
        model: 'chat-small',
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'Hello', refusal: null },
            logprobs: null,
            finish_reason: 'stop',
          },
        ],
        usage: USAGE,
      },
      raw: null,
    })
  })

  const made = { id: 'call_1', function: { index: 0, name: 'a', arguments: { city: '東京' } } }
  const shown = (id: string, name: string, args: string) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  })

  test.each<[name: string, message: object, more: object, seen: object, finish: string]>([
    ['nothing', {}, {}, { content: '' }, 'stop'],
    ['too long a text', { content: 'a' }, { done_reason: 'length' }, { content: 'a' }, 'length'],
    ['no reason', { content: 'a' }, { done_reason: undefined }, { content: 'a' }, 'stop'],
    ['a thought', { content: 'a', thinking: 'Hm.' }, {}, { content: 'a', reasoning_content: 'Hm.' }, 'stop'],
    [
      'calls, which end with stop too',
      { tool_calls: [made, { function: { name: 'b', arguments: {} } }] },
      {},
      { content: null, tool_calls: [shown('call_1', 'a', '{"city":"東京"}'), shown('call_ex7_1', 'b', '{}')] },
      'tool_calls',
    ],
    [
      'a call that did not get its time',
      { tool_calls: [made] },
      { done_reason: 'length' },
      { content: null, tool_calls: [shown('call_1', 'a', '{"city":"東京"}')] },
      'length',
    ],
    [
      'arguments as text',
      { content: 'So', tool_calls: [{ ...made, function: { name: 'a', arguments: '{"x":1}' } }] },
      {},
      { content: 'So', tool_calls: [shown('call_1', 'a', '{"x":1}')] },
      'tool_calls',
    ],
    [
      'wrong types',
      { content: 7, thinking: {}, tool_calls: [null, { id: 7, function: { name: 7, arguments: [] } }] },
      {},
      { content: null, tool_calls: [shown('call_ex7_0', '', '{}')] },
      'tool_calls',
    ],
  ])('%s', (_name, message, more, seen, finish) => {
    const one = decoded(answer(message, more))
    const choice = 'completion' in one ? one.completion.choices[0]! : null
    expect(choice).toEqual({
      index: 0,
      message: { role: 'assistant', refusal: null, ...seen },
      logprobs: null,
      finish_reason: finish,
    })
  })

  test.each<[name: string, counts: object, seen: object | undefined]>([
    ['a prompt from the cache has no count', { prompt_eval_count: undefined }, undefined],
    ['nobody counted', { prompt_eval_count: undefined, eval_count: '5' }, undefined],
  ])('usage: %s', (_name, counts, seen) => {
    const one = decoded(answer({ content: 'a' }, counts))
    expect('completion' in one && one.completion.usage).toEqual(seen)
  })

  test('a client that sends the answer back continues its calls', () => {
    const one = decoded(answer({ thinking: 'Hm.', tool_calls: [made] }))
    const message = ('completion' in one ? one.completion.choices[0]!.message : null) as never
    const { body, dropped } = encoded({
      messages: [{ role: 'user', content: 'Hi' }, message, { role: 'tool', tool_call_id: 'call_1', content: '7' }],
    })
    expect(body['messages']).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '', thinking: 'Hm.', tool_calls: [made] },
      { role: 'tool', content: '7', tool_name: 'a', tool_call_id: 'call_1' },
    ])
    expect(dropped).toEqual([])
  })
})

describe('an error', () => {
  const body = (error: string) => Buffer.from(JSON.stringify({ error }))

  test.each<[status: number, error: string, code: ErrorCode, seen?: string]>([
    [
      400,
      'registry.example/library/gemma:2b does not support tools',
      'upstream_rejected',
      'gemma:2b does not support tools',
    ],
    [400, '"llama3" does not support thinking', 'upstream_rejected', '"llama3" does not support thinking'],
    [
      400,
      'the input length exceeds the context length',
      'context_length_exceeded',
      'the input length exceeds the context length',
    ],
    [401, 'unauthorized', 'upstream_auth'],
    [404, "model 'x' not found", 'model_not_found', "model 'x' not found"],
    [404, 'no such path', 'upstream_error'],
    [429, 'too many requests', 'upstream_rate_limited'],
    [500, 'model requires more system memory', 'upstream_error'],
    [503, 'server busy, please try again', 'upstream_overloaded'],
  ])('%d %s', (status, error, code, seen) => {
    const failure = dialect.decodeError(status, {}, body(error))
    expect(failure.code).toBe(code)
    expect(failure.message).toBe(seen)
    expect(failure.detail).toContain(`status ${status}`)
  })

  test.each([
    ['', 500, 'upstream_error'],
    ['404 page not found', 404, 'upstream_error'],
    ['null', 400, 'upstream_rejected'],
  ])('%j', (text, status, code) => {
    expect(dialect.decodeError(status, {}, Buffer.from(text)).code).toBe(code)
  })

  test('how long to wait, and what must not be said', () => {
    expect(dialect.decodeError(503, { 'retry-after': '3' }, body('busy')).retryAfterMs).toBe(3000)
    const careful = ollamaDialect(
      () => NOW,
      text => text.replaceAll('s3cret', '[hidden]'),
    )
    for (const failure of [
      careful.decodeError(400, {}, body('the key s3cret is odd')),
      careful.decodeAnswer(body('the key s3cret is odd'), view()),
    ]) {
      expect(JSON.stringify(failure)).toContain('[hidden]')
      expect(JSON.stringify(failure)).not.toContain('s3cret')
    }
  })
})
