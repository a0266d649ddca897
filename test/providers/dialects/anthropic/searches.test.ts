/** What a search of the web did, in an answer: told to whoever asked for it, and counted. */
import { describe, expect, test } from 'vitest'
import type { ChatRequest, Chunk } from '#contract'
import {
  blockStart,
  blockStop,
  chatOf,
  chunksOf,
  delta,
  dialect,
  type Event,
  end,
  frame,
  HI,
  start,
  target,
  text,
  view,
} from './helpers.ts'

const used = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
const found = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ encrypted_content: 'EqQ' }] }
const quote = { type: 'web_search_result_location', url: 'https://example.com', encrypted_index: 'Eo8' }
const USAGE = { input_tokens: 10, output_tokens: 5, server_tool_use: { web_search_requests: 1 } }

const CONTENT = [
  { type: 'thinking', thinking: 'Hm.', signature: 'sig' },
  { type: 'text', text: 'Let me see.' },
  used,
  found,
  { type: 'text', text: 'Blue', citations: [quote, { type: 'char_location' }] },
]
const PIECES = [{ type: 'text', length: 11 }, used, found, { type: 'text', length: 4, citations: [quote] }]

function encoded(fields: Partial<ChatRequest>, model = 'claude-sonnet-4-5') {
  const { body, dropped } = dialect.encodeRequest(chatOf(fields), target(model))
  return { body: JSON.parse(body.toString()) as Record<string, unknown>, dropped }
}

describe('a request', () => {
  const search = (more: object = {}) => ({
    type: 'anthropic',
    anthropic: { type: 'web_search_20250305', name: 'web_search', ...more },
  })
  test.each([
    ['without a bound', {}, 10],
    ['with one', { max_uses: 3, allowed_domains: ['example.com'] }, 3],
    ['with a larger one than is held', { max_uses: 1_000 }, 10],
  ])('%s goes with the one that is held', (_name, more, max_uses) => {
    const { body, dropped } = encoded({
      tools: [search(more)],
      tool_choice: { type: 'function', function: { name: 'web_search' } },
    })
    expect(body).toMatchObject({
      tools: [{ type: 'web_search_20250305', name: 'web_search', ...more, max_uses }],
      tool_choice: { type: 'tool', name: 'web_search' },
    })
    expect(dropped).toEqual([])
  })

  test('a mark inside of what is Anthropic’s own is none: it would be beyond those that are counted', () => {
    const mark = { cache_control: { type: 'ephemeral' } }
    const { body } = encoded({
      messages: [
        ...HI,
        { role: 'assistant', content: [{ type: 'anthropic', anthropic: { ...found, ...mark } }] },
        ...HI,
      ],
      tools: [search(mark)],
    })
    expect(JSON.stringify(body)).not.toContain('cache_control')
  })

  const citations = [quote]
  const part = (anthropic: object) => ({ type: 'anthropic', anthropic })
  const earlier = {
    role: 'assistant',
    content: [part(used), part(found), { type: 'text', text: 'Found.', citations }],
  }

  test('what it did goes back as it was, in its place', () => {
    const { body, dropped } = encoded({ messages: [...HI, earlier, ...HI] })
    expect(body['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', content: [used, found, { type: 'text', text: 'Found.', citations }] },
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    ])
    expect(dropped).toEqual([])
  })

  test('a turn that the provider has paused is for it to go on with, also with models that continue no words', () => {
    const { body } = encoded({ messages: [...HI, { role: 'assistant', content: [part(used)] }] }, 'claude-opus-4-6')
    expect((body['messages'] as object[]).at(-1)).toEqual({ role: 'assistant', content: [used] })
  })
})

function whole(more: object, searches = true) {
  const body = { id: 'msg_1', type: 'message', content: CONTENT, stop_reason: 'end_turn', usage: USAGE, ...more }
  const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(body)), { ...view(), searches })
  if ('failure' in answer) throw new Error(answer.failure.detail)
  return answer.completion
}

describe('a whole answer', () => {
  test('says where each block stood, and how many searches there were', () => {
    const { choices, usage } = whole({})
    expect(choices[0]!.message).toMatchObject({ content: 'Let me see.Blue', reasoning_content: 'Hm.' })
    expect(choices[0]!.message.anthropic_content).toEqual([{ type: 'thinking' }, ...PIECES])
    expect(usage).toMatchObject({ prompt_tokens: 10, server_tool_use: { web_search_requests: 1 } })
  })

  test('without a search has none of it, nor does one for whoever did not ask', () => {
    expect(whole({ content: [{ type: 'text', text: 'a' }] }).choices[0]!.message).not.toHaveProperty(
      'anthropic_content',
    )
    expect(whole({}, false).choices[0]!.message).not.toHaveProperty('anthropic_content')
  })

  test('that is paused says so beside its finish', () => {
    const { choices } = whole({ content: [used], stop_reason: 'pause_turn' })
    expect(choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 'pause_turn' })
    expect(whole({ stop_reason: 'pause_turn' }, false).choices[0]).not.toHaveProperty('stop_reason')
  })
})

describe('a stream', () => {
  const search = (index: number, ...pieces: string[]): Event[] => [
    blockStart(index, { ...used, input: {} }),
    ...pieces.map(partial_json => delta(index, 'input_json_delta', { partial_json })),
    blockStop(index),
  ]
  const events = [
    start(),
    ...text(0, 'Let me', ' see.'),
    ...search(1, '', '{"que', 'ry":"x"}'),
    blockStart(2, found),
    blockStop(2),
    blockStart(3, { type: 'text', text: '', citations: [] }),
    delta(3, 'citations_delta', { citation: quote }),
    delta(3, 'citations_delta', { citation: { type: 'char_location' } }),
    delta(3, 'text_delta', { text: 'Bl' }),
    delta(3, 'text_delta', { text: 'ue' }),
    blockStop(3),
    ...end('end_turn', { output_tokens: 5, server_tool_use: { web_search_requests: 1 } }),
  ]
  const decode = (of: readonly Event[], searches = true) => {
    const decoder = dialect.decodeStream({ ...view(), searches })
    return [...decoder.push(Buffer.from(of.map(frame).join(''))), ...decoder.end()]
  }
  const piecesOf = (chunks: readonly Chunk[]) =>
    chunks.flatMap(({ choices }) => choices[0]?.delta.anthropic_content ?? [])

  test('tells the same pieces, each when it is over; of a text before the first search that is not known', () => {
    const items = decode(events)
    expect(piecesOf(chunksOf(items))).toEqual(PIECES.slice(1))
    expect(items.findLast(({ kind }) => kind === 'usage')).toMatchObject({
      usage: { server_tool_use: { web_search_requests: 1 } },
    })
    expect(piecesOf(chunksOf(decode(events, false)))).toEqual([])
  })

  test('a search whose words break off at the cap is told all the same', () => {
    const items = decode([start(), ...search(0, '{"que'), ...end('max_tokens')])
    expect(piecesOf(chunksOf(items))).toEqual([{ ...used, input: { INVALID_JSON: '{"que' } }])
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('that is paused says so beside its finish', () => {
    const last = chunksOf(decode([start(), ...search(0, '{}'), ...end('pause_turn')])).findLast(
      ({ choices }) => choices[0]?.finish_reason,
    )
    expect(last!.choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 'pause_turn' })
  })
})
