/** Conversations as relatives of OpenAI take them. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nineOf } from '../../../../src/providers/dialects/openai/messages.ts'
import type { RelativeName } from '../../../../src/providers/dialects/openai/quirks.ts'
import { counts } from '../../../helpers/counts.ts'
import { messagesSent } from './support.ts'

const call = (id: string, more: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: '{}' },
  ...more,
})
const user = { role: 'user', content: 'a' }

describe('Mistral: ids of calls', () => {
  test('those of others become nine letters and digits, and a result finds its call', () => {
    const { messages, dropped } = messagesSent('mistral', [
      user,
      { role: 'assistant', content: null, tool_calls: [call('call_abc'), call('D681PevKs')] },
      { role: 'tool', content: 'b', tool_call_id: 'call_abc' },
      { role: 'tool', content: 'c', tool_call_id: 'D681PevKs' },
    ])
    const id = nineOf('call_abc')
    expect(id).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(messages).toEqual([
      user,
      { role: 'assistant', content: null, tool_calls: [call(id), call('D681PevKs')] },
      { role: 'tool', content: 'b', tool_call_id: id },
      { role: 'tool', content: 'c', tool_call_id: 'D681PevKs' },
    ])
    expect(dropped).toEqual([])
  })

  test('are the same in every process', () => {
    expect(nineOf('call_abc')).toBe(nineOf('call_abc'))
    expect(nineOf('call_abc')).toBe('ZClYZGnrZ')
  })

  test('of any text', () => {
    const seen = new Map<string, string>()
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), id => {
        const nine = nineOf(id)
        expect(nine).toMatch(/^[a-zA-Z0-9]{9}$/)
        expect(nineOf(nine)).toBe(nine)
        expect(seen.get(nine) ?? id).toBe(id)
        seen.set(nine, id)
      }),
      { numRuns: counts(500, 20_000) },
    )
  })
})

test('Mistral: fields that it does not know go, at any depth that it looks at', () => {
  const { messages, dropped } = messagesSent('mistral', [
    { role: 'developer', content: 'a', name: 'ann' },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }], name: 'bob' },
    {
      role: 'assistant',
      content: 'c',
      refusal: null,
      annotations: [],
      reasoning_content: 'Hm',
      tool_calls: [call('D681PevKs', { extra_content: { x: 1 }, index: 0 })],
      prefix: true,
    },
    { role: 'tool', content: 'd', tool_call_id: 'D681PevKs', name: 'weather' },
  ])
  expect(messages).toEqual([
    { role: 'system', content: 'a' },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }] },
    { role: 'assistant', content: 'c', tool_calls: [call('D681PevKs', { index: 0 })], prefix: true },
    { role: 'tool', content: 'd', tool_call_id: 'D681PevKs' },
  ])
  // What the gateway has added to answers itself is no loss.
  expect(dropped).toEqual(['messages.name'])
})

describe('Mistral: files', () => {
  const file = (fields: object) => ({ type: 'file', file: fields })
  const text = { type: 'text', text: 'a' }
  test.each<[name: string, content: unknown, upstream: unknown]>([
    [
      'with their data',
      [text, file({ filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' })],
      [text, { type: 'document_url', document_url: 'data:application/pdf;base64,AAAA', document_name: 'a.pdf' }],
    ],
    [
      'without a name',
      [file({ file_data: 'data:application/pdf;base64,AAAA' })],
      [{ type: 'document_url', document_url: 'data:application/pdf;base64,AAAA' }],
    ],
    ['that are only named', [file({ file_id: 'file-1' }), text], [file({ file_id: 'file-1' }), text]],
    ['that are none', [text, { type: 'file' }], [text, { type: 'file' }]],
    ['in a text', 'a', 'a'],
  ])('%s', (_name, content, upstream) => {
    expect(messagesSent('mistral', [{ role: 'user', content }]).messages).toEqual([{ role: 'user', content: upstream }])
  })
})

test('Mistral: a role that it does not have is left for it to refuse', () => {
  const messages = [{ role: 'function', name: 'weather', content: 'a' }]
  expect(messagesSent('mistral', messages)).toEqual({ messages, dropped: [] })
})

describe('DeepSeek: earlier thinking', () => {
  const plain = { role: 'assistant', content: 'a', reasoning_content: 'Hm' }
  const calling = { role: 'assistant', content: '', reasoning_content: 'Hm', tool_calls: [call('c1')] }
  const result = { role: 'tool', content: 'b', tool_call_id: 'c1' }
  const bare = { role: 'assistant', content: 'a' }
  const prefix = { ...plain, prefix: true }

  test.each<[name: string, messages: object[], upstream: object[]]>([
    ['of an answer goes', [user, plain, user], [user, bare, user]],
    ['of the last answer goes', [user, plain], [user, bare]],
    ['that led to a call stays', [user, calling, result], [user, calling, result]],
    ['behind the result of a call stays', [user, calling, result, plain, user], [user, calling, result, plain, user]],
    [
      'of one turn is not that of another',
      [user, plain, user, calling, result, plain, user, plain, user],
      [user, bare, user, calling, result, plain, user, bare, user],
    ],
    ['without a user before it', [plain, user], [bare, user]],
    ['of an answer to be continued stays', [user, prefix], [user, prefix]],
    ['of calls that are none goes', [user, { ...plain, tool_calls: [] }], [user, { ...bare, tool_calls: [] }]],
  ])('%s', (_name, messages, upstream) => {
    const found = messagesSent('deepseek', messages)
    expect(found.messages).toEqual(upstream)
    expect(found.dropped).toEqual([])
  })
})

describe('developers', () => {
  const messages = [{ role: 'developer', content: 'a' }, user]
  test.each<[relative: RelativeName, role: string]>([
    ['mistral', 'system'],
    ['deepseek', 'system'],
    ['perplexity', 'system'],
    ['zai', 'system'],
    ['groq', 'developer'],
    ['together', 'developer'],
  ])('%s knows them as %s', (relative, role) => {
    expect(messagesSent(relative, messages)).toEqual({ messages: [{ role, content: 'a' }, user], dropped: [] })
  })
})

test('Groq: what clients send back of an answer is left out, thinking under its own name stays', () => {
  const { messages, dropped } = messagesSent('groq', [
    { role: 'assistant', content: 'a', refusal: null, annotations: [], audio: null, reasoning: 'Hm', name: 'x' },
  ])
  expect(messages).toEqual([{ role: 'assistant', content: 'a', reasoning: 'Hm' }])
  expect(dropped).toEqual(['messages.name'])
})

test('names that mean something to JavaScript change nothing', () => {
  const messages = [
    { role: '__proto__', content: 'a' },
    JSON.parse('{"role":"user","__proto__":{"x":1},"content":"b"}'),
  ]
  for (const relative of ['deepseek', 'groq', 'zai'] as const) {
    expect(JSON.stringify(messagesSent(relative, messages).messages)).toBe(JSON.stringify(messages))
  }
  expect(({} as { x?: number }).x).toBeUndefined()
})
