/** What differs between models, seen in the requests. */
import { expect, test } from 'vitest'
import { encode, studio, vertex } from './support.ts'

test.each([
  ['gemini-2.5-flash', studio, true],
  ['gemini-2.5-flash', vertex, false],
  ['gemini-2.0-flash', studio, false],
  ['gemini-3.5-flash', vertex, true],
  ['gemini-7', vertex, true],
])('penalties for %s', (model, dialect, isDropped) => {
  const { dropped, wire } = encode({ presence_penalty: 1 }, model, dialect)
  expect(dropped).toEqual(isDropped ? ['presence_penalty'] : [])
  expect(wire.generationConfig.presencePenalty).toBe(isDropped ? undefined : 1)
})

const seen = { includeThoughts: true }
test.each<[model: string, effort: string | null, cap: number, config: object | undefined]>([
  ['gemini-2.0-flash', 'high', 4_000, undefined],
  ['gemma-3-27b-it', 'high', 4_000, undefined],
  ['gemini-2.5-flash-image', 'high', 4_000, undefined],
  ['gemini-3-pro-image-preview', 'high', 4_000, undefined],
  ['gemini-2.5-flash', null, 4_000, seen],
  ['gemini-2.5-flash-lite', null, 4_000, undefined],
  ['gemini-2.5-flash', 'none', 4_000, { thinkingBudget: 0 }],
  ['gemini-2.5-pro', 'none', 4_000, { thinkingBudget: 128, ...seen }],
  ['gemini-2.5-flash', 'minimal', 4_000, { thinkingBudget: 512, ...seen }],
  ['gemini-2.5-flash', 'low', 4_000, { thinkingBudget: 1_024, ...seen }],
  ['gemini-2.5-flash', 'medium', 4_000, { thinkingBudget: 2_000, ...seen }],
  ['gemini-2.5-flash', 'medium', 40_000, { thinkingBudget: 8_192, ...seen }],
  ['gemini-2.5-flash', 'max', 100_000, { thinkingBudget: 24_576, ...seen }],
  ['gemini-2.5-pro', 'max', 100_000, { thinkingBudget: 32_768, ...seen }],
  ['gemini-2.5-flash', 'high', 1, { thinkingBudget: 0 }],
  ['gemini-2.5-flash-lite', 'low', 1_000, { thinkingBudget: 0 }],
  ['gemini-2.5-pro', 'low', 100, { thinkingBudget: 128, ...seen }],
  ['gemini-3-flash-preview', null, 4_000, seen],
  ['gemini-3-flash-preview', 'none', 4_000, { thinkingLevel: 'MINIMAL', ...seen }],
  ['gemini-3.5-flash', 'low', 4_000, { thinkingLevel: 'LOW', ...seen }],
  ['gemini-3.5-flash', 'medium', 4_000, { thinkingLevel: 'MEDIUM', ...seen }],
  ['gemini-3-pro-preview', 'none', 4_000, { thinkingLevel: 'LOW', ...seen }],
  ['gemini-3-pro-preview', 'medium', 4_000, { thinkingLevel: 'HIGH', ...seen }],
  ['gemini-3.1-pro-preview', 'medium', 4_000, { thinkingLevel: 'MEDIUM', ...seen }],
  ['gemini-3.7-flash', 'minimal', 4_000, { thinkingLevel: 'LOW', ...seen }],
  ['gemini-flash-latest', 'xhigh', 4_000, { thinkingLevel: 'HIGH', ...seen }],
  ['something-new', 'max', 4_000, { thinkingLevel: 'HIGH', ...seen }],
])('%s thinks with effort %s and a cap of %i', (model, effort, cap, config) => {
  const { wire } = encode({ reasoning_effort: effort }, model, studio, cap)
  expect(wire.generationConfig.thinkingConfig).toEqual(config)
  expect(wire.generationConfig.maxOutputTokens).toBe(cap)
})
