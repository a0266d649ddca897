/** What this dialect makes of answers fits OpenAI's strict schema, which lies in the corpus that CORPUS_DIR names. */
import { beforeAll, describe, expect, test } from 'vitest'
import { type Judge, openSchemas } from '../../../corpus/schemas.ts'
import { COUNTED, call, chunksOf, decoded, end, itemsOfLines, type Line, line, text } from './helpers.ts'

const dir = process.env['CORPUS_DIR'] ?? ''
if (dir === '') console.log("The Ollama dialect against OpenAI's strict schema is LEFT OUT: CORPUS_DIR names no corpus")

const CALL = call(null, 'a', { x: 1 })

/** A whole answer's message, the same as lines, and why it ended. */
const ANSWERS: readonly (readonly [name: string, message: object, lines: Line[], reason: string | null])[] = [
  ['nothing', {}, [], 'stop'],
  ['a text', { content: 'a' }, [text('a')], 'length'],
  ['a thought', { thinking: 'a' }, [line({ thinking: 'a' })], null],
  ['a call', CALL['message'] as object, [CALL], 'stop'],
]

describe.skipIf(dir === '')('strictly', () => {
  let judge: Judge
  beforeAll(() => {
    judge = openSchemas(dir, 'strict')
  })

  test.each(ANSWERS)('%s', (_name, message, lines, reason) => {
    const answer = decoded({ ...end(reason, COUNTED), message })
    expect('completion' in answer && judge('CreateChatCompletionResponse', answer.completion)).toEqual([])
    for (const includeUsage of [false, true]) {
      const items = itemsOfLines([...lines, end(reason)], includeUsage)
      expect(items.at(-1)).toEqual({ kind: 'done' })
      for (const chunk of chunksOf(items)) expect(judge('CreateChatCompletionStreamResponse', chunk)).toEqual([])
    }
  })
})
