import { expect, test } from 'vitest'
import { traitsOf } from '../../../../src/providers/dialects/anthropic/traits.ts'

/** Sampling, thinking, schemas, prefill, `xhigh`, whether the model always thinks, forced calls, and instructions among the messages. */
const OLD = 'free none - prefill - - forced -'
const THREE_7 = 'free budget - prefill - - forced -'
const FOUR = 'either budget - prefill - - forced -'
const FOUR_5 = 'either budget schemas prefill - - forced -'
const FOUR_6 = 'either adaptive schemas - - - forced -'
const FIVE = 'none adaptive schemas - xhigh - forced -'
const FABLE_5 = 'none adaptive schemas - xhigh always forced within'
const OPUS_5 = 'none adaptive schemas - xhigh - forced within'
const NEWEST = 'none adaptive schemas - xhigh always - within'

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
  ['claude-opus-4-7', FIVE],
  ['claude-opus-4-8', OPUS_5],
  ['claude-opus-4-10', NEWEST],
  ['claude-sonnet-5', FIVE],
  ['claude-opus-5@20260601', OPUS_5],
  ['us.anthropic.claude-opus-5-20260601-v1:0', OPUS_5],
  ['claude-fable-5-20260801', FABLE_5],
  ['claude-mythos-5', FABLE_5],
  ['claude-fable-5-1', NEWEST],
  ['claude-sonnet-5-5', NEWEST],
  ['us.anthropic.claude-opus-5-5', NEWEST],
  ['claude-sonnet-31', NEWEST],
  ['something-else', NEWEST],
])('%s', (model, expected) => {
  const { sampling, thinking, schemas, prefill, knowsXhigh, alwaysReasons, forcedChoice, systemWithin } =
    traitsOf(model)
  const said = {
    schemas,
    prefill,
    xhigh: knowsXhigh,
    always: alwaysReasons,
    forced: forcedChoice,
    within: systemWithin,
  }
  const words = Object.entries(said).map(([word, is]) => (is ? word : '-'))
  expect([sampling, thinking, ...words].join(' ')).toBe(expected)
})
