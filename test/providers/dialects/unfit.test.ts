/** Requests that one provider or model does not support: each refusal has its place, so that the next target is tried. */
import { expect, test } from 'vitest'
import { type ChatRequest, type ContentPart, isRefusal } from '#contract'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { chatOf, target } from './anthropic/helpers.ts'

const TOOLS = [{ type: 'function', function: { name: 'a' } }]

const toolWith = (parameters: object) => ({ tools: [{ type: 'function', function: { name: 'a', parameters } }] })
const answerBy = (schema: object) => ({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } })
/** A schema that refers to itself. */
const ENDLESS = { type: 'object', properties: { next: { $ref: '#' } } }
const LONG = 'p'.repeat(65)
const NAMES = 'tools[0].function.parameters.properties'
const SCHEMA = 'response_format.json_schema.schema'

const picture = (url: string) => ({ type: 'image_url', image_url: { url } })
const PICTURE = picture('data:image/gif;base64,AAAA')
const says = (part: ContentPart) => ({ messages: [{ role: 'user', content: [part] }] })
const CALLED = {
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: '-a', arguments: '{}' } }] },
  ],
}

const ROWS: readonly [
  asks: string,
  dialect: DialectName,
  model: string,
  fields: Partial<ChatRequest>,
  param: string,
][] = [
  [
    'a forced call for a Claude model without forced calls',
    'anthropic',
    'claude-opus-5-5',
    { tools: TOOLS, tool_choice: 'required' },
    'tool_choice',
  ],
  [
    'the same call on Bedrock',
    'bedrock',
    'us.anthropic.claude-opus-5-5',
    { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'a' } } },
    'tool_choice',
  ],
  ['a property name', 'anthropic', 'claude-opus-5', toolWith({ properties: { 'a b': {} } }), NAMES],
  ['a property name, Converse', 'bedrock', 'claude-opus-5', toolWith({ properties: { [LONG]: {} } }), NAMES],
  ['a recursive schema', 'anthropic', 'claude-opus-5-5', answerBy(ENDLESS), SCHEMA],
  ['a recursive schema, Converse', 'bedrock', 'claude-opus-5-5', answerBy(ENDLESS), SCHEMA],
  [
    'a list as a structured answer by a tool',
    'anthropic',
    'claude-3-5-haiku',
    answerBy({ type: 'array' }),
    `${SCHEMA}.type`,
  ],
  [
    'a list as a structured answer by a tool, Converse',
    'bedrock',
    'us.amazon.nova-lite-v1:0',
    answerBy({ type: 'array' }),
    `${SCHEMA}.type`,
  ],
  [
    'a list for a model that returns only objects',
    'cohere',
    'command-a-03-2025',
    answerBy({ type: 'array' }),
    `${SCHEMA}.type`,
  ],
  [
    'a list for a model that gets the schema as text',
    'deepseek',
    'deepseek-v4',
    answerBy({ type: ['array', 'null'] }),
    `${SCHEMA}.type`,
  ],
  [
    'a string for a model that gets the schema as text',
    'zai',
    'glm-4.6',
    answerBy({ type: 'string' }),
    `${SCHEMA}.type`,
  ],
  ['one of several strings', 'zai', 'glm-4.6', answerBy({ enum: ['a', 'b'] }), SCHEMA],
  [
    'a list or a number',
    'deepseek',
    'deepseek-v4',
    answerBy({ anyOf: [{ type: 'array' }, { type: 'number' }] }),
    SCHEMA,
  ],
  ['one number, by a tool', 'anthropic', 'claude-3-5-haiku', answerBy({ allOf: [{}, { const: 1 }] }), SCHEMA],
  ['a schema without a valid value', 'cohere', 'command-a-03-2025', answerBy({ oneOf: [false] }), SCHEMA],
  ['an image type that Google does not support', 'gemini', 'gemini-3-pro', says(PICTURE), 'messages[0]'],
  [
    'an image type that Google does not support, by URL',
    'vertex',
    'gemini-3-pro',
    says(picture('https://a.example/b.gif?c')),
    'messages[0]',
  ],
  ['a tool name', 'gemini', 'gemini-3-pro', { tools: [{ function: { name: '2nd' } }] }, 'tools[0].function.name'],
  ['the tool name of a call', 'gemini', 'gemini-3-pro', CALLED, 'messages[1]'],
  ['six stop sequences', 'gemini', 'gemini-3-pro', { stop: [...'abcdef'] }, 'stop'],
  ['six stop sequences', 'cohere', 'command-a-03-2025', { stop: [...'abcdef'] }, 'stop'],
  ['five stop sequences', 'openai', 'gpt-5', { stop: [...'abcde'] }, 'stop'],
  ['five stop sequences, for an OpenAI-compatible provider', 'deepseek', 'deepseek-v4', { stop: [...'abcde'] }, 'stop'],
]

test.each(ROWS)('%s: %s', (_, dialect, model, fields, param) => {
  let refused: unknown
  try {
    createDialect(dialect, () => 0).dialect.encodeRequest(chatOf(fields), target(model))
  } catch (error) {
    refused = error
  }
  if (!isRefusal(refused)) throw refused ?? new Error('it was not refused')
  expect([refused.code, refused.param]).toEqual(['unsupported_parameter', param])
})
