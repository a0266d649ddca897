/** An answer that is put together from its chunks, where its beginning is enough. All of it: the tests of `cache`. */
import { expect, test } from 'vitest'
import { AnswerCollector, type Chunk, type Delta } from '#contract'

const chunk = (delta: Delta, more: object = {}): Chunk => ({
  id: 'a',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, ...more }],
})

test('nothing has come', () => {
  expect(new AnswerCollector(10).completion()).toBeNull()
  expect(new AnswerCollector(10, true).completion()).toBeNull()
})

test('more than is kept: the beginning, or nothing', () => {
  for (const isBeginningEnough of [true, false]) {
    const collector = new AnswerCollector(5, isBeginningEnough)
    for (const content of ['abc', 'def', 'ghi']) collector.add(chunk({ content }))
    expect(collector.isCut).toBe(isBeginningEnough)
    expect(collector.completion()?.choices).toEqual(
      isBeginningEnough ? [{ index: 0, message: { content: 'abcdef' }, finish_reason: null }] : undefined,
    )
  }
})

test('pieces that contradict each other: the first one, or nothing', () => {
  for (const isBeginningEnough of [true, false]) {
    const collector = new AnswerCollector(500, isBeginningEnough)
    collector.add(chunk({ content: 'a', audio: { id: '1' } }, { logprobs: { content: [1] } }))
    collector.add(chunk({ content: 'b', audio: { id: '2' } }, { logprobs: { content: [2] }, finish_reason: 'stop' }))
    expect(collector.isCut).toBe(false)
    expect(collector.completion()?.choices).toEqual(
      isBeginningEnough
        ? [
            {
              index: 0,
              message: { content: 'ab', audio: { id: '1' } },
              logprobs: { content: [1] },
              finish_reason: 'stop',
            },
          ]
        : undefined,
    )
  }
})
