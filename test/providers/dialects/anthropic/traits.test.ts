import { expect, test } from 'vitest'
import { traitsOf } from '../../../../src/providers/dialects/anthropic/traits.ts'

/** Sampling, thinking, schemas, prefill, `xhigh`. */
const OLD = 'free none - prefill -'
const THREE_7 = 'free budget - prefill -'
const FOUR = 'either budget - prefill -'
const FOUR_5 = 'either budget schemas prefill -'
const FOUR_6 = 'either adaptive schemas - -'
const NEWEST = 'none adaptive schemas - xhigh'

test.each([
  ['claude-instant-1.2', OLD],
  ['claude-2.1', OLD],
  ['anthropic.claude-v2:1', OLD],
  ['claude-3-opus-latest', OLD],
  ['claude-3-5-sonnet-20241022', OLD],
  ['claude-3-7-sonnet-20250219', THREE_7],
  ['claude-3-7-sonnet@20250219', THREE_7],
  ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', THREE_7],
  ['claude-sonnet-4-0', FOUR],
  ['claude-sonnet-4-20250514', FOUR],
  ['claude-sonnet-4@20250514', FOUR],
  ['claude-opus-4', FOUR],
  ['claude-opus-4-1-20250805', FOUR],
  ['us.anthropic.claude-opus-4-1-20250805-v1:0', FOUR],
  ['claude-haiku-4-5-20251001', FOUR_5],
  ['anthropic/claude-sonnet-4.5', FOUR_5],
  ['Claude-Opus-4-6', FOUR_6],
  ['claude-opus-4-8', NEWEST],
  ['claude-opus-4-10', NEWEST],
  ['claude-sonnet-5', NEWEST],
  ['claude-fable-5-20260801', NEWEST],
  ['claude-sonnet-31', NEWEST],
  ['something-else', NEWEST],
])('%s', (model, expected) => {
  const { sampling, thinking, schemas, prefill, knowsXhigh } = traitsOf(model)
  const words = [sampling, thinking, schemas ? 'schemas' : '-', prefill ? 'prefill' : '-', knowsXhigh ? 'xhigh' : '-']
  expect(words.join(' ')).toBe(expected)
})
