/** The texts that rules search. */
import { expect, test } from 'vitest'
import { mapTexts } from './texts.ts'

const shout = (value: unknown) => mapTexts(value, text => text.toUpperCase())

test('an earlier web search is searched, except data that only its provider can read', () => {
  const found = { type: 'web_search_tool_result', content: [{ title: 'a', encrypted_content: 'EqQ' }] }
  const citations = [{ type: 'web_search_result_location', cited_text: 'a', encrypted_index: 'Eo8' }]
  expect(
    shout([
      { type: 'anthropic', anthropic: found },
      { type: 'text', text: 'a', citations },
    ]),
  ).toEqual([
    {
      type: 'anthropic',
      anthropic: { type: 'web_search_tool_result', content: [{ title: 'A', encrypted_content: 'EqQ' }] },
    },
    { type: 'text', text: 'A', citations: [{ ...citations[0], cited_text: 'A' }] },
  ])
})

test('in an answer with web searches the text is searched, and the results are not', () => {
  const anthropic_content = [{ type: 'server_tool_use', input: { query: 'a' } }]
  expect(shout({ content: 'a', anthropic_content })).toEqual({ content: 'A', anthropic_content })
})
