/** Requests that one provider or model cannot be sent: each is refused with its place, so that the next target is asked. */
import { expect, test } from 'vitest'
import { type ChatRequest, isRefusal } from '#contract'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { chatOf, target } from './anthropic/helpers.ts'

const TOOLS = [{ type: 'function', function: { name: 'a' } }]

const ROWS: readonly [
  asks: string,
  dialect: DialectName,
  model: string,
  fields: Partial<ChatRequest>,
  param: string,
][] = [
  [
    'a forced call of Claude that cannot be made to call',
    'anthropic',
    'claude-opus-5-5',
    { tools: TOOLS, tool_choice: 'required' },
    'tool_choice',
  ],
  [
    'the same on Bedrock',
    'bedrock',
    'us.anthropic.claude-opus-5-5',
    { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'a' } } },
    'tool_choice',
  ],
]

test.each(ROWS)('%s', (_, dialect, model, fields, param) => {
  let refused: unknown
  try {
    createDialect(dialect, () => 0).dialect.encodeRequest(chatOf(fields), target(model))
  } catch (error) {
    refused = error
  }
  if (!isRefusal(refused)) throw refused ?? new Error('it was not refused')
  expect([refused.code, refused.param]).toEqual(['unsupported_parameter', param])
})
