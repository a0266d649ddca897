import { expect, test } from 'vitest'
import type { ChatCompletion, Chunk, Delta } from '#contract'
import { chunksOf } from '../../../../src/providers/dialects/translate/chunks.ts'
import { completion } from '../../../request/answer/chunks.ts'

const CALL = { id: 'call_1', type: 'function', function: { name: 'a', arguments: '{"x":1}' } }

test.each<[name: string, answer: ChatCompletion]>([
  ['a text', completion('hi')],
  ['several choices', completion('a', 'b', 'c')],
  ['reasoning and a refusal', completion({ role: 'assistant', content: null, reasoning_content: 'hm', refusal: 'no' })],
  ['tool calls', completion({ role: 'assistant', content: null, tool_calls: [CALL, { ...CALL, id: 'call_2' }] })],
  ['no choice', completion()],
  ['unknown fields', { ...completion('hi'), service_tier: 'default', system_fingerprint: null }],
])('%s: the stream adds up to the whole answer', (_name, answer) => {
  const { choices, usage, object: _, ...head } = answer
  for (const asked of [false, true]) {
    const chunks = chunksOf(answer, asked)
    for (const chunk of chunks) expect(chunk).toMatchObject({ ...head, object: 'chat.completion.chunk' })
    expect(fold(chunks)).toEqual(choices)
    // api.openai.com sends usage in one event at the end and null in all others, and no key unless usage is requested.
    const usages = chunks.map(chunk => ('usage' in chunk ? chunk.usage : 'none'))
    expect(usages).toEqual(asked ? [...chunks.slice(1).map(() => null), usage] : chunks.map(() => 'none'))
  }
})

test('every tool call in a stream has its index', () => {
  const [first] = chunksOf(completion({ content: null, tool_calls: [CALL, CALL] }), false)
  expect(first!.choices[0]!.delta.tool_calls!.map(call => call.index)).toEqual([0, 1])
})

test('the finish reason is in its own chunk after the content', () => {
  const [content, finish] = chunksOf(completion('hi'), false)
  expect(content!.choices).toEqual([{ index: 0, delta: { role: 'assistant', content: 'hi' }, finish_reason: null }])
  expect(finish!.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
})

test('without usage the stream has no usage chunk', () => {
  const { usage: _, ...answer } = completion('hi')
  expect(chunksOf(answer, true).filter(chunk => chunk.usage)).toEqual([])
})

/** Joins choices from chunks that each hold a whole message. */
function fold(chunks: readonly Chunk[]): ChatCompletion['choices'] {
  const choices: ChatCompletion['choices'] = []
  for (const { index, delta, finish_reason } of chunks.flatMap(chunk => chunk.choices)) {
    const choice = (choices[index] ??= { index, message: message(delta), finish_reason: null })
    choice.finish_reason ??= finish_reason ?? null
  }
  return choices
}

function message({ tool_calls, ...delta }: Delta): Delta {
  return tool_calls ? { ...delta, tool_calls: tool_calls.map(({ index: _, ...call }) => call) } : delta
}
