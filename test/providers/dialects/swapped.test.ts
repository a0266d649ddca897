import { describe, expect, test } from 'vitest'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'

const VIEW = { model: 'm', includeUsage: true, exchange: 'ex_1', createdAt: 1 }
const sse = (...events: object[]) => events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('')
const named = (...events: { type: string }[]) => events.map(event => `event: ${event.type}\n${sse(event)}`).join('')

const HEAD = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'x' }
const OPENAI = {
  whole: {
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi you' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  },
  stream: `${sse(
    { ...HEAD, choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }] },
    { ...HEAD, choices: [{ index: 0, delta: { content: ' you' }, finish_reason: 'stop' }] },
    { ...HEAD, choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
  )}data: [DONE]\n\n`,
}
const ANTHROPIC = {
  whole: {
    type: 'message',
    id: 'msg',
    content: [{ type: 'text', text: 'Hi you' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 3, output_tokens: 2 },
  },
  stream: named(
    { type: 'message_start', message: { id: 'msg', usage: { input_tokens: 3, output_tokens: 0 } } } as { type: string },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hi' } } as { type: string },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' you' } } as { type: string },
    { type: 'content_block_stop', index: 0 } as { type: string },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } } as { type: string },
    { type: 'message_stop' },
  ),
}
const COHERE = {
  whole: {
    id: 'c',
    message: { role: 'assistant', content: [{ type: 'text', text: 'Hi you' }] },
    finish_reason: 'COMPLETE',
    usage: { tokens: { input_tokens: 3, output_tokens: 2 } },
  },
  stream: named(
    { type: 'message-start', id: 'c' } as { type: string },
    { type: 'content-delta', index: 0, delta: { message: { content: { text: 'Hi you' } } } } as { type: string },
    {
      type: 'message-end',
      delta: { finish_reason: 'COMPLETE', usage: { tokens: { input_tokens: 3, output_tokens: 2 } } },
    } as { type: string },
  ),
}
const BEDROCK = {
  whole: {
    output: { message: { role: 'assistant', content: [{ text: 'Hi you' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 },
  },
  stream: null,
}
const GEMINI = {
  whole: {
    candidates: [{ content: { parts: [{ text: 'Hi you' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  },
  stream: sse(
    { candidates: [{ content: { parts: [{ text: 'Hi' }] } }] },
    {
      candidates: [{ content: { parts: [{ text: ' you' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
    },
  ),
}

interface Bodies {
  readonly whole: object
  readonly stream: string | null
}

const ROWS: readonly (readonly [DialectName, Bodies])[] = [
  ['openai', OPENAI],
  ['groq', OPENAI],
  ['anthropic', ANTHROPIC],
  ['bedrock-invoke', { ...ANTHROPIC, stream: null }],
  ['cohere', COHERE],
  ['bedrock', BEDROCK],
  ['gemini', GEMINI],
]

describe.each(ROWS)('%s', (name, { whole, stream }) => {
  const { dialect } = createDialect(name, () => 0)

  test.each([1, 20, 10_000])('a whole answer instead of a stream, in pieces of %i bytes', size => {
    for (const text of [JSON.stringify(whole), JSON.stringify(whole, null, 2)]) {
      const decoder = dialect.decodeStream(VIEW)
      const body = Buffer.from(text)
      const items = []
      for (let at = 0; at < body.length; at += size) items.push(...decoder.push(body.subarray(at, at + size)))
      items.push(...decoder.end())
      const chunks = items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))
      const deltas = chunks.flatMap(chunk => chunk.choices)
      expect(deltas.map(({ delta }) => delta.content ?? '').join('')).toBe('Hi you')
      expect(deltas.map(({ finish_reason: finish }) => finish).filter(Boolean)).toEqual(['stop'])
      expect(chunks.filter(({ usage }) => usage)).toMatchObject([{ usage: { prompt_tokens: 3, completion_tokens: 2 } }])
      expect(items.filter(({ kind }) => kind === 'failure')).toEqual([])
    }
  })

  if (stream === null) return
  test('a stream instead of a whole answer', () => {
    for (const before of ['', ': hello\n\n', '\n']) {
      const decoded = dialect.decodeAnswer(Buffer.from(before + stream), { ...VIEW, includeUsage: false })
      expect(decoded).toMatchObject({
        completion: {
          object: 'chat.completion',
          choices: [{ index: 0, message: { role: 'assistant', content: 'Hi you' }, finish_reason: 'stop' }],
          usage: { prompt_tokens: 3, completion_tokens: 2 },
        },
        raw: null,
      })
    }
  })
})

test.each<[DialectName, object]>([
  ['openai', { error: { message: 'no', type: 'rate_limit_error' } }],
  ['anthropic', { type: 'error', error: { message: 'no', type: 'rate_limit_error' } }],
  ['gemini', { error: { code: 429, message: 'no', status: 'RESOURCE_EXHAUSTED' } }],
])('%s: an error without framing, in the middle of a stream, on one line and on several', (name, error) => {
  const { dialect } = createDialect(name, () => 0)
  for (const text of [JSON.stringify(error), JSON.stringify(error, null, 2)]) {
    for (const before of name === 'gemini' ? [''] : ['', ': hello\n\n']) {
      const decoder = dialect.decodeStream(VIEW)
      const items = [...decoder.push(Buffer.from(before + text)), ...decoder.end()]
      expect(items).toMatchObject([{ kind: 'failure', failure: { code: 'upstream_rate_limited' } }])
    }
  }
})

test('a broken stream instead of a whole answer is incomplete', () => {
  const { dialect } = createDialect('anthropic', () => 0)
  const half = ANTHROPIC.stream.slice(0, ANTHROPIC.stream.indexOf('event: message_delta'))
  const decoded = dialect.decodeAnswer(Buffer.from(half), VIEW)
  expect('completion' in decoded && decoded.completion.choices[0]!.finish_reason).toBeFalsy()
})
