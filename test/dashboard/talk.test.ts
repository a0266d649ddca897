import { describe, expect, test } from 'vitest'
import type { StreamEvent } from '../../src/dashboard/lib/sse.ts'
import {
  type Answer,
  adviceFor,
  finishOf,
  isOpen,
  newAnswer,
  requestOf,
  type Turn,
  withEnd,
  withEvent,
} from '../../src/dashboard/lib/talk.ts'

function answerFrom(...events: StreamEvent[]): Answer {
  return events.reduce((answer, event, index) => withEvent(answer, event, 10 * (index + 1)), newAnswer('small'))
}

const text = (words: string): StreamEvent => ({ kind: 'text', text: words })
const failure: StreamEvent = { kind: 'error', code: 'upstream_truncated', message: 'It broke off.' }

describe('an answer', () => {
  test('that ends with an error keeps its text, and stays failed', () => {
    const answer = answerFrom(text('Half an'), failure, { kind: 'done' })
    expect(answer).toMatchObject({
      state: 'failed',
      text: 'Half an',
      error: { code: 'upstream_truncated', message: 'It broke off.' },
      totalMs: 20,
    })
    expect(withEnd(answer, 99)).toBe(answer)
  })

  test('that stops without [DONE] is broken, even after a finish reason', () => {
    const answer = withEnd(answerFrom(text('All'), { kind: 'finish', reason: 'stop' }), 50)
    expect(answer).toMatchObject({ state: 'broken', text: 'All', totalMs: 50, error: { code: 'connection_lost' } })
  })

  test('without any event is broken too', () => {
    expect(withEnd(newAnswer('small'), 5)).toMatchObject({ state: 'broken', firstMs: null })
  })

  test('is complete with its end, its usage, and the time of its first piece', () => {
    const answer = answerFrom(
      { kind: 'thought', text: 'Hm' },
      text('He'),
      text('llo'),
      { kind: 'finish', reason: 'stop' },
      { kind: 'usage', promptTokens: 7, completionTokens: 3 },
      { kind: 'done' },
    )
    expect(answer).toMatchObject({
      state: 'done',
      thoughts: 'Hm',
      text: 'Hello',
      pieces: 3,
      firstMs: 10,
      totalMs: 60,
      finish: 'stop',
      promptTokens: 7,
      completionTokens: 3,
      error: null,
    })
    expect(withEnd(answer, 99)).toBe(answer)
  })

  test('is open until it has ended', () => {
    expect(
      [newAnswer('small'), answerFrom(text('a')), answerFrom(failure), answerFrom({ kind: 'done' })].map(isOpen),
    ).toEqual([true, true, false, false])
  })
})

describe('the request', () => {
  const turn = (question: string, answer: Answer): Turn => ({ id: 1, question, answer })

  test('has only the question without other settings', () => {
    expect(requestOf([], 'Why?', { model: 'small', free: false, system: ' \n' })).toEqual({
      model: 'small',
      messages: [{ role: 'user', content: 'Why?' }],
    })
  })

  test('has the conversation so far, without unanswered questions', () => {
    const turns = [
      turn('One?', answerFrom(text('1'))),
      turn('Two?', answerFrom(failure)),
      turn('Three?', answerFrom(text('3'), failure)),
    ]
    const settings = { model: 'small', free: true, system: 'Be brief.', longest: 9, temperature: 0, effort: 'low' }
    expect(requestOf(turns, 'Four?', settings)).toEqual({
      model: 'small',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'One?' },
        { role: 'assistant', content: '1' },
        { role: 'user', content: 'Three?' },
        { role: 'assistant', content: '3' },
        { role: 'user', content: 'Four?' },
      ],
      max_completion_tokens: 9,
      temperature: 0,
      reasoning_effort: 'low',
    })
  })
})

test.each([
  ['insufficient_quota', 'Ask the operator'],
  ['rate_limit_exceeded', 'Wait a little'],
  ['context_length_exceeded', 'new chat'],
])('the code %s has advice', (code, words) => {
  expect(adviceFor(code)).toContain(words)
})

test.each(['toString', 'invalid_json', ''])('the code "%s" has no advice', code => {
  expect(adviceFor(code)).toBeNull()
})

test.each([
  ['length', null, 'maximum output tokens'],
  ['length', 64, '64 tokens: the balance'],
  ['content_filter', null, 'content filter'],
  ['tool_calls', null, 'tool'],
])('the finish reason %s with the cap %s is explained', (reason, cap, words) => {
  expect(finishOf(reason, cap)).toContain(words)
})

test.each(['stop', null])('the finish reason %s needs no explanation', reason => {
  expect(finishOf(reason, 64)).toBeNull()
})
