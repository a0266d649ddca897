/** Anthropic's search of the web: which models get it, and how what it did comes and goes. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AnthropicPiece, Delta } from '#contract'
import { answer, bodyOf, chunk, completion, folded, HI, read, streamed } from './support.ts'

const SEARCH = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 }
const TOOL = { name: 'look', input_schema: { type: 'object' } }
const used = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
const found = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ encrypted_content: 'EqQ' }] }
const quote = {
  type: 'web_search_result_location',
  url: 'https://example.com',
  encrypted_index: 'Eo8',
  cited_text: 'y',
}

const searching = { findModel: () => ({ maxOutput: 1000, allow: ['web_search'], searches: ['anthropic'] }) }

describe('a model', () => {
  test('that searches gets the tool as it was declared', () => {
    const { body, dropped } = read({ tools: [SEARCH, TOOL] }, searching)
    expect(body['tools']).toEqual([
      { type: 'anthropic', anthropic: SEARCH },
      expect.objectContaining({ type: 'function' }),
    ])
    expect(dropped).toEqual([])
  })

  test.each([
    ['of another maker', { allow: ['web_search'], searches: ['openai'] }],
    ['that is not allowed to search', { allow: ['service_tier'], searches: ['anthropic'] }],
    ['of which nothing is said', {}],
  ])('%s does not, and the client is told the place', (_name, more) => {
    const view = { findModel: () => ({ maxOutput: 1000, ...more }) }
    const request = read({ tools: [TOOL, SEARCH] }, view)
    expect(request.body['tools']).toHaveLength(1)
    expect(request.dropped).toEqual(['tools.web_search_20250305'])
    const none = read({ tools: [SEARCH], tool_choice: { type: 'auto' } }, view).body
    expect(none).not.toHaveProperty('tools')
    expect(none).not.toHaveProperty('tool_choice')
  })
})

describe('earlier answers', () => {
  const content = [
    { type: 'thinking', thinking: 'Hm.', signature: 'EqMB' },
    { type: 'text', text: 'Let me see.' },
    used,
    { ...found, cache_control: { type: 'ephemeral' } },
    { type: 'text', text: 'Found.', citations: [quote, { type: 'char_location' }] },
  ]
  const messages = [...HI, { role: 'assistant', content }, ...HI]

  test('are parts in their order, with what only Anthropic reads as it was', () => {
    expect(bodyOf({ messages }, searching).messages[1]).toEqual({
      role: 'assistant',
      content: [
        { type: 'anthropic', anthropic: content[0] },
        { type: 'text', text: 'Let me see.' },
        { type: 'anthropic', anthropic: used },
        { type: 'anthropic', anthropic: found, cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'Found.', citations: [quote] },
      ],
    })
  })

  test('are refused for a model that has no such blocks', () => {
    const view = { findModel: () => ({ maxOutput: 1000, allow: [], searches: [] }) }
    expect(() => bodyOf({ messages }, view)).toThrow(expect.objectContaining({ param: 'messages[1].content[2].type' }))
  })
})

describe('an answer', () => {
  const blocks = [
    { type: 'text', text: 'Let me see.' },
    used,
    found,
    { type: 'text', text: 'It is ' },
    { type: 'text', text: 'blue', citations: [quote] },
    { type: 'text', text: '.' },
  ]
  const pieces: AnthropicPiece[] = [
    { type: 'text', length: 11 },
    used,
    found,
    { type: 'text', length: 6 },
    { type: 'text', length: 4, citations: [quote] },
    { type: 'text', length: 1 },
  ]
  const said = 'Let me see.It is blue.'

  test('has the blocks as they came, whole', () => {
    expect(answer(completion({ content: said, anthropic_content: pieces })).content).toEqual(blocks)
  })

  test('and as a stream, for the official library', async () => {
    let at = 0
    const deltas = pieces.flatMap((piece): Delta[] => {
      const content = said.slice(at, at + (piece.length ?? 0))
      at += piece.length ?? 0
      return [...(content === '' ? [] : [{ content }]), { anthropic_content: [piece] }]
    })
    const text = streamed([...deltas.map(delta => chunk(delta)), chunk({}, {}, 'stop')])
    expect((await folded(text)).content).toEqual(blocks)
  })

  test('that a step has changed quotes nothing, and tells the search all the same', () => {
    const { content } = answer(completion({ content: 'Let me see. It is [removed].', anthropic_content: pieces }))
    expect(content).toEqual([used, found, { type: 'text', text: 'Let me see. It is [removed].' }])
  })

  test('keeps signed thoughts where they stood', () => {
    const details = [
      { type: 'reasoning.text', text: 'A', signature: 'sA' },
      { type: 'reasoning.encrypted', data: 'sealed' },
    ]
    const message = {
      content: 'Done',
      reasoning_content: 'A',
      reasoning_details: details,
      anthropic_content: [{ type: 'thinking' }, used, found, { type: 'thinking' }, { type: 'text', length: 4 }],
    }
    expect(answer(completion(message)).content).toEqual([
      { type: 'thinking', thinking: 'A', signature: 'sA' },
      used,
      found,
      { type: 'redacted_thinking', data: 'sealed' },
      { type: 'text', text: 'Done' },
    ])
  })

  test('that is paused says so, and how many searches there were', () => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 1,
      total_tokens: 10,
      server_tool_use: { web_search_requests: 2 },
    }
    const paused = completion({ content: '', anthropic_content: [used] }, 'stop', usage, { stop_reason: 'pause_turn' })
    expect(answer(paused)).toMatchObject({
      stop_reason: 'pause_turn',
      content: [used],
      usage: { server_tool_use: { web_search_requests: 2 } },
    })
  })

  test('comes back as the same parts, whatever its texts', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter(each => each.trim() !== '')
    fc.assert(
      fc.property(fc.array(fc.record({ text, quotes: fc.boolean() }), { minLength: 1, maxLength: 6 }), texts => {
        const anthropic_content = [
          used,
          found,
          ...texts.map(({ text: { length }, quotes }) => ({
            type: 'text',
            length,
            ...(quotes ? { citations: [quote] } : {}),
          })),
        ]
        const content = texts.map(each => each.text).join('')
        const message = answer(completion({ content, anthropic_content }))
        const parts = bodyOf({ messages: [...HI, message, ...HI] }, searching).messages[1]!.content
        expect(parts).toEqual([
          { type: 'anthropic', anthropic: used },
          { type: 'anthropic', anthropic: found },
          ...texts.map(each => ({ type: 'text', text: each.text, ...(each.quotes ? { citations: [quote] } : {}) })),
        ])
      }),
    )
  })
})
