/** Data that a provider needs in the next request: the client gets it and sends it back, over several turns. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Chat, ChatRequest, Chunk, Dialect } from '#contract'
import { anthropicDialect } from '../../../../../src/providers/dialects/anthropic/index.ts'
import { geminiDialect } from '../../../../../src/providers/dialects/gemini/index.ts'
import {
  answer,
  type Block,
  bodyOf,
  chunk,
  completion,
  completionOf,
  folded,
  HI,
  HIDDEN,
  SHOWN,
  streamed,
} from './support.ts'

const TOOLS = [{ name: 'look', input_schema: { type: 'object', properties: { at: { type: 'string' } } } }]
const ASKED = { role: 'user', content: 'Look twice.' }
const THINKING = { type: 'adaptive' }

/** The body sent to the provider when the client sends back its answer. */
function sentTo(dialect: Dialect, model: string, content: unknown, results: readonly string[]) {
  const body = bodyOf({
    model: 'thinker',
    max_tokens: 4000,
    thinking: THINKING,
    tools: TOOLS,
    messages: [
      ASKED,
      { role: 'assistant', content },
      { role: 'user', content: results.map(tool_use_id => ({ type: 'tool_result', tool_use_id, content: 'seen' })) },
    ],
  }) as ChatRequest
  const chat: Chat = {
    body,
    bytes: Buffer.from(JSON.stringify(body)),
    stream: false,
    includeUsage: false,
    choices: 1,
    requestedCap: null,
    cap: 4000,
  }
  const target = {
    id: 'a/b',
    provider: 'a',
    model,
    weight: 1,
    cost: null,
    capField: 'max_tokens' as const,
    reasoningOutsideCap: 0,
    priority: 1,
    maxInflight: Number.POSITIVE_INFINITY,
  }
  return JSON.parse(dialect.encodeRequest(chat, target).body.toString('utf8'))
}

/** Canonical chunks of a provider's stream. */
function chunksOf(dialect: Dialect, body: string): Chunk[] {
  const decoder = dialect.decodeStream({ model: 'thinker', includeUsage: true, exchange: 'req_1', createdAt: 1 })
  const items = [...decoder.push(Buffer.from(body)), ...decoder.end()]
  return items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))
}

/** The client's final content: the same from a stream and from a whole answer. */
function received(chunks: readonly Chunk[], fields: object = SHOWN): readonly Block[] {
  const { content } = folded(streamed(chunks, { model: 'thinker', ...fields }))
  expect(answer(completionOf(chunks), fields).content).toEqual(content)
  return content
}

const idsOf = (content: readonly Block[]) => content.flatMap(({ id }) => id ?? [])

test.each(['claude-sonnet-4-6', 'claude-sonnet-4-5'])('reasoning of %s', model => {
  const anthropic = anthropicDialect(() => 0)
  const blocks = [
    { type: 'thinking', thinking: 'First this,', signature: 'c2lnMQ==' },
    { type: 'redacted_thinking', data: 'c2VhbGVk' },
    { type: 'thinking', thinking: 'then that.', signature: 'c2lnMg==' },
    { type: 'text', text: 'I look.' },
    { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'a' } },
    { type: 'tool_use', id: 'toolu_2', name: 'look', input: {} },
  ]
  const events: object[] = [{ type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 1 } } }]
  for (const [index, { thinking, signature, text, input, ...block }] of (
    blocks as Record<string, unknown>[]
  ).entries()) {
    events.push({ type: 'content_block_start', index, content_block: { ...block, thinking: '', text: '', input: {} } })
    const deltas = [
      thinking && { type: 'thinking_delta', thinking },
      signature && { type: 'signature_delta', signature },
      text && { type: 'text_delta', text },
      input && { type: 'input_json_delta', partial_json: JSON.stringify(input) },
    ]
    for (const delta of deltas) if (delta) events.push({ type: 'content_block_delta', index, delta })
    events.push({ type: 'content_block_stop', index })
  }
  events.push({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } })
  events.push({ type: 'message_stop' })
  const chunks = chunksOf(anthropic, events.map(event => `data: ${JSON.stringify(event)}\n\n`).join(''))

  const content = received(chunks)
  expect(content).toEqual(blocks)
  const { messages, thinking } = sentTo(anthropic, model, content, ['toolu_1', 'toolu_2'])
  const hidden = received(chunks, HIDDEN)
  expect(hidden.map(({ type }) => type)).toEqual(['text', 'tool_use', 'tool_use'])
  expect(sentTo(anthropic, model, hidden, idsOf(hidden)).messages).toEqual(messages)
  expect(thinking).toMatchObject({ type: model.endsWith('5') ? 'enabled' : 'adaptive' })
  expect(messages).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'Look twice.' }] },
    { role: 'assistant', content: blocks },
    {
      role: 'user',
      content: ['toolu_1', 'toolu_2'].map(tool_use_id => ({ type: 'tool_result', tool_use_id, content: 'seen' })),
    },
  ])
})

describe('Google’s signatures', () => {
  const gemini = geminiDialect(() => 0)
  const call = (at: string, thoughtSignature?: string) => ({
    functionCall: { name: 'look', args: { at } },
    ...(thoughtSignature ? { thoughtSignature } : {}),
  })
  test.each<[string, object[]]>([
    ['after reasoning', [{ text: 'Hm', thought: true }, call('a', 'sigA'), call('b')]],
    ['after a text', [{ text: 'I look.' }, call('a', 'sigA'), call('b')]],
    ['alone', [call('a', 'sigA'), call('b', 'sigB')]],
  ])('of calls %s', (_name, parts) => {
    const event = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }] }
    const chunks = chunksOf(gemini, `data: ${JSON.stringify(event)}\r\n\r\n`)
    const content = received(chunks)
    const ids = idsOf(content)
    expect(ids).toHaveLength(2)
    const { contents } = sentTo(gemini, 'gemini-3-pro', content, ids)
    const hidden = received(chunks, HIDDEN)
    expect(hidden.every(({ type }) => type === 'text' || type === 'tool_use')).toBe(true)
    expect(sentTo(gemini, 'gemini-3-pro', hidden, idsOf(hidden)).contents).toEqual(contents)
    const back = contents[1].parts.map(({ functionCall, ...part }: Record<string, Record<string, unknown>>) =>
      functionCall ? { ...part, functionCall: { name: functionCall['name'], args: functionCall['args'] } } : part,
    )
    expect(back).toEqual(parts.filter(part => !('thought' in part)))
  })

  test('that the client has lost are not required', () => {
    const content = [{ type: 'tool_use', id: 'c', name: 'look', input: {} }]
    const { contents } = sentTo(gemini, 'gemini-3-pro', content, ['c'])
    expect(contents[1].parts[0].thoughtSignature).toBe('skip_thought_signature_validator')
  })
})

test.each([
  ['reasoning_content', SHOWN],
  ['reasoning', SHOWN],
  ['reasoning_content', HIDDEN],
  ['reasoning', HIDDEN],
])('unsigned reasoning is sent back in its own field, %s %o', (field, fields) => {
  const call = { index: 0, id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }
  const content = received([chunk({ [field]: 'a' }), chunk({ [field]: 'b' }), chunk({ tool_calls: [call] })], fields)
  expect(bodyOf({ messages: [ASKED, { role: 'assistant', content }] }).messages[1]).toEqual({
    role: 'assistant',
    content: null,
    [field]: 'ab',
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }],
  })
})

/** The ids of a call and of its result. */
function ownIdsOf(id: string): readonly unknown[] {
  const { messages } = bodyOf({
    messages: [
      ASKED,
      { role: 'assistant', content: [{ type: 'tool_use', id, name: 'look', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'seen' }] },
    ],
  })
  const [{ id: called }] = messages[1]!['tool_calls'] as [{ id: string }]
  return [called, messages[2]!['tool_call_id']]
}

const tailOf = (value: unknown) => `_tollgate_${Buffer.from(JSON.stringify(value)).toString('base64url')}`

test('a call with reasoning in its id is answered under its own id', () => {
  for (const kept of [[], [['data']], [['thought', 'tollgate.field.reasoning']]]) {
    expect(ownIdsOf(`c${tailOf(kept)}`)).toEqual(['c', 'c'])
  }
})

test('a client’s own id stays unchanged, whatever it contains', () => {
  const own = ['_tollgate_', '_tollgate_1', '_tollgate_2', '_tollgate_%%%', tailOf({}), tailOf([1]), tailOf([[1, 2]])]
  for (const id of own.map(tail => `agent${tail}`)) expect(ownIdsOf(id)).toEqual([id, id])
})

test('each of two gateways removes its own part of the id', () => {
  const inner = `c${tailOf([['data']])}`
  const call = { index: 0, id: inner, type: 'function', function: { name: 'look', arguments: '{}' } }
  const content = received([chunk({ tool_calls: [call] })])
  expect(ownIdsOf(idsOf(content)[0]!)).toEqual([inner, inner])
})

test('a detail with members that this gateway does not send comes back unchanged', () => {
  const detail = { type: 'reasoning.encrypted', data: 'xyz', id: 'rs_1', format: 'openai-responses-v1', index: 1 }
  const content = received([chunk({ reasoning_details: [detail] }), chunk({ content: 'Hello' })])
  expect(bodyOf({ messages: [ASKED, { role: 'assistant', content }] }).messages[1]).toEqual({
    role: 'assistant',
    content: 'Hello',
    reasoning_details: [detail],
  })
})

test('an answer with a search comes back in the same parts, with any text', () => {
  const used = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
  const found = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ encrypted_content: 'EqQ' }] }
  const quote = { type: 'web_search_result_location', url: 'https://example.com', encrypted_index: 'Eo8' }
  const searching = { findModel: () => ({ maxOutput: 1000, allow: ['web_search'], searches: ['anthropic'] }) }
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter(each => each.trim() !== '')
  const quoting = (quotes: boolean) => (quotes ? { citations: [quote] } : {})
  fc.assert(
    fc.property(fc.array(fc.record({ text, quotes: fc.boolean() }), { minLength: 1, maxLength: 6 }), texts => {
      const pieces = texts.map(({ text: { length }, quotes }) => ({ type: 'text', length, ...quoting(quotes) }))
      const content = texts.map(each => each.text).join('')
      const message = answer(completion({ content, anthropic_content: [used, found, ...pieces] }))
      const parts = bodyOf({ messages: [...HI, message, ...HI] }, searching).messages[1]!.content
      expect(parts).toEqual([
        { type: 'anthropic', anthropic: used },
        { type: 'anthropic', anthropic: found },
        ...texts.map(each => ({ type: 'text', text: each.text, ...quoting(each.quotes) })),
      ])
    }),
  )
})
