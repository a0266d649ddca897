import { describe, expect, test } from 'vitest'
import { geminiDialect } from '../../../../src/providers/dialects/gemini/index.ts'
import { chatOf, NOW, parts, studio, target, view } from './support.ts'

const USAGE = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }

function decode(value: unknown) {
  return studio.decodeAnswer(Buffer.from(JSON.stringify(value)), view)
}

function choiceOf(value: unknown) {
  const decoded = decode(value)
  if ('failure' in decoded) throw new Error(decoded.failure.detail)
  return decoded.completion.choices[0]!
}

const stopped = (list: readonly unknown[], reason: unknown = 'STOP') => parts(list, { finishReason: reason })

test('an answer in all its parts', () => {
  const signed = { text: ' world', thoughtSignature: 'c2ln' }
  const answer = stopped([{ text: 'Hm', thought: true }, { text: 'Hello' }, signed])
  expect(decode({ ...answer, usageMetadata: { ...USAGE, thoughtsTokenCount: 3, totalTokenCount: 18 } })).toEqual({
    completion: {
      id: 'resp-1',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: 'chat-large',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'Hello world',
            refusal: null,
            reasoning_content: 'Hm',
            extra_content: { google: { thought_signature: 'c2ln' } },
          },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 10,
        completion_tokens: 8,
        total_tokens: 18,
        completion_tokens_details: { reasoning_tokens: 3 },
      },
    },
    raw: null,
  })
})

describe('parts', () => {
  const call = (index: number, name: string, text: string, more: object = {}) => ({
    id: `call_ex01J_${index}`,
    type: 'function',
    function: { name, arguments: text },
    ...more,
  })

  test.each<[name: string, list: unknown[], message: object, finish: string]>([
    [
      'calls at once, only the first of which is signed and none has an id',
      [
        { functionCall: { name: 'a', args: { x: 1 } }, thoughtSignature: 'c2ln' },
        { functionCall: { name: 'b' } },
        { functionCall: { name: 'c', args: {}, id: 'own' } },
      ],
      {
        content: null,
        tool_calls: [
          call(0, 'a', '{"x":1}', { extra_content: { google: { thought_signature: 'c2ln' } } }),
          call(1, 'b', '{}'),
          { ...call(2, 'c', '{}'), id: 'own' },
        ],
      },
      'tool_calls',
    ],
    [
      'a text and a call',
      [{ text: 'Let me see' }, { functionCall: { name: 'a', args: {} } }],
      { content: 'Let me see', tool_calls: [call(0, 'a', '{}')] },
      'tool_calls',
    ],
    [
      'a picture',
      [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }],
      { content: '', images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
      'stop',
    ],
    [
      "tools of Google's own are none of the client's",
      [{ toolCall: { id: '1' } }, { toolResponse: {} }, { executableCode: { code: '1' } }, { text: 'One' }],
      { content: 'One' },
      'stop',
    ],
    ['nothing', [], { content: '' }, 'stop'],
    ['parts of the wrong types', [null, 7, 'x', { text: 5 }, { inlineData: 'x' }, {}], { content: '' }, 'stop'],
  ])('%s', (_, list, message, finish) => {
    expect(choiceOf(stopped(list))).toEqual({
      index: 0,
      message: { role: 'assistant', refusal: null, ...message },
      logprobs: null,
      finish_reason: finish,
    })
  })

  test('several candidates are several choices', () => {
    const one = (text: string) => stopped([{ text }]).candidates[0]
    const decoded = decode({ candidates: [one('a'), one('b')] })
    if ('failure' in decoded) throw new Error(decoded.failure.detail)
    expect(decoded.completion.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, 'a'],
      [1, 'b'],
    ])
    expect(decoded.completion.id).toBe('ex-01J')
    expect(decoded.completion).not.toHaveProperty('usage')
  })
})

describe('the end', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['LANGUAGE', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['MODEL_ARMOR', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['IMAGE_OTHER', 'content_filter'],
    [1, 'stop'],
    [2, 'length'],
    [10, 'content_filter'],
  ])('%s is %s', (reason, finish) => {
    expect(choiceOf(stopped([{ text: 'x' }], reason)).finish_reason).toBe(finish)
  })

  test.each([
    ...['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS', 'OTHER', 'NO_IMAGE'],
    ...['MALFORMED_RESPONSE', 'INVENTED_TOMORROW', 'constructor', 9],
  ])('%s is a failure only where nothing else came', reason => {
    expect(decode(stopped([{ text: 'x', thought: true }], reason))).toMatchObject({
      failure: { code: 'upstream_error' },
    })
    expect(choiceOf(stopped([{ text: 'x' }], reason)).finish_reason).toBe('stop')
    expect(choiceOf(stopped([{ functionCall: { name: 'a' } }], reason)).finish_reason).toBe('tool_calls')
  })

  test('a call that the cap cut off is no reason to call', () => {
    expect(choiceOf(stopped([{ functionCall: { name: 'a' } }], 'MAX_TOKENS')).finish_reason).toBe('length')
  })

  test('why a filter stopped it is told', () => {
    const { message } = choiceOf(parts([], { finishReason: 'SAFETY', finishMessage: 'Not that.' }))
    expect(message).toEqual({ role: 'assistant', content: null, refusal: 'Not that.' })
  })

  test('a blocked prompt is an answer without a text that costs nothing', () => {
    const promptFeedback = { blockReason: 'MODEL_ARMOR', blockReasonMessage: 'Injection.' }
    expect(decode({ promptFeedback, usageMetadata: { trafficType: 'ON_DEMAND' } })).toMatchObject({
      completion: {
        choices: [{ message: { content: null, refusal: 'Injection.' }, finish_reason: 'content_filter' }],
        usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      },
    })
  })
})

describe('usage', () => {
  test.each<[name: string, metadata: unknown, prompt: number, completion: number, more?: object]>([
    ['plain', USAGE, 10, 5],
    ['what tools gave the model is prompt', { ...USAGE, toolUsePromptTokenCount: 7 }, 17, 5],
    [
      'thoughts are completion',
      { ...USAGE, thoughtsTokenCount: 4 },
      10,
      9,
      { completion_tokens_details: { reasoning_tokens: 4 } },
    ],
    [
      'what was cached is part of the prompt',
      { ...USAGE, cachedContentTokenCount: 8 },
      10,
      5,
      { prompt_tokens_details: { cached_tokens: 8 } },
    ],
    ['nothing but thoughts', { promptTokenCount: 3, totalTokenCount: 3 }, 3, 0],
    ['no count of the prompt', { candidatesTokenCount: 5, totalTokenCount: 12 }, 7, 5],
    [
      'a total of more than its parts',
      { promptTokenCount: 10, toolUsePromptTokenCount: 2, candidatesTokenCount: 5, totalTokenCount: 40 },
      12,
      28,
    ],
    ['no count of the prompt and no total', { candidatesTokenCount: 5 }, 0, 5],
    ['counts that are none', { promptTokenCount: '10', candidatesTokenCount: 5 }, 0, 5],
    ['a total beyond all numbers', { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 1e308 }, 10, 5],
  ])('%s', (_, usageMetadata, prompt, completion, more = {}) => {
    const decoded = decode({ ...stopped([{ text: 'x' }]), usageMetadata })
    expect('completion' in decoded && decoded.completion.usage).toEqual({
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      ...more,
    })
  })

  test.each([undefined, null, 'x', [], {}, { trafficType: 'ON_DEMAND' }])('%j is none', usageMetadata => {
    expect(decode({ ...stopped([{ text: 'x' }]), usageMetadata })).not.toHaveProperty('completion.usage')
  })
})

describe('no answer', () => {
  test.each<[name: string, body: string]>([
    ['nothing', ''],
    ['a page', '<html>'],
    ['a number', '7'],
    ['an empty list', '[]'],
    ['no candidates', '{"candidates":[]}'],
    ['candidates of the wrong type', '{"candidates":{"0":1}}'],
    ['a candidate of the wrong type', '{"candidates":[7]}'],
    ['no reason', JSON.stringify(parts([{ text: 'x' }]))],
    ['arguments that are no object', JSON.stringify(stopped([{ functionCall: { name: 'a', args: 'x' } }]))],
    ['a call without a name', JSON.stringify(stopped([{ functionCall: { args: {} } }]))],
    ['a call that does not end', JSON.stringify(stopped([{ functionCall: { name: 'a', willContinue: true } }]))],
    [
      'arguments that are nested too deeply',
      `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"functionCall":{"name":"a","args":{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}}}]}}]}`,
    ],
  ])('%s', (_, body) => {
    expect(studio.decodeAnswer(Buffer.from(body), view)).toMatchObject({ failure: { code: 'upstream_invalid' } })
  })

  test('an error in a 200, also in a list', () => {
    const error = { error: { code: 429, message: 'Slow down', status: 'RESOURCE_EXHAUSTED' } }
    expect(decode(error)).toMatchObject({ failure: { code: 'upstream_rate_limited' } })
    expect(decode([error])).toMatchObject({ failure: { code: 'upstream_rate_limited' } })
    expect(decode({ error: { status: 'UNAVAILABLE' } })).toMatchObject({ failure: { code: 'upstream_overloaded' } })
    expect(decode({ error: { status: 'valueOf' } })).toMatchObject({ failure: { code: 'upstream_error' } })
  })
})

test('what the answer says goes back as it came', () => {
  const answer = stopped([{ functionCall: { name: 'weather', args: { city: 'Ulm' } }, thoughtSignature: 'c2ln' }])
  const { message } = choiceOf(answer)
  const id = message.tool_calls![0]!.id!
  const messages = [{ role: 'user', content: 'Rain?' }, message, { role: 'tool', tool_call_id: id, content: 'Yes' }]
  const { body } = studio.encodeRequest(chatOf({ messages }), target('gemini-3.6-flash'))
  expect(JSON.parse(body.toString()).contents.slice(1)).toEqual([
    {
      role: 'model',
      parts: [{ functionCall: { id, name: 'weather', args: { city: 'Ulm' } }, thoughtSignature: 'c2ln' }],
    },
    { role: 'user', parts: [{ functionResponse: { id, name: 'weather', response: { result: 'Yes' } } }] },
  ])
})

describe('errors', () => {
  const fail = (status: number, error: unknown, headers = {}) =>
    studio.decodeError(status, headers, Buffer.from(JSON.stringify(error)))
  const said = (code: number, status: string, message = 'So it is.', details: unknown = []) => ({
    error: { code, status, message, details },
  })
  const reason = (text: string) => [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: text }]
  const wait = (retryDelay: unknown) => [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay }]

  test.each<[status: number, body: unknown, failure: object]>([
    [400, said(400, 'INVALID_ARGUMENT'), { code: 'upstream_rejected', message: 'So it is.' }],
    [400, said(400, 'INVALID_ARGUMENT', 'Bad.', reason('API_KEY_INVALID')), { code: 'upstream_auth' }],
    [400, said(400, 'INVALID_ARGUMENT', 'API key not valid. Please.'), { code: 'upstream_auth' }],
    [400, said(400, 'FAILED_PRECONDITION', 'User location is not supported.'), { code: 'upstream_forbidden' }],
    [
      400,
      said(400, 'INVALID_ARGUMENT', 'The input token count (5) exceeds the maximum.'),
      { code: 'context_length_exceeded' },
    ],
    [401, said(401, 'UNAUTHENTICATED'), { code: 'upstream_auth' }],
    [403, said(403, 'PERMISSION_DENIED'), { code: 'upstream_forbidden' }],
    [404, said(404, 'NOT_FOUND'), { code: 'model_not_found' }],
    [
      429,
      said(429, 'RESOURCE_EXHAUSTED', 'Quota.', wait('37s')),
      { code: 'upstream_rate_limited', retryAfterMs: 37_000 },
    ],
    [429, said(429, 'RESOURCE_EXHAUSTED', 'Quota.', wait('0.25s')), { retryAfterMs: 250 }],
    [500, said(500, 'INTERNAL'), { code: 'upstream_error' }],
    [503, [said(503, 'UNAVAILABLE', 'Full.', wait('2s'))], { code: 'upstream_overloaded', retryAfterMs: 2_000 }],
    [504, said(504, 'DEADLINE_EXCEEDED'), { code: 'upstream_timeout' }],
    [502, '<html>', { code: 'upstream_error' }],
    [400, said(400, 'INVALID_ARGUMENT', 'Bad.', 'x'), { code: 'upstream_rejected' }],
  ])('%i %j', (status, body, failure) => {
    expect(fail(status, body)).toMatchObject(failure)
  })

  test.each(['', '37', 's', '-1s', '1e9s', 5, null])('a wait of %j is none: then it is a second', delay => {
    expect(fail(429, said(429, 'RESOURCE_EXHAUSTED', 'Quota.', wait(delay))).retryAfterMs).toBe(1000)
  })

  test('a header says more than the details', () => {
    const failure = fail(429, said(429, 'RESOURCE_EXHAUSTED', 'Quota.', wait('37s')), { 'retry-after-ms': '5' })
    expect(failure.retryAfterMs).toBe(5)
  })

  test('no project and no secret is told', () => {
    const dialect = geminiDialect(
      () => NOW,
      text => text.replaceAll('hunter2', '***'),
    )
    const message = 'Model projects/my-secret-project/locations/eu/models/x of hunter2 not found.'
    const failure = dialect.decodeError(404, {}, Buffer.from(JSON.stringify(said(404, 'NOT_FOUND', message))))
    expect(failure.message).toBe('Model projects/[hidden]/locations/eu/models/x of *** not found.')
    expect(failure.detail).not.toMatch(/my-secret-project|hunter2/)
  })
})
