import { describe, expect, test } from 'vitest'
import type { AnswerView } from '#contract'
import { ChunkWriter, countOf, translatedAnswer } from '../../../../src/providers/dialects/translate/completion.ts'

const view: AnswerView = { model: 'm', includeUsage: false, exchange: 'ex-1', createdAt: 1 }
const older: AnswerView = { ...view, functions: true }
const made = (name: string) => ({ id: null, name, arguments: '{"a":1}' })

describe('for clients of the older functions', () => {
  test('a whole answer has one call without an id', () => {
    const choice = { text: null, calls: [{ ...made('f'), signature: 'sig' }, made('g')], finish: 'tool_calls' } as const
    const [seen] = translatedAnswer(older, { id: null }, [choice], null).completion.choices
    const extra_content = { google: { thought_signature: 'sig' } }
    expect(seen).toMatchObject({ finish_reason: 'function_call' })
    expect(seen!.message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      function_call: { name: 'f', arguments: '{"a":1}', extra_content },
    })
  })

  test('so has a stream', () => {
    const writer = new ChunkWriter(older)
    const index = writer.call({ id: 'c', name: 'f', arguments: '' })
    writer.callArguments(index, '{"a"')
    writer.callArguments(index, ':1}')
    writer.callArguments(writer.call({ id: 'd', name: 'g', arguments: '' }), '{"b":2}')
    writer.finish('tool_calls')
    const choices = writer.take().flatMap(item => (item.kind === 'chunk' ? item.chunk.choices : []))
    expect(choices.map(({ delta, finish_reason }) => [delta, finish_reason])).toEqual([
      [{ role: 'assistant', content: null, refusal: null, function_call: { name: 'f', arguments: '' } }, null],
      [{ function_call: { arguments: '{"a"' } }, null],
      [{ function_call: { arguments: ':1}' } }, null],
      [{}, 'function_call'],
    ])
  })

  test.each(['stop', 'length'] as const)('an answer without a call ends with %s as ever', finish => {
    const [seen] = translatedAnswer(older, { id: null }, [{ text: 'Hi', finish }], null).completion.choices
    expect(seen).toMatchObject({ finish_reason: finish, message: { content: 'Hi' } })
  })
})

test('calls of several choices have different ids', () => {
  const choice = { text: null, calls: [made('f'), made('f')], finish: 'tool_calls' } as const
  const { choices } = translatedAnswer(view, { id: null }, [choice, choice, choice], null).completion
  const ids = choices.flatMap(({ message }) => message.tool_calls!.map(({ id }) => id))
  expect(new Set(ids).size).toBe(6)
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
