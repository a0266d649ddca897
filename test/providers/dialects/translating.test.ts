/** Dialects with their own format: answers sent back in the next request, secrets, and streams in any pieces. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatCompletion, ChatMessage, Delta, StreamItem } from '#contract'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { LineReader } from '../../../src/providers/dialects/ollama/lines.ts'
import { fold } from '../../corpus/fold.ts'
import { countsOf } from '../../helpers/counts.ts'
import { chatOf, NOW, target, view } from './anthropic/helpers.ts'

const counts = countsOf('corpus')

type Json = Readonly<Record<string, unknown>>

const dialectOf = (name: DialectName) => createDialect(name, () => NOW).dialect
const bytesOf = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))

function completionOf(name: DialectName, answer: unknown): ChatCompletion {
  const decoded = dialectOf(name).decodeAnswer(bytesOf(answer), view())
  if ('failure' in decoded) throw new Error(decoded.failure.detail)
  return decoded.completion
}

function itemsOf(name: DialectName, pieces: readonly Buffer[], includeUsage = true): StreamItem[] {
  const decoder = dialectOf(name).decodeStream(view(includeUsage))
  return [...pieces.flatMap(piece => [...decoder.push(piece)]), ...decoder.end()]
}

describe('an answer that a client sends back keeps its calls', () => {
  const CALL = { id: 'call_1', function: { index: 0, name: 'a', arguments: { x: 1 } } }
  const TEXT_CALL = { id: 'call_1', type: 'function', function: { name: 'a', arguments: '{"x":1}' } }
  const signed = (id?: string) => ({
    functionCall: { name: 'a', args: { x: 1 }, ...(id ? { id } : {}) },
    thoughtSignature: 'c2ln',
  })

  test.each<[name: DialectName, answer: object, sent: Json]>([
    [
      'ollama',
      { done: true, message: { thinking: 'Hm.', tool_calls: [CALL] } },
      {
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: '', thinking: 'Hm.', tool_calls: [CALL] },
          { role: 'tool', content: '7', tool_name: 'a', tool_call_id: 'call_1' },
        ],
      },
    ],
    [
      'cohere',
      { message: { tool_plan: 'Look.', tool_calls: [TEXT_CALL] }, finish_reason: 'TOOL_CALL' },
      {
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', tool_plan: 'Look.', tool_calls: [TEXT_CALL] },
          { role: 'tool', tool_call_id: 'call_1', content: '7' },
        ],
      },
    ],
    [
      'gemini',
      { candidates: [{ content: { parts: [signed()] }, finishReason: 'STOP' }] },
      {
        contents: [
          { role: 'user', parts: [{ text: 'Hi' }] },
          { role: 'model', parts: [signed('call_ex7_0')] },
          { role: 'user', parts: [{ functionResponse: { id: 'call_ex7_0', name: 'a', response: { result: '7' } } }] },
        ],
      },
    ],
  ])('%s', (name, answer, sent) => {
    const message = completionOf(name, answer).choices[0]!.message as ChatMessage & Delta
    const messages = [
      { role: 'user', content: 'Hi' },
      message,
      { role: 'tool', tool_call_id: message.tool_calls![0]!.id!, content: '7' },
    ]
    const { body, dropped } = dialectOf(name).encodeRequest(chatOf({ messages }), target('command-a'))
    const seen = JSON.parse(body.toString()) as Json
    expect(seen).toEqual({ ...seen, ...sent })
    expect(dropped).toEqual([])
  })
})

describe('a secret that the provider repeats is hidden', () => {
  const GOOGLE = 'Model projects/my-secret-project/models/x of s3cret not found.'

  test.each<[name: DialectName, from: 'error' | 'answer', body: object]>([
    ['ollama', 'error', { error: 'the key s3cret is odd' }],
    ['ollama', 'answer', { error: 'the key s3cret is odd' }],
    ['cohere', 'error', { message: 'the key s3cret is odd' }],
    ['cohere', 'answer', { message: 'the key s3cret is odd' }],
    ['cohere', 'answer', { message: { content: [] }, finish_reason: 'ERROR', error: 's3cret' }],
    ['gemini', 'error', { error: { code: 404, status: 'NOT_FOUND', message: GOOGLE } }],
    ['gemini', 'answer', { error: { code: 404, status: 'NOT_FOUND', message: GOOGLE } }],
  ])('%s: %s %j', (name, from, body) => {
    const { dialect } = createDialect(
      name,
      () => NOW,
      text => text.replaceAll('s3cret', '[hidden]'),
    )
    const failure =
      from === 'error' ? dialect.decodeError(400, {}, bytesOf(body)) : dialect.decodeAnswer(bytesOf(body), view())
    expect(JSON.stringify(failure)).toContain('[hidden]')
    expect(JSON.stringify(failure)).not.toMatch(/s3cret|my-secret-project/)
  })
})

test('the log has the error of a failed answer of Cohere, the client does not get it', () => {
  const body = { message: { content: [] }, finish_reason: 'ERROR', error: 'out of memory' }
  expect(dialectOf('cohere').decodeAnswer(bytesOf(body), view())).toEqual({
    failure: { code: 'upstream_error', detail: 'the answer finished with the reason ERROR: out of memory' },
  })
})

test.each<[name: DialectName, headers: object]>([
  ['gemini', { 'x-goog-api-key': 'k' }],
  ['vertex', { authorization: 'Bearer k' }],
  ['cohere', { authorization: 'Bearer k' }],
  ['ollama', { authorization: 'Bearer k' }],
])('%s: the key is in a header', (name, headers) => {
  const unsigned = { host: 'a.example', path: '/', query: '', headers: {}, body: Buffer.alloc(0) }
  expect(createDialect(name, () => NOW).authorize('k', unsigned, NOW)).toEqual(headers)
})

describe('too deep or too long', () => {
  // A numeric name makes V8 use the recursive writer, which fails at this depth.
  const DEEP = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  const INVALID = { code: 'upstream_invalid' }

  test.each<[name: DialectName, body: string]>([
    ['ollama', `{"done":true,"message":{"tool_calls":[{"function":{"name":"a","arguments":${DEEP}}}]}}`],
    [
      'gemini',
      `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"functionCall":{"name":"a","args":${DEEP}}}]}}]}`,
    ],
  ])('%s: arguments of an answer and of a stream', (name, body) => {
    expect(dialectOf(name).decodeAnswer(bytesOf(body), view())).toMatchObject({ failure: INVALID })
    expect(itemsOf(name, [bytesOf(body)])).toMatchObject([{ kind: 'failure', failure: INVALID }])
  })

  test('cohere: an event', () => {
    const end = 'data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}\n\n'
    const pieces = inPieces(bytesOf(`data: ${'x'.repeat(1024 * 1024 + 10)}${end}`), [100_000])
    expect(itemsOf('cohere', pieces)).toMatchObject([{ kind: 'failure', failure: INVALID }])
  })

  test('gemini: such a tool result is sent as text', () => {
    const content = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'a', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'c', content },
    ]
    const { body } = dialectOf('gemini').encodeRequest(chatOf({ messages }), target('gemini-2.0-flash'))
    expect(JSON.parse(body.toString()).contents[2].parts[0].functionResponse.response).toEqual({ result: content })
  })
})

test('ollama: a line does not change when the next one is read', () => {
  const reader = new LineReader()
  reader.push(Buffer.from('on'))
  const [first] = reader.push(Buffer.from('e\ntw'))
  reader.push(Buffer.from('o\n'))
  expect(String(first)).toBe('one')
})

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const words = fc.array(word, { maxLength: 5 })
const generated = fc.record({
  thoughts: words,
  plans: words,
  texts: words,
  pictures: fc.nat({ max: 2 }),
  isSigned: fc.boolean(),
  calls: fc.array(fc.record({ name: word, args: fc.dictionary(word, fc.jsonValue()) }), { maxLength: 3 }),
  isCut: fc.boolean(),
})
type GeneratedAnswer = typeof generated extends fc.Arbitrary<infer T> ? T : never

interface Form {
  readonly name: DialectName
  /** The body of a stream. */
  stream(one: GeneratedAnswer): string
  /** The same answer, not streamed. */
  whole(one: GeneratedAnswer): object
}

const named = (event: Json) => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`
const inMessage = (type: string, index: number, message: object) => ({ type, index, delta: { message } })

/** One delta per line. */
const OLLAMA: Form = {
  name: 'ollama',
  stream: ({ thoughts, texts, calls, isCut }) => {
    const messages = [
      ...thoughts.map(thinking => ({ content: '', thinking })),
      ...texts.map(content => ({ content })),
      ...calls.map((call, index) => ({ content: '', tool_calls: [ollamaCall(call, index)] })),
    ]
    const lines = [...messages.map(message => ({ message, done: false })), { message: {}, ...ollamaEnd(isCut) }]
    return lines.map(line => `${JSON.stringify(line)}\n`).join('')
  },
  whole: ({ thoughts, texts, calls, isCut }) => ({
    message: { content: texts.join(''), thinking: thoughts.join(''), tool_calls: calls.map(ollamaCall) },
    ...ollamaEnd(isCut),
  }),
}

function ollamaCall({ name, args }: GeneratedAnswer['calls'][number], index: number) {
  return { id: `id_${index}`, function: { name, arguments: args } }
}

function ollamaEnd(isCut: boolean) {
  return { done: true, done_reason: isCut ? 'length' : 'stop', prompt_eval_count: 10, eval_count: 5 }
}

const COHERE: Form = {
  name: 'cohere',
  stream: ({ thoughts, plans, texts, calls, isCut }) => {
    const events = [
      { type: 'message-start', id: 'ans-1' },
      ...thoughts.map(thinking => inMessage('content-delta', 0, { content: { thinking } })),
      ...plans.map(tool_plan => inMessage('tool-plan-delta', 0, { tool_plan })),
      ...texts.map(text => inMessage('content-delta', 0, { content: { text } })),
      ...calls.flatMap(({ name, args }, index) => [
        inMessage('tool-call-start', index, { tool_calls: cohereCall(name, '', index) }),
        ...JSON.stringify(args)
          .match(/.{1,20}/gsu)!
          .map(piece => inMessage('tool-call-delta', index, { tool_calls: { function: { arguments: piece } } })),
        { type: 'tool-call-end', index },
      ]),
      { type: 'message-end', delta: cohereEnd(isCut) },
    ]
    return `${events.map(named).join('')}data: [DONE]\n\n`
  },
  whole: ({ thoughts, plans, texts, calls, isCut }) => ({
    id: 'ans-1',
    message: {
      content: [
        { type: 'thinking', thinking: thoughts.join('') },
        { type: 'text', text: texts.join('') },
      ],
      tool_plan: plans.join(''),
      tool_calls: calls.map(({ name, args }, index) => cohereCall(name, JSON.stringify(args), index)),
    },
    ...cohereEnd(isCut),
  }),
}

function cohereCall(name: string, text: string, index: number) {
  return { id: `id_${index}`, type: 'function', function: { name, arguments: text } }
}

function cohereEnd(isCut: boolean) {
  return {
    finish_reason: isCut ? 'MAX_TOKENS' : 'COMPLETE',
    usage: { tokens: { input_tokens: 10, output_tokens: 5 }, cached_tokens: 4 },
  }
}

const GEMINI: Form = {
  name: 'gemini',
  stream: one =>
    geminiEvents(one)
      .map(event => `data: ${JSON.stringify(event)}\r\n\r\n`)
      .join(''),
  whole: one => ({
    ...geminiEvents(one).at(-1)!,
    candidates: [{ content: { parts: geminiParts(one) }, finishReason: one.isCut ? 'MAX_TOKENS' : 'STOP' }],
  }),
}

/** The form in which Google sends a stream without events. */
const GEMINI_LIST: Form = { ...GEMINI, stream: one => `${JSON.stringify(geminiEvents(one), null, 2)}\n` }

function geminiParts({ thoughts, texts, pictures, isSigned, calls }: GeneratedAnswer): object[] {
  const signature = isSigned ? { thoughtSignature: 'c2ln' } : {}
  return [
    ...thoughts.map(text => ({ text, thought: true })),
    ...texts.map((text, index) => ({ text, ...(index === texts.length - 1 ? signature : {}) })),
    ...Array.from({ length: pictures }, () => ({ inlineData: { mimeType: 'image/png', data: 'AAAA' } })),
    ...calls.map(({ name, args }) => ({ functionCall: { name, args }, ...signature })),
  ]
}

function geminiEvents(one: GeneratedAnswer): object[] {
  const head = { responseId: 'resp-1' }
  return [
    ...geminiParts(one).map(part => ({ ...head, candidates: [{ content: { parts: [part] } }] })),
    {
      ...head,
      candidates: [{ content: { parts: [] }, finishReason: one.isCut ? 'MAX_TOKENS' : 'STOP' }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    },
  ]
}

/** The bytes in pieces of these sizes, repeated. */
function inPieces(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** A stream has an empty text where a whole answer has null. */
function withoutEmptyText({ choices, ...completion }: ChatCompletion): ChatCompletion {
  return {
    ...completion,
    choices: choices.map(choice => ({
      ...choice,
      message: { ...choice.message, content: choice.message.content || null },
    })),
  }
}

describe.each([
  ['ollama', OLLAMA],
  ['cohere', COHERE],
  ['gemini', GEMINI],
  ['gemini, as a list', GEMINI_LIST],
])('a stream of %s', (_, { name, stream, whole }) => {
  test('has chunks that add up to the whole answer', () => {
    fc.assert(
      fc.property(generated, one => {
        const items = itemsOf(name, [bytesOf(stream(one))])
        const folded = fold(items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : [])))
        const { choices, ...rest } = completionOf(name, whole(one))
        expect(folded).toEqual(withoutEmptyText({ choices, ...rest }))
        expect(items.at(-1)).toEqual({ kind: 'done' })
      }),
      { numRuns: counts(50, 2000) },
    )
  })

  test('has items that do not depend on how its bytes are split', () => {
    fc.assert(
      fc.property(
        generated,
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
        fc.boolean(),
        (one, sizes, usage) => {
          const bytes = bytesOf(stream(one))
          const items = itemsOf(name, [bytes], usage)
          expect(itemsOf(name, inPieces(bytes, sizes), usage)).toEqual(items)
        },
      ),
      { numRuns: counts(50, 1000) },
    )
  })
})

test('gemini: no JSON throws, and a failure is the last item', () => {
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
      const events = values.map(value => `data: ${JSON.stringify(value)}\r\n\r\n`).join('')
      const items = itemsOf('gemini', [bytesOf(events)])
      const at = items.findIndex(item => item.kind === 'failure' || item.kind === 'done')
      expect(at === -1 || at === items.length - 1).toBe(true)
      for (const value of values) dialectOf('gemini').decodeAnswer(Buffer.from(JSON.stringify(value)), view())
    }),
    { numRuns: counts(125, 20_000) },
  )
})
