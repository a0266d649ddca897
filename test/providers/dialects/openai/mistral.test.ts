/** What Mistral keeps to more strictly than others: the order of turns, and words about tools and efforts. */
import { describe, expect, test } from 'vitest'
import { messagesSent, sent } from './support.ts'

const user = { role: 'user', content: 'a' }
const call = { id: 'D681PevKs', type: 'function', function: { name: 'weather', arguments: '{}' } }
const calling = { role: 'assistant', content: '', tool_calls: [call] }
const result = { role: 'tool', content: 'b', tool_call_id: 'D681PevKs' }
const answer = { role: 'assistant', content: 'c' }
const between = { role: 'assistant', content: 'OK.' }

describe('the order of turns', () => {
  test.each<[name: string, messages: object[], upstream: object[]]>([
    ['a user behind a result', [user, calling, result, user], [user, calling, result, between, user]],
    [
      'a developer behind a result',
      [user, calling, result, { role: 'developer', content: 'd' }, user],
      [user, calling, result, between, { role: 'system', content: 'd' }, user],
    ],
    ['two results and a user', [user, calling, result, result, user], [user, calling, result, result, between, user]],
    [
      'an empty answer behind a result',
      [user, calling, result, { role: 'assistant', content: '' }, user],
      [user, calling, result, between, user],
    ],
    ['an answer behind a result stays', [user, calling, result, answer, user], [user, calling, result, answer, user]],
    ['a result that stands last stays', [user, calling, result], [user, calling, result]],
    ['an answer that stands last is continued', [user, answer], [user, { ...answer, prefix: true }]],
    ['one that says so already', [user, { ...answer, prefix: true }], [user, { ...answer, prefix: true }]],
    ['a call that stands last is not', [user, calling], [user, calling]],
    ['an answer of null', [user, { role: 'assistant', content: null }, user], [user, user]],
    ['an answer without content', [user, { role: 'assistant' }, user], [user, user]],
    ['an answer of no parts', [user, { role: 'assistant', content: [], tool_calls: [] }, user], [user, user]],
    ['an answer of thinking only', [user, { role: 'assistant', reasoning_content: 'Hm' }, user], [user, user]],
    [
      'a refusal',
      [user, { role: 'assistant', content: null, refusal: 'No.' }, user],
      [user, { role: 'assistant', content: 'No.' }, user],
    ],
    [
      'a refusal as a part',
      [user, { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] }, user],
      [user, { role: 'assistant', content: [{ type: 'text', text: 'No.' }] }, user],
    ],
    ['an empty user is its own affair', [{ role: 'user', content: '' }], [{ role: 'user', content: '' }]],
  ])('%s', (_name, messages, upstream) => {
    expect(messagesSent('mistral', messages)).toEqual({ messages: upstream, dropped: [] })
  })

  test('others are sent what was said', () => {
    const messages = [user, calling, result, user, { role: 'assistant', content: '' }, answer]
    for (const name of ['openai', 'groq', 'deepseek'] as const) {
      expect(messagesSent(name, messages).messages).toEqual(messages)
    }
  })
})

describe('parameters', () => {
  const tool = (name: string, more: object = { parameters: { type: 'object' } }) => ({
    type: 'function',
    function: { name, ...more },
  })
  const allowed = (mode: string, ...names: string[]) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: names.map(name => ({ type: 'function', function: { name } })) },
  })
  const parameters = (fields: object) => {
    const { text, dropped } = sent('mistral', JSON.stringify({ model: 'm', messages: [user], ...fields }))
    const { model: _model, messages: _messages, max_tokens: _cap, ...rest } = JSON.parse(text)
    expect(dropped).toEqual([])
    return rest
  }

  test.each<[name: string, fields: object, upstream: object]>([
    ...(['minimal', 'none'] as const).map((effort): [string, object, object] => [
      `the effort ${effort}`,
      { reasoning_effort: effort },
      { reasoning_effort: 'none' },
    ]),
    ...['low', 'medium', 'high', 'xhigh', 'max'].map((effort): [string, object, object] => [
      `the effort ${effort}`,
      { reasoning_effort: effort },
      { reasoning_effort: 'high' },
    ]),
    [
      'some of the tools, of which one must be called',
      { tools: [tool('a'), tool('b'), tool('c')], tool_choice: allowed('required', 'c', 'a') },
      { tools: [tool('a'), tool('c')], tool_choice: 'any' },
    ],
    [
      'some of the tools, which may be called',
      { tools: [tool('a'), tool('b')], tool_choice: allowed('auto', 'b') },
      { tools: [tool('b')], tool_choice: 'auto' },
    ],
    [
      'all of them',
      { tools: [tool('a')], tool_choice: allowed('auto', 'a') },
      { tools: [tool('a')], tool_choice: 'auto' },
    ],
    [
      'a tool without arguments',
      { tools: [tool('a', {}), tool('b', { parameters: null }), tool('c')] },
      { tools: [...['a', 'b'].map(name => tool(name, { parameters: { type: 'object', properties: {} } })), tool('c')] },
    ],
    ['tools of null', { tools: null }, { tools: null }],
    ['a tool that is no function', { tools: [{ type: 'web_search' }] }, { tools: [{ type: 'web_search' }] }],
  ])('%s', (_name, fields, upstream) => {
    expect(parameters(fields)).toEqual(upstream)
  })

  test('tools in which nothing differs stay as they were written', () => {
    const tools = '"tools":[ {"type":"function","function":{"name":"\\u0061","parameters":{}}} ]'
    expect(sent('mistral', `{"model":"m",${tools},"messages":[]}`).text).toContain(tools)
  })
})
