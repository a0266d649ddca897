/** Marks of what is worth keeping, at providers that take none. */
import { expect, test } from 'vitest'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { fitMarks } from '../../../src/providers/dialects/translate/cache.ts'
import { chatOf, target } from './anthropic/helpers.ts'

const MARK = { cache_control: { type: 'ephemeral' } }

test.each<[DialectName, string]>([
  ['gemini', 'gemini-2.5-pro'],
  ['vertex', 'gemini-2.5-pro'],
  ['cohere', 'command-a'],
  ['ollama', 'llama3'],
])('%s is sent what it is sent without them, and nothing is said to be lost', (name, model) => {
  const { dialect } = createDialect(name, () => 0)
  const sent = (mark: object) => {
    const text = (words: string) => ({ type: 'text', text: words, ...mark })
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' }, ...mark }
    const { body, dropped } = dialect.encodeRequest(
      chatOf({
        tools: [{ type: 'function', function: { name: 'f' }, ...mark }],
        messages: [
          { role: 'system', content: [text('a'), text('\n\nb')] },
          {
            role: 'user',
            content: [text('c'), { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, ...mark }],
          },
          { role: 'assistant', content: [text('d')], tool_calls: [call] },
          { role: 'tool', tool_call_id: 'c', content: [text('e')] },
        ],
      }),
      target(model),
    )
    return [JSON.parse(body.toString()), dropped]
  }
  expect(sent(MARK)).toEqual(sent({}))
})

test.each<[marks: string, fit: string]>([
  ['', ''],
  ['.a.', '.a.'],
  ['aaaaaa', '..aaaa'],
  ['AAaaaa', '..aaaa'],
  ['aA.Aa', 'aa.aa'],
  ['aAAAA', '.AAAA'],
  ['AAaA', 'AAaa'],
])('marks %j come to %j', (marks, fit) => {
  // `a` is a mark of five minutes, `A` one of an hour, and each letter a list of its own.
  const { lists, isCut } = fitMarks(
    [...marks].map(letter => [letter]),
    {
      ttlOf: letter => (letter === 'A' ? '1h' : letter === 'a' ? '5m' : undefined),
      shortened: () => 'a',
      unmarked: () => '.',
    },
  )
  expect(lists.flat().join('')).toBe(fit)
  expect(isCut).toBe(marks.replaceAll('.', '').length > 4)
})
