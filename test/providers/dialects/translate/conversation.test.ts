/** Refusals of readConversation, and token counts of providers. The cases cover the rest. */
import { describe, expect, test } from 'vitest'
import { type ChatMessage, isRefusal } from '#contract'
import { countOf } from '../../../../src/providers/dialects/translate/completion.ts'
import { readConversation } from '../../../../src/providers/dialects/translate/conversation.ts'

const HI: ChatMessage = { role: 'user', content: 'Hi' }
const call = (id: string, args = '{}') => ({ id, type: 'function', function: { name: 'a', arguments: args } })
const calls = (...tool_calls: object[]): ChatMessage => ({ role: 'assistant', content: null, tool_calls })
const result = (text: string): ChatMessage => ({ role: 'tool', tool_call_id: '', content: text })
const image = (url: string): ChatMessage => ({ role: 'user', content: [{ type: 'image_url', image_url: { url } }] })

function refusalOf(messages: ChatMessage[]) {
  try {
    readConversation({ messages })
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param, message: error.message }
    throw error
  }
  return null
}

const ID = 'tool_call_id'
const PLACE = 'messages[0].content[0].image_url.url'

describe('is refused:', () => {
  test.each<[name: string, messages: ChatMessage[], param: string, said?: string]>([
    ['one result more than calls', [HI, calls(call('')), result('1'), result('2')], `messages[3].${ID}`],
    [
      'a result of a call in an earlier turn',
      [HI, calls(call('')), calls(call('x')), result('1')],
      `messages[3].${ID}`,
    ],
    ['a list as arguments', [HI, calls(call('c', '[1]'))], 'messages[1].tool_calls[0].function.arguments'],
    ...['%', '%E4%', '%zz'].map((data): [string, ChatMessage[], string, string] => [
      `a data URL with ${data}`,
      [image(`data:image/png,${data}`)],
      PLACE,
      "'%'",
    ]),
  ])('%s', (_name, messages, param, said = '') => {
    expect(refusalOf(messages)).toMatchObject({ code: 'invalid_value', param, message: expect.stringContaining(said) })
  })
})

test.each<[said: unknown, count: number | undefined]>([
  [0, 0],
  [12, 12],
  [-1, undefined],
  [1.5, undefined],
  [1e308, undefined],
  [Number.NaN, undefined],
  [2 ** 53, undefined],
  ['12', undefined],
  [null, undefined],
])('a count of %j is %j', (said, count) => {
  expect(countOf(said)).toBe(count)
})
