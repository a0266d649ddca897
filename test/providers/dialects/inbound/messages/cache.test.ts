/** Marks of what is worth keeping, from a client's blocks to the canonical body. */
import { describe, expect, test } from 'vitest'
import { bodyOf, HI, messagesOf } from './support.ts'

const MARK = { cache_control: { type: 'ephemeral' } }
const HOUR = { cache_control: { type: 'ephemeral', ttl: '1h' } }
const text = (words: string, mark: object = {}) => ({ type: 'text', text: words, ...mark })
const user = (...content: object[]) => ({ role: 'user', content })
const PNG = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
const PDF = { type: 'base64', media_type: 'application/pdf', data: 'JVBE' }
const image_url = { url: 'data:image/png;base64,AAAA' }
const tool = { name: 'look', input_schema: { type: 'object' } }
const call = (mark: object = {}) => ({ type: 'tool_use', id: 'c', name: 'look', input: {}, ...mark })

describe('what is no mark', () => {
  test.each<[unknown, code: string, place: string, sentence: string]>([
    ['ephemeral', 'invalid_type', '', 'expected an object, but got a string'],
    [{}, 'missing_required_parameter', '.type', 'Missing required parameter'],
    [{ type: 'forever' }, 'invalid_value', '.type', `"forever" is not one of 'ephemeral'`],
    [{ type: 'ephemeral', ttl: '2h' }, 'invalid_value', '.ttl', `"2h" is not one of '5m', '1h'`],
    [{ type: 'ephemeral', ttl: 5 }, 'invalid_type', '.ttl', 'expected a string, but got'],
  ])('%j', (cache_control, code, place, sentence) => {
    const marked = { cache_control }
    const refused = { code, message: expect.stringContaining(sentence) }
    const rows: [fields: object, at: string][] = [
      [{ ...marked }, ''],
      [{ system: [text('a', marked)] }, 'system[0].'],
      [{ tools: [{ ...tool, ...marked }] }, 'tools[0].'],
      [{ messages: [user(text('a', marked))] }, 'messages[0].content[0].'],
      [{ messages: [HI[0], { role: 'assistant', content: [call(marked)] }] }, 'messages[1].content[0].'],
    ]
    for (const [fields, at] of rows) {
      expect(() => bodyOf(fields), at).toThrow(
        expect.objectContaining({ ...refused, param: `${at}cache_control${place}` }),
      )
    }
  })

  test('null is none, and of what else it says nothing is carried', () => {
    expect(messagesOf(user(text('a', { cache_control: null })))).toEqual([{ role: 'user', content: 'a' }])
    const scoped = { cache_control: { type: 'ephemeral', ttl: null, scope: 'global' } }
    expect(messagesOf(user(text('a', scoped)))).toEqual([user(text('a', MARK))])
  })
})

describe('where marks go', () => {
  test('system texts end at marks, and their paragraphs stay', () => {
    const system = [text('a'), text('b', MARK), text('c'), text('d'), text('e', HOUR)]
    expect(bodyOf({ system }).messages[0]).toEqual({
      role: 'system',
      content: [text('a\n\nb', MARK), text('\n\nc\n\nd\n\ne', HOUR)],
    })
  })

  test.each<[string, blocks: object[], parts: object[]]>([
    ['one text', [text('a', MARK)], [text('a', MARK)]],
    ['one of several texts', [text('a'), text('b', HOUR)], [text('a'), text('b', HOUR)]],
    ['an image', [{ type: 'image', source: PNG, ...MARK }], [{ type: 'image_url', image_url, ...MARK }]],
    [
      'a document, whose mark is that of its end',
      [{ type: 'document', source: PDF, title: 'a.pdf', context: 'c', ...MARK }],
      [
        text('Document: a.pdf\nc'),
        {
          type: 'file',
          file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' },
          ...MARK,
        },
      ],
    ],
  ])('%s', (_name, blocks, parts) => {
    expect(messagesOf(user(...blocks))).toEqual([user(...parts)])
  })

  test('of the assistant: texts and calls', () => {
    expect(messagesOf(HI[0], { role: 'assistant', content: [text('a', HOUR), call(MARK)] })[1]).toEqual({
      role: 'assistant',
      content: [text('a', HOUR)],
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' }, ...MARK }],
    })
  })

  const result = (mark: object, ...content: object[]) => ({ type: 'tool_result', tool_use_id: 'c', content, ...mark })
  test.each<[string, object, tool: unknown, rest: object[]]>([
    ['a result', result(MARK, text('a')), [text('a', MARK)], []],
    ['a text in a result', result({}, text('a', HOUR), text('b')), [text('a\nb', HOUR)], []],
    ['both, of which the result counts', result(MARK, text('a', HOUR)), [text('a', MARK)], []],
    ['a result without words', result(MARK), [text('', MARK)], []],
    [
      'a result with an image',
      result(MARK, text('a'), { type: 'image', source: PNG }),
      'a\n[An attachment follows.]',
      [{ type: 'image_url', image_url, ...MARK }],
    ],
    [
      'an image in a result',
      result({}, { type: 'image', source: PNG, ...HOUR }),
      '[An attachment follows.]',
      [{ type: 'image_url', image_url, ...HOUR }],
    ],
  ])('%s', (_name, block, content, rest) => {
    const [, , answered, shown] = messagesOf(HI[0], { role: 'assistant', content: [call()] }, user(block))
    expect(answered).toEqual({ role: 'tool', tool_call_id: 'c', content })
    expect(shown?.content?.slice(1) ?? []).toEqual(rest)
  })

  test('tools have it beside the function', () => {
    expect(bodyOf({ tools: [tool, { ...tool, ...HOUR }] }).tools).toMatchObject([
      { type: 'function' },
      { type: 'function', function: { name: 'look' }, ...HOUR },
    ])
    expect(bodyOf({ tools: [tool] }).tools![0]).not.toHaveProperty('cache_control')
  })
})

describe('a mark of the whole request', () => {
  test.each<[string, messages: object[], last: object]>([
    ['a text', [HI[0]!], user(text('Hi', MARK))],
    ['the last of the parts', [user(text('a'), text('b'))], user(text('a'), text('b', MARK))],
    ['what has one already', [user(text('a', HOUR))], user(text('a', HOUR))],
    [
      'a call',
      [HI[0]!, { role: 'assistant', content: [text('a'), call()] }],
      {
        role: 'assistant',
        content: 'a',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' }, ...MARK }],
      },
    ],
    ['nothing', [HI[0]!, { role: 'assistant', content: '' }], { role: 'assistant', content: '' }],
  ])('goes to %s', (_name, messages, last) => {
    const body = bodyOf({ messages, ...MARK })
    expect(body.messages.at(-1)).toEqual(last)
    expect(body).not.toHaveProperty('cache_control')
  })
})
