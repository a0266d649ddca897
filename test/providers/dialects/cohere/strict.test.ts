/** What this dialect makes of answers fits OpenAI's strict schema, which lies in the corpus that CORPUS_DIR names. */
import { beforeAll, describe, expect, test } from 'vitest'
import { type Judge, openSchemas } from '../../../corpus/schemas.ts'
import { call, chunksOf, decoded, type Event, end, itemsOfEvents, plan, START, text, thought, USED } from './helpers.ts'

const dir = process.env['CORPUS_DIR'] ?? ''
if (dir === '') console.log("The Cohere dialect against OpenAI's strict schema is LEFT OUT: CORPUS_DIR names no corpus")

const CALLS = [{ id: 'a_1', type: 'function', function: { name: 'a', arguments: 'null' } }]

/** A message, the same as events, and its finish reason. */
const ANSWERS: readonly (readonly [name: string, message: object, events: Event[], reason: string | null])[] = [
  ['nothing', {}, [], 'COMPLETE'],
  ['a text', { content: [{ type: 'text', text: 'a' }] }, [text('a')], 'MAX_TOKENS'],
  ['a thought', { content: [{ type: 'thinking', thinking: 'a' }] }, [thought('a')], 'COMPLETE'],
  [
    'a plan and a call',
    { tool_plan: 'p', tool_calls: CALLS },
    [plan('p'), ...call(0, 'a_1', 'a', 'null')],
    'TOOL_CALL',
  ],
  ['a call at once', { tool_calls: CALLS }, call(0, 'a_1', 'a'), null],
]

describe.skipIf(dir === '')('strictly', () => {
  let judge: Judge
  beforeAll(() => {
    judge = openSchemas(dir, 'strict')
  })

  test.each(ANSWERS)('%s', (_name, message, events, finish_reason) => {
    const answer = decoded({ id: 'ans-1', message, finish_reason, usage: USED })
    expect('completion' in answer && judge('CreateChatCompletionResponse', answer.completion)).toEqual([])
    for (const includeUsage of [false, true]) {
      const items = itemsOfEvents([START, ...events, end(finish_reason)], includeUsage)
      expect(items.at(-1)).toEqual({ kind: 'done' })
      for (const chunk of chunksOf(items)) expect(judge('CreateChatCompletionStreamResponse', chunk)).toEqual([])
    }
  })
})
