/** Assembles an answer, or its beginning, from its chunks. The tests of `cache` have more cases. */
import { expect, test } from 'vitest'
import { AnswerCollector, type Chunk, type CollectorOptions, type Delta } from '#contract'

const chunk = (delta: Delta, more: object = {}): Chunk => ({
  id: 'a',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, ...more }],
})
const WAYS = ['discard', 'truncate'] as const
const collected = (chunks: Iterable<Chunk>, onOverflow: CollectorOptions['onOverflow'], maxCharacters = 1000) => {
  const collector = new AnswerCollector({ maxCharacters, onOverflow })
  for (const each of chunks) collector.add(each)
  return collector
}

test.each(WAYS)('%s: no chunks', onOverflow => {
  expect(collected([], onOverflow).completion()).toBeNull()
})

test('beyond the limit: nothing, or the beginning and the finish reason', () => {
  const text = 'x'.repeat(600)
  const chunks = [text, text, 'y'].map(content => chunk({ content }))
  for (const onOverflow of WAYS) {
    const isBeginning = onOverflow === 'truncate'
    const collector = collected([...chunks, chunk({}, { finish_reason: 'stop' })], onOverflow)
    expect(collector.isCut).toBe(isBeginning)
    expect(collector.completion()?.choices).toEqual(
      isBeginning ? [{ index: 0, message: { content: text + text }, finish_reason: 'stop' }] : undefined,
    )
  }
})

test('only the finish is above the limit: the answer is complete', () => {
  const end = chunk({ role: 'assistant', content: '' }, { finish_reason: 'length' })
  const collector = collected([chunk({ content: 'x'.repeat(1200) }), end], 'truncate')
  expect(collector.isCut).toBe(false)
  expect(collector.completion()!.choices[0]!.finish_reason).toBe('length')
})

test('a finish reason that is too long is not kept after the limit', () => {
  const end = chunk({}, { finish_reason: 'z'.repeat(9e5) })
  const collector = collected([chunk({ content: 'x'.repeat(1200) }), end], 'truncate')
  expect(collector.completion()!.choices[0]!.finish_reason).toBeNull()
})

test('contradicting pieces: nothing, or the first one', () => {
  for (const onOverflow of WAYS) {
    const chunks = [
      chunk({ content: 'a', audio: { id: '1' } }, { logprobs: { content: [1] } }),
      chunk({ content: 'b', audio: { id: '2' } }, { logprobs: { content: [2] }, finish_reason: 'stop' }),
    ]
    const collector = collected(chunks, onOverflow)
    expect(collector.isCut).toBe(false)
    const message = { content: 'ab', audio: { id: '1' } }
    expect(collector.completion()?.choices).toEqual(
      onOverflow === 'truncate'
        ? [{ index: 0, message, logprobs: { content: [1] }, finish_reason: 'stop' }]
        : undefined,
    )
  }
})

test.each(WAYS)('%s: a member that is first a text and then an object is a contradiction, not an error', onOverflow => {
  const call = (value: unknown) => chunk({ tool_calls: [{ index: 0, id: 'c', function: value as never }] })
  const completion = collected([call('f'), call({ name: 'f' })], onOverflow).completion()
  const kept = [{ id: 'c', function: 'f' }]
  expect(completion?.choices[0]?.message.tool_calls).toEqual(onOverflow === 'truncate' ? kept : undefined)
})

/** Names that providers may use; JSON.parse makes members of them. */
const NAMES = ['__proto__', 'constructor', 'toString']
test.each(NAMES)('a member named %s is handled like the others', name => {
  const named = JSON.parse(`{"${name}":{"polluted":"yes"}}`) as object
  const call = { index: 0, id: 'c', ...named, function: { name: 'f', arguments: '', ...named } }
  const chunks = [chunk({ ...named, tool_calls: [call] }, named), chunk({ function_call: named, ...named })]
  const [choice] = collected([{ ...chunks[0]!, ...named }, chunks[1]!], 'truncate', 9000).completion()!.choices
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  expect((Object as unknown as Record<string, unknown>)['polluted']).toBeUndefined()
  expect((Object.prototype.toString as unknown as Record<string, unknown>)['polluted']).toBeUndefined()
  expect(JSON.stringify(choice!.message.tool_calls)).toContain(`"${name}":{"polluted":"yes"}`)
})

test.each([
  ['choices', (index: number) => chunk({}, { index })],
  ['calls', (index: number) => chunk({ tool_calls: [{ index }] })],
  ['empty members', (index: number) => chunk({ [`k${index}`]: null })],
  ['members of a call', (index: number) => chunk({ tool_calls: [{ index: 0, [`k${index}`]: {} }] })],
  ['members of a member', (index: number) => chunk({ function_call: { [`k${index}`]: '' } })],
  ['members of a choice', (index: number) => chunk({}, { [`k${index}`]: 0 })],
  ['members at the top', (index: number) => ({ ...chunk({}), [`k${index}`]: 0 })],
  ['roles', (index: number) => chunk({ role: 'r'.repeat(9e3) }, { index })],
  ['ends', (index: number) => chunk({}, { index, finish_reason: 'f'.repeat(9e3) })],
])('of any number of %s, a limited number is kept', (_, one) => {
  const some = Array.from({ length: 5000 }, (_, index) => one(index))
  const kept = JSON.stringify(collected(some, 'truncate', 32_768).completion())
  expect(kept.length).toBeGreaterThan(1000)
  expect(kept.length).toBeLessThan(50_000)
  expect(collected(some, 'discard', 32_768).completion()).toBeNull()
})
