/** A request of the Messages API for a provider of the same format arrives unchanged. */
import { describe, expect, test } from 'vitest'
import type { ChatRequest } from '#contract'
import { createDialect, type DialectName } from '../../../../../src/providers/dialects/index.ts'
import { chatOf, target } from '../../anthropic/helpers.ts'
import { bodyOf } from './support.ts'

type Body = Readonly<Record<string, unknown>>

const MARK = { cache_control: { type: 'ephemeral' } }
const TEXT = { type: 'text', text: 'Seen.' }
const PICTURE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
const FOUND = {
  type: 'search_result',
  source: 'https://a.example',
  title: 'A',
  content: [{ type: 'text', text: 'Found.' }],
  citations: { enabled: true },
}
const DOCUMENT = {
  type: 'document',
  source: { type: 'text', media_type: 'text/plain', data: 'A text.' },
  title: 'T',
  context: 'C',
  citations: { enabled: true },
}
const QUOTE = {
  type: 'char_location',
  cited_text: 'A text.',
  document_index: 0,
  start_char_index: 0,
  end_char_index: 7,
}
const CALL = { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: {} }] }
const TOOLS = [{ name: 'look', input_schema: { type: 'object' } }]

const resultOf = (fields: Body) => ({ type: 'tool_result', tool_use_id: 'c1', ...fields })
const afterCall = (...content: object[]) => ({
  tools: TOOLS,
  messages: [{ role: 'user', content: [TEXT] }, CALL, { role: 'user', content }],
})

function sent(body: ChatRequest, dialect: DialectName = 'anthropic') {
  const { body: bytes } = createDialect(dialect, () => 0).dialect.encodeRequest(chatOf(body), target('claude-opus-4-5'))
  return JSON.parse(bytes.toString('utf8'))
}

const canonical = (fields: Body) => bodyOf({ model: 'claude', max_tokens: 4000, ...fields }) as ChatRequest

describe('these requests are sent unchanged', () => {
  test.each<[string, Body]>([
    ['a result of a tool that failed', afterCall(resultOf({ content: 'No.', is_error: true }))],
    ['a result without content', afterCall(resultOf({ is_error: true }))],
    ['a picture in a result', afterCall(resultOf({ content: [TEXT, PICTURE] }), TEXT)],
    ['only a picture in a result', afterCall(resultOf({ content: [PICTURE], is_error: true }))],
    ['search results in a result', afterCall(resultOf({ content: [FOUND, TEXT] }))],
    ['tools that were found', afterCall(resultOf({ content: [{ type: 'tool_reference', tool_name: 'look' }] }))],
    ['a mark of a result', afterCall(resultOf({ content: [TEXT, PICTURE], ...MARK }))],
    ['a mark of a document', { messages: [{ role: 'user', content: [{ ...DOCUMENT, ...MARK }, TEXT] }] }],
    ['a document and search results', { messages: [{ role: 'user', content: [DOCUMENT, FOUND] }] }],
    [
      'citations of a text',
      {
        messages: [
          { role: 'user', content: [DOCUMENT] },
          { role: 'assistant', content: [TEXT, { ...TEXT, citations: [QUOTE] }] },
          { role: 'user', content: [TEXT] },
        ],
      },
    ],
    [
      'a tool with deferred loading',
      { messages: [{ role: 'user', content: [TEXT] }], tools: [{ ...TOOLS[0], defer_loading: true }] },
    ],
  ])('%s', (_, fields) => {
    const { messages, tools } = sent(canonical(fields))
    expect({ messages, ...(tools ? { tools } : {}) }).toEqual(fields)
  })
})

const SHOWN = afterCall(resultOf({ content: [TEXT, PICTURE] }))

test('content that a step rewrote is sent as rewritten, without the original', () => {
  const body = canonical(SHOWN)
  const messages = body.messages.map(message =>
    message.role === 'tool' ? { ...message, content: 'Hidden.' } : message,
  )
  const said = sent({ ...body, messages }).messages.at(-1).content
  expect(said[0]).toEqual(resultOf({ content: 'Hidden.' }))
  expect(said.slice(1)).toEqual([expect.objectContaining({ type: 'text' }), PICTURE])
})

test('an image that a step removed is removed from the result too', () => {
  const body = canonical(SHOWN)
  const said = sent({ ...body, messages: body.messages.slice(0, -1) })
  expect(JSON.stringify(said)).not.toContain('AAAA')
})

test('Vertex AI gets images in results, but no deferred tools', () => {
  const fields = { ...SHOWN, tools: [{ ...TOOLS[0], defer_loading: true }] }
  const { messages, tools } = sent(canonical(fields), 'vertex-anthropic')
  expect({ messages, tools }).toEqual(SHOWN)
})

test('a tool is not deferred if its search was dropped', () => {
  const tools = [
    { ...TOOLS[0], defer_loading: true },
    { type: 'tool_search_tool_bm25', name: 'find' },
  ]
  expect(sent(canonical({ messages: [{ role: 'user', content: 'Hi' }], tools })).tools).toEqual(TOOLS)
})

test('a web citation without its search is dropped', () => {
  const citations = [{ type: 'web_search_result_location', url: 'https://a.example' }]
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: [{ ...TEXT, citations }] },
    { role: 'user', content: 'Go on' },
  ]
  expect(JSON.stringify(sent(canonical({ messages })))).not.toContain('web_search_result_location')
})
