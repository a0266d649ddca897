/** OpenAI's search of the web: which models get it as `web_search_options`, and what is quoted in their answers. */
import { describe, expect, test } from 'vitest'
import { refuse } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { answered, chunk, folded, type Json, MINIMAL, streamed, usageChunk, VIEW } from './helpers.ts'

const FUNCTION = { type: 'function', name: 'look' }
const searching = {
  ...VIEW,
  findModel: () => ({ maxOutput: 10, allow: ['web_search'], searches: ['openai'] }) as never,
}
const read = (more: Json, view = searching) => responsesInbound.decodeRequest({ ...MINIMAL, ...more }, view)

describe('a model that searches for each request', () => {
  const place = { type: 'approximate', city: 'Bern', country: 'CH', region: null }
  test.each<[name: string, tool: Json, options: Json]>([
    ['the tool', { type: 'web_search' }, {}],
    ['an older one', { type: 'web_search_preview_2025_03_11' }, {}],
    ['with how much it reads', { type: 'web_search', search_context_size: 'low' }, { search_context_size: 'low' }],
    [
      'with a place',
      { type: 'web_search', user_location: place },
      { user_location: { type: 'approximate', approximate: { city: 'Bern', country: 'CH' } } },
    ],
    [
      'with what says no more than nothing',
      { type: 'web_search', external_web_access: true, filters: { allowed_domains: [] }, user_location: null },
      {},
    ],
  ])('gets %s as its options', (_name, tool, options) => {
    const { body, dropped } = read({ tools: [FUNCTION, tool] })
    expect(body['web_search_options']).toEqual(options)
    expect(body['tools']).toHaveLength(1)
    expect(dropped).toEqual([])
  })

  test.each<[name: string, tool: Json, dropped: string]>([
    ['sites', { filters: { allowed_domains: ['example.com'] } }, 'tools.web_search.filters'],
    ['what was stored before', { external_web_access: false }, 'tools.web_search.external_web_access'],
    ['a setting to come', { depth: 3 }, 'tools.web_search.depth'],
  ])('does not where the search is bound to %s', (_name, more, dropped) => {
    const request = read({ tools: [{ type: 'web_search', ...more }] })
    expect(request.dropped).toEqual([dropped])
    expect(request.body).not.toHaveProperty('web_search_options')
    const told = request.encodeError!(refuse('unsupported_parameter', { message: 'No.', param: dropped }))
    expect(JSON.parse(told).error.param).toBe(dropped.replace('tools.web_search', 'tools[0]'))
  })

  test.each<[choice: unknown, body: Json]>([
    ['auto', { web_search_options: {} }],
    ['required', { web_search_options: {} }],
    [{ type: 'web_search_preview' }, { web_search_options: {} }],
    ['none', {}],
  ])('whose choice is %j', (tool_choice, expected) => {
    const { model: _model, messages: _messages, ...body } = read({ tools: [{ type: 'web_search' }], tool_choice }).body
    expect(body).toEqual(expected)
  })

  test('errors about it name its place', () => {
    const request = read({ tools: [FUNCTION, { type: 'web_search' }] })
    const refusal = refuse('unsupported_parameter', {
      message: "'web_search_options' is too much.",
      param: 'web_search_options',
    })
    expect(JSON.parse(request.encodeError!(refusal)).error).toMatchObject({
      param: 'tools[1]',
      message: "'tools[1]' is too much.",
    })
  })
})

test.each([
  ['of another maker', { allow: ['web_search'], searches: ['anthropic'] }],
  ['that is not allowed to', { allow: [], searches: ['openai'] }],
])('a model %s does not search, and that is told', (_name, more) => {
  const findModel = () => ({ maxOutput: 10, ...more }) as never
  const request = read({ tools: [{ type: 'web_search' }] }, { ...VIEW, findModel })
  expect([request.dropped, request.body['web_search_options']]).toEqual([['tools.web_search'], undefined])
  const told = request.encodeError!(refuse('unsupported_parameter', { message: 'No.', param: 'tools.web_search' }))
  expect(JSON.parse(told).error.param).toBe('tools[0].type')
})

describe('what a text quotes', () => {
  const quote = { start_index: 6, end_index: 10, url: 'https://example.com', title: 'E' }
  const annotations = [{ type: 'url_citation', url_citation: quote }, { type: 'file_citation' }, null]
  const expected = { type: 'output_text', text: 'It is blue', annotations: [{ type: 'url_citation', ...quote }] }

  test('is told of a whole answer', () => {
    const { output } = answered({ content: 'It is blue', annotations })
    expect(output).toMatchObject([{ content: [expected] }])
  })

  test('and as a stream, for the official library', async () => {
    const response = await folded(
      streamed([
        chunk({ content: 'It is ' }),
        chunk({ content: 'blue' }),
        chunk({ annotations }),
        chunk({}, 'stop'),
        usageChunk(),
      ]),
    )
    expect(response.output).toMatchObject([{ content: [expected] }])
  })
})
