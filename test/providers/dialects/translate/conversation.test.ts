import { describe, expect, test } from 'vitest'
import { type ChatMessage, isRefusal } from '#contract'
import { lostIn, readConversation } from '../../../../src/providers/dialects/translate/conversation.ts'

const HI: ChatMessage = { role: 'user', content: 'Hi' }
const call = (id: string, name: string, args = '{}') => ({ id, type: 'function', function: { name, arguments: args } })
const calls = (...tool_calls: object[]): ChatMessage => ({ role: 'assistant', content: null, tool_calls })
const result = (id: string, content: string): ChatMessage => ({ role: 'tool', tool_call_id: id, content })

const partsOf = (...messages: ChatMessage[]) => readConversation({ messages }).turns.flatMap(({ parts }) => parts)

function refusalOf(...messages: ChatMessage[]) {
  try {
    readConversation({ messages })
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param, message: error.message }
    throw error
  }
  return null
}

describe('calls without ids', () => {
  const made = calls(call('', 'a'), call('', 'b'))

  test('are answered in their order', () => {
    const ids = partsOf(HI, made, result('', 'one'), result('', 'two')).map(part => ({ ...part, text: undefined }))
    expect(ids).toMatchObject([
      { kind: 'text' },
      { kind: 'call', id: 'call_1_0', name: 'a' },
      { kind: 'call', id: 'call_1_1', name: 'b' },
      { kind: 'result', id: 'call_1_0', name: 'a' },
      { kind: 'result', id: 'call_1_1', name: 'b' },
    ])
  })

  test('have the same ids in the next turn, and other ones than calls to come', () => {
    const results = [result('', 'one'), result('', 'two')]
    const longer = partsOf(HI, made, ...results, made, ...results).filter(part => part.kind === 'call')
    expect(longer.map(({ id }) => id)).toEqual(['call_1_0', 'call_1_1', 'call_4_0', 'call_4_1'])
  })

  test('have no id that another one has', () => {
    const parts = partsOf(HI, calls(call('', 'a'), call('call_1_0', 'b')), result('call_1_0', '2'), result('', '1'))
    expect(parts.filter(({ kind }) => kind === 'result')).toMatchObject([
      { id: 'call_1_0', name: 'b' },
      { id: 'call_1_0_', name: 'a' },
    ])
  })

  test.each<[name: string, messages: ChatMessage[]]>([
    ['one result more than calls', [HI, calls(call('', 'a')), result('', '1'), result('', '2')]],
    ['a result of a call in an earlier turn', [HI, calls(call('', 'a')), calls(call('x', 'b')), result('', '1')]],
  ])('%s is refused', (_name, messages) => {
    const param = `messages[${messages.length - 1}].tool_call_id`
    expect(refusalOf(...messages)).toMatchObject({ code: 'invalid_value', param })
  })

  test('of functions, two of the same name', () => {
    const old: ChatMessage = { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } }
    const said: ChatMessage = { role: 'function', name: 'f', content: '1' }
    const parts = partsOf(HI, old, said, old, said).filter(part => part.kind === 'result')
    expect(parts.map(({ id }) => id)).toEqual(['call_1_0', 'call_3_0'])
  })
})

describe('arguments of earlier calls', () => {
  test.each<[text: string, read: object]>([
    ['', {}],
    ['{"a":1}', { a: 1 }],
    ['{"city":"Bo', { INVALID_JSON: '{"city":"Bo' }],
  ])('%j', (text, read) => {
    expect(partsOf(HI, calls(call('c', 'a', text)))[1]).toMatchObject({ arguments: read })
  })

  test('that are JSON but no object are refused', () => {
    const param = 'messages[1].tool_calls[0].function.arguments'
    expect(refusalOf(HI, calls(call('c', 'a', '[1]')))).toMatchObject({ code: 'invalid_value', param })
  })
})

test('an empty signature is none, and an empty box holds nothing', () => {
  const reasoning_details = [
    { type: 'reasoning.text', text: 'Hm.', signature: '' },
    { type: 'reasoning.encrypted', data: '' },
    { type: 'reasoning.text', text: 'So.', signature: 's' },
  ]
  const parts = partsOf(HI, { role: 'assistant', content: 'Yes', reasoning_details })
  expect(parts.filter(({ kind }) => kind === 'reasoning')).toMatchObject([{ text: 'So.', signature: 's' }])
})

test('a file without a name has none', () => {
  const file = { file_data: 'data:application/pdf;base64,AA==', filename: '' }
  expect(partsOf({ role: 'user', content: [{ type: 'file', file }] })).toMatchObject([{ name: null }])
})

test.each(['%', '%E4%', '%zz'])('a data URL with %j is refused with its place', data => {
  const image = { type: 'image_url', image_url: { url: `data:image/png,${data}` } }
  expect(refusalOf({ role: 'user', content: [image] })).toMatchObject({
    code: 'invalid_value',
    param: 'messages[0].content[0].image_url.url',
    message: expect.stringContaining("'%'"),
  })
})

test('what has no place in a conversation is named', () => {
  const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  const messages: ChatMessage[] = [
    { role: 'user', content: [picture] },
    { ...calls(call('c', 'a')), images: [picture] },
    { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'Here' }, picture] },
  ]
  expect(lostIn({ messages })).toEqual(['messages.images', 'messages.content.image_url'])
})

test('unsigned thoughts of one turn stand together, and add no part', () => {
  const said = (reasoning_content: string): ChatMessage => ({ role: 'assistant', content: 'So', reasoning_content })
  const { turns } = readConversation({ messages: [HI, said('One.'), said(' '), said('Two.')] })
  expect(turns[1]).toMatchObject({ thought: 'One.\nTwo.', parts: [{}, {}, {}] })
})
