/** Marks of what is worth keeping, as Converse is sent them. */
import { describe, expect, test } from 'vitest'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
import { chatOf, target } from '../anthropic/helpers.ts'

const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const MARK = { cache_control: { type: 'ephemeral' } }
const HOUR = { cache_control: { type: 'ephemeral', ttl: '1h' } }
const POINT = { cachePoint: { type: 'default' } }
const HOUR_POINT = { cachePoint: { type: 'default', ttl: '1h' } }
const text = (words: string, mark: object = {}) => ({ type: 'text', text: words, ...mark })
const tool = (name: string, mark: object = {}) => ({ type: 'function', function: { name }, ...mark })
const SYSTEM = { role: 'system', content: [text('s', HOUR), text('t')] }
const user = (...content: object[]) => ({ role: 'user', content })

function sent(fields: object, model: string) {
  const { body, dropped } = createDialect('bedrock', () => 0).dialect.encodeRequest(chatOf(fields), target(model))
  return { dropped, ...JSON.parse(body.toString()) }
}

test('only the last four stay, and the loss is told', () => {
  const tools = [tool('a', MARK), tool('b', MARK)]
  const parts = ['1', '2', '3'].map(words => text(words, MARK))
  const { toolConfig, system, messages, dropped } = sent({ tools, messages: [SYSTEM, user(...parts)] }, CLAUDE)
  expect(dropped).toEqual(['cache_control'])
  expect(toolConfig.tools).toMatchObject([{ toolSpec: { name: 'a' } }, { toolSpec: { name: 'b' } }])
  expect(toolConfig.tools).toHaveLength(2)
  expect(system).toEqual([{ text: 's' }, HOUR_POINT, { text: 't' }])
  expect(messages[0].content).toEqual([{ text: '1' }, POINT, { text: '2' }, POINT, { text: '3' }, POINT])
})

describe('by the model', () => {
  const asked = { tools: [tool('a', HOUR), tool('b')], messages: [SYSTEM, user(text('u', HOUR), text('v'))] }
  test.each<[model: string, inPrompt: object | null, inTools: object | null]>([
    [CLAUDE, HOUR_POINT, HOUR_POINT],
    ['eu.anthropic.claude-opus-5-v1:0', HOUR_POINT, HOUR_POINT],
    ['anthropic.claude-sonnet-4-20250514-v1:0', POINT, POINT],
    ['anthropic.claude-3-7-sonnet-20250219-v1:0', POINT, POINT],
    ['anthropic.claude-3-5-haiku-20241022-v1:0', POINT, POINT],
    ['anthropic.claude-3-5-sonnet-20241022-v2:0', null, null],
    ['anthropic.claude-3-haiku-20240307-v1:0', null, null],
    ['anthropic.claude-v2:1', null, null],
    ['amazon.nova-lite-v1:0', POINT, null],
    ['us.amazon.nova-premier-v1:0', POINT, null],
    ['amazon.nova-2-lite-v1:0', null, null],
    ['meta.llama3-3-70b-instruct-v1:0', null, null],
    ['arn:aws:bedrock:eu-central-1:1:application-inference-profile/x', null, null],
  ])('%s', (model, inPrompt, inTools) => {
    const { system, messages, toolConfig, dropped } = sent(asked, model)
    const point = inPrompt === null ? [] : [inPrompt]
    expect(system).toEqual(inPrompt === null ? [{ text: 'st' }] : [{ text: 's' }, inPrompt, { text: 't' }])
    expect(messages[0].content).toEqual([{ text: 'u' }, ...point, { text: 'v' }])
    expect(toolConfig.tools.slice(1, -1)).toEqual(inTools === null ? [] : [inTools])
    expect(dropped).toEqual([])
  })
})

test('an hour behind five minutes is five minutes', () => {
  const { messages } = sent({ messages: [user(text('a', MARK), text('b', HOUR))] }, CLAUDE)
  expect(messages[0].content).toEqual([{ text: 'a' }, POINT, { text: 'b' }, POINT])
})

test('calls, results, and words that are to be continued', () => {
  const call = { id: 'c', type: 'function', function: { name: 'a', arguments: '{}' }, ...MARK }
  const { messages } = sent(
    {
      tools: [tool('a')],
      messages: [
        user(text('a')),
        { role: 'assistant', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c', content: [text('b', MARK)] },
        { role: 'assistant', content: [text('d ', MARK)] },
      ],
    },
    'anthropic.claude-3-7-sonnet-20250219-v1:0',
  )
  expect(messages.slice(1)).toEqual([
    { role: 'assistant', content: [{ toolUse: { toolUseId: 'c', name: 'a', input: {} } }, POINT] },
    { role: 'user', content: [{ toolResult: { toolUseId: 'c', content: [{ text: 'b' }] } }, POINT] },
    { role: 'assistant', content: [{ text: 'd' }, POINT] },
  ])
})
