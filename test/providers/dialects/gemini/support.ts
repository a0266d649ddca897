/** The Gemini dialect for round trips through other formats (inbound/responses/round-trip.test.ts). */
import type { AnswerView, ChatRequest, StreamItem } from '#contract'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
import { chatOf, NOW, target, view as viewOf } from '../anthropic/helpers.ts'

export const studio = createDialect('gemini', () => NOW).dialect
export const view: AnswerView = viewOf(true)

export const parts = (list: readonly unknown[], more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts: list }, index: 0, ...more }],
  responseId: 'resp-1',
  modelVersion: 'gemini-3.6-flash',
})

/** Google sends events with carriage returns. */
export const sse = (...values: readonly unknown[]): Buffer =>
  Buffer.from(values.map(value => `data: ${JSON.stringify(value)}\r\n\r\n`).join(''))

/** The items of a stream that arrives in these pieces. */
export function decoded(pieces: readonly Buffer[]): StreamItem[] {
  const decoder = studio.decodeStream(view)
  return [...pieces.flatMap(piece => [...decoder.push(piece)]), ...decoder.end()]
}

/** The request for a body, its JSON parsed. */
export function encode(fields: object, model: string) {
  const { body } = studio.encodeRequest(chatOf(fields as Partial<ChatRequest>), target(model))
  return { wire: JSON.parse(body.toString()) }
}
