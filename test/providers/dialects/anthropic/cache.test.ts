/** Marks of what is worth keeping, as the Messages API is sent them. */
import { describe, expect, test } from 'vitest'
import type { ChatRequest } from '#contract'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'
import { chatOf, NOW, target } from './helpers.ts'

const MARK = { cache_control: { type: 'ephemeral' } }
const HOUR = { cache_control: { type: 'ephemeral', ttl: '1h' } }
const SHORT = { cache_control: { type: 'ephemeral', ttl: '5m' } }
const text = (words: string, mark: object = {}) => ({ type: 'text', text: words, ...mark })
const user = (...content: object[]) => ({ role: 'user', content })
const tool = (name: string, mark: object = {}) => ({ type: 'function', function: { name }, ...mark })
const call = (mark: object = {}) => ({ id: 'c', type: 'function', function: { name: 'a', arguments: '{}' }, ...mark })

function sent(fields: object, model = 'claude-sonnet-4-5', name: DialectName = 'anthropic') {
  const { dialect } = createDialect(name, () => NOW)
  const { body, dropped } = dialect.encodeRequest(chatOf(fields as Partial<ChatRequest>), target(model))
  return { dropped, ...JSON.parse(body.toString()) }
}

/** The marks of a request in the order in which they are read: tools, system, messages. */
const marksOf = ({ tools = [], system = [], messages }: ReturnType<typeof sent>): unknown[] =>
  [tools, typeof system === 'string' ? [] : system, ...messages.map(({ content }: { content: unknown }) => content)]
    .flat()
    .flatMap(block => block.cache_control ?? [])

describe('more than four', () => {
  const all = {
    tools: [tool('a', MARK), tool('b', MARK)],
    messages: [
      { role: 'system', content: [text('s', MARK)] },
      user(text('1', MARK), text('2', SHORT)),
      { role: 'assistant', content: [text('3', SHORT)] },
      user(text('4', SHORT)),
    ],
  }

  test('the last four stay, and the loss is told', () => {
    const { tools, system, messages, dropped } = sent(all)
    expect(dropped).toEqual(['cache_control'])
    expect(marksOf({ tools, system, messages })).toEqual([MARK, SHORT, SHORT, SHORT].map(mark => mark.cache_control))
    expect(tools[1]).not.toHaveProperty('cache_control')
    expect(system).toBe('s')
  })

  test('four are not too many', () => {
    const { dropped, ...body } = sent({ ...all, tools: [tool('a')], messages: all.messages.slice(0, 3) })
    expect(dropped).toEqual([])
    expect(marksOf(body as never)).toHaveLength(4)
  })
})

test('a mark never outlasts one before it, which would be refused', () => {
  const messages = [user(text('1', HOUR), text('2', MARK), text('3', HOUR), text('4', SHORT))]
  expect(marksOf(sent({ messages }))).toEqual([HOUR, MARK, MARK, SHORT].map(mark => mark.cache_control))
})

describe('where marks stand', () => {
  test('tools', () => {
    expect(sent({ tools: [tool('a'), tool('b', HOUR)] }).tools).toMatchObject([{ name: 'a' }, { name: 'b', ...HOUR }])
  })

  test('system texts: one block up to each mark, and one for the rest', () => {
    const system = (content: unknown) => ({ role: 'system', content })
    const messages = [
      system('a'),
      system([text('b'), text('c', HOUR), text('d'), text(' ', MARK)]),
      { role: 'developer', content: 'e' },
      { role: 'user', content: 'Hi' },
    ]
    expect(sent({ messages }).system).toEqual([text('a\nbc', HOUR), text('d ', MARK), text('e')])
  })

  test('a system text by itself becomes a message with its mark', () => {
    const { messages, system } = sent({ messages: [{ role: 'system', content: [text('a', MARK), text('b')] }] })
    expect(messages).toEqual([user(text('a', MARK), text('b'))])
    expect(system).toBeUndefined()
  })

  test('parts, calls and results', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, ...MARK }
    const { messages } = sent({
      messages: [
        user(text('a'), image),
        { role: 'assistant', content: [text('b')], tool_calls: [call(HOUR)] },
        { role: 'tool', tool_call_id: 'c', content: [text('d', SHORT), text('e')] },
      ],
    })
    expect(messages).toEqual([
      user(text('a'), { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' }, ...MARK }),
      { role: 'assistant', content: [text('b'), { type: 'tool_use', id: 'c', name: 'a', input: {}, ...MARK }] },
      user({ type: 'tool_result', tool_use_id: 'c', content: 'de', ...SHORT }),
    ])
  })

  test('words that are to be continued', () => {
    const { messages } = sent({ messages: [user(text('a')), { role: 'assistant', content: [text('b ', MARK)] }] })
    expect(messages[1].content).toEqual([text('b', MARK)])
  })

  test('blank texts, which are left out, leave none', () => {
    expect(marksOf(sent({ messages: [user(text('a'), text(' ', MARK))] }))).toEqual([])
  })
})

test.each<[dialect: DialectName, model: string, mark: object | null]>([
  ['anthropic', 'claude-3-5-haiku-20241022', HOUR],
  ['vertex-anthropic', 'claude-sonnet-4@20250514', HOUR],
  ['bedrock-invoke', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0', HOUR],
  ['bedrock-invoke', 'anthropic.claude-sonnet-4-20250514-v1:0', MARK],
  ['bedrock-invoke', 'arn:aws:bedrock:eu-central-1:1:application-inference-profile/x', MARK],
  ['bedrock-invoke', 'anthropic.claude-3-haiku-20240307-v1:0', null],
])('%s, %s: a mark of an hour', (name, model, mark) => {
  const { messages, tools, dropped } = sent(
    { tools: [tool('a', HOUR)], messages: [user(text('a', HOUR))] },
    model,
    name,
  )
  expect(messages[0].content).toEqual([text('a', mark ?? {})])
  expect(tools[0].cache_control).toEqual(mark === null ? undefined : (mark as typeof MARK).cache_control)
  expect(dropped).toEqual([])
})
