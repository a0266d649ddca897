import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Catalog, type Key, type Model, type PriceFeature, plainPrice } from '#contract'
import { CHAT_PARAMETERS } from '../../src/providers/dialects/json-bytes.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import { createSteps } from '../../test/helpers/step.ts'
import { PARAMETERS } from './chat-completions.ts'
import schema from './index.ts'
import { brokenBody, CANARY, MODEL, validBody } from './test-bodies.ts'

const price = plainPrice({ input: 1n, cached_input: 1n, cache_write: 1n, output: 1n, request: 0n })
const models: Model[] = [
  MODEL,
  { ...MODEL, id: 'thinker', reasoning: true },
  { ...MODEL, id: 'priced', price },
  { ...MODEL, id: 'generous', price, allow: ['service_tier', 'web_search', 'audio', 'prediction'] },
  { ...MODEL, id: 'off', enabled: false },
  { ...MODEL, id: 'private', public: false },
  { ...MODEL, id: 'single', maxChoices: 1 },
  { ...MODEL, id: 'eight', maxChoices: 8 },
]
const catalog: Catalog = {
  find: id => models.find(model => model.id === (id === 'small' ? 'chat-small' : id)),
  list: () => models,
}

const refusing = createSteps([{ use: schema }], { catalog })
const capRefusing = createSteps([{ use: schema, with: { cap_above_max: 'refuse' } }], { catalog })
const passing = createSteps([{ use: schema, with: { unknown_fields: 'pass' } }], { catalog })
const hello = { role: 'user', content: 'Hello!' }
const ask = (body: Record<string, unknown>, run = refusing) =>
  run({ body: { model: 'chat-small', messages: [hello], ...body } })
const say = (...messages: unknown[]) => ({ messages })
const marked = (ttl?: string | null) => ({
  cache_control: { type: 'ephemeral', ...(ttl === undefined ? {} : { ttl }) },
})
const parts = (...content: unknown[]) => say({ role: 'user', content })

describe('invalid bodies', () => {
  test.each<[unknown, string]>([
    [null, 'null'],
    [[], 'a list'],
    ['hello', 'text'],
    [5, 'a number'],
  ])('%j: %s is not an object', async body => {
    const { refusal } = await refusing({ body })
    expect(refusal).toMatchObject({ code: 'invalid_type', status: 400, param: null })
    expect(refusal!.message).toBe('The body must be a JSON object.')
  })

  test.each<[Record<string, unknown>, string, string, string]>([
    [{ model: undefined }, 'missing_required_parameter', 'model', "Missing required parameter: 'model'."],
    [{ messages: undefined }, 'missing_required_parameter', 'messages', "Missing required parameter: 'messages'."],
    [{ model: null }, 'invalid_type', 'model', "Invalid type for 'model': expected a string, but got null instead."],
    [{ model: '' }, 'invalid_value', 'model', "Invalid value for 'model': it is empty."],
    [{ messages: 'hi' }, 'invalid_type', 'messages', 'expected an array, but got a string instead.'],
    [say(), 'invalid_value', 'messages', "Invalid value for 'messages': it has 0 items, and the minimum is 1."],
    [say('hi'), 'invalid_type', 'messages[0]', 'expected an object, but got a string'],
    [say({ content: 'hi' }), 'missing_required_parameter', 'messages[0].role', "parameter: 'messages[0].role'."],
    [say(hello, { role: 7 }), 'invalid_type', 'messages[1].role', 'expected a string, but got 7 instead.'],
    [
      say({ role: 'robot', content: 'hi' }),
      'invalid_value',
      'messages[0].role',
      `"robot" is not one of 'developer', 'system', 'user', 'assistant', 'tool', 'function'.`,
    ],
    [say({ role: 'user' }), 'missing_required_parameter', 'messages[0].content', 'messages[0].content'],
    [say({ role: 'user', content: null }), 'invalid_type', 'messages[0].content', 'a string or an array, but got null'],
    [say({ role: 'system', content: 5 }), 'invalid_type', 'messages[0].content', 'but got 5 instead.'],
    [parts(), 'invalid_value', 'messages[0].content', 'it has 0 items, and the minimum is 1.'],
    [parts('hi'), 'invalid_type', 'messages[0].content[0]', 'expected an object'],
    [
      parts({ text: 'hi' }),
      'missing_required_parameter',
      'messages[0].content[0].type',
      "'messages[0].content[0].type'",
    ],
    [parts({ type: 'text' }), 'missing_required_parameter', 'messages[0].content[0].text', 'content[0].text'],
    [
      parts({ type: 'text', text: 'x' }, { type: 'video_url' }),
      'invalid_value',
      'messages[0].content[1].type',
      `"video_url" is not one of 'text', 'image_url', 'input_audio', 'file'.`,
    ],
    [
      parts({ type: 'image_url', image_url: 'https://example.test/a.png' }),
      'invalid_type',
      'messages[0].content[0].image_url',
      'expected an object, but got a string instead.',
    ],
    [
      parts({ type: 'image_url', image_url: { url: 'data:,', detail: 'huge' } }),
      'invalid_value',
      'messages[0].content[0].image_url.detail',
      `"huge" is not one of 'auto', 'low', 'high', 'original'.`,
    ],
    [
      parts({ type: 'input_audio', input_audio: { data: 'A', format: 'ogg' } }),
      'invalid_value',
      'messages[0].content[0].input_audio.format',
      `"ogg" is not one of 'wav', 'mp3'.`,
    ],
    [
      say({ role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }),
      'invalid_value',
      'messages[0].content[0].type',
      `"image_url" is not one of 'text', 'refusal', 'anthropic'.`,
    ],
    [
      say({ role: 'tool', tool_call_id: 'a', content: [{ type: 'refusal', refusal: '' }] }),
      'invalid_value',
      'messages[0].content[0].type',
      `"refusal" is not one of 'text'.`,
    ],
    [
      say({ role: 'tool', content: 'x' }),
      'missing_required_parameter',
      'messages[0].tool_call_id',
      "'messages[0].tool_call_id'",
    ],
    [say({ role: 'function', content: 'x' }), 'missing_required_parameter', 'messages[0].name', 'messages[0].name'],
    [
      say({ role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: {} } }] }),
      'invalid_type',
      'messages[0].tool_calls[0].function.arguments',
      'expected a string, but got an object instead.',
    ],
    [
      say({ role: 'assistant', tool_calls: [{ id: 'a', type: 'retrieval' }] }),
      'invalid_value',
      'messages[0].tool_calls[0].type',
      `"retrieval" is not one of 'function', 'custom'.`,
    ],
    [{ temperature: 3 }, 'invalid_value', 'temperature', '3 is more than the maximum of 2.'],
    [{ temperature: -0.1 }, 'invalid_value', 'temperature', '-0.1 is less than the minimum of 0.'],
    [{ temperature: '1' }, 'invalid_type', 'temperature', 'expected a number, but got a string instead.'],
    [{ temperature: true }, 'invalid_type', 'temperature', 'expected a number, but got a boolean instead.'],
    [{ top_p: 1.1 }, 'invalid_value', 'top_p', 'maximum of 1'],
    [{ frequency_penalty: -2.5 }, 'invalid_value', 'frequency_penalty', 'minimum of -2'],
    [{ presence_penalty: 2.5 }, 'invalid_value', 'presence_penalty', 'maximum of 2'],
    [{ n: 0 }, 'invalid_value', 'n', 'minimum of 1'],
    [{ n: 129 }, 'invalid_value', 'n', 'maximum of 128'],
    [
      { n: 2, model: 'single' },
      'unsupported_parameter',
      'n',
      'The model "single" gives one choice an answer, but \'n\' is 2.',
    ],
    [{ n: 9, model: 'eight' }, 'unsupported_parameter', 'n', 'gives 8 choices an answer'],
    [{ n: 1.5 }, 'invalid_type', 'n', "Invalid type for 'n': expected an integer, but got 1.5 instead."],
    [{ max_tokens: 0 }, 'invalid_value', 'max_tokens', 'minimum of 1'],
    [{ max_tokens: -1 }, 'invalid_value', 'max_tokens', 'minimum of 1'],
    [{ max_tokens: 2.5 }, 'invalid_type', 'max_tokens', 'an integer'],
    [{ max_tokens: '1' }, 'invalid_type', 'max_tokens', 'an integer, but got a string'],
    [{ max_completion_tokens: 0 }, 'invalid_value', 'max_completion_tokens', 'minimum of 1'],
    [{ stop: Array(65).fill('a') }, 'invalid_value', 'stop', 'stop'],
    [{ tools: [{ type: 'constructor', constructor: {} }] }, 'invalid_value', 'tools[0].type', 'constructor'],
    [{ tools: [{ type: '__proto__' }] }, 'invalid_value', 'tools[0].type', '__proto__'],
    [say({ role: 'toString', content: 'a' }), 'invalid_value', 'messages[0].role', 'toString'],
    [say({ role: 'user', content: [{ type: 'valueOf' }] }), 'invalid_value', 'messages[0].content[0].type', 'valueOf'],
    [{ response_format: { type: 'constructor' } }, 'invalid_value', 'response_format.type', 'constructor'],
    [{ tool_choice: { type: 'constructor' } }, 'invalid_value', 'tool_choice.type', 'constructor'],
    [{ stop: ['a', 5] }, 'invalid_type', 'stop[1]', 'expected a string, but got 5'],
    [{ top_k: -2 }, 'invalid_value', 'top_k', 'minimum'],
    [{ seed: 1e20 }, 'invalid_value', 'seed', 'is more than'],
    [{ logit_bias: { 50256: 500 } }, 'invalid_value', 'logit_bias.50256', '500 is more than the maximum of 100.'],
    [{ logit_bias: { 'a/b~c': 'x' } }, 'invalid_type', 'logit_bias["a/b~c"]', 'expected a number'],
    [{ logit_bias: [] }, 'invalid_type', 'logit_bias', 'expected an object, but got an array instead.'],
    [{ top_logprobs: 21 }, 'invalid_value', 'top_logprobs', 'maximum of 20'],
    [{ tools: {} }, 'invalid_type', 'tools', 'expected an array'],
    [{ tools: [{ function: { name: 'f' } }] }, 'missing_required_parameter', 'tools[0].type', 'tools[0].type'],
    [
      { tools: [{ type: 'web_search' }] },
      'invalid_value',
      'tools[0].type',
      `"web_search" is not one of 'function', 'custom', 'anthropic'.`,
    ],
    [
      { tools: [{ type: 'funtion', function: { name: 'f' } }] },
      'invalid_value',
      'tools[0].type',
      `"funtion" is not one of 'function', 'custom', 'anthropic'. Did you mean 'function'?`,
    ],
    [{ tools: [{ type: 'function', function: {} }] }, 'missing_required_parameter', 'tools[0].function.name', 'name'],
    [{ tool_choice: 'any' }, 'invalid_value', 'tool_choice', `"any" is not one of 'none', 'auto', 'required',`],
    [{ tool_choice: 5 }, 'invalid_type', 'tool_choice', 'expected a string or an object, but got 5 instead.'],
    [{ tool_choice: { type: 'x' } }, 'invalid_value', 'tool_choice.type', "'function', 'custom', 'allowed_tools'"],
    [
      { tool_choice: { type: 'function' } },
      'missing_required_parameter',
      'tool_choice.function',
      "Missing required parameter: 'tool_choice.function'.",
    ],
    [{ functions: [] }, 'invalid_value', 'functions', 'minimum is 1'],
    [{ function_call: 'always' }, 'invalid_value', 'function_call', `"always" is not one of 'none', 'auto'.`],
    [{ function_call: {} }, 'missing_required_parameter', 'function_call.name', 'function_call.name'],
    [{ response_format: 'json' }, 'invalid_type', 'response_format', 'expected an object, but got a string instead.'],
    [
      { response_format: { type: 'xml' } },
      'invalid_value',
      'response_format.type',
      "'text', 'json_object', 'json_schema'",
    ],
    [
      { response_format: { type: 'json_schema', json_schema: {} } },
      'missing_required_parameter',
      'response_format.json_schema.name',
      'response_format.json_schema.name',
    ],
    [
      { reasoning_effort: 'huge' },
      'invalid_value',
      'reasoning_effort',
      `"huge" is not one of 'none', 'minimal', 'low'`,
    ],
    [{ verbosity: 'chatty' }, 'invalid_value', 'verbosity', `"chatty" is not one of 'low', 'medium', 'high'.`],
    [{ modalities: ['image'] }, 'invalid_value', 'modalities[0]', `"image" is not one of 'text', 'audio'.`],
    [{ audio: { format: 'wav' } }, 'missing_required_parameter', 'audio.voice', 'audio.voice'],
    [{ audio: { voice: {}, format: 'wav' } }, 'missing_required_parameter', 'audio.voice.id', 'audio.voice.id'],
    [{ prediction: { type: 'guess' } }, 'missing_required_parameter', 'prediction.content', 'prediction.content'],
    [{ prediction: { type: {}, content: 'x' } }, 'invalid_value', 'prediction.type', "an object is not 'content'."],
    [{ service_tier: 'gold' }, 'invalid_value', 'service_tier', `"gold" is not one of 'auto', 'default'`],
    [{ metadata: { a: 5 } }, 'invalid_type', 'metadata.a', 'expected a string, but got 5'],
    [
      { metadata: { a: 'x'.repeat(513) } },
      'invalid_value',
      'metadata.a',
      'has 513 characters, and the maximum is 512.',
    ],
    [{ metadata: { ['k'.repeat(65)]: '' } }, 'invalid_value', '*', 'has 65 characters, and the maximum is 64.'],
    [
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, ''])) },
      'invalid_value',
      'metadata',
      'it has 17 members, and the maximum is 16.',
    ],
    [{ safety_identifier: 'x'.repeat(65) }, 'invalid_value', 'safety_identifier', 'it has 65 characters'],
    [{ stream: 'yes' }, 'invalid_type', 'stream', 'expected a boolean, but got a string instead.'],
    [
      { stream: true, stream_options: { include_usage: 1 } },
      'invalid_type',
      'stream_options.include_usage',
      'a boolean',
    ],
    [
      { stream_options: { include_usage: true } },
      'invalid_value',
      'stream_options',
      "only allowed when 'stream' is true.",
    ],
    [{ stream: false, stream_options: {} }, 'invalid_value', 'stream_options', "only allowed when 'stream' is true."],
    [
      { temprature: 1 },
      'unknown_parameter',
      'temprature',
      "Unknown parameter: 'temprature'. Did you mean 'temperature'?",
    ],
    [{ maxTokens: 1 }, 'unknown_parameter', 'maxTokens', "Did you mean 'max_tokens'?"],
    [{ 'max-tokens': 1 }, 'unknown_parameter', 'max-tokens', "Did you mean 'max_tokens'?"],
    [{ max_output_tokens: 1 }, 'unknown_parameter', 'max_output_tokens', "Did you mean 'max_completion_tokens'?"],
    [
      parts({ type: 'text', text: CANARY, cache_control: 'ephemeral' }),
      'invalid_type',
      'messages[0].content[0].cache_control',
      'expected an object, but got a string instead.',
    ],
    [
      parts({ type: 'image_url', image_url: { url: 'x' }, cache_control: {} }),
      'missing_required_parameter',
      'messages[0].content[0].cache_control.type',
      'cache_control.type',
    ],
    [
      parts({ type: 'file', file: {}, cache_control: { type: 'persistent' } }),
      'invalid_value',
      'messages[0].content[0].cache_control.type',
      `"persistent" is not 'ephemeral'.`,
    ],
    [
      { tools: [{ type: 'function', function: { name: 'f' }, ...marked('2h') }] },
      'invalid_value',
      'tools[0].cache_control.ttl',
      `"2h" is not one of '5m', '1h'.`,
    ],
    [
      { tools: [{ type: 'function', function: { name: 'f' }, cache_control: { type: 'ephemeral', tll: '1h' } }] },
      'unknown_parameter',
      'tools[0].cache_control.tll',
      "Unknown parameter: 'tools[0].cache_control.tll'. Did you mean 'ttl'?",
    ],
    [
      { cache_control: { type: 'ephemeral' } },
      'unknown_parameter',
      'cache_control',
      "Unknown parameter: 'cache_control'.",
    ],
    [{ prompt: 'hi' }, 'unknown_parameter', 'prompt', "Did you mean 'messages'?"],
    [{ best_of: 5 }, 'unknown_parameter', 'best_of', "Unknown parameter: 'best_of'."],
    [{ constructor: 5 }, 'unknown_parameter', 'constructor', "Unknown parameter: 'constructor'."],
    [{ 'a\r\nb': 5 }, 'unknown_parameter', '["a\\r\\nb"]', `Unknown parameter: '["a\\r\\nb"]'.`],
  ])('%j', async (body, code, param, sentence) => {
    const { refusal, passed, exchange } = await ask(body)
    expect(refusal).toMatchObject({ code, status: 400 })
    if (param !== '*') expect(refusal!.param).toBe(param)
    expect(refusal!.message).toContain(sentence)
    expect([passed, exchange.chat, exchange.model]).toEqual([false, undefined, undefined])
  })

  test.each([
    ['a long word', 'x'.repeat(5000), `"${'x'.repeat(55)}..."`],
    ['a word of control characters', '\u0001'.repeat(5000), `"${'\\u0001'.repeat(9)}..."`],
    ['a word of pairs', '😀'.repeat(5000), `"${'😀'.repeat(27)}..."`],
    ['lines', 'a\r\ndata: {}\n\n', '"a\\r\\ndata: {}\\n\\n"'],
    ['line breaks of Unicode', 'a\u2028b\u0085c', '"a\\u2028b\\u0085c"'],
  ])('%s is shown shortened and on one line', async (_name, value, shown) => {
    const { refusal } = await ask({ reasoning_effort: value })
    expect(refusal!.message).toContain(`${shown} is not one of`)
    expect(shown.length).toBeLessThanOrEqual(60)
  })

  test('an unknown name of any length is cheap and not repeated', async () => {
    const { refusal } = await ask({ ['m'.repeat(100_000)]: 1 })
    expect(refusal!.message.length).toBeLessThan(100)
  })
})

describe('bodies that clients send', () => {
  test.each<[string, Record<string, unknown>]>([
    ['every parameter as null', Object.fromEntries([...CHAT_PARAMETERS].map(name => [name, null]))],
    ['ends of limits', { temperature: 2, top_p: 0, top_k: -1, n: 128, frequency_penalty: -2, presence_penalty: 2 }],
    ['one stop', { stop: '\n' }],
    ['more sequences than some providers take', { stop: [...'abcdefgh'] }],
    ['deprecated functions', { functions: [{ name: 'f', parameters: {} }], function_call: { name: 'f' } }],
    [
      'marked tools and calls',
      {
        tools: [
          { type: 'function', function: { name: 'f' }, ...marked('1h') },
          { type: 'custom', custom: { name: 'g' }, ...marked() },
        ],
        ...say(hello, {
          role: 'assistant',
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '' }, ...marked() }],
        }),
      },
    ],
    ['a tool without parameters', { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'required' }],
    [
      'a tool whose parameters have odd names',
      {
        tools: [
          { type: 'function', function: { name: 'f', parameters: { properties: { constructor: {}, Model: {} } } } },
        ],
      },
    ],
    ['allowed tools', { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{}] } } }],
    ['a schema', { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {}, strict: null } } }],
    [
      'an assistant that called tools',
      say(
        hello,
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' }, index: 0 }],
        },
        { role: 'tool', tool_call_id: 'a', content: '5' },
      ),
    ],
    [
      'an answer sent back as it came',
      say({
        role: 'assistant',
        content: 'Hi',
        refusal: null,
        annotations: [],
        audio: null,
        function_call: null,
        tool_calls: null,
      }),
    ],
    ['an answer without content', say({ role: 'assistant' }, { role: 'assistant', content: [] })],
    [
      'all kinds of parts',
      parts(
        { type: 'text', text: '', ...marked() },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: null }, ...marked('5m') },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' }, ...marked('1h') },
        { type: 'file', file: { file_id: 'file-1' }, ...marked(null) },
        { type: 'text', text: '', cache_control: null },
      ),
    ],
    [
      'all roles',
      say(
        { role: 'developer', content: 'a' },
        { role: 'system', content: [{ type: 'text', text: 'a' }], name: 'x' },
        hello,
        { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
        { role: 'function', name: 'f', content: null },
      ),
    ],
    [
      'speech and search on a free model',
      {
        modalities: ['text', 'audio'],
        audio: { voice: 'alloy', format: 'wav' },
        web_search_options: { user_location: { type: 'approximate', approximate: { country: 'CH' } } },
        prediction: { type: 'content', content: 'x' },
        service_tier: 'flex',
      },
    ],
  ])('%s', async (_name, body) => {
    const { refusal, passed } = await ask({ ...body, model: 'chat-small', ...(body.messages ? {} : say(hello)) })
    expect([refusal, passed]).toEqual([null, true])
  })

  test('with unknown_fields: pass unknown names at the top pass, and nothing else does', async () => {
    expect((await ask({ min_p: 0.5, enable_thinking: true }, passing)).passed).toBe(true)
    expect((await ask({ min_p: 0.5, temperature: 3 }, passing)).refusal?.param).toBe('temperature')
  })

  test('the byte scan knows the same parameters', () => {
    expect(Object.keys(PARAMETERS).sort()).toEqual([...CHAT_PARAMETERS].sort())
  })
})

describe('the model', () => {
  const key = (allowed: string[] | null) => ({ id: 'key_1', models: allowed }) as unknown as Key
  test.each<[string, string, Key | undefined]>([
    ['that does not exist', 'no-such-model', undefined],
    ['that is switched off', 'off', undefined],
    ['that is switched off, though the key names it', 'off', key(['off'])],
    ['that is not public', 'private', undefined],
    ['that is not public, for a key of every public one', 'private', key(null)],
    ['that the key may not use', 'chat-small', key(['private'])],
    ['that the key may not use, by its alias', 'small', key(['small'])],
    ['for a key that may use none', 'chat-small', key([])],
  ])('%s is not found, with the same message', async (_name, model, presented) => {
    const { refusal, passed } = await refusing({
      body: { model, messages: [hello] },
      facts: presented ? { key: presented } : {},
    })
    expect(refusal).toMatchObject({ code: 'model_not_found', status: 404, param: 'model' })
    expect(refusal!.message).toBe(`The model "${model}" does not exist, or this key may not use it.`)
    expect(passed).toBe(false)
  })

  test.each<[string, string, Key | undefined, string]>([
    ['a public one, without any key', 'chat-small', undefined, 'chat-small'],
    ['a public one, for a key without a list', 'chat-small', key(null), 'chat-small'],
    ['one of the list', 'chat-small', key(['chat-small']), 'chat-small'],
    ['a private one of the list', 'private', key(['private']), 'private'],
    ['an alias of one of the list', 'small', key(['chat-small']), 'chat-small'],
  ])('%s is found', async (_name, model, presented, id) => {
    const { exchange } = await refusing({
      body: { model, messages: [hello] },
      facts: presented ? { key: presented } : {},
    })
    expect(exchange.model?.id).toBe(id)
  })

  test('a long name is shortened', async () => {
    const { refusal } = await ask({ model: 'm'.repeat(1e6) })
    expect(refusal!.message.length).toBeLessThan(130)
  })

  test.each(['none', 'high'])('reasoning_effort %s is for reasoning models', async effort => {
    const { refusal } = await ask({ reasoning_effort: effort })
    expect(refusal).toMatchObject({ code: 'unsupported_parameter', status: 400, param: 'reasoning_effort' })
    expect(refusal!.message).toContain("'reasoning: true'")
    expect((await ask({ model: 'thinker', reasoning_effort: effort })).passed).toBe(true)
  })
})

describe('the output cap', () => {
  test.each<[Record<string, unknown>, string, string]>([
    [{ max_tokens: 16_385 }, 'max_tokens', "16385 is more than this model's maximum of 16384."],
    [{ max_completion_tokens: 2 ** 53 }, 'max_completion_tokens', 'is more than'],
    [{ max_tokens: null, max_completion_tokens: 1e9 }, 'max_completion_tokens', 'is more than'],
    [{ max_tokens: 5, max_completion_tokens: 6 }, 'max_tokens', "5 differs from 'max_completion_tokens', which is 6."],
  ])('%j is refused', async (body, param, sentence) => {
    const { refusal } = await ask(body, capRefusing)
    expect(refusal).toMatchObject({ code: 'invalid_value', param })
    expect(refusal!.message).toContain(sentence)
  })

  test.each<[Record<string, unknown>, number | null, number]>([
    [{}, null, 4096],
    [{ max_tokens: null, max_completion_tokens: null }, null, 4096],
    [{ max_tokens: 1 }, 1, 1],
    [{ max_completion_tokens: 16_384 }, 16_384, 16_384],
    [{ max_tokens: null, max_completion_tokens: 7 }, 7, 7],
    [{ max_tokens: 7, max_completion_tokens: 7 }, 7, 7],
    [{ max_tokens: 16_385 }, 16_385, 16_384],
    [{ max_completion_tokens: 2 ** 53 - 1 }, 2 ** 53 - 1, 16_384],
  ])('%j asks for %j and gets %j', async (body, requestedCap, cap) => {
    const { exchange, ctx } = await ask(body)
    expect(exchange.chat).toMatchObject({ requestedCap, cap })
    const isLowered = requestedCap !== null && cap < requestedCap
    expect(ctx.response.get('x-tollgate-max-output-tokens')).toBe(isLowered ? String(cap) : undefined)
  })

  test('a cap that is not a safe integer is refused', async () => {
    const { refusal } = await ask({ max_tokens: 2 ** 53 })
    expect(refusal).toMatchObject({ code: 'invalid_value', param: 'max_tokens' })
  })

  test('two caps that differ are refused, also with cap_above_max', async () => {
    const { refusal } = await ask({ max_tokens: 5, max_completion_tokens: 6 })
    expect(refusal).toMatchObject({ code: 'invalid_value', param: 'max_tokens' })
  })
})

describe('fields that change the price', () => {
  test.each<[string, string | null]>([
    ['bash_20250124', null],
    ['text_editor_20250728', null],
    ['memory_20250818', null],
    ['web_search_20250305', 'tools[0].type'],
    ['code_execution_20250825', 'tools[0].type'],
    ['bash_20250124_and_more', 'tools[0].type'],
  ])('tools that Anthropic runs: %s', async (type, param) => {
    const { refusal } = await ask({ model: 'priced', tools: [{ type: 'anthropic', anthropic: { type, name: 'a' } }] })
    expect(refusal?.param ?? null).toBe(param)
  })

  const audioPart = { type: 'input_audio', input_audio: { data: 'A', format: 'wav' } }
  const spoken = say(hello, { role: 'user', content: [{ type: 'text', text: 'a' }, audioPart] })
  const fields: [string, PriceFeature, Record<string, unknown>][] = [
    ['service_tier', 'service_tier', { service_tier: 'priority' }],
    ['service_tier', 'service_tier', { service_tier: 'flex' }],
    ['web_search_options', 'web_search', { web_search_options: {} }],
    ['prediction', 'prediction', { prediction: { type: 'content', content: 'x' } }],
    ['audio', 'audio', { audio: { voice: 'alloy', format: 'wav' } }],
    ['modalities', 'audio', { modalities: ['text', 'audio'] }],
    ['messages[1].content[1]', 'audio', spoken],
    ['messages[0].audio', 'audio', say({ role: 'assistant', audio: { id: 'audio_1' } }, hello)],
  ]
  test.each(fields)('%s on a model with a price', async (param, feature, body) => {
    const { refusal, passed } = await ask({ model: 'priced', ...body })
    expect(refusal).toMatchObject({ code: 'unsupported_parameter', status: 400, param })
    expect(refusal!.message).toContain(`'allow: [${feature}]'`)
    expect(passed).toBe(false)
    expect((await ask({ model: 'generous', ...body })).passed).toBe(true)
    expect((await ask({ model: 'chat-small', ...body })).passed).toBe(true)
  })

  test.each([
    { service_tier: 'auto' },
    { service_tier: 'default' },
    { modalities: ['text'] },
    Object.fromEntries(
      ['service_tier', 'web_search_options', 'prediction', 'audio', 'modalities'].map(name => [name, null]),
    ),
  ])('%j changes no price', async body => {
    expect((await ask({ model: 'priced', ...body })).passed).toBe(true)
  })
})

test('the fact chat has the request', async () => {
  const body = { model: 'small', messages: [hello], stream: true, stream_options: { include_usage: true }, n: 3 }
  const { exchange } = await refusing({ body })
  expect(exchange.chat).toEqual({
    body,
    bytes: exchange.bytes,
    stream: true,
    includeUsage: true,
    choices: 3,
    requestedCap: null,
    cap: 4096,
    forModel: expect.any(Function),
  })
  expect(exchange.chat!.bytes).toBe(exchange.bytes)
  expect(exchange.chat!.body).toBe(exchange.json())
  const plain = await ask({ n: null, stream: null })
  expect(plain.exchange.chat).toMatchObject({ stream: false, includeUsage: false, choices: 1 })
})

test('a wrong setting is refused', () => {
  expect(() => createSteps([{ use: schema, with: { unknown_fields: 'ignore' } }], { catalog })).toThrow('schema:')
})

describe('generated bodies', () => {
  const generous = createSteps([{ use: schema }], {
    catalog: { ...catalog, find: () => ({ ...MODEL, reasoning: true }) },
  })

  test('valid ones pass', async () => {
    await fc.assert(
      fc.asyncProperty(validBody, async body => {
        const { refusal, passed } = await generous({ body })
        expect([refusal, passed]).toEqual([null, true])
      }),
      { numRuns: countsOf('corpus')(500, 20_000) },
    )
  })

  test('invalid ones pass or are refused in one short sentence without text of messages', async () => {
    let refused = 0
    await fc.assert(
      fc.asyncProperty(fc.oneof(brokenBody, fc.jsonValue()), async body => {
        const { refusal, passed, reports } = await generous({ body })
        expect(reports).toEqual([])
        expect(passed).toBe(refusal === null)
        if (!refusal) return
        refused++
        expect([400, 404]).toContain(refusal.status)
        expect(refusal.message.length).toBeLessThan(400)
        expect(refusal.message).toMatch(/^[A-Z][^\u0000-\u001f\u2028]*[.?]$/)
        expect(refusal.message).not.toContain(CANARY)
        expect(refusal.param ?? '').not.toContain(CANARY)
      }),
      { numRuns: countsOf('corpus')(500, 20_000) },
    )
    expect(refused).toBeGreaterThan(countsOf('corpus')(100, 4000))
  })
})

describe('with unknown_fields: pass', () => {
  const extensions: [string, Record<string, unknown>][] = [
    ['a field', { min_p: 0.5 }],
    ['a part of another kind', parts({ type: 'video_url', video_url: { url: 'https://a.example/v.mp4' } })],
    ['an image as text', parts({ type: 'image_url', image_url: 'https://a.example/i.png' })],
    ['thinking in the history', say({ role: 'assistant', content: [{ type: 'thinking', thinking: [] }] }, hello)],
    [
      'an image in a tool result',
      say({ role: 'tool', tool_call_id: 'c', content: [{ type: 'image_url', image_url: 'x' }] }),
    ],
    ['a tool without a type', { tools: [{ function: { name: 'f' } }] }],
    ['a tool of the provider', { tools: [{ type: 'search:web' }] }],
    ['a word for tool_choice', { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'any' }],
    ['a tier', { service_tier: 'on_demand' }],
    ['a kind of format', { response_format: { type: 'grammar', grammar: 'root ::= "a"' } }],
  ]
  test.each(extensions)('%s passes, and is refused without', async (_name, body) => {
    expect((await ask(body, passing)).refusal).toBe(null)
    expect((await ask(body)).refusal?.status).toBe(400)
  })

  test('an effort of the provider passes', async () => {
    const body = { model: 'thinker', reasoning_effort: 'default' }
    expect((await ask(body, passing)).refusal).toBe(null)
    expect((await ask(body)).refusal?.param).toBe('reasoning_effort')
  })

  test.each<[string, Record<string, unknown>, string]>([
    ['a known part', parts({ type: 'text' }), 'messages[0].content[0].text'],
    ['a known tool', { tools: [{ type: 'function', function: {} }] }, 'tools[0].function.name'],
    ['a known role', say({ role: 'tool', content: 'x' }), 'messages[0].tool_call_id'],
    ['a number', { temperature: 3 }, 'temperature'],
  ])('%s is still validated', async (_name, body, param) => {
    expect((await ask(body, passing)).refusal).toMatchObject({ status: 400, param })
  })

  test('a tool that the provider runs and bills is refused unless the model allows it', async () => {
    const body = { tools: [{ type: 'search:web' }] }
    const { refusal } = await ask({ ...body, model: 'priced' }, passing)
    expect(refusal).toMatchObject({ code: 'unsupported_parameter', param: 'tools[0].type' })
    expect(refusal!.message).toContain(`'tools[0].type': "search:web" is not one of 'function', 'custom'.`)
    expect((await ask({ ...body, model: 'generous' }, passing)).refusal).toBe(null)
  })
})

describe('a request in another format, which asks each model for reasoning', () => {
  const run = (model: string, kind: 'chat' | 'messages' | 'responses') =>
    refusing({
      route: { path: `/v1/${kind}`, kind },
      body: { model, messages: [hello], reasoning_effort: 'high' },
    })

  test.each(['messages', 'responses'] as const)(
    '%s: a model without reasoning is asked without it, and x-tollgate-dropped says so',
    async kind => {
      const { exchange } = await run('chat-small', kind)
      expect(exchange.chat).toMatchObject({ dropped: ['reasoning_effort'] })
      expect(exchange.chat!.body).not.toHaveProperty('reasoning_effort')
      expect(JSON.parse(exchange.chat!.bytes.toString())).toEqual({ model: 'chat-small', messages: [hello] })
    },
  )

  test('a reasoning model gets the effort', async () => {
    const { exchange } = await run('thinker', 'messages')
    expect(exchange.chat!.body.reasoning_effort).toBe('high')
    expect(exchange.chat!.dropped).toBeUndefined()
  })

  test('in the format of chat completions it is refused', async () => {
    expect((await run('chat-small', 'chat')).refusal).toMatchObject({ param: 'reasoning_effort' })
  })
})
