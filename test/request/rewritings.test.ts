/** Maps the places that errors name in a rewritten request to places in the client's request. */
import { expect, test } from 'vitest'
import { type ChatMessage, type ChatRequest, refuse } from '#contract'
import { inClientTerms, type Rewriting } from '../../src/request/rewritings.ts'

const ours = { role: 'system', content: 'Be kind.' }
const first = { role: 'user', content: [{ type: 'text', text: 'one' }] } as ChatMessage
const second = { role: 'user', content: 'two' }
const guarded = { role: 'user', content: [{ type: 'text', text: '[one]' }] } as ChatMessage
const tool = { type: 'function', function: { name: 'theirs' } }
const added = { type: 'function', function: { name: 'ours' } }
const body = (messages: readonly ChatMessage[], more: object = {}) => ({ model: 'm', messages, ...more }) as ChatRequest

const added1: Rewriting = { before: body([first, second]), after: body([ours, first, second]), own: [ours] }
const guarded1: Rewriting = { before: added1.after, after: body([ours, guarded, second]), own: [] }
const guarded0: Rewriting = { before: body([first, second]), after: body([guarded, second]), own: [] }
const added2: Rewriting = { before: guarded0.after, after: body([ours, guarded, second]), own: [ours] }
const replaced: Rewriting = { before: body([ours, second]), after: body([first, second]), own: [first] }
const dropped: Rewriting = { before: body([ours, first, second]), after: body([guarded, second]), own: [] }
const tools: Rewriting = {
  before: body([first], { tools: [tool] }),
  after: body([first], { tools: [added, tool] }),
  own: [added],
}

test.each<[string, Rewriting[], string, string | null]>([
  ['a message after an added one', [added1], 'messages[1].content', 'messages[0].content'],
  ['a part of that message', [added1], 'messages[1].content[0].text', 'messages[0].content[0].text'],
  ['a place in the notation of providers', [added1], 'messages.[2].content', 'messages.[1].content'],
  ['the added message', [added1], 'messages[0].content', null],
  ['a message that does not exist', [added1], 'messages[7]', 'messages'],
  ['the list', [added1], 'messages', 'messages'],
  ['a field that was not rewritten', [added1], 'tools[1].function.name', 'tools[1].function.name'],
  ['a place in another notation', [added1], 'messages.1.content', 'messages.1.content'],
  [
    'added, then replaced at its place',
    [added1, guarded1],
    'messages[1].content[0].text',
    'messages[0].content[0].text',
  ],
  ['replaced at its place, then added', [guarded0, added2], 'messages[1].content[0]', 'messages[0].content[0]'],
  ['after both', [guarded0, added2], 'messages[2]', 'messages[1]'],
  ['a message in place of another', [replaced], 'messages[0].content', null],
  ['its neighbour', [replaced], 'messages[1].content', 'messages[1].content'],
  ['a message whose place is unknown', [dropped], 'messages[0].content', 'messages'],
  ['a message that is found by identity', [dropped], 'messages[1].content', 'messages[2].content'],
  ['another list', [tools], 'tools[1].function.name', 'tools[0].function.name'],
])('%s', (_name, rewritings, param, expected) => {
  const refusal = inClientTerms(
    refuse('invalid_value', { message: `Invalid '${param}'.`, param, retryAfterMs: 5 }),
    rewritings,
  )
  expect(refusal.param).toBe(expected)
  expect(refusal.retryAfterMs).toBe(5)
  const named = param.includes('[') ? (expected ?? 'a message of this gateway') : param
  expect(refusal.message).toBe(`Invalid '${named}'.`)
})
