/** Refusals of the dialect, and the headers of a request. */
import { expect, test } from 'vitest'
import { type ChatRequest, isRefusal } from '#contract'
import { anthropicHeaders } from '../../../../src/providers/dialects/anthropic/index.ts'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'
import { chatOf, dialect, HI, NOW, target } from './helpers.ts'

const NEW = 'claude-opus-5'

const tool = (name: string, more: object = {}) => ({ type: 'function', function: { name, ...more } })
const own = (type: string) => ({ tools: [{ type: 'anthropic', anthropic: { type, name: 'a' } }] })
const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] as ChatRequest['messages'] })
const image = (url: string) => user({ type: 'image_url', image_url: { url } })
const said = (message: object) => ({ messages: [...HI, { role: 'assistant', ...message }] })

function refusalOf(fields: Partial<ChatRequest>, model?: string, name: DialectName = 'anthropic') {
  try {
    createDialect(name, () => NOW).dialect.encodeRequest(chatOf(fields), target(model))
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param }
    throw error
  }
  throw new Error('nothing was refused')
}

test.each<
  [name: string, fields: Partial<ChatRequest>, code: string, param: string, model?: string, dialect?: DialectName]
>([
  ['a blank message', { messages: [{ role: 'user', content: ' ' }] }, 'invalid_value', 'messages'],
  [
    'sound',
    { messages: [...HI, ...user({ type: 'input_audio', input_audio: { format: 'wav', data: 'AA==' } }).messages] },
    'unsupported_parameter',
    'messages[0]',
  ],
  ['an image of TIFF', image('data:image/tiff;base64,AA=='), 'unsupported_parameter', 'messages[0]'],
  [
    'a ZIP file',
    user({ type: 'file', file: { file_data: 'data:application/zip;base64,AA==' } }),
    'unsupported_parameter',
    'messages[0]',
  ],
  [
    'arguments that are a list',
    said({ tool_calls: [{ id: 'c', type: 'function', function: { name: 'a', arguments: '[1]' } }] }),
    'invalid_value',
    'messages[1].tool_calls[0].function.arguments',
  ],
  ['an image over plain http', image('http://example.com/a.png'), 'unsupported_parameter', 'messages[0]'],
  ["an image in Google's storage", image('gs://bucket/a.png'), 'invalid_value', 'messages[0].content[0].image_url.url'],
  [
    'a data URL that ends within a character',
    image('data:image/png,%E4%'),
    'invalid_value',
    'messages[0].content[0].image_url.url',
  ],
  [
    'an image by URL on Vertex AI',
    image('https://example.com/a.png'),
    'unsupported_parameter',
    'messages[0]',
    'claude-sonnet-4-5',
    'vertex-anthropic',
  ],
  ['a prefill', said({ content: 'It' }), 'unsupported_parameter', 'messages[1]', NEW],
  ['several choices', { n: 2 }, 'unsupported_parameter', 'n'],
  ['an answer with sound', { modalities: ['text', 'audio'] }, 'unsupported_parameter', 'modalities'],
  ['a tool that fetches pages', own('web_fetch_20250910'), 'unsupported_parameter', 'tools[0].type'],
  // Unless the tool sets its callers, code calls this version of the search.
  ['a search that code calls', own('web_search_20260209'), 'unsupported_parameter', 'tools[0].type'],
  [
    'a choice of an unknown tool',
    { tools: [tool('a'), tool('b')], tool_choice: tool('c') },
    'invalid_value',
    'tool_choice',
  ],
  ['a required call without tools', { tool_choice: 'required' }, 'invalid_value', 'tool_choice'],
  ["a tool with the gateway's own name", { tools: [tool('tollgate_json_answer')] }, 'invalid_value', 'tools'],
])('%s is refused', (_name, fields, code, param, model, name) => {
  expect(refusalOf(fields, model, name)).toEqual({ code, param })
})

test('a dialect that has encoded a request for other models encodes it as before', () => {
  const schema = { type: 'object', properties: { age: { type: 'integer', minimum: 0 } }, required: ['age'] }
  const chat = chatOf({
    tools: [tool('a', { strict: true })],
    response_format: { type: 'json_schema', json_schema: { name: 'person', schema } },
    reasoning_effort: 'high',
  })
  const before = structuredClone(chat.body)
  const [first, , , last] = [undefined, 'claude-3-5-haiku-20241022', NEW, undefined].map(model =>
    dialect.encodeRequest(chat, target(model)).body.toString(),
  )
  expect(last).toBe(first)
  expect(chat.body).toEqual(before)
})

test('the headers identify the sender of the request', () => {
  expect(anthropicHeaders('k')).toEqual({ 'x-api-key': 'k', 'anthropic-version': '2023-06-01' })
})
