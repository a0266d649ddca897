import { describe, expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { geminiHeaders, vertexHeaders } from '../../../../src/providers/dialects/gemini/index.ts'
import { encode, FLASH, studio, vertex } from './support.ts'

function refusalOf(more: Readonly<Record<string, unknown>>) {
  try {
    encode(more)
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param, message: error.message }
    throw error
  }
  return null
}

const user = { role: 'user', content: 'Hello' }
const HELLO = { role: 'user', parts: [{ text: 'Hello' }] }
const weather = {
  type: 'function',
  function: { name: 'weather', description: 'Tells it', parameters: { type: 'object', properties: { city: {} } } },
}
const clock = { type: 'function', function: { name: 'clock' } }
const DECLARED = {
  name: 'weather',
  description: 'Tells it',
  parametersJsonSchema: { type: 'object', properties: { city: {} } },
}
const CLOCK = { name: 'clock', parametersJsonSchema: { type: 'object', properties: {} } }

describe('where a request goes', () => {
  test('a whole answer and a stream have their own paths', () => {
    expect(encode({}).path).toBe('/models/gemini-2.0-flash:generateContent')
    expect(encode({ stream: true }).path).toBe('/models/gemini-2.0-flash:streamGenerateContent?alt=sse')
    expect(encode({ stream: true }).headers).toEqual({
      accept: 'text/event-stream',
      'content-type': 'application/json',
    })
  })

  test('a name with a folder goes without it, and odd signs do not leave the path', () => {
    expect(encode({}, 'models/gemini-2.5-pro').path).toBe('/models/gemini-2.5-pro:generateContent')
    expect(encode({}, 'a?b:c').path).toBe('/models/a%3Fb%3Ac:generateContent')
  })

  test('the keys go into headers', () => {
    expect(geminiHeaders('k')).toEqual({ 'x-goog-api-key': 'k' })
    expect(vertexHeaders('t')).toEqual({ authorization: 'Bearer t' })
  })
})

describe('messages', () => {
  const call = (more: object = {}) => ({
    id: 'call_1',
    type: 'function',
    function: { name: 'weather', arguments: '{"city":"Ulm"}' },
    ...more,
  })
  const signed = { extra_content: { google: { thought_signature: 'c2ln' } } }
  const functionCall = { id: 'call_1', name: 'weather', args: { city: 'Ulm' } }

  test.each<[name: string, messages: readonly object[], wire: object, model?: string]>([
    ['the user speaks', [user], { contents: [HELLO] }],
    [
      'what system and developer say is apart',
      [{ role: 'system', content: 'Be kind.' }, user, { role: 'developer', content: 'Be brief.' }],
      { systemInstruction: { parts: [{ text: 'Be kind.' }, { text: 'Be brief.' }] }, contents: [HELLO] },
    ],
    [
      'a system text alone is the turn that there must be',
      [{ role: 'system', content: 'Say a joke.' }],
      { contents: [{ role: 'user', parts: [{ text: 'Say a joke.' }] }] },
    ],
    [
      'the assistant is the model',
      [user, { role: 'assistant', content: 'Hi' }, user],
      { contents: [HELLO, { role: 'model', parts: [{ text: 'Hi' }] }, HELLO] },
    ],
    [
      "a text's signature goes back with it",
      [user, { role: 'assistant', content: 'Hi', ...signed }, user],
      { contents: [HELLO, { role: 'model', parts: [{ text: 'Hi', thoughtSignature: 'c2ln' }] }, HELLO] },
    ],
    [
      'calls and results, with the name of the call, and what the user adds in a turn of its own',
      [
        user,
        { role: 'assistant', content: null, tool_calls: [call(), { ...call(), id: 'call_2' }] },
        { role: 'tool', tool_call_id: 'call_1', content: '{"sky":"blue"}' },
        { role: 'tool', tool_call_id: 'call_2', content: 'rain' },
        user,
      ],
      {
        contents: [
          HELLO,
          { role: 'model', parts: [{ functionCall }, { functionCall: { ...functionCall, id: 'call_2' } }] },
          {
            role: 'user',
            parts: [
              { functionResponse: { id: 'call_1', name: 'weather', response: { sky: 'blue' } } },
              { functionResponse: { id: 'call_2', name: 'weather', response: { result: 'rain' } } },
            ],
          },
          HELLO,
        ],
      },
    ],
    [
      'a signature goes back with its call',
      [user, { role: 'assistant', tool_calls: [call(signed)] }],
      { contents: [HELLO, { role: 'model', parts: [{ functionCall, thoughtSignature: 'c2ln' }] }] },
    ],
    [
      'a newer model gets a word in place of a signature that was lost, at the first call only',
      [user, { role: 'assistant', tool_calls: [call(), { ...call(), id: 'call_2' }] }],
      {
        contents: [
          HELLO,
          {
            role: 'model',
            parts: [
              { functionCall, thoughtSignature: 'skip_thought_signature_validator' },
              { functionCall: { ...functionCall, id: 'call_2' } },
            ],
          },
        ],
      },
      'gemini-3-flash-preview',
    ],
    [
      'and does not get it where there is a signature',
      [user, { role: 'assistant', tool_calls: [call(signed)] }],
      { contents: [HELLO, { role: 'model', parts: [{ functionCall, thoughtSignature: 'c2ln' }] }] },
      'gemini-9-ultra',
    ],
    [
      'the older kind of calls',
      [
        user,
        { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '' } },
        { role: 'function', name: 'weather', content: '[1]' },
      ],
      {
        contents: [
          HELLO,
          { role: 'model', parts: [{ functionCall: { id: 'call_1_0', name: 'weather', args: {} } }] },
          {
            role: 'user',
            parts: [{ functionResponse: { id: 'call_1_0', name: 'weather', response: { result: [1] } } }],
          },
        ],
      },
    ],
  ])('%s', (_, messages, wire, model) => {
    const { generationConfig: _config, ...rest } = encode({ messages }, model).wire
    expect(rest).toEqual(wire)
  })

  test.each<[name: string, part: object, wire: object, dropped?: string[], dialect?: typeof studio]>([
    [
      'a picture in the message',
      { type: 'image_url', image_url: { url: 'data:image/jpg;base64,AAAA' } },
      { inlineData: { mimeType: 'image/jpeg', data: 'AAAA' } },
    ],
    [
      'the address of a picture',
      { type: 'image_url', image_url: { url: 'https://example.com/a.b/cat.PNG?x=1' } },
      { fileData: { mimeType: 'image/png', fileUri: 'https://example.com/a.b/cat.PNG?x=1' } },
    ],
    [
      'an address that does not say what it is',
      { type: 'image_url', image_url: { url: 'https://example.com/cat' } },
      { fileData: { mimeType: 'image/jpeg', fileUri: 'https://example.com/cat' } },
    ],
    [
      'sound',
      { type: 'input_audio', input_audio: { format: 'wav', data: 'AAAA' } },
      { inlineData: { mimeType: 'audio/wav', data: 'AAAA' } },
    ],
    [
      'a file, the name of which AI Studio does not take',
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
      { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } },
      ['filename'],
    ],
    [
      'a file, the name of which Vertex takes',
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
      { inlineData: { mimeType: 'application/pdf', data: 'AAAA', displayName: 'a.pdf' } },
      [],
      vertex,
    ],
  ])('%s', (_, part, wire, dropped = [], dialect = studio) => {
    const encoded = encode({ messages: [{ role: 'user', content: [part] }] }, FLASH, dialect)
    expect(encoded.wire.contents).toEqual([{ role: 'user', parts: [wire] }])
    expect(encoded.dropped).toEqual(dropped)
  })

  test.each([
    ['a text', 'plain'],
    ['JSON that is broken', '{"a":'],
    ['JSON that is nested too deeply', `${'['.repeat(200_000)}${']'.repeat(200_000)}`],
  ])('as the result of a tool %s is a text', (_, content) => {
    const messages = [
      user,
      { role: 'assistant', tool_calls: [call()] },
      { role: 'tool', tool_call_id: 'call_1', content },
    ]
    expect(encode({ messages }).wire.contents[2].parts[0].functionResponse.response).toEqual({ result: content })
  })

  test("another provider's thinking stays here, and that is said", () => {
    const details = [{ type: 'reasoning.text', text: 'Hm', signature: 'abc' }]
    const messages = [user, { role: 'assistant', content: 'Hi', reasoning_details: details }, user]
    const { wire, dropped } = encode({ messages })
    expect(wire.contents[1]).toEqual({ role: 'model', parts: [{ text: 'Hi' }] })
    expect(dropped).toEqual(['reasoning_details'])
  })
})

describe('tools', () => {
  const tools = [weather, clock]
  const all = [{ functionDeclarations: [DECLARED, CLOCK] }]
  const mode = (name: string, more: object = {}) => ({ functionCallingConfig: { mode: name, ...more } })

  test.each<[name: string, sent: object, tools: unknown, config: unknown]>([
    ['in one list', { tools }, all, undefined],
    ['none', { tools: [] }, undefined, undefined],
    ['the older kind', { functions: [weather.function, clock.function] }, all, undefined],
    ['auto', { tools, tool_choice: 'auto' }, all, mode('AUTO')],
    ['none may be called', { tools, tool_choice: 'none' }, all, mode('NONE')],
    ['one must be called', { tools, tool_choice: 'required' }, all, mode('ANY')],
    [
      'a certain one',
      { tools, tool_choice: { type: 'function', function: { name: 'clock' } } },
      all,
      mode('ANY', { allowedFunctionNames: ['clock'] }),
    ],
    [
      'one of some must be called',
      {
        tools,
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'weather' } }] },
        },
      },
      all,
      mode('ANY', { allowedFunctionNames: ['weather'] }),
    ],
    [
      'some may be called: the others are not declared',
      {
        tools,
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'clock' } }] },
        },
      },
      [{ functionDeclarations: [CLOCK] }],
      mode('AUTO'),
    ],
  ])('%s', (_, sent, declared, config) => {
    const { wire, dropped } = encode(sent as Record<string, unknown>)
    expect([wire.tools, wire.toolConfig]).toEqual([declared, config])
    expect(dropped).toEqual([])
  })

  test('strictness is not carried, and that is said', () => {
    expect(encode({ tools: [{ type: 'function', function: { name: 'a', strict: true } }] }).dropped).toEqual(['strict'])
  })
})

describe('parameters', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }

  test.each<[sent: Record<string, unknown>, config: object]>([
    [{}, {}],
    [{ max_tokens: 9, max_completion_tokens: 8 }, {}],
    [
      { temperature: 0, top_p: 0.5, seed: 7 },
      { temperature: 0, topP: 0.5, seed: 7 },
    ],
    [{ seed: 2 ** 40 + 5 }, { seed: 5 }],
    [{ stop: 'END' }, { stopSequences: ['END'] }],
    [{ stop: ['a', '', 'b'] }, { stopSequences: ['a', 'b'] }],
    [{ n: 8 }, { candidateCount: 8 }],
    [
      { presence_penalty: 1, frequency_penalty: -1 },
      { presencePenalty: 1, frequencyPenalty: -1 },
    ],
    [{ modalities: ['text'] }, {}],
    [{ response_format: { type: 'text' } }, {}],
    [{ response_format: { type: 'json_object' } }, { responseMimeType: 'application/json' }],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
      { responseMimeType: 'application/json', responseJsonSchema: schema },
    ],
  ])('%j', (sent, config) => {
    const { wire, dropped } = encode(sent)
    expect(wire.generationConfig).toEqual({ maxOutputTokens: 4_000, ...config })
    expect(dropped).toEqual([])
  })

  test('what Google has no place for is named', () => {
    const sent = {
      ...{ logprobs: true, top_logprobs: 2, logit_bias: { 5: 1 }, user: 'u', parallel_tool_calls: false, store: true },
      ...{ reasoning_effort: 'low', service_tier: 'flex', verbosity: 'low', n: 1, presence_penalty: 0 },
    }
    const { dropped, wire } = encode(sent)
    expect(dropped.toSorted()).toEqual([
      ...['logit_bias', 'logprobs', 'parallel_tool_calls', 'reasoning_effort', 'service_tier', 'store'],
      ...['top_logprobs', 'user', 'verbosity'],
    ])
    expect(wire.generationConfig).toEqual({ maxOutputTokens: 4_000, presencePenalty: 0 })
  })
})

describe('refused, because anything else would give a wrong answer', () => {
  const ANY_TOOL = { type: 'function', function: { name: 'a' } }
  const JSON_WANTED = { type: 'json_object' }

  test.each<[sent: Record<string, unknown>, code: string, param: string, words: string]>([
    [{ n: 2, stream: true }, 'unsupported_parameter', 'n', 'streams one choice only'],
    [{ n: 9 }, 'invalid_value', 'n', '9 is more than the 8 choices'],
    [{ modalities: ['text', 'audio'] }, 'unsupported_parameter', 'modalities', 'asks for sound'],
    [{ tool_choice: 'required' }, 'invalid_value', 'tool_choice', 'there are no tools'],
    [
      { tools: [ANY_TOOL], tool_choice: { type: 'function', function: { name: 'b' } } },
      'invalid_value',
      'tool_choice',
      "names 'b', which is not among the tools",
    ],
    [{ tools: [ANY_TOOL], response_format: JSON_WANTED }, 'unsupported_parameter', 'response_format', "beside 'tools'"],
    [{ web_search_options: {} }, 'unsupported_parameter', 'web_search_options', 'asks for a search'],
    [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'unsupported_parameter', 'tools[0].type', "'custom'"],
    [{ messages: [{ role: 'user', content: '  ' }] }, 'invalid_value', 'messages', 'no text'],
  ])('%j', (sent, code, param, words) => {
    expect(refusalOf(sent)).toEqual({ code, param, message: expect.stringContaining(words) })
  })

  test('arguments that are nested too deeply', () => {
    // A name that is a number keeps V8 from writing it down in the way that takes any depth.
    const deep = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: deep } }]
    const refusal = refusalOf({ messages: [user, { role: 'assistant', tool_calls }] })
    expect(refusal).toMatchObject({ code: 'request_too_complex', param: 'messages' })
  })
})

describe('an answer of a shape, and tools', () => {
  const asked = { tools: [{ type: 'function', function: { name: 'a' } }], response_format: { type: 'json_object' } }

  test('newer models give either', () => {
    const { wire, dropped } = encode(asked, 'gemini-3-flash-preview')
    expect(wire).toMatchObject({ tools: [{}], generationConfig: { responseMimeType: 'application/json' } })
    expect(dropped).toEqual([])
  })

  test('of an older one the shape, when no tool may be called', () => {
    const { wire, dropped } = encode({ ...asked, tool_choice: 'none' })
    expect(wire).not.toHaveProperty('tools')
    expect(wire.generationConfig.responseMimeType).toBe('application/json')
    expect(dropped).toEqual([])
  })

  test.each(['required', { type: 'function', function: { name: 'a' } }])(
    'of an older one the call: %j',
    tool_choice => {
      const { wire, dropped } = encode({ ...asked, tool_choice })
      expect(wire.toolConfig.functionCallingConfig.mode).toBe('ANY')
      expect(wire.generationConfig).not.toHaveProperty('responseMimeType')
      expect(dropped).toEqual(['response_format'])
    },
  )
})

describe('what the user begins with', () => {
  const system = { role: 'system', content: 'Be brief.' }
  const user = { role: 'user', content: 'Hello' }
  const model = { role: 'model', parts: [{ text: 'Yes?' }] }
  const brief = { text: 'Be brief.' }

  test('the assistant speaks first', () => {
    const { wire } = encode({ messages: [{ role: 'assistant', content: 'Yes?' }, user] })
    expect(wire.contents).toEqual([
      { role: 'user', parts: [{ text: '(The assistant begins.)' }] },
      model,
      { role: 'user', parts: [{ text: 'Hello' }] },
    ])
  })

  test('a model that has no instructions apart gets them here', () => {
    const asked = encode({ messages: [system, user] }, 'gemma-3-27b-it')
    expect(asked.wire).toMatchObject({ contents: [{ role: 'user', parts: [brief, { text: 'Hello' }] }] })
    expect(asked.wire).not.toHaveProperty('systemInstruction')
    const begun = encode({ messages: [system, { role: 'assistant', content: 'Yes?' }] }, 'gemma-3-27b-it')
    expect(begun.wire.contents).toEqual([{ role: 'user', parts: [brief] }, model])
  })
})

describe('addresses, and more of the sampling', () => {
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'gs://bucket/a.png' } }] }]

  test("Google's own storage is for Vertex", () => {
    const { wire } = encode({ messages }, FLASH, vertex)
    expect(wire.contents[0].parts).toEqual([{ fileData: { mimeType: 'image/png', fileUri: 'gs://bucket/a.png' } }])
    expect(() => encode({ messages })).toThrow('neither a data URL')
  })

  test('top_k', () => {
    const { wire, dropped } = encode({ top_k: 7 })
    expect(wire.generationConfig.topK).toBe(7)
    expect(dropped).toEqual([])
  })
})
