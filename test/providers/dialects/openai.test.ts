import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AnswerView, Chat, Chunk, Delta, StreamItem, Target, WireUsage } from '#contract'
import { parseJson } from '../../../src/providers/dialects/json-parse.ts'
import { openAiDialect } from '../../../src/providers/dialects/openai/index.ts'
import { counts } from '../../helpers/counts.ts'

const dialect = openAiDialect(() => Date.parse('2026-11-20T12:00:00Z'))

const target = (fields: Partial<Target> = {}): Target => ({
  id: 'openai/some-mini',
  provider: 'openai',
  model: 'some-mini',
  weight: 1,
  cost: null,
  capField: 'max_completion_tokens',
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
  ...fields,
})

/** The fact `chat` for a body, with a cap of 100 tokens. */
function chatOf(text: string | Buffer, cap = 100): Chat {
  const bytes = Buffer.from(text as string)
  const body = JSON.parse(bytes.toString())
  return {
    body,
    bytes,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    requestedCap: null,
    cap,
  }
}

const encoded = (text: string, fields: Partial<Target> = {}) =>
  dialect.encodeRequest(chatOf(text), target(fields)).body.toString()

describe('a request', () => {
  test.each<[name: string, sent: string, upstream: string, fields?: Partial<Target>]>([
    [
      'the model is replaced and the cap is added',
      '{"model":"chat-small","messages":[{"role":"user","content":"hi"}]}',
      '{"model":"some-mini","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":100}',
    ],
    [
      'the cap is replaced where it stands',
      '{"max_completion_tokens":5000,"model":"chat-small","messages":[]}',
      '{"max_completion_tokens":100,"model":"some-mini","messages":[]}',
    ],
    [
      'the cap is sent under the name that the target takes, and under no other',
      '{"model":"chat-small","max_completion_tokens":5000,"messages":[]}',
      '{"model":"some-mini","messages":[],"max_tokens":100}',
      { capField: 'max_tokens' },
    ],
    [
      'of two caps one is left',
      '{"max_tokens":1,"model":"chat-small","messages":[],"max_completion_tokens":100000}',
      '{"model":"some-mini","messages":[],"max_completion_tokens":100}',
    ],
    [
      'a cap of null is a cap',
      '{"model":"chat-small","max_tokens":null,"max_completion_tokens":null,"messages":[]}',
      '{"model":"some-mini","max_tokens":100,"messages":[]}',
      { capField: 'max_tokens' },
    ],
    [
      'a key in escapes is the same key',
      '{"m\\u006fdel":"chat-small","max\\u005ftokens":999999,"messages":[]}',
      '{"m\\u006fdel":"some-mini","messages":[],"max_completion_tokens":100}',
    ],
    [
      'usage is always asked for in a stream',
      '{"model":"chat-small","stream":true,"messages":[]}',
      '{"model":"some-mini","stream":true,"messages":[],"max_completion_tokens":100,"stream_options":{"include_usage":true}}',
    ],
    [
      'other stream options stay',
      '{"model":"chat-small","stream":true,"stream_options":{"include_usage":false,"include_obfuscation":false},"messages":[]}',
      '{"model":"some-mini","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"messages":[],"max_completion_tokens":100}',
    ],
    [
      'stream options of null',
      '{"model":"chat-small","stream":true,"stream_options":null,"messages":[]}',
      '{"model":"some-mini","stream":true,"stream_options":{"include_usage":true},"messages":[],"max_completion_tokens":100}',
    ],
    [
      'without a stream nothing is said about its options',
      '{"model":"chat-small","stream":false,"messages":[]}',
      '{"model":"some-mini","stream":false,"messages":[],"max_completion_tokens":100}',
    ],
    [
      'what looks like a parameter inside a text or deeper down is left alone',
      '{"messages":[{"role":"user","content":"\\"model\\":\\"x\\", {\\"max_tokens\\":1}"}],"metadata":{"model":"a","max_tokens":"b"},"model":"chat-small"}',
      '{"messages":[{"role":"user","content":"\\"model\\":\\"x\\", {\\"max_tokens\\":1}"}],"metadata":{"model":"a","max_tokens":"b"},"model":"some-mini","max_completion_tokens":100}',
    ],
    [
      'white space, escapes and numbers stay as they were written',
      '\n{ "temperature" : 1.0e0 ,\t"seed":9007199254740993, "model": "chat-small", "messages": [ {"role":"user","content":"\\u00e9\\/\u00e9"} ] }\n',
      '\n{ "temperature" : 1.0e0 ,\t"seed":9007199254740993, "model": "some-mini", "messages": [ {"role":"user","content":"\\u00e9\\/\u00e9"} ],"max_completion_tokens":100 }\n',
    ],
    [
      'a name with quotes is written as JSON',
      '{"model":"chat-small","messages":[]}',
      '{"model":"a\\"b\\\\c","messages":[],"max_completion_tokens":100}',
      { model: 'a"b\\c' },
    ],
  ])('%s', (_name, sent, upstream, fields) => {
    expect(encoded(sent, fields)).toBe(upstream)
  })

  test('another attempt finds it unchanged', () => {
    const chat = chatOf(
      '{"model":"chat-small","stream":true,"stream_options":{"include_obfuscation":false},"messages":[]}',
    )
    const before = { bytes: chat.bytes.toString(), body: structuredClone(chat.body) }
    const first = dialect.encodeRequest(chat, target()).body.toString()
    dialect.encodeRequest(chat, target({ model: 'other', capField: 'max_tokens' }))
    expect(dialect.encodeRequest(chat, target()).body.toString()).toBe(first)
    expect({ bytes: chat.bytes.toString(), body: chat.body }).toEqual(before)
  })

  test('one that cannot be spliced is written anew, with the same changes', () => {
    const chat = {
      ...chatOf('{"model":"chat-small","max_tokens":7,"stream":true,"messages":[]}'),
      bytes: Buffer.from('{'),
    }
    expect(JSON.parse(dialect.encodeRequest(chat, target()).body.toString())).toEqual({
      model: 'some-mini',
      messages: [],
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: 100,
    })
  })

  test('with the spans of the scan it is the same, and nobody looks for them again', () => {
    const chat = chatOf('{"user":"é","max_tokens":7,"model":"chat-small","messages":[]}')
    const spans: number[] = []
    expect(parseJson(chat.bytes, spans)).toEqual(chat.body)
    const sent = (known: number[]) => dialect.encodeRequest(chat, target(), known).body.toString()
    expect(sent(spans)).toBe('{"user":"é","model":"some-mini","messages":[],"max_completion_tokens":100}')
    expect(sent([])).toBe(sent(spans))
    // Only the first member is said to be there.
    expect(sent(spans.slice(0, 5))).toContain(
      '"user":"é","model":"some-mini","max_completion_tokens":100,"max_tokens":7,',
    )
  })

  test('it goes to the path of chat completions and says what it wants back', () => {
    expect(dialect.encodeRequest(chatOf('{"model":"a","messages":[]}'), target())).toMatchObject({
      path: '/chat/completions',
      headers: { accept: 'application/json' },
      dropped: [],
    })
    expect(dialect.encodeRequest(chatOf('{"model":"a","stream":true,"messages":[]}'), target()).headers).toEqual({
      accept: 'text/event-stream',
    })
  })

  test('whatever else it says is upstream, to the byte', () => {
    const name = fc.constantFrom('temperature', 'user', 'stop', 'metadata', 'x', 'tools', 'response_format', 'é')
    const value = fc.jsonValue({ maxDepth: 3 }).map(each => JSON.parse(JSON.stringify(each)))
    const others = fc.dictionary(name, value, { maxKeys: 5 })
    const cap = fc.option(fc.constantFrom('max_tokens', 'max_completion_tokens'), { nil: undefined })
    const field = fc.constantFrom<Target['capField']>('max_tokens', 'max_completion_tokens')
    fc.assert(
      fc.property(others, cap, field, fc.boolean(), fc.nat(), (other, capName, capField, stream, place) => {
        const members = Object.entries({ ...other, messages: [] }).map(
          ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`,
        )
        members.splice(place % (members.length + 1), 0, '"model":"chat-small"')
        if (capName) members.splice((place * 7) % (members.length + 1), 0, `"${capName}":77`)
        if (stream) members.push('"stream":true')
        const result = encoded(`{${members.join(',')}}`, { capField })
        const expected = {
          ...other,
          messages: [],
          model: 'some-mini',
          [capField]: 100,
          ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
        }
        expect(JSON.parse(result)).toEqual(expected)
        for (const member of members) {
          if (!member.startsWith('"model"') && !member.startsWith('"max_')) expect(result).toContain(member)
        }
        // No key twice: what a lax reader takes is what was checked.
        expect(result.match(/"(model|max_tokens|max_completion_tokens|stream_options)":/g)).toHaveLength(
          Object.keys(expected).filter(key => /^(model|max_|stream_options)/.test(key)).length,
        )
      }),
      { numRuns: counts(500, 50_000) },
    )
  })
})

const view = (includeUsage = false): AnswerView => ({
  model: 'chat-small',
  includeUsage,
  exchange: 'req_1',
  createdAt: 1_700_000_000,
})

const COMPLETION = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'some-mini-2026',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'hi', refusal: null }, logprobs: null, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  system_fingerprint: null,
}

describe('a whole answer', () => {
  const text = JSON.stringify(COMPLETION)
  const decoded = (body: string | Buffer) => dialect.decodeAnswer(Buffer.from(body as string), view())
  const failure = (body: string | Buffer) => {
    const answer = decoded(body)
    if (!('failure' in answer)) throw new Error('this was taken for an answer')
    return answer.failure
  }
  const good = (body: string | Buffer) => {
    const answer = decoded(body)
    if ('failure' in answer) throw new Error(answer.failure.detail)
    return answer
  }

  test.each<[name: string, body: string, code: string]>([
    ['nothing', '', 'upstream_invalid'],
    ['a byte order mark', '\ufeff', 'upstream_invalid'],
    ['white space', ' \n\n ', 'upstream_invalid'],
    ['a page', '<html></html>', 'upstream_invalid'],
    ['half an answer', text.slice(0, 60), 'upstream_invalid'],
    ['two answers', text + text, 'upstream_invalid'],
    ['a stream', `data: ${text}\n\n`, 'upstream_invalid'],
    ['null', 'null', 'upstream_invalid'],
    ['a number', '7', 'upstream_invalid'],
    ['a list', '["hello"]', 'upstream_invalid'],
    ['a text', '"hello"', 'upstream_invalid'],
    ['an empty object', '{}', 'upstream_invalid'],
    ['no choices', '{"choices":[]}', 'upstream_invalid'],
    ['choices of null', '{"choices":null}', 'upstream_invalid'],
    ['choices of another kind', '{"choices":{"0":{"message":{}}}}', 'upstream_invalid'],
    ['a choice of null', '{"choices":[null]}', 'upstream_invalid'],
    [
      'one choice of null among good ones',
      JSON.stringify({ ...COMPLETION, choices: [...COMPLETION.choices, null] }),
      'upstream_invalid',
    ],
    ['a message that is a text', '{"choices":[{"index":0,"message":"hi"}]}', 'upstream_invalid'],
    ['a message that is a list', '{"choices":[{"index":0,"message":[]}]}', 'upstream_invalid'],
    ['an error instead', '{"error":{"message":"x","type":"server_error"}}', 'upstream_error'],
    ['an error beside choices', JSON.stringify({ ...COMPLETION, error: { message: 'x' } }), 'upstream_error'],
    ['an error that is a text', '{"error":"the engine is tired"}', 'upstream_error'],
    ['an error that is empty', '{"error":{}}', 'upstream_error'],
    ['an error with a status as its code', '{"error":{"code":429,"message":"x"}}', 'upstream_rate_limited'],
    ['an error with another status', '{"error":{"code":"503","message":"x"}}', 'upstream_overloaded'],
    ['an error with a number that is no status', '{"error":{"code":7,"message":"x"}}', 'upstream_error'],
    ['an error about a limit', '{"error":{"type":"rate_limit_error","message":"x"}}', 'upstream_rate_limited'],
    ['an overload', '{"error":{"type":"overloaded_error","message":"x"}}', 'upstream_overloaded'],
    ['a mistake of the client', '{"error":{"type":"invalid_request_error","message":"x"}}', 'upstream_rejected'],
  ])('%s is a failure', (_name, body, code) => {
    expect(failure(body)).toMatchObject({ code })
  })

  test.each<[name: string, sent: string, shown: string]>([
    ['the model is the catalog’s, all else as it came', text, text.replace('some-mini-2026', 'chat-small')],
    [
      'a model that is missing is added',
      text.replace('"model":"some-mini-2026",', ''),
      `${text.replace('"model":"some-mini-2026",', '').slice(0, -1)},"model":"chat-small"}`,
    ],
    ['a byte order mark goes', `\ufeff${text}`, text.replace('some-mini-2026', 'chat-small')],
    ['leading newlines stay', `\n\n\n${text}`, `\n\n\n${text.replace('some-mini-2026', 'chat-small')}`],
    [
      'an error of null is none',
      text.replace('{"id"', '{"error":null,"id"'),
      text.replace('{"id"', '{"error":null,"id"').replace('some-mini-2026', 'chat-small'),
    ],
    [
      'pretty-printed',
      JSON.stringify(COMPLETION, null, 2),
      JSON.stringify(COMPLETION, null, 2).replace('some-mini-2026', 'chat-small'),
    ],
  ])('%s', (_name, sent, shown) => {
    const { completion, raw } = good(sent)
    expect(raw!.toString()).toBe(shown)
    expect(JSON.parse(raw!.toString())).toEqual(completion)
    expect(completion.model).toBe('chat-small')
  })

  test('its usage is shown also to who did not ask: without a stream it always stands there', () => {
    expect(good(text).completion.usage).toEqual(COMPLETION.usage)
  })

  test.each([
    ['null', ',"message":null'],
    ['left out', ''],
  ])('a message that is %s is an empty one: a filter took it away', (_name, message) => {
    const { completion, raw } = good(`{"model":"m","choices":[{"index":0${message},"finish_reason":"content_filter"}]}`)
    expect(completion.choices).toEqual([
      { index: 0, message: { role: 'assistant', content: null }, finish_reason: 'content_filter' },
    ])
    expect(raw).toBeNull()
  })

  test('bytes that are no UTF-8 are what a reader makes of them', () => {
    const bytes = Buffer.from(text)
    bytes[bytes.indexOf('hi')] = 0xff
    const { completion, raw } = good(bytes)
    expect(completion.choices[0]!.message.content).toBe('\ufffdi')
    expect(JSON.parse((raw ?? JSON.stringify(completion)).toString())).toEqual(completion)
  })
})

describe('an error answer', () => {
  test('is read in any shape, with when to try again', () => {
    const body = Buffer.from('{"error":{"message":"Slow down.","type":"rate_limit_error"}}')
    expect(dialect.decodeError(429, { 'retry-after': 'Fri, 20 Nov 2026 12:00:30 GMT' }, body)).toMatchObject({
      code: 'upstream_rate_limited',
      retryAfterMs: 30_000,
    })
    expect(dialect.decodeError(500, {}, Buffer.alloc(0))).toMatchObject({ code: 'upstream_error' })
  })
})

/** A stream's items for its text, pushed in one piece or byte by byte. */
function itemsOf(text: string | Buffer, includeUsage = false, pieceBytes = Number.POSITIVE_INFINITY): StreamItem[] {
  const decoder = dialect.decodeStream(view(includeUsage))
  const bytes = Buffer.from(text as string)
  const items: StreamItem[] = []
  for (let at = 0; at < bytes.length; at += Math.min(pieceBytes, bytes.length)) {
    items.push(...decoder.push(bytes.subarray(at, at + Math.min(pieceBytes, bytes.length))))
  }
  return [...items, ...decoder.end()]
}

const event = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const chunkOf = (delta: unknown, more: Record<string, unknown> = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'some-mini-2026',
  choices: [{ index: 0, delta, finish_reason: null }],
  ...more,
})
const USAGE: WireUsage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }

/** One item, or an error when there are none or several. */
function only(items: readonly StreamItem[]): StreamItem {
  expect(items).toHaveLength(1)
  return items[0]!
}

/** What the client would be sent for one event. */
function shown(data: unknown, includeUsage = false): string {
  const item = only(itemsOf(event(data), includeUsage))
  if (item.kind !== 'chunk') throw new Error(`this is ${item.kind}`)
  const json = item.raw?.toString() ?? JSON.stringify(item.chunk)
  // The chunk that steps see and the bytes that the client gets say the same.
  expect(JSON.parse(json)).toEqual(item.chunk)
  expect(json).not.toMatch(/[\r\n]/)
  return json
}

describe('an event of a stream', () => {
  test.each<[name: string, data: unknown, code: string]>([
    ['no JSON', '{"choices": [{"index": 0,', 'upstream_invalid'],
    ['a text', '"hello"', 'upstream_invalid'],
    ['a number', '7', 'upstream_invalid'],
    ['null', 'null', 'upstream_invalid'],
    ['a word', '[done]', 'upstream_invalid'],
    ['an error', { error: { message: 'x', type: 'server_error' } }, 'upstream_error'],
    ['an error that is a text', { error: 'x' }, 'upstream_error'],
    ['an error with choices', { ...chunkOf({ content: '' }), error: { code: 502, message: 'x' } }, 'upstream_error'],
    ['an error with a status', { error: { code: 429, message: 'x' } }, 'upstream_rate_limited'],
    ['an error with a status of the provider’s own', { error: { code: 529, message: 'x' } }, 'upstream_overloaded'],
    ['an error about the gateway’s key', { error: { code: 401, message: 'x' } }, 'upstream_auth'],
    ['an error in an array', [{ error: { code: 503, message: 'x' } }], 'upstream_overloaded'],
  ])('%s is a failure', (_name, data, code) => {
    expect(only(itemsOf(event(data)))).toMatchObject({ kind: 'failure', failure: { code } })
  })

  test.each([
    ['an error', 'event: error\ndata: {"error":{"message":"x"},"status_code":500}\n\n'],
    ['an error without a wrapper', 'event: error\ndata: {"message":"x"}\n\n'],
  ])('one that is named error is a failure: %s', (_name, text) => {
    expect(only(itemsOf(text))).toMatchObject({ kind: 'failure', failure: { code: 'upstream_error' } })
  })

  test.each<[name: string, text: string]>([
    ['comments', ': OPENROUTER PROCESSING\n\n: keep-alive\n\n'],
    ['an object without choices', event({ type: 'ping' })],
    ['choices of another kind', event({ ...chunkOf({}), choices: 'none' })],
    ['an error of null and no choices', event({ error: null })],
    ['nothing', ''],
  ])('%s means nothing', (_name, text) => {
    expect(itemsOf(text)).toEqual([])
  })

  test.each(['[DONE]', ' [DONE] ', '[DONE]\r'])('%j is the end', text => {
    expect(only(itemsOf(event(text)))).toEqual({ kind: 'done' })
  })

  test.each<[name: string, sent: Record<string, unknown>, client: Record<string, unknown>]>([
    ['the model is the catalog’s', chunkOf({ content: 'a' }), chunkOf({ content: 'a' }, { model: 'chat-small' })],
    [
      'usage of null goes',
      chunkOf({ content: 'a' }, { usage: null }),
      chunkOf({ content: 'a' }, { model: 'chat-small' }),
    ],
    [
      'usage beside content goes',
      chunkOf({ content: 'a' }, { usage: USAGE }),
      chunkOf({ content: 'a' }, { model: 'chat-small' }),
    ],
    [
      'usage that is none goes',
      chunkOf({ content: 'a' }, { usage: 'many' }),
      chunkOf({ content: 'a' }, { model: 'chat-small' }),
    ],
    [
      'usage of null without choices goes',
      chunkOf({}, { choices: [], usage: null }),
      chunkOf({}, { choices: [], model: 'chat-small' }),
    ],
    [
      'fields that nobody knows stay',
      chunkOf({ content: 'a', p: 'xx' }, { x_groq: { id: 'a' } }),
      chunkOf({ content: 'a', p: 'xx' }, { x_groq: { id: 'a' }, model: 'chat-small' }),
    ],
  ])('%s when the client did not ask for usage', (_name, sent, client) => {
    expect(JSON.parse(shown(sent))).toEqual(client)
  })

  test('only what must change is changed: every other byte is the provider’s', () => {
    const text =
      '{"id":"chatcmpl-1", "model" : "some-mini-2026","choices":[{"index":0,"delta":{"content":"\\u00e9 \\"model\\": \u20ac"}}],"usage":null,"obfuscation":"xx"}'
    expect(shown(text)).toBe(
      '{"id":"chatcmpl-1", "model" : "chat-small","choices":[{"index":0,"delta":{"content":"\\u00e9 \\"model\\": \u20ac"}}],"obfuscation":"xx"}',
    )
    expect(shown(text, true)).toBe(text.replace('some-mini-2026', 'chat-small'))
  })

  test('the bytes are passed without a copy when nothing is to be changed', () => {
    const bytes = Buffer.from(event(chunkOf({ content: 'a' }, { model: 'chat-small' })))
    const item = only(dialect.decodeStream(view()).push(bytes)) as Extract<StreamItem, { kind: 'chunk' }>
    expect(item.raw!.buffer).toBe(bytes.buffer)
  })

  test('a usage event is hidden from who did not ask, and kept for the charge', () => {
    const data = chunkOf({}, { choices: [], usage: USAGE })
    expect(only(itemsOf(event(data)))).toEqual({ kind: 'usage', usage: USAGE })
    expect(JSON.parse(shown(data, true))).toEqual({ ...data, model: 'chat-small' })
    expect(only(itemsOf(event(data), true))).toMatchObject({ kind: 'chunk', usage: USAGE })
  })

  test('usage beside content counts, shown or not', () => {
    for (const asked of [false, true]) {
      const item = only(itemsOf(event(chunkOf({ content: 'a' }, { usage: USAGE })), asked))
      expect(item).toMatchObject({ kind: 'chunk', usage: USAGE })
    }
  })

  test('usage is left as it is for who asked: null in each chunk', () => {
    expect(JSON.parse(shown(chunkOf({ content: 'a' }, { usage: null }), true))).toEqual(
      chunkOf({ content: 'a' }, { model: 'chat-small', usage: null }),
    )
  })

  test('pretty-printed JSON becomes one line', () => {
    const lines = JSON.stringify(chunkOf({ content: 'a\nb' }), null, 2).split('\n')
    for (const end of ['\n', '\r\n', '\r']) {
      const item = only(itemsOf(`${lines.map(line => `data: ${line}${end}`).join('')}${end}`))
      expect(item).toEqual({
        kind: 'chunk',
        chunk: chunkOf({ content: 'a\nb' }, { model: 'chat-small' }),
        raw: null,
        usage: null,
      })
    }
  })

  test.each<[name: string, choices: unknown[], seen: unknown[]]>([
    ['a choice of null', [null], []],
    [
      'a choice that is none',
      [7, 'x', [], { index: 0, delta: { content: 'a' } }],
      [{ index: 0, delta: { content: 'a' } }],
    ],
    [
      'a delta of null',
      [{ index: 0, delta: null, finish_reason: 'stop' }],
      [{ index: 0, delta: {}, finish_reason: 'stop' }],
    ],
    ['no delta', [{ index: 0, finish_reason: 'stop' }], [{ index: 0, delta: {}, finish_reason: 'stop' }]],
    ['a delta that is a text', [{ index: 0, delta: 'a' }], [{ index: 0, delta: {} }]],
    ['a delta that is a list', [{ index: 0, delta: ['a'] }], [{ index: 0, delta: {} }]],
  ])('%s does not reach the steps', (_name, choices, seen) => {
    expect(JSON.parse(shown(chunkOf({}, { choices })))).toEqual(chunkOf({}, { choices: seen, model: 'chat-small' }))
  })

  test.each([1e9, -1, 0.5, 'x', null])(
    'a tool call with the index %j passes as it is, and nothing is built from it',
    index => {
      const delta = { tool_calls: [{ index, id: 'call_1', type: 'function', function: { name: 'a', arguments: '' } }] }
      expect(JSON.parse(shown(chunkOf(delta)))).toEqual(chunkOf(delta, { model: 'chat-small' }))
    },
  )

  test('names that mean something to JavaScript change nothing', () => {
    const text = '{"__proto__":{"usage":1},"model":"m","choices":[{"index":0,"delta":{"__proto__":{"content":"x"}}}]}'
    expect(shown(text)).toBe(text.replace('"m"', '"chat-small"'))
    expect(({} as { usage?: unknown }).usage).toBeUndefined()
  })

  test('a key that stands there twice is changed in both places', () => {
    const text =
      '{"model":"secret-model","usage":null,"choices":[],"model":"secret-model","usage":{"prompt_tokens":1},"x":1}'
    const item = only(itemsOf(event(text.replace('"choices":[]', '"choices":[{"index":0,"delta":{}}]'))))
    expect((item as { raw: Buffer }).raw.toString()).toBe(
      '{"model":"chat-small","choices":[{"index":0,"delta":{}}],"model":"chat-small","x":1}',
    )
  })

  test('JSON that is nested without end is read or refused, not thrown', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const text = `{"model":"m","choices":[{"index":0,"delta":{"content":${deep}}}]}`
    expect(only(itemsOf(event(text))).kind).toMatch(/chunk|failure/)
  })

  test('a NUL between the letters is no JSON', () => {
    expect(only(itemsOf(event('{"choices":[{"delta":{"content":"a\u0000b"}}]}')))).toMatchObject({ kind: 'failure' })
  })

  test('bytes that are no UTF-8 are what a reader makes of them', () => {
    const bytes = Buffer.from(event(chunkOf({ content: '@' })))
    bytes[bytes.indexOf('@')] = 0xff
    const item = only(itemsOf(bytes)) as Extract<StreamItem, { kind: 'chunk' }>
    expect(item.chunk.choices[0]!.delta.content).toBe('\ufffd')
    expect(JSON.parse((item.raw ?? JSON.stringify(item.chunk)).toString())).toEqual(item.chunk)
  })
})

test('however the bytes are split, the items are the same', () => {
  const text = [
    `\ufeff: hello\n\n${event(chunkOf({ role: 'assistant', content: '' }, { usage: null }))}`,
    event(chunkOf({ content: 'na\u00efve \u{1f600}' }, { usage: null })),
    JSON.stringify(chunkOf({ content: 'b' }), null, 1)
      .replace(/^/gm, 'data:')
      .concat('\r\n\r\n'),
    event(chunkOf({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })),
    event(chunkOf({}, { choices: [], usage: USAGE })),
    'data: [DONE]',
  ].join('')
  const bytes = Buffer.from(text)
  for (const asked of [false, true]) {
    const whole = itemsOf(bytes, asked)
    expect(whole.map(({ kind }) => kind)).toEqual([
      'chunk',
      'chunk',
      'chunk',
      'chunk',
      asked ? 'chunk' : 'usage',
      'done',
    ])
    for (let size = 1; size < bytes.length; size += size < 20 ? 1 : 37) {
      expect(itemsOf(bytes, asked, size), `in pieces of ${size}`).toEqual(whole)
    }
    for (let at = 0; at <= bytes.length; at += 1) {
      const decoder = dialect.decodeStream(view(asked))
      const items = [...decoder.push(bytes.subarray(0, at)), ...decoder.push(bytes.subarray(at)), ...decoder.end()]
      expect(items.map(({ kind }) => kind)).toEqual(whole.map(({ kind }) => kind))
    }
  }
})

test('the chunks of a stream fold to the whole answer', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
  const call = fc.record({ id: text, name: text, arguments: fc.array(text, { maxLength: 4 }) })
  const choice = fc.record({
    content: fc.array(text, { maxLength: 6 }),
    thoughts: fc.array(text, { maxLength: 3 }),
    calls: fc.array(call, { maxLength: 2 }),
    finish: fc.constantFrom('stop', 'length', 'tool_calls'),
  })
  fc.assert(
    fc.property(fc.array(choice, { minLength: 1, maxLength: 3 }), fc.infiniteStream(fc.nat()), (choices, random) => {
      const deltas = choices.map((each): Delta[] => [
        { role: 'assistant' },
        ...each.thoughts.map(reasoning_content => ({ reasoning_content })),
        ...each.content.map(content => ({ content })),
        ...each.calls.flatMap((made, index): Delta[] => [
          { tool_calls: [{ index, id: made.id, type: 'function', function: { name: made.name, arguments: '' } }] },
          ...made.arguments.map(part => ({ tool_calls: [{ index, function: { arguments: part } }] })),
        ]),
      ])
      // The choices interleave as they like; each ends in a finish of its own.
      const events: string[] = []
      const left = deltas.map((list, index) => ({ list: [...list], index }))
      while (left.length > 0) {
        const at = random.next().value % left.length
        const { list, index } = left[at]!
        const delta = list.shift()
        const finish_reason = delta ? null : choices[index]!.finish
        events.push(event(chunkOf({}, { choices: [{ index, delta: delta ?? {}, finish_reason }], usage: null })))
        if (!delta) left.splice(at, 1)
      }
      events.push(event(chunkOf({}, { choices: [], usage: USAGE })), event('[DONE]'))
      const items = itemsOf(events.join(''))
      const chunks = items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))
      expect(items.at(-1)).toEqual({ kind: 'done' })
      expect(items.at(-2)).toEqual({ kind: 'usage', usage: USAGE })

      const message = (each: (typeof choices)[number]): Delta => ({
        role: 'assistant',
        ...(each.thoughts.length > 0 ? { reasoning_content: each.thoughts.join('') } : {}),
        ...(each.content.length > 0 ? { content: each.content.join('') } : {}),
        ...(each.calls.length > 0
          ? {
              tool_calls: each.calls.map(({ id, name, arguments: parts }) => ({
                id,
                type: 'function',
                function: { name, arguments: parts.join('') },
              })),
            }
          : {}),
      })
      const whole = {
        ...COMPLETION,
        choices: choices.map((each, index) => ({ index, message: message(each), finish_reason: each.finish })),
      }
      const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(whole)), view())
      if ('failure' in answer) throw new Error(answer.failure.detail)
      expect(fold(chunks)).toEqual(answer.completion.choices)
      for (const chunk of chunks) expect(chunk).toMatchObject({ model: 'chat-small' })
    }),
    { numRuns: counts(200, 10_000) },
  )
})

/** What a client makes of the chunks: texts joined, calls by their index. */
function fold(chunks: readonly Chunk[]): unknown[] {
  const choices: { index: number; message: Delta; finish_reason: string | null }[] = []
  for (const { index, delta, finish_reason } of chunks.flatMap(chunk => chunk.choices)) {
    const choice = (choices[index] ??= { index, message: {}, finish_reason: null })
    const { message } = choice
    if (delta.role) message.role = delta.role
    if (delta.content) message.content = (message.content ?? '') + delta.content
    if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content
    for (const { index: at = 0, id, type, function: made } of delta.tool_calls ?? []) {
      message.tool_calls ??= []
      const call = (message.tool_calls[at] ??= { id: id!, type: type!, function: { name: made!.name!, arguments: '' } })
      call.function!.arguments += made?.arguments ?? ''
    }
    choice.finish_reason ??= finish_reason ?? null
  }
  return choices
}
