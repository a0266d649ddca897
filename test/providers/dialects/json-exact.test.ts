/** Numbers of the user and the model keep their digits in every format of requests and answers. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatRequest, StreamItem } from '#contract'
import { messagesInbound } from '../../../src/providers/dialects/inbound/messages/index.ts'
import { responsesInbound } from '../../../src/providers/dialects/inbound/responses/index.ts'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { parseAnswer, parseExact } from '../../../src/providers/dialects/json-exact.ts'
import { parseInSlices, parseJson } from '../../../src/providers/dialects/json-parse.ts'
import { chatOf, NOW, target, view } from './anthropic/helpers.ts'
import { event } from './bedrock/frames.ts'

const written = (value: unknown) => JSON.stringify(value)
const dialectOf = (name: DialectName) => createDialect(name, () => NOW).dialect

/** Numbers that `JSON.stringify` would write differently. */
const UNUSUAL = [
  '12345678901234567890',
  '-9007199254740993',
  '0.1234567890123456789',
  '1e400',
  '-0',
  '1.0',
  '2.50',
  '1E5',
  '0.0000001',
]
/** Arguments with all of them, and values that are not numbers. */
const ARGS = `{"list":[${UNUSUAL}],"text":"1.0 and \\"2e5\\\\","deep":{"id":${UNUSUAL[0]},"few":7}}`

describe('JSON that belongs to the user', () => {
  test.each(UNUSUAL)('%s', number => {
    expect(written(parseExact(number))).toBe(number)
    expect(written(parseExact(`{"a\\"":[${number}]}`))).toBe(`{"a\\"":[${number}]}`)
  })

  test('ordinary numbers are parsed as numbers, also beside exact ones', () => {
    expect(parseExact(`[1,-20,0.5,1e+21,true,null,"1.0"]`)).toEqual([1, -20, 0.5, 1e21, true, null, '1.0'])
    expect(parseExact('[1,1.0]')).toMatchObject([1, { rawJSON: '1.0' }])
  })

  test('JSON nested too deeply for exact parsing is still parsed', () => {
    const depth = 20_000
    const deep = parseExact(`${'['.repeat(depth)}1.0${']'.repeat(depth)}`)
    expect(Array.isArray(deep)).toBe(true)
  })

  test.each(['', '{"a":1.0', '{"a":"1.0', '1.', '[1.0]]', '"\\'])('%j is not JSON', text => {
    expect(() => parseExact(text)).toThrow(SyntaxError)
  })

  const number = fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.bigInt({ min: 0n, max: 10n ** 25n }).map(String),
      fc.stringMatching(/^(\.\d{1,20})?$/),
      fc.stringMatching(/^([eE][+-]?\d{1,3})?$/),
    )
    .map(parts => parts.join(''))
  const text = fc
    .letrec<{ value: string }>(tie => ({
      value: fc.oneof(
        { maxDepth: 4 },
        number,
        fc.string().map(written),
        fc.array(tie('value'), { maxLength: 4 }).map(items => `[${items}]`),
        fc
          .dictionary(fc.string(), tie('value'), { maxKeys: 4 })
          .map(fields => `{${Object.entries(fields).map(([name, value]) => `${written(name)}:${value}`)}}`),
      ),
    }))
    .value.filter(text => !text.includes('"__proto__"'))

  test('any JSON is written as it was read', () => {
    fc.assert(
      fc.property(text, text => {
        const plain = JSON.parse(text)
        const exact = written(parseExact(text))
        // Names such as "1" come first in any object, so their order changes.
        expect(written(JSON.parse(exact))).toBe(written(plain))
        if (!/"\d+":/.test(text)) expect(exact).toBe(text)
      }),
    )
  })
})

describe('a request', () => {
  const SCHEMA = `{"type":"object","properties":{"id":{"type":"integer","maximum":18446744073709551615,"minimum":1.0}}}`
  const READ = SCHEMA.replace('1.0', '1')

  test('arguments and schemas keep their digits, parameters are numbers', () => {
    const text = `{"temperature":1.0,"seed":9007199254740993,"messages":[{"content":[{"type":"tool_use","input":${ARGS},"n":1.0}]}],"tools":[{"function":{"parameters":${SCHEMA}}},{"input_schema":${SCHEMA}}],"input":[1.0],"schema":2.0}`
    const expected = text
      .replace('"temperature":1.0', '"temperature":1')
      .replace('9007199254740993', '9007199254740992')
      .replace('"n":1.0', '"n":1')
      .replace('"input":[1.0]', '"input":[1]')
      .replace('"schema":2.0', '"schema":2')
      .replaceAll(SCHEMA, READ)
    const body = parseJson(Buffer.from(text))
    expect(written(body)).toBe(expected)
    expect(body).toMatchObject({ temperature: 1, input: [1], schema: 2 })
    const sliced = [...[...parseInSlices(Buffer.from(text))], parseJson(Buffer.from(text))].at(-1)
    expect(written(sliced)).toBe(expected)
  })

  const history = [
    { role: 'user', content: 'Hi' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'a', arguments: ARGS } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: ARGS },
  ]
  const { tools } = parseJson(
    Buffer.from(`{"tools":[{"type":"function","function":{"name":"a","parameters":${SCHEMA}}}]}`),
  ) as ChatRequest

  test.each<[DialectName, model: string, times: number]>([
    ['anthropic', 'claude-sonnet-4-5', 1],
    ['vertex-anthropic', 'claude-sonnet-4-5', 1],
    ['bedrock-invoke', 'anthropic.claude-sonnet-4-5', 1],
    ['bedrock', 'anthropic.claude-sonnet-4-5', 1],
    ['bedrock', 'us.meta.llama3-3-70b-instruct-v1:0', 1],
    // Here the result is an object too.
    ['gemini', 'gemini-2.5-flash', 2],
    ['vertex', 'gemini-3-pro-preview', 2],
    ['ollama', 'llama3.1', 1],
  ])('%s, %s: an earlier call, its result and the schema of its tool', (name, model, times) => {
    const { body } = dialectOf(name).encodeRequest(chatOf({ messages: history, tools: tools! }), target(model))
    const text = body.toString()
    expect(text.split(ARGS).length - 1).toBe(times)
    expect(text).toContain('18446744073709551615')
    expect(() => JSON.parse(text)).not.toThrow()
  })

  test('cohere: the schema keeps its digits; calls stay strings', () => {
    const { body } = dialectOf('cohere').encodeRequest(
      chatOf({ messages: history, tools: tools! }),
      target('command-a'),
    )
    expect(body.toString()).toContain('18446744073709551615')
    expect(body.toString()).toContain(written(ARGS))
  })

  const canonical = (inbound: typeof messagesInbound, text: string) =>
    inbound.decodeRequest(parseJson(Buffer.from(text)) as never, { exchange: 'req_1', createdAt: 1 })
      .body as ChatRequest

  test('Messages: a call becomes a string with its digits, a schema keeps its own', () => {
    const body = canonical(
      messagesInbound,
      `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t_1","name":"a","input":${ARGS}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t_1","content":"7"}]}],"tools":[{"name":"a","input_schema":${SCHEMA}}]}`,
    )
    expect(written(body.messages[1])).toContain(written(ARGS))
    expect(written(body.tools)).toContain(READ)
  })

  test('Responses: schemas of a tool and of the answer, and the arguments of a tool search', () => {
    const body = canonical(
      responsesInbound,
      `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"tool_search_call","call_id":"c_1","execution":"client","arguments":${ARGS}},{"type":"tool_search_output","call_id":"c_1","execution":"client","tools":[]}],"tools":[{"type":"function","name":"a","parameters":${SCHEMA},"strict":false},{"type":"tool_search","execution":"client","description":"Finds tools.","parameters":${SCHEMA}}],"text":{"format":{"type":"json_schema","name":"n","schema":${SCHEMA}}}}`,
    )
    expect(written(body.messages)).toContain(written(ARGS))
    expect(written(body.tools).split(READ).length - 1).toBe(2)
    expect(written(body['response_format'])).toContain(READ)
  })
})

describe('an answer', () => {
  test('only arguments keep their digits', () => {
    const text = `{"score":1.0,"parts":[{"args":${ARGS}}]}`
    expect(parseAnswer(text, 'args')).toMatchObject({ score: 1 })
    expect(written(parseAnswer(text, 'args'))).toBe(text.replace('"score":1.0', '"score":1'))
    expect(parseAnswer('{"score":1.0}', 'args')).toEqual({ score: 1 })
  })

  const ANSWERS: readonly [DialectName, answer: string][] = [
    [
      'anthropic',
      `{"type":"message","content":[{"type":"tool_use","id":"t_1","name":"a","input":${ARGS}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`,
    ],
    [
      'bedrock',
      `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t_1","name":"a","input":${ARGS}}}]}},"stopReason":"tool_use","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`,
    ],
    [
      'gemini',
      `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":${ARGS}}}]},"finishReason":"STOP","avgLogprobs":-0.12345678901234567890}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}`,
    ],
    [
      'ollama',
      `{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"a","arguments":${ARGS}}}]},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}`,
    ],
  ]
  test.each(ANSWERS)('%s', (name, answer) => {
    const decoded = dialectOf(name).decodeAnswer(Buffer.from(answer), view())
    expect(decoded).toMatchObject({
      completion: {
        choices: [{ message: { tool_calls: [{ function: { name: 'a', arguments: ARGS } }] } }],
        usage: { prompt_tokens: 3, completion_tokens: 4 },
      },
    })
  })

  const started = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t_1","name":"a","input":${ARGS}}}`
  test.each<[DialectName, body: Buffer]>([
    ['gemini', Buffer.from(`data: ${ANSWERS[2]![1]}\n\n`)],
    ['ollama', Buffer.from(`${ANSWERS[3]![1]}\n`)],
    ['anthropic', Buffer.from(`event: content_block_start\ndata: ${started}\n\n${stop('content_block_stop')}`)],
    [
      'bedrock',
      Buffer.concat([
        event('contentBlockStart', { contentBlockIndex: 0, start: { toolUse: { toolUseId: 't_1', name: 'a' } } }),
        event('contentBlockDelta', { contentBlockIndex: 0, delta: { toolUse: { input: ARGS } } }),
      ]),
    ],
  ])('%s, a stream', (name, body) => {
    const decoder = dialectOf(name).decodeStream(view())
    if (name === 'anthropic') decoder.push(Buffer.from('data: {"type":"message_start","message":{}}\n\n'))
    expect(argumentsIn([...decoder.push(body)])).toBe(ARGS)
  })

  const completion = {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'a', arguments: ARGS } }],
        },
        finish_reason: 'tool_calls',
      },
    ],
  }

  test('to a client of Messages', () => {
    const request = messagesInbound.decodeRequest(
      { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
      { exchange: 'req_1', createdAt: 1 },
    )
    expect(request.encodeAnswer(completion).toString()).toContain(`"input":${ARGS}`)
  })
})

function stop(type: string): string {
  return `event: ${type}\ndata: ${written({ type, index: 0 })}\n\n`
}

function argumentsIn(items: readonly StreamItem[]): string {
  const chunks = items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))
  const calls = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
  return calls.map(call => call.function?.arguments ?? '').join('')
}
