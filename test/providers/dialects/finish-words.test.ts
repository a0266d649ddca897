import { expect, test } from 'vitest'
import { finishOf, lacksFinishReason } from '../../../src/providers/dialects/finish-words.ts'

test.each<[words: string, expected: string]>([
  ['stop eos end_turn COMPLETE STOP stop_sequence tool_use TOOL_CALL', 'stop'],
  ['length max_tokens MAX_TOKENS model_length model_context_window_exceeded', 'length'],
  ['content_filter sensitive refusal SAFETY guardrail_intervened content_filtered ERROR_TOXIC', 'content_filter'],
  ['insufficient_system_resource', 'upstream_overloaded'],
  ['TIMEOUT', 'upstream_timeout'],
  ['error network_error ERROR MALFORMED_FUNCTION_CALL malformed_tool_use abort', 'upstream_error'],
  ['constructor tomorrow', 'upstream_error'],
])('%s: %s', (words, expected) => {
  for (const word of words.split(' ')) {
    const finish = finishOf(word, false)
    expect(typeof finish === 'string' ? finish : finish.code, word).toBe(expected)
  }
})

test('an answer with calls that stops normally finishes with tool_calls', () => {
  expect(['stop', 'tool_use', 'STOP', null].map(word => finishOf(word, true))).toEqual(Array(4).fill('tool_calls'))
  expect(finishOf('max_tokens', true)).toBe('length')
})

test('values that are not words', () => {
  expect([null, undefined, '', 'null', 'stop', 0].map(lacksFinishReason)).toEqual([
    true,
    true,
    true,
    true,
    false,
    false,
  ])
})
