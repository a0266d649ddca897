/** Calls of custom tools in streams of providers that support only functions. */
import { expect, test } from 'vitest'
import type { Chunk } from '#contract'
import { CustomCalls, withoutCustomTools } from '../../../../src/providers/dialects/openai/custom-calls.ts'

function changed(calls: readonly (readonly [name: string, id: string, text: string])[], isOneChunk: boolean) {
  const reader = new CustomCalls(new Set(['patch']))
  const deltas = calls.map(([name, id, text]) => ({ index: 0, id, function: { name, arguments: text } }))
  const pieces = isOneChunk ? [deltas] : deltas.map(delta => [delta])
  const chunks = [...pieces, undefined].map(tool_calls => ({
    choices: [{ index: 0, delta: tool_calls ? { tool_calls } : {}, finish_reason: tool_calls ? null : 'tool_calls' }],
  })) as unknown as Chunk[]
  return chunks.flatMap(chunk => {
    reader.change(chunk)
    return chunk.choices[0]!.delta.tool_calls ?? []
  })
}

test('a tool without a description has an empty one as a function', () => {
  const tools = [null, undefined, ''].map(description => ({ type: 'custom', custom: { name: 'patch', description } }))
  const body = withoutCustomTools({ model: 'm', messages: [], tools } as never)
  const made = { type: 'function', function: { name: 'patch', description: '', parameters: expect.any(Object) } }
  expect(body.tools).toStrictEqual([made, made, made])
})

const UNUSUAL = '{"a":"x","input":"first"}'

test.each([true, false])('calls that share an index keep their inputs (in one chunk: %s)', isOneChunk => {
  const first = [
    { index: 0, id: 'a', type: 'custom', custom: { name: 'patch', input: '' } },
    { index: 0, custom: { input: 'first' } },
  ]
  expect(
    changed(
      [
        ['patch', 'a', UNUSUAL],
        ['patch', 'b', '{"input":"second"}'],
      ],
      isOneChunk,
    ),
  ).toEqual([...first, { index: 0, id: 'b', type: 'custom', custom: { name: 'patch', input: 'second' } }])
  expect(
    changed(
      [
        ['patch', 'a', UNUSUAL],
        ['look', 'b', '{}'],
      ],
      isOneChunk,
    ),
  ).toEqual([...first, { index: 0, id: 'b', function: { name: 'look', arguments: '{}' } }])
})
