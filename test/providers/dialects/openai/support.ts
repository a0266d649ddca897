/** Helpers for the tests of OpenAI and its relatives: a request, a target and a view. */
import type { AnswerView, Chat, ChatRequest, Target } from '#contract'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'

export const NOW = Date.parse('2026-11-20T12:00:00Z')

export const target = (fields: Partial<Target> = {}): Target => ({
  id: 'near/some-mini',
  provider: 'near',
  model: 'some-mini',
  weight: 1,
  cost: null,
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
  ...fields,
})

/** The fact `chat` for a body as the client wrote it, with a cap of 100 tokens. */
export function chatOf(text: string): Chat {
  const body = JSON.parse(text) as ChatRequest
  return {
    body,
    bytes: Buffer.from(text),
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    requestedCap: null,
    cap: 100,
  }
}

/** The request to the provider: its body as text, and the names of dropped parameters. */
export function sent(name: DialectName, text: string, fields: Partial<Target> = {}) {
  const { body, dropped } = createDialect(name, () => NOW).dialect.encodeRequest(chatOf(text), target(fields))
  return { text: body.toString(), dropped }
}

export const VIEW: AnswerView = { model: 'chat-small', includeUsage: true, exchange: 'req_1', createdAt: 1_790_000_000 }
