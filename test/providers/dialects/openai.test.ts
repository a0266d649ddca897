/** Inputs that the cases (openai/cases) cannot hold: requests and streams of any shape, and bytes that are not text. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Chunk, Delta, StreamItem, Target, WireUsage } from '#contract'
import { parseJson } from '../../../src/providers/dialects/json-parse.ts'
import { openAiDialect } from '../../../src/providers/dialects/openai/index.ts'
import { countsOf } from '../../helpers/counts.ts'
import { chatOf, NOW, sent, target, VIEW } from './openai/support.ts'

const counts = countsOf('corpus')

const dialect = openAiDialect(() => NOW)

describe('a request', () => {
  test('is the same with the spans of the scan, which the dialect does not check', () => {
    const chat = chatOf('{"user":"é","max_tokens":7,"model":"chat-small","messages":[]}')
    const spans: number[] = []
    expect(parseJson(chat.bytes, spans)).toEqual(chat.body)
    const encoded = (known: number[]) => dialect.encodeRequest(chat, target(), known).body.toString()
    expect(encoded(spans)).toBe('{"user":"é","model":"some-mini","messages":[],"max_completion_tokens":100}')
    expect(encoded([])).toBe(encoded(spans))
    // Only the first member is in the spans.
    expect(encoded(spans.slice(0, 5))).toContain(
      '"user":"é","model":"some-mini","max_completion_tokens":100,"max_tokens":7,',
    )
  })

  test('all other members are sent byte for byte', () => {
    const name = fc.constantFrom('temperature', 'user', 'stop', 'metadata', 'x', 'tools', 'response_format', 'é')
    const value = fc.jsonValue({ maxDepth: 3 }).map(each => JSON.parse(JSON.stringify(each)))
    const isAccepted = ({ stop }: Record<string, unknown>) => !Array.isArray(stop) || stop.length <= 4
    const others = fc.dictionary(name, value, { maxKeys: 5 }).filter(isAccepted)
    const cap = fc.option(fc.constantFrom('max_tokens', 'max_completion_tokens'), { nil: undefined })
    const field = fc.constantFrom<NonNullable<Target['capField']>>('max_tokens', 'max_completion_tokens')
    fc.assert(
      fc.property(others, cap, field, fc.boolean(), fc.nat(), (other, capName, capField, stream, place) => {
        const members = Object.entries({ ...other, messages: [] }).map(
          ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`,
        )
        members.splice(place % (members.length + 1), 0, '"model":"chat-small"')
        if (capName) members.splice((place * 7) % (members.length + 1), 0, `"${capName}":77`)
        if (stream) members.push('"stream":true')
        const result = sent('openai', `{${members.join(',')}}`, { capField }).text
        const expected = {
          ...other,
          messages: [],
          model: 'some-mini',
          [capField]: 100,
          ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
        }
        expect(JSON.parse(result)).toEqual(expected)
        for (const member of members) {
          if (!member.startsWith('"model"') && !member.startsWith('"max_')) expect(result).toContain(member)
        }
        // No key occurs twice: a lenient parser gets the values that were checked.
        expect(result.match(/"(model|max_tokens|max_completion_tokens|stream_options)":/g)).toHaveLength(
          Object.keys(expected).filter(key => /^(model|max_|stream_options)/.test(key)).length,
        )
      }),
      { numRuns: counts(125, 50_000) },
    )
  })
})

const view = (includeUsage = false) => ({ ...VIEW, includeUsage })

const COMPLETION = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'some-mini-2026',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'hi', refusal: null }, logprobs: null, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  system_fingerprint: null,
}

test('invalid UTF-8 in an answer becomes replacement characters', () => {
  const bytes = Buffer.from(JSON.stringify(COMPLETION))
  bytes[bytes.indexOf('hi')] = 0xff
  const answer = dialect.decodeAnswer(bytes, view())
  if ('failure' in answer) throw new Error(answer.failure.detail)
  const { completion, raw } = answer
  expect(completion.choices[0]!.message.content).toBe('\ufffdi')
  expect(JSON.parse((raw ?? JSON.stringify(completion)).toString())).toEqual(completion)
})

test('an error without a wrapper has its message in the log', () => {
  const said = '{"object":"error","message":"It broke."}'
  const failure = { code: 'upstream_error', detail: expect.stringContaining('It broke.') }
  expect(dialect.decodeAnswer(Buffer.from(said), view())).toMatchObject({ failure })
  expect(itemsOf(event(said))).toMatchObject([{ kind: 'failure', failure }])
})

/** The items of a stream that arrives in one piece or byte by byte. */
function itemsOf(text: string | Buffer, includeUsage = false, pieceBytes = Number.POSITIVE_INFINITY): StreamItem[] {
  const decoder = dialect.decodeStream(view(includeUsage))
  const bytes = Buffer.from(text as string)
  const items: StreamItem[] = []
  for (let at = 0; at < bytes.length; at += Math.min(pieceBytes, bytes.length)) {
    items.push(...decoder.push(bytes.subarray(at, at + Math.min(pieceBytes, bytes.length))))
  }
  return [...items, ...decoder.end()]
}

const event = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const chunkOf = (delta: unknown, more: Record<string, unknown> = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'some-mini-2026',
  choices: [{ index: 0, delta, finish_reason: null }],
  ...more,
})
const USAGE: WireUsage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }

/** The single item. Throws if there is not exactly one. */
function only(items: readonly StreamItem[]): StreamItem {
  expect(items).toHaveLength(1)
  return items[0]!
}

describe('an event of a stream', () => {
  test('bytes are forwarded without a copy if nothing changes', () => {
    const bytes = Buffer.from(event(chunkOf({ role: 'assistant', content: 'a' }, { model: 'chat-small' })))
    const item = only(dialect.decodeStream(view()).push(bytes)) as Extract<StreamItem, { kind: 'chunk' }>
    expect(item.raw!.buffer).toBe(bytes.buffer)
  })

  test('inherited names change no other object', () => {
    itemsOf(event('{"__proto__":{"usage":1},"choices":[{"index":0,"delta":{"__proto__":{"content":"x"}}}]}'))
    expect(({} as { usage?: unknown }).usage).toBeUndefined()
  })

  test('deeply nested JSON is read or refused and does not throw', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const text = `{"model":"m","choices":[{"index":0,"delta":{"content":${deep}}}]}`
    expect(only(itemsOf(event(text))).kind).toMatch(/chunk|failure/)
  })

  test('invalid UTF-8 becomes replacement characters', () => {
    const bytes = Buffer.from(event(chunkOf({ content: '@' })))
    bytes[bytes.indexOf('@')] = 0xff
    const item = only(itemsOf(bytes)) as Extract<StreamItem, { kind: 'chunk' }>
    expect(item.chunk.choices[0]!.delta.content).toBe('\ufffd')
    expect(JSON.parse((item.raw ?? JSON.stringify(item.chunk)).toString())).toEqual(item.chunk)
  })
})

test('the items do not depend on how the bytes are split', () => {
  const text = [
    `\ufeff: hello\n\n${event(chunkOf({ role: 'assistant', content: '' }, { usage: null }))}`,
    event(chunkOf({ content: 'na\u00efve \u{1f600}' }, { usage: null })),
    JSON.stringify(chunkOf({ content: 'b' }), null, 1)
      .replace(/^/gm, 'data:')
      .concat('\r\n\r\n'),
    event(chunkOf({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })),
    event(chunkOf({}, { choices: [], usage: USAGE })),
    'data: [DONE]',
  ].join('')
  const bytes = Buffer.from(text)
  for (const asked of [false, true]) {
    const whole = itemsOf(bytes, asked)
    expect(whole.map(({ kind }) => kind)).toEqual([
      'chunk',
      'chunk',
      'chunk',
      'chunk',
      'usage',
      ...(asked ? ['chunk'] : []),
      'done',
    ])
    for (let size = 1; size < bytes.length; size += size < 20 ? 1 : 37) {
      expect(itemsOf(bytes, asked, size), `in pieces of ${size}`).toEqual(whole)
    }
    for (let at = 0; at <= bytes.length; at += 1) {
      const decoder = dialect.decodeStream(view(asked))
      const items = [...decoder.push(bytes.subarray(0, at)), ...decoder.push(bytes.subarray(at)), ...decoder.end()]
      expect(items.map(({ kind }) => kind)).toEqual(whole.map(({ kind }) => kind))
    }
  }
})

test('the chunks of a stream add up to the whole answer', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
  const call = fc.record({ id: text, name: text, arguments: fc.array(text, { maxLength: 4 }) })
  const choice = fc.record({
    content: fc.array(text, { maxLength: 6 }),
    thoughts: fc.array(text, { maxLength: 3 }),
    calls: fc.array(call, { maxLength: 2 }),
    finish: fc.constantFrom('stop', 'length', 'tool_calls'),
  })
  fc.assert(
    fc.property(fc.array(choice, { minLength: 1, maxLength: 3 }), fc.infiniteStream(fc.nat()), (choices, random) => {
      const deltas = choices.map((each): Delta[] => [
        { role: 'assistant' },
        ...each.thoughts.map(reasoning_content => ({ reasoning_content })),
        ...each.content.map(content => ({ content })),
        ...each.calls.flatMap((made, index): Delta[] => [
          { tool_calls: [{ index, id: made.id, type: 'function', function: { name: made.name, arguments: '' } }] },
          ...made.arguments.map(part => ({ tool_calls: [{ index, function: { arguments: part } }] })),
        ]),
      ])
      // Choices interleave in any order; each ends with its own finish.
      const events: string[] = []
      const left = deltas.map((list, index) => ({ list: [...list], index }))
      while (left.length > 0) {
        const at = random.next().value % left.length
        const { list, index } = left[at]!
        const delta = list.shift()
        const finish_reason = delta ? null : choices[index]!.finish
        events.push(event(chunkOf({}, { choices: [{ index, delta: delta ?? {}, finish_reason }], usage: null })))
        if (!delta) left.splice(at, 1)
      }
      events.push(event(chunkOf({}, { choices: [], usage: USAGE })), event('[DONE]'))
      const items = itemsOf(events.join(''))
      const chunks = items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))
      expect(items.at(-1)).toEqual({ kind: 'done' })
      expect(items.at(-2)).toEqual({ kind: 'usage', usage: USAGE })

      const message = (each: (typeof choices)[number]): Delta => ({
        role: 'assistant',
        ...(each.thoughts.length > 0 ? { reasoning_content: each.thoughts.join('') } : {}),
        ...(each.content.length > 0 ? { content: each.content.join('') } : {}),
        ...(each.calls.length > 0
          ? {
              tool_calls: each.calls.map(({ id, name, arguments: parts }) => ({
                id,
                type: 'function',
                function: { name, arguments: parts.join('') },
              })),
            }
          : {}),
      })
      const whole = {
        ...COMPLETION,
        choices: choices.map((each, index) => ({ index, message: message(each), finish_reason: each.finish })),
      }
      const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(whole)), view())
      if ('failure' in answer) throw new Error(answer.failure.detail)
      expect(fold(chunks)).toEqual(
        answer.completion.choices.map(({ message: { content, ...more }, ...choice }) => ({
          ...choice,
          message: content === null ? more : { content, ...more },
        })),
      )
      for (const chunk of chunks) expect(chunk).toMatchObject({ model: 'chat-small' })
    }),
    { numRuns: counts(50, 10_000) },
  )
})

/** Joins chunks as a client does: text concatenated, calls by index. */
function fold(chunks: readonly Chunk[]): unknown[] {
  const choices: { index: number; message: Delta; finish_reason: string | null }[] = []
  for (const { index, delta, finish_reason } of chunks.flatMap(chunk => chunk.choices)) {
    const choice = (choices[index] ??= { index, message: {}, finish_reason: null })
    const { message } = choice
    if (delta.role) message.role = delta.role
    if (delta.content) message.content = (message.content ?? '') + delta.content
    if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content
    for (const { index: at = 0, id, type, function: made } of delta.tool_calls ?? []) {
      message.tool_calls ??= []
      const call = (message.tool_calls[at] ??= { id: id!, type: type!, function: { name: made!.name!, arguments: '' } })
      call.function!.arguments += made?.arguments ?? ''
    }
    choice.finish_reason ??= finish_reason ?? null
  }
  return choices
}

test('arguments that are an object keep the digits of their numbers, whole and in a stream', () => {
  const call = '{"index":0,"id":"a","type":"function","function":{"name":"f","arguments": {"a":12345678901234567890}}}'
  const says = (name: string) =>
    `{"model":"m","choices":[{"index":0,"${name}":{"tool_calls":[${call}]},"finish_reason":"tool_calls"}]}`
  const whole = dialect.decodeAnswer(Buffer.from(says('message')), view())
  if ('failure' in whole) throw new Error(whole.failure.detail)
  const [item] = itemsOf(event(says('delta')))
  const deltas = [whole.completion.choices[0]!.message, item?.kind === 'chunk' ? item.chunk.choices[0]!.delta : {}]
  expect(deltas.map(each => each.tool_calls?.[0]?.function?.arguments)).toEqual(
    Array(2).fill('{"a":12345678901234567890}'),
  )
})
