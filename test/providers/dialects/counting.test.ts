/** What the providers that count tokens are asked, and what of their answers is the count. */
import { describe, expect, test } from 'vitest'
import { type ChatRequest, isRefusal } from '#contract'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { chatOf, target } from './anthropic/helpers.ts'

type Json = Readonly<Record<string, unknown>>

const TOOL = {
  type: 'function',
  function: { name: 'get_time', description: 'The time.', parameters: { type: 'object' } },
}
const ASKED: Partial<ChatRequest> = {
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'What time is it?' }] },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_time', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'noon' },
  ],
  tools: [TOOL],
  temperature: 0.5,
  stop: ['END'],
  user: 'u_1',
}

const OPENAI = 'api.openai.com'

function counting(dialect: DialectName, model: string, fields: Partial<ChatRequest> = ASKED, host?: string) {
  const { counting } = createDialect(dialect, () => 0, undefined, undefined, host).dialect
  const request = counting?.encodeRequest(chatOf(fields), target(model)) ?? null
  if (!counting || !request) return null
  return { field: counting.field, path: request.path, body: JSON.parse(request.body.toString()) as Json }
}

const ANTHROPIC_PROMPT = {
  system: 'Be brief.',
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'What time is it?' }] },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'get_time', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'noon' }] },
  ],
  tools: [{ name: 'get_time', description: 'The time.', input_schema: { type: 'object' } }],
}

describe('what is asked', () => {
  test('of Anthropic: the prompt, without what a count has no place for', () => {
    expect(counting('anthropic', 'claude-sonnet-4-5')).toEqual({
      field: 'input_tokens',
      path: '/messages/count_tokens',
      body: { model: 'claude-sonnet-4-5', ...ANTHROPIC_PROMPT },
    })
  })

  test('of Anthropic: thinking, which changes the prompt', () => {
    const asked = counting('anthropic', 'claude-sonnet-4-5', {
      messages: [{ role: 'user', content: 'Hi' }],
      reasoning_effort: 'low',
    })
    expect(asked?.body).toMatchObject({ thinking: { type: 'enabled' } })
    expect(asked?.body).not.toHaveProperty('max_tokens')
  })

  test('of Claude on Vertex AI: one path for all models', () => {
    expect(counting('vertex-anthropic', 'claude-sonnet-4-5@20250929')).toEqual({
      field: 'input_tokens',
      path: '/models/count-tokens:rawPredict',
      body: { anthropic_version: 'vertex-2023-10-16', model: 'claude-sonnet-4-5@20250929', ...ANTHROPIC_PROMPT },
    })
  })

  test.each<[DialectName, string]>([
    ['bedrock', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'],
    ['bedrock-invoke', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'],
  ])('of Claude on %s: the body of InvokeModel, cap included', (dialect, model) => {
    const asked = counting(dialect, model)!
    expect(asked).toMatchObject({ field: 'inputTokens', path: `/model/${encodeURIComponent(model)}/count-tokens` })
    const { input } = asked.body as { input: { invokeModel: { body: string } } }
    const inside = JSON.parse(Buffer.from(input.invokeModel.body, 'base64').toString()) as Json
    expect(inside).toMatchObject({ anthropic_version: 'bedrock-2023-05-31', max_tokens: 4096, ...ANTHROPIC_PROMPT })
  })

  test('of the Gemini API: the whole request, with its model in it', () => {
    expect(counting('gemini', 'models/gemini-2.5-flash')).toMatchObject({
      field: 'totalTokens',
      path: '/models/gemini-2.5-flash:countTokens',
      body: {
        generateContentRequest: {
          model: 'models/gemini-2.5-flash',
          systemInstruction: { parts: [{ text: 'Be brief.' }] },
          contents: [{ role: 'user' }, { role: 'model' }, { role: 'user' }],
          tools: [{ functionDeclarations: [{ name: 'get_time' }] }],
        },
      },
    })
  })

  test('of Vertex AI: the members that its count has', () => {
    const asked = counting('vertex', 'gemini-2.5-flash', { ...ASKED, tool_choice: 'required' })!
    expect(asked).toMatchObject({ field: 'totalTokens', path: '/models/gemini-2.5-flash:countTokens' })
    expect(Object.keys(asked.body).sort()).toEqual(['contents', 'generationConfig', 'systemInstruction', 'tools'])
  })

  test('of OpenAI: the conversation in the format of Responses', () => {
    const fields = {
      ...ASKED,
      reasoning_effort: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object' } } },
    }
    expect(counting('openai', 'gpt-5-mini', fields, OPENAI)).toEqual({
      field: 'input_tokens',
      path: '/responses/input_tokens',
      body: {
        model: 'gpt-5-mini',
        input: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: [{ type: 'input_text', text: 'What time is it?' }] },
          { type: 'function_call', call_id: 'call_1', name: 'get_time', arguments: '{}' },
          { type: 'function_call_output', call_id: 'call_1', output: 'noon' },
        ],
        tools: [
          {
            type: 'function',
            name: 'get_time',
            description: 'The time.',
            parameters: { type: 'object' },
            strict: false,
          },
        ],
        text: { format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } } },
        reasoning: { effort: 'low' },
      },
    })
  })

  test('of OpenAI: pictures and files, by address or with their bytes', () => {
    const content = [
      { type: 'image_url', image_url: { url: 'https://image.example/a.png' } },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
    ]
    const asked = counting('openai', 'gpt-5-mini', { messages: [{ role: 'user', content }] }, OPENAI)
    expect(asked?.body['input']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'input_image', image_url: 'https://image.example/a.png' },
          { type: 'input_image', image_url: 'data:image/png;base64,AAAA' },
          { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        ],
      },
    ])
  })
})

describe('who is not asked', () => {
  test.each<[DialectName, string, string?]>([
    ['openai', 'some-mini', 'models.example.com'],
    ['openai', 'some-mini', 'openrouter.ai'],
    ['azure', 'some-mini'],
    ['mistral', 'mistral-small'],
    ['groq', 'llama'],
    ['cohere', 'command-a'],
    ['ollama', 'qwen3'],
    ['bedrock', 'amazon.nova-lite-v1:0'],
  ])('%s: %s %s', (dialect, model, host) => {
    expect(counting(dialect, model, ASKED, host)).toBe(null)
  })

  test('OpenAI about sound, which it does not count', () => {
    const content = [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]
    expect(counting('openai', 'gpt-audio', { messages: [{ role: 'user', content }] }, OPENAI)).toBe(null)
  })

  test('a dialect that cannot carry the request: it refuses, as it would the request itself', () => {
    const content = [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]
    let thrown: unknown
    try {
      counting('anthropic', 'claude-sonnet-4-5', { messages: [{ role: 'user', content }] })
    } catch (error) {
      thrown = error
    }
    expect(isRefusal(thrown)).toBe(true)
  })
})
