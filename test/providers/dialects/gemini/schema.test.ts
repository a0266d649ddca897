/** Everything that is made here, held against OpenAI's own schema; only where a corpus is named (`CORPUS_DIR`). */
import { expect, test } from 'vitest'
import { openSchemas } from '../../../corpus/schemas.ts'
import { decoded, parts, sse, studio, view } from './support.ts'

const corpus = process.env['CORPUS_DIR']

const ALL = [
  { text: 'Hm', thought: true },
  { text: 'Hello', thoughtSignature: 'c2ln' },
  { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
  { functionCall: { name: 'a', args: { x: 1 } }, thoughtSignature: 'c2ln' },
  { functionCall: { name: 'b' } },
]
const usageMetadata = {
  promptTokenCount: 10,
  cachedContentTokenCount: 2,
  candidatesTokenCount: 5,
  thoughtsTokenCount: 3,
  totalTokenCount: 18,
}
const VALUES = [
  { ...parts(ALL, { finishReason: 'STOP' }), usageMetadata },
  parts([], { finishReason: 'SAFETY', finishMessage: 'No.' }),
  parts([], { finishReason: 'MAX_TOKENS' }),
  { promptFeedback: { blockReason: 'SAFETY', blockReasonMessage: 'No.' } },
]

test.skipIf(!corpus).each(VALUES)('%j', value => {
  const judge = openSchemas(corpus!, 'strict')
  const answer = studio.decodeAnswer(Buffer.from(JSON.stringify(value)), view)
  if ('failure' in answer) throw new Error(answer.failure.detail)
  expect(judge('CreateChatCompletionResponse', answer.completion)).toEqual([])
  const chunks = [true, false].flatMap(includeUsage =>
    decoded([sse(value)], studio, { ...view, includeUsage }).flatMap(item =>
      item.kind === 'chunk' ? [item.chunk] : [],
    ),
  )
  expect(chunks.length).toBeGreaterThan(1)
  for (const chunk of chunks) expect(judge('CreateChatCompletionStreamResponse', chunk)).toEqual([])
})
