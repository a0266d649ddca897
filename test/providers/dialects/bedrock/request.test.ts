/** Refusals of the two dialects of Bedrock. */
import { expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'
import { chatOf, NOW, target } from '../anthropic/helpers.ts'

const USER = { role: 'user', content: 'hi' }
const WEATHER = { type: 'function', function: { name: 'weather' } }
const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
const JSON_SCHEMA = { type: 'json_schema', json_schema: { name: 'thing', schema: SCHEMA, strict: true } }

const image = (url: string) => ({ role: 'user', content: [{ type: 'image_url', image_url: { url } }] })
const file = (file_data: string, filename = 'a.pdf') => ({
  role: 'user',
  content: [{ type: 'file', file: { file_data, filename } }],
})

function refusalOf(
  body: object,
  model = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  name: DialectName = 'bedrock',
) {
  try {
    createDialect(name, () => NOW).dialect.encodeRequest(chatOf(body), target(model))
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param, message: error.message }
    throw error
  }
  throw new Error('it was not refused')
}

test.each<[name: string, body: object, code: string, param: string, message: string, model?: string]>([
  ['several choices', { n: 2 }, 'unsupported_parameter', 'n', "'n' is 2"],
  ['audio output', { modalities: ['text', 'audio'] }, 'unsupported_parameter', 'modalities', 'asks for audio'],
  ['a web search', { web_search_options: {} }, 'unsupported_parameter', 'web_search_options', 'asks for a web search'],
  [
    'a required call without tools',
    { tool_choice: 'required' },
    'invalid_value',
    'tool_choice',
    'asks for a call, but there are no tools',
  ],
  [
    'a required call for a model that does not support one',
    { tools: [WEATHER], tool_choice: 'required' },
    'unsupported_parameter',
    'tool_choice',
    'this model does not support',
    'meta.llama3-1-70b-instruct-v1:0',
  ],
  [
    'a prefill',
    { messages: [USER, { role: 'assistant', content: 'So' }] },
    'unsupported_parameter',
    'messages[1]',
    'this model does not continue it',
    'global.anthropic.claude-sonnet-5',
  ],
  [
    'an image by URL',
    { messages: [USER, { role: 'assistant', content: 'a' }, image('https://x.example/a.png')] },
    'unsupported_parameter',
    'messages[2]',
    'does not fetch URLs: send the content itself',
  ],
  [
    'a file by URL',
    { messages: [file('http://x.example/a.pdf')] },
    'unsupported_parameter',
    'messages[0]',
    'does not fetch URLs',
  ],
  [
    'a TIFF image',
    { messages: [image('data:image/tiff;base64,AA==')] },
    'invalid_value',
    'messages[0]',
    "'image/tiff'",
  ],
  [
    'a ZIP file',
    { messages: [file('data:application/zip;base64,AA==', 'a.zip')] },
    'invalid_value',
    'messages[0]',
    'It supports: pdf, csv,',
  ],
  [
    'a tool with a dot in its name',
    { tools: [WEATHER, { type: 'function', function: { name: 'a.b' } }] },
    'invalid_value',
    'tools[1].function.name',
    '"a.b": a name must have',
  ],
  [
    "a tool with the gateway's own name",
    { tools: [{ type: 'function', function: { name: 'tollgate_structured_answer' } }] },
    'invalid_value',
    'tools[0].function.name',
    'the gateway reserves this name',
  ],
  [
    'a choice of an unknown tool',
    { tools: [WEATHER], tool_choice: { type: 'function', function: { name: 'x' } } },
    'invalid_value',
    'tool_choice',
    "'x'",
  ],
  [
    'a schema for a model that does not enforce it',
    { response_format: JSON_SCHEMA },
    'unsupported_parameter',
    'response_format',
    "'amazon.titan-text-express-v1'",
    'amazon.titan-text-express-v1',
  ],
  [
    'arguments that are a list',
    {
      messages: [
        USER,
        {
          role: 'assistant',
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'weather', arguments: '[1]' } }],
        },
      ],
    },
    'invalid_value',
    'messages[1].tool_calls[0].function.arguments',
    'not a JSON object',
  ],
  [
    'a blank message',
    { messages: [{ role: 'user', content: ' ' }] },
    'invalid_value',
    'messages',
    'none of them has any text',
  ],
])('%s is refused', (_name, body, code, param, message, model) => {
  expect(refusalOf(body, model)).toMatchObject({ code, param, message: expect.stringContaining(message) })
})

test.each(['amazon.nova-lite-v1:0', 'meta.llama3-70b-instruct-v1:0'])('InvokeModel of %s is refused', model => {
  expect(refusalOf({}, model, 'bedrock-invoke').code).toBe('unsupported_parameter')
})
