/** What this dialect makes of answers fits OpenAI's strict schema, which lies in the corpus that CORPUS_DIR names. */
import { beforeAll, describe, expect, test } from 'vitest'
import { type Judge, openSchemas } from '../../../corpus/schemas.ts'
import {
  blockStart,
  blockStop,
  chunksOf,
  delta,
  dialect,
  type Event,
  end,
  itemsOfEvents,
  start,
  text,
  view,
} from './helpers.ts'

const dir = process.env['CORPUS_DIR'] ?? ''
if (dir === '')
  console.log("The Anthropic dialect against OpenAI's strict schema is LEFT OUT: CORPUS_DIR names no corpus")

const THOUGHT = { type: 'thinking', thinking: 'Hm.', signature: 'sig' }
const CALL = { type: 'tool_use', id: 'toolu_1', name: 'a', input: { x: 1 } }
const USAGE = {
  input_tokens: 1,
  cache_read_input_tokens: 2,
  cache_creation_input_tokens: 3,
  output_tokens: 4,
  output_tokens_details: { thinking_tokens: 1 },
}

/** A message's blocks, the same as events, and its stop reason. */
const ANSWERS: readonly (readonly [name: string, content: unknown[], events: Event[], stop: string | null])[] = [
  ['nothing', [], [], 'end_turn'],
  ['a text', [{ type: 'text', text: 'a' }], text(0, 'a'), 'max_tokens'],
  [
    'thinking and a call',
    [THOUGHT, { type: 'redacted_thinking', data: 'box' }, CALL],
    [
      blockStart(0, { ...THOUGHT, thinking: '' }),
      delta(0, 'thinking_delta', { thinking: 'Hm.' }),
      blockStop(0),
      blockStart(1, { type: 'redacted_thinking', data: 'box' }),
      blockStart(2, { ...CALL, input: {} }),
      delta(2, 'input_json_delta', { partial_json: '{"x":1}' }),
      blockStop(2),
    ],
    'tool_use',
  ],
  ['a call that says nothing of itself', [{ type: 'tool_use' }], [blockStart(0, { type: 'tool_use' })], null],
  ['a refusal', [], [], 'refusal'],
]

describe.skipIf(dir === '')('strictly', () => {
  let judge: Judge
  beforeAll(() => {
    judge = openSchemas(dir, 'strict')
  })
  const stop_details = { category: 'x', explanation: 'I will not.' }

  test.each(ANSWERS)('%s', (_name, content, events, stop_reason) => {
    const message = { id: 'msg_1', type: 'message', content, stop_reason, stop_details, usage: USAGE }
    const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(message)), view())
    expect('completion' in answer && judge('CreateChatCompletionResponse', answer.completion)).toEqual([])
    for (const includeUsage of [false, true]) {
      const items = itemsOfEvents([start(USAGE), ...events, ...end(stop_reason, USAGE, { stop_details })], includeUsage)
      expect(items.at(-1)).toEqual({ kind: 'done' })
      for (const chunk of chunksOf(items)) expect(judge('CreateChatCompletionStreamResponse', chunk)).toEqual([])
    }
  })
})
