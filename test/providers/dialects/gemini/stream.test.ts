import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Delta, StreamItem } from '#contract'
import { counts } from '../../../helpers/counts.ts'
import { bytewise, decoded, folded, list, parts, sse, studio, view } from './support.ts'

const usage = (prompt: number, candidates: number) => ({
  usageMetadata: {
    promptTokenCount: prompt,
    candidatesTokenCount: candidates,
    totalTokenCount: prompt + candidates,
  },
})
const text = (said: string, more: object = {}) => ({ ...parts([{ text: said }], more), ...usage(10, 1) })
const STOP = { finishReason: 'STOP' }
const end = (said = '') => ({ ...parts([{ text: said }], STOP), ...usage(10, 5) })

const deltas = (items: readonly StreamItem[]): Delta[] =>
  items.flatMap(item => (item.kind === 'chunk' ? item.chunk.choices.map(choice => choice.delta) : []))
const last = (items: readonly StreamItem[]) => items.at(-1)
const finishes = (items: readonly StreamItem[]) =>
  items.flatMap(item => (item.kind === 'chunk' ? item.chunk.choices.flatMap(choice => choice.finish_reason ?? []) : []))

test('a stream, chunk by chunk', () => {
  const head = { id: 'resp-1', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'chat-large' }
  const chunk = (delta: Delta, finish_reason: string | null = null): StreamItem => ({
    kind: 'chunk',
    chunk: { ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null },
    raw: null,
    usage: null,
  })
  const soFar = { kind: 'usage', usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 } }
  const used = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
  expect(decoded([sse(text('Hel'), text('lo'), end())])).toEqual([
    chunk({ role: 'assistant', content: 'Hel', refusal: null }),
    soFar,
    chunk({ content: 'lo' }),
    soFar,
    { kind: 'usage', usage: used },
    chunk({}, 'stop'),
    { kind: 'chunk', chunk: { ...head, choices: [], usage: used }, raw: null, usage: used },
    { kind: 'done' },
  ])
})

test('usage that nobody asked for is no chunk', () => {
  const items = decoded([sse(end('Hi'))], studio, { ...view, includeUsage: false })
  expect(items.slice(-2)).toEqual([
    { kind: 'usage', usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } },
    { kind: 'done' },
  ])
  expect(JSON.stringify(items.filter(item => item.kind === 'chunk').map(item => item.chunk))).not.toContain('usage')
})

/** Streams that go well. */
const GOOD: readonly (readonly [name: string, pieces: readonly object[]])[] = [
  ['a text', [text('Grüße '), text('an 世界 👋'), end()]],
  ['thoughts and a signature', [parts([{ text: 'Hm', thought: true }]), text('Yes'), signature(), end()]],
  ['a call and its end in one', [parts([{ functionCall: { name: 'a', args: { x: '"}]{[' } } }], STOP)]],
  ['a call and a later end', [parts([call('a'), call('b')]), parts([call('c')]), end()]],
  ['pictures', [parts([picture()]), text('There'), parts([picture()], STOP)]],
  ['the cap', [text('A'), parts([], { finishReason: 'MAX_TOKENS' })]],
  ['a filter', [text('A'), parts([], { finishReason: 'SAFETY', finishMessage: 'No.' })]],
  ['a blocked prompt', [{ promptFeedback: { blockReason: 'SAFETY' }, responseId: 'resp-1', ...usage(4, 0) }]],
]

function signature() {
  return parts([{ text: '', thoughtSignature: 'c2ln' }])
}
function call(name: string) {
  return { functionCall: { name, args: { of: name } }, thoughtSignature: 'c2ln' }
}
function picture() {
  return { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
}

describe.each(GOOD)('%s', (_, pieces) => {
  const items = decoded([sse(...pieces)])

  test('is over in good order, with one reason and the role once', () => {
    expect(last(items)).toEqual({ kind: 'done' })
    expect(finishes(items)).toHaveLength(1)
    expect(deltas(items).map(delta => delta.role)).toEqual([
      'assistant',
      ...deltas(items)
        .slice(1)
        .map(() => undefined),
    ])
  })

  test('comes out the same byte by byte, and as a list', () => {
    expect(decoded(bytewise(sse(...pieces)))).toEqual(items)
    expect(decoded([list(...pieces)])).toEqual(items)
    expect(decoded(bytewise(list(...pieces)))).toEqual(items)
  })

  test('folds into what the whole answer is', () => {
    const all = pieces as { candidates?: { content?: { parts?: unknown[] } }[]; usageMetadata?: object }[]
    const together = all.flatMap(piece => piece.candidates?.[0]?.content?.parts ?? [])
    const whole = studio.decodeAnswer(
      Buffer.from(
        JSON.stringify({
          ...Object.assign({}, ...all),
          ...(all.at(-1)!.candidates
            ? { candidates: [{ ...all.at(-1)!.candidates![0], content: { parts: together } }] }
            : {}),
        }),
      ),
      view,
    )
    if ('failure' in whole) throw new Error(whole.failure.detail)
    const [choice] = whole.completion.choices
    const stream = folded(items)
    const message = { ...stream.message, content: stream.message['content'] || choice!.message.content }
    expect(message).toEqual(choice!.message)
    expect(stream.finish).toBe(choice!.finish_reason)
    expect(stream.usage).toEqual(whole.completion.usage ?? null)
  })
})

/** Streams that do not: what the failure is, and how many chunks come before it. */
const BAD: readonly (readonly [name: string, body: Buffer, code: string, chunks: number])[] = [
  ['an error as the first event', sse({ error: { code: 503, status: 'UNAVAILABLE' } }), 'upstream_overloaded', 0],
  ['an error in a list', list({ error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }), 'upstream_rate_limited', 0],
  ['an error alone', Buffer.from('{"error":{"code":500,"message":"x"}}'), 'upstream_error', 0],
  ['an error later', sse(text('A'), { error: { code: 503 } }, end('B')), 'upstream_overloaded', 1],
  ['no end', sse(text('A')), 'upstream_truncated', 1],
  ['a list without its end', list(text('A'), end()).subarray(0, -2), 'upstream_truncated', 1],
  ['a list that ends in an object', list(text('A'), end()).subarray(0, -9), 'upstream_truncated', 1],
  ['an event that ends too early', Buffer.concat([sse(end('A')), Buffer.from('data: {"cand')]), 'upstream_invalid', 1],
  ['no JSON', Buffer.from('data: hello\n\n'), 'upstream_invalid', 0],
  ['no object', Buffer.from('data: 7\n\n'), 'upstream_invalid', 0],
  ['a number in the list', Buffer.from('[7]'), 'upstream_invalid', 0],
  ['something behind the list', Buffer.concat([list(end('A')), Buffer.from('{}')]), 'upstream_invalid', 1],
  ['a call that is malformed', sse(parts([], { finishReason: 'MALFORMED_FUNCTION_CALL' })), 'upstream_error', 0],
  ['a reason that is new, and nothing else', sse(parts([], { finishReason: 'WEARY' })), 'upstream_error', 0],
  ['arguments that are no object', sse(parts([{ functionCall: { name: 'a', args: [] } }])), 'upstream_invalid', 0],
]

describe.each(BAD)('%s', (_, body, code, chunks) => {
  const items = decoded([body])

  test('is a failure and nothing after it', () => {
    expect(last(items)).toMatchObject({ kind: 'failure', failure: { code } })
    expect(items.filter(item => item.kind === 'chunk')).toHaveLength(chunks)
    expect(finishes(items)).toEqual([])
  })

  test('is the same byte by byte', () => {
    expect(decoded(bytewise(body))).toEqual(items)
  })
})

test('a stream of nothing is for the pump to name', () => {
  for (const body of ['', '\r\n\r\n', '[]', ': hello\n\n', '  ']) expect(decoded([Buffer.from(body)])).toEqual([])
})

test('what was used until it broke is told', () => {
  const items = decoded([sse(text('A'), { error: { code: 503 } })])
  expect(items.at(-2)).toMatchObject({ kind: 'usage', usage: { prompt_tokens: 10, completion_tokens: 1 } })
})

test('also what was used for a piece that makes no sense', () => {
  const items = decoded([sse({ ...parts([{ functionCall: { args: {} } }]), ...usage(10, 2) })])
  expect(items.at(-2)).toMatchObject({ kind: 'usage', usage: { prompt_tokens: 10, completion_tokens: 2 } })
})

test('counts that are missing in one event do not wipe out those of another', () => {
  const items = decoded([sse(end('A'), { usageMetadata: { trafficType: 'ON_DEMAND' } })])
  expect(folded(items).usage).toMatchObject({ prompt_tokens: 10 })
})

test('of several candidates the first is the one that was asked for', () => {
  const other = { content: { parts: [{ text: 'B' }] }, index: 1, finishReason: 'SAFETY' }
  const both = { candidates: [parts([{ text: 'A' }], STOP).candidates[0], other] }
  expect(folded(decoded([sse(both)]))).toMatchObject({ message: { content: 'A' }, finish: 'stop' })
})

test('any split gives the same items', () => {
  const pieces = GOOD.flatMap(([, each]) => each)
  const bodies = [...GOOD.map(([, each]) => sse(...each)), ...GOOD.map(([, each]) => list(...each)), sse(...pieces)]
  fc.assert(
    fc.property(fc.constantFrom(...bodies), fc.array(fc.nat(), { maxLength: 30 }), (body, cuts) => {
      const at = [0, ...cuts.map(cut => cut % body.length).sort((a, b) => a - b), body.length]
      const split = at.slice(1).map((to, index) => body.subarray(at[index], to))
      expect(decoded(split)).toEqual(decoded([body]))
    }),
    { numRuns: counts(200, 5_000) },
  )
})

test('whatever comes, nothing is thrown and a failure is the last word', () => {
  const fields = [
    ...['candidates', 'content', 'parts', 'text', 'functionCall', 'name', 'args', 'partialArgs', 'jsonPath'],
    ...['willContinue', 'finishReason', 'usageMetadata', 'promptTokenCount', 'promptFeedback', 'blockReason', 'error'],
  ]
  const { any } = fc.letrec(tie => ({
    any: fc.oneof(
      { maxDepth: 6 },
      fc.constantFrom<unknown>(null, true, 0, 1, 'STOP', 'x', '$.a', [], {}),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...fields), tie('any'), { maxKeys: 5 }),
    ),
  }))
  fc.assert(
    fc.property(fc.array(any, { maxLength: 4 }), values => {
      const items = decoded([sse(...values)])
      const at = items.findIndex(item => item.kind === 'failure' || item.kind === 'done')
      expect(at === -1 || at === items.length - 1).toBe(true)
      for (const value of values) studio.decodeAnswer(Buffer.from(JSON.stringify(value)), view)
    }),
    { numRuns: counts(500, 20_000) },
  )
})
