import { describe, expect, test } from 'vitest'
import type { Chat, Chunk, Delta, WireUsage } from '#contract'
import { normalise } from '../../../src/common/usage.ts'
import { Meter } from '../../../src/request/answer/meter.ts'
import { chunk, completion, finish, text, usage, usageChunk } from './chunks.ts'

function metered(...chunks: Chunk[]): Meter {
  const meter = new Meter()
  for (const each of chunks) meter.chunk(each)
  return meter
}

test('a whole answer counts like its chunks, and its choices are separate even with the same index', () => {
  const [first, second, empty] = completion('abcdefgh', 'ijkl', null as never).choices
  const meter = new Meter()
  meter.begin({ choices: 3 } as Chat, 100)
  meter.whole({ choices: [first!, { ...second!, index: 0 }, { ...empty!, message: null as never }] })
  expect(meter.countedTokens).toBe(3)
  expect({ started: meter.started, finished: meter.finished, complete: meter.complete }).toEqual({
    started: true,
    finished: true,
    complete: true,
  })
})

const EMPTY: Chunk = { id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [] }

describe('the usage that a provider reports', () => {
  const source = 'reported'

  test.each<[name: string, wire: unknown]>([
    ['null', null],
    ['undefined', undefined],
    ['a text', 'many'],
    ['an empty object', {}],
    ['a list', [1, 2, 3]],
    ['texts instead of numbers', { prompt_tokens: 'many', completion_tokens: '34' }],
    ['counts of null', { prompt_tokens: null, completion_tokens: null }],
    ['the prompt only', { prompt_tokens: 12 }],
    ['the completion only', { completion_tokens: 12 }],
    ['counts that are objects', { prompt_tokens: {}, completion_tokens: [] }],
  ])('%s is not usage', (_name, wire) => {
    expect(normalise(wire as WireUsage | null, source)).toBeNull()
  })

  const base = {
    input: 10,
    output: 5,
    source,
  }
  test.each<[name: string, wire: WireUsage, expected: object]>([
    ['plain', usage(10, 5), base],
    ['zero is zero', usage(0, 0), { ...base, input: 0, output: 0 }],
    [
      'details',
      usage(10, 5, {
        prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 3 },
        completion_tokens_details: { reasoning_tokens: 2 },
      }),
      { ...base, cached_input: 4, cache_write: 3, reasoning: 2 },
    ],
    ['searches', usage(10, 5, { server_tool_use: { web_search_requests: 2 } }), { ...base, search: 2 }],
    ['searches that are not a number', usage(10, 5, { server_tool_use: { web_search_requests: '2' as never } }), base],
    ['details of null', usage(10, 5, { prompt_tokens_details: null, completion_tokens_details: null }), base],
    [
      'DeepSeek’s own name for cached tokens',
      usage(10, 5, { prompt_cache_hit_tokens: 4 }),
      { ...base, cached_input: 4 },
    ],
    ['Mistral’s', usage(10, 5, { num_cached_tokens: 4 }), { ...base, cached_input: 4 }],
    ['Moonshot’s', usage(10, 5, { cached_tokens: 4 }), { ...base, cached_input: 4 }],
    ['a fraction of a cached token is ignored', usage(10, 5, { cached_tokens: 1.5 }), base],
    [
      'both names: OpenAI’s counts',
      usage(10, 5, { prompt_cache_hit_tokens: 9, prompt_tokens_details: { cached_tokens: 4 } }),
      { ...base, cached_input: 4 },
    ],
    [
      'xAI counts reasoning outside of the completion, as the total shows',
      usage(10, 5, { total_tokens: 35, completion_tokens_details: { reasoning_tokens: 20 } }),
      { ...base, output: 25, reasoning: 20 },
    ],
    [
      'OpenAI counts reasoning within the completion, as the total shows',
      usage(10, 25, { completion_tokens_details: { reasoning_tokens: 20 } }),
      { ...base, output: 25, reasoning: 20 },
    ],
    [
      'Google includes reasoning in the total only: the difference is reasoning',
      usage(66, 6, { total_tokens: 100 }),
      { ...base, input: 66, output: 34 },
    ],
    [
      'the same with a part of it reported',
      usage(10, 25, { total_tokens: 50, completion_tokens_details: { reasoning_tokens: 20 } }),
      { ...base, output: 40, reasoning: 20 },
    ],
    ['a total that is less', usage(10, 5, { total_tokens: 12 }), base],
    ['a total that is a text', usage(10, 5, { total_tokens: '900' as never }), base],
    ['a total with a fraction', usage(10, 5, { total_tokens: 90.5 }), base],
    ['no total', JSON.parse('{"prompt_tokens":10,"completion_tokens":5}'), base],
    ['an infinite total', JSON.parse('{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1e400}'), base],
    [
      'Mistral includes audio of the prompt in the total only',
      usage(10, 5, { total_tokens: 390, prompt_audio_seconds: 3.5 }),
      { ...base, input: 385 },
    ],
    ['zero seconds of audio', usage(10, 5, { total_tokens: 20, prompt_audio_seconds: 0 }), { ...base, output: 10 }],
    // Impossible figures are handled by the code that charges.
    ['negative numbers are kept', usage(-5, -7), { ...base, input: -5, output: -7 }],
    ['fractions are kept', usage(1.5, 2.5), { ...base, input: 1.5, output: 2.5 }],
    [
      'infinite',
      JSON.parse('{"prompt_tokens":1e400,"completion_tokens":1e400,"total_tokens":1e400}'),
      { ...base, input: Number.POSITIVE_INFINITY, output: Number.POSITIVE_INFINITY },
    ],
    ['1e308', usage(1e308, 1e308), { ...base, input: 1e308, output: 1e308 }],
    [
      'invalid details are ignored',
      JSON.parse(
        '{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":-4,"cache_write_tokens":"3"},"completion_tokens_details":{"reasoning_tokens":1e400}}',
      ),
      base,
    ],
    [
      'details as a text',
      { ...usage(10, 5), prompt_tokens_details: 'x' as never, completion_tokens_details: 7 as never },
      base,
    ],
  ])('%s', (_name, wire, expected) => {
    expect(normalise(wire, source)).toEqual(expected)
  })

  test('the caller sets the source', () => {
    expect(normalise(usage(1, 1), 'cached')).toMatchObject({ source: 'cached' })
  })

  test('searches are those that the provider reports, else those in the answer', () => {
    const meter = metered()
    const used = { type: 'server_tool_use', name: 'web_search' }
    for (const piece of [used, { type: 'web_search_tool_result' }, used, { ...used, name: 'web_fetch' }]) {
      meter.chunk({ ...EMPTY, choices: [{ index: 0, delta: { anthropic_content: [piece] } }] })
    }
    expect(meter.started).toBe(true)
    expect(meter.estimate.search).toBe(2)
    meter.reported(usage(10, 5))
    expect(meter.spent(true)).toMatchObject({ search: 2, source: 'reported' })
    meter.reported(usage(10, 5, { server_tool_use: { web_search_requests: 0 } }))
    expect(meter.spent(true)).toMatchObject({ search: 0 })
    meter.begin({ body: { model: 'm', messages: [] } } as never, 1)
    expect(meter.estimate.search).toBeUndefined()
  })

  test('the last one counts', () => {
    const meter = metered()
    expect(meter.usage).toBeNull()
    meter.reported(usage(10, 1))
    meter.reported(usage(10, 5))
    expect(meter.usage).toEqual(usage(10, 5))
  })

  test.each<[name: string, later: unknown]>([
    ['an empty usage', {}],
    ['a usage of zeros', usage(0, 0)],
    ['a usage of nulls', { prompt_tokens: null, completion_tokens: null }],
  ])('%s does not replace earlier usage', (_name, later) => {
    const meter = metered()
    meter.reported(usage(10, 5))
    meter.reported(later as WireUsage)
    expect(meter.usage).toEqual(usage(10, 5))
    meter.begin({} as Chat, 1)
    meter.reported(later as WireUsage)
    expect(meter.usage).toEqual(later)
    meter.reported(usage(10, 6))
    expect(meter.usage).toEqual(usage(10, 6))
  })
})

describe('the count', () => {
  test.each<[name: string, deltas: Delta[], tokens: number]>([
    ['nothing', [], 0],
    ['a role', [{ role: 'assistant', content: '' }], 0],
    ['a short text per chunk: one token each', [{ content: 'a' }, { content: 'b' }, { content: 'c' }], 3],
    ['one long text: a quarter of its bytes', [{ content: 'x'.repeat(401) }], 101],
    ['bytes, not letters', [{ content: '€'.repeat(40) }], 30],
    ['reasoning, by either name and once', [{ reasoning_content: 'x'.repeat(40), reasoning: 'x'.repeat(40) }], 10],
    ['reasoning, by the other name', [{ reasoning: 'x'.repeat(40) }], 10],
    ['a refusal', [{ refusal: 'x'.repeat(40) }], 10],
    [
      'a tool call: name and arguments',
      [{ tool_calls: [{ index: 0, function: { name: 'x'.repeat(20), arguments: 'y'.repeat(20) } }] }],
      10,
    ],
    ['an old function call', [{ function_call: { name: 'x'.repeat(20), arguments: 'y'.repeat(20) } }], 10],
    [
      'several tool calls in a chunk',
      [{ tool_calls: Array.from({ length: 3 }, (_, index) => ({ index, function: { arguments: 'x'.repeat(40) } })) }],
      30,
    ],
    [
      'parts of a content that is a list',
      [
        {
          content: [
            { type: 'text', text: 'x'.repeat(40) },
            { type: 'thinking', thinking: [{ type: 'text', text: 'y'.repeat(40) }] },
          ] as never,
        },
      ],
      20,
    ],
    [
      'calls and parts of null',
      [
        { tool_calls: [null as never, { function: null as never }], content: 'a' },
        { content: [null, 7, 'abcd'] as never },
      ],
      2,
    ],
    [
      'a custom tool: name and input',
      [{ tool_calls: [{ index: 0, custom: { name: 'x'.repeat(20), input: 'y'.repeat(20) } }] }],
      10,
    ],
    [
      'a custom tool, piece by piece',
      ['a', 'b', 'c'].map(input => ({ tool_calls: [{ index: 0, custom: { input } }] })),
      3,
    ],
    ['audio, whose bytes are not counted: one per piece', [{ audio: { data: 'x' } }, { audio: {} }], 2],
    [
      'other fields: one per piece',
      [{ content: 7 as never }, { content: { a: 'b' } as never }, { refusal: true as never }],
      3,
    ],
  ])('%s', (_name, deltas, tokens) => {
    expect(metered(...deltas.map(delta => chunk(delta))).countedTokens).toBe(tokens)
  })

  test('all choices count', () => {
    expect(metered(text('a', 0), text('b', 1), text('c', 2), finish(0), finish(1)).countedTokens).toBe(3)
    expect(metered({ ...text('a'), choices: [...text('a').choices, ...text('b', 1).choices] }).countedTokens).toBe(2)
  })

  test('a provider that nests endlessly cannot block the count', () => {
    let deep: unknown = 'x'
    for (let level = 0; level < 20_000; level++) deep = [deep]
    expect(() => metered(chunk({ content: deep as string }))).not.toThrow()
    let thinking: unknown = []
    for (let level = 0; level < 20_000; level++) thinking = [{ type: 'thinking', thinking }]
    expect(() => metered(chunk({ content: thinking as string }))).not.toThrow()
  })
})

describe('the progress of the answer', () => {
  test.each<[name: string, chunks: Chunk[], started: boolean, finished: boolean]>([
    ['nothing yet', [], false, false],
    ['a role', [chunk({ role: 'assistant' })], false, false],
    ['content', [text('a')], true, false],
    ['a finish', [text('a'), finish()], true, true],
    ['a finish without content', [finish()], false, true],
    ['usage', [usageChunk(usage(1, 1))], false, false],
    ['an empty finish reason', [text('a'), finish(0, '')], true, false],
  ])('%s', (_name, chunks, started, finished) => {
    expect(metered(...chunks)).toMatchObject({ started, finished })
  })

  test.each<[name: string, chunks: Chunk[], complete: boolean]>([
    ['nothing', [], false],
    ['content', [text('a')], false],
    ['content and its finish', [text('a'), finish()], true],
    ['a finish alone', [finish()], true],
    ['two choices, one of them finished', [text('a', 0), text('b', 1), finish(0)], false],
    ['two choices, the other finished', [text('a', 0), text('b', 1), finish(1)], false],
    ['two choices, both finished', [text('a', 0), text('b', 1), finish(1), finish(0)], true],
    [
      'two choices in one chunk',
      [{ ...text('a'), choices: [...text('a').choices, ...text('b', 1).choices] }, finish(0)],
      false,
    ],
    ['a finish twice', [text('a'), finish(), finish()], true],
    [
      'choices without an index are one',
      [{ ...text('a'), choices: [{ delta: { content: 'a' } } as never] }, finish()],
      true,
    ],
    ['an invalid index', [text('a', 1e9), text('b', -1), text('c', 0), finish(0)], true],
  ])('every choice that has begun is finished: %s', (_name, chunks, complete) => {
    expect(metered(...chunks).complete).toBe(complete)
  })

  test.each<[choices: number, chunks: Chunk[], complete: boolean]>([
    [2, [text('a'), finish()], false],
    [2, [text('a'), finish(), finish()], false],
    [2, [text('a'), finish(), finish(1)], true],
    [1, [text('a'), finish()], true],
  ])('with %i requested choices, a choice that never came is missing', (choices, chunks, complete) => {
    const meter = metered()
    meter.chat = { choices } as Chat
    for (const each of chunks) meter.chunk(each)
    expect(meter.complete).toBe(complete)
  })
})

describe('the usage of an answer', () => {
  /** A chunk, or a usage report. */
  type Event = Chunk | { readonly used: WireUsage }
  const used = (prompt: number, completion: number) => ({ used: usage(prompt, completion) })
  const TEXT = [text('a'), text('b'), text('c')]
  const spent = (events: readonly Event[], whole: boolean) => {
    const meter = new Meter()
    meter.chat = { choices: 1, body: { messages: [{ role: 'user', content: 'Hello' }] } } as unknown as Chat
    for (const each of events) {
      if ('choices' in each) meter.chunk(each as Chunk)
      else meter.reported(each.used as WireUsage)
    }
    const result = meter.spent(whole)
    return result && [result.input, result.output, result.source]
  }

  test.each<[name: string, events: Event[], whole: boolean, expected: ReturnType<typeof spent>]>([
    ['nothing', [], false, null],
    ['nothing but a usage', [used(5, 0)], false, [5, 0, 'reported']],
    ['content without usage', TEXT, false, [6, 3, 'estimated']],
    ['usage at the start, and the client disconnected', [used(5, 0), ...TEXT], false, [5, 3, 'estimated']],
    [
      'usage in the middle, and the client disconnected',
      [text('a'), used(5, 1), text('b'), text('c')],
      false,
      [5, 3, 'estimated'],
    ],
    ['usage in the middle, above the count', [used(5, 9), ...TEXT], false, [5, 9, 'reported']],
    ['usage at the start, and the finish', [used(5, 0), ...TEXT, finish()], false, [5, 3, 'estimated']],
    ['partial usage, and zeros at the end', [used(5, 1), ...TEXT, finish(), used(0, 0)], true, [5, 3, 'estimated']],
    ['complete usage, and zeros after it', [...TEXT, finish(), used(5, 9), used(0, 0)], true, [5, 9, 'reported']],
    ['usage after the finish, below the count', [...TEXT, finish(), used(5, 2)], false, [5, 2, 'reported']],
    ['the same for a complete answer', [...TEXT, finish(), used(5, 2)], true, [5, 2, 'reported']],
    ['usage before the content of a complete answer', [used(5, 2), ...TEXT, finish()], true, [5, 2, 'reported']],
    ['zero for tokens that were delivered', [...TEXT, finish(), used(0, 0)], true, [6, 3, 'estimated']],
    ['no completion for tokens that were delivered', [...TEXT, finish(), used(5, 0)], true, [5, 3, 'estimated']],
    ['negative usage for tokens that were delivered', [...TEXT, finish(), used(-5, -7)], true, [6, 3, 'estimated']],
    ['zero for nothing', [finish(), used(0, 0)], true, [0, 0, 'reported']],
  ])('%s (whole: %s)', (_name, events, whole, expected) => {
    expect(spent(events, whole)).toEqual(expected)
  })
})

test.each<[name: string, chunks: Chunk[], complete: boolean, counted: number]>([
  ['of the same choice: it continues', [text('a'), finish(), text('b')], false, 2],
  ['of the same choice, and a finish after it', [text('a'), finish(), text('b'), finish()], false, 2],
  ['in every chunk', [chunk({ content: 'a' }, 'stop'), chunk({ content: 'b' }, 'stop')], false, 2],
  ['of another choice', [text('a'), finish(), text('b', 1)], false, 2],
  ['of a choice without content before', [finish(), text('a')], false, 1],
])('content after a finish reason: %s', (_name, chunks, complete, counted) => {
  expect(metered(...chunks)).toMatchObject({ complete, countedTokens: counted })
})

describe('an estimate', () => {
  const chatOf = (body: object) => ({ body }) as Chat
  const estimate = (body: object | null, ...chunks: Chunk[]) => {
    const meter = metered(...chunks)
    meter.chat = body && chatOf(body)
    return meter.estimate
  }

  test('without a request is the count', () => {
    expect(estimate(null, text('abcdefgh'))).toEqual({
      input: 0,
      output: 2,
      source: 'estimated',
    })
  })

  test.each<[name: string, body: object, tokens: number]>([
    ['a quarter of the bytes and four per message', { messages: [{ role: 'user', content: 'x'.repeat(40) }] }, 14],
    ['rounded up', { messages: [{ role: 'user', content: 'x'.repeat(41) }] }, 15],
    ['bytes, not letters', { messages: [{ role: 'user', content: '€'.repeat(40) }] }, 34],
    ['no content', { messages: [{ role: 'assistant', content: null, tool_calls: [] }, { role: 'tool' }] }, 8],
    [
      'parts',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'x'.repeat(40) },
              { type: 'image_url', image_url: { url: 'y' } },
            ],
          },
        ],
      },
      14 + 1024,
    ],
    ['tools', { messages: [], tools: [{ type: 'function' }] }, 6],
    ['functions', { messages: [], functions: [{ name: 'f' }] }, 4],
    ['a schema', { messages: [], response_format: { type: 'json_schema', json_schema: { name: 'x'.repeat(40) } } }, 22],
    [
      'tool calls',
      { messages: [{ role: 'assistant', tool_calls: [{ function: { arguments: 'x'.repeat(400) } }] }] },
      4 + Math.ceil(JSON.stringify([{ function: { arguments: 'x'.repeat(400) } }]).length / 4),
    ],
    [
      'reasoning',
      { messages: [{ role: 'assistant', content: 'x'.repeat(40), reasoning_content: 'x'.repeat(40) }] },
      24,
    ],
    ['a refusal', { messages: [{ role: 'assistant', content: [{ type: 'refusal', refusal: 'x'.repeat(40) }] }] }, 14],
    ['tools of null', { messages: [], tools: null }, 0],
  ])('of the prompt: %s', (_name, body, tokens) => {
    expect(estimate(body).input).toBe(tokens)
  })
})
