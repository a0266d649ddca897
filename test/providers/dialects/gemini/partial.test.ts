/** Arguments of calls that Vertex sends in pieces. */
import { describe, expect, test } from 'vitest'
import { decoded, folded, parts, sse } from './support.ts'

const end = () => parts([], { finishReason: 'STOP' })

describe('arguments in pieces', () => {
  const piece = (functionCall: object) => parts([{ functionCall }])
  const arg = (jsonPath: string, value: object) => piece({ partialArgs: [{ jsonPath, ...value }], willContinue: true })
  const begin = piece({ name: 'write', willContinue: true })
  const over = piece({})
  const calls = (...pieces: object[]) =>
    folded(decoded([sse(begin, ...pieces, end())])).message as { tool_calls?: { function: { arguments: string } }[] }

  test('are put together where they belong', () => {
    const { tool_calls } = calls(
      arg('$.list[0].name', { stringValue: 'red ', willContinue: true }),
      arg('$.list[0].name', { stringValue: 'apple' }),
      arg('$.list[0].price', { numberValue: 0.5 }),
      arg("$.list[1]['a.b']", { boolValue: true }),
      arg('$.none', { nullValue: 'NULL_VALUE' }),
      arg('$.__proto__.x', { stringValue: 'y' }),
      over,
    )
    expect(tool_calls).toHaveLength(1)
    expect(tool_calls![0]!.function.arguments).toBe(
      '{"list":[{"name":"red apple","price":0.5},{"a.b":true}],"none":null,"__proto__":{"x":"y"}}',
    )
    expect(({} as { x?: unknown }).x).toBeUndefined()
  })

  test('one call after the other', () => {
    const again = piece({ name: 'read' })
    const { tool_calls } = calls(arg('$.a', { numberValue: 1 }), over, again, begin, over)
    expect(tool_calls?.map(each => each.function)).toEqual([
      { name: 'write', arguments: '{"a":1}' },
      { name: 'read', arguments: '{}' },
      { name: 'write', arguments: '{}' },
    ])
  })

  test.each<[name: string, pieces: object[]]>([
    ['a list of holes', [arg('$.list[100000]', { numberValue: 1 }), over]],
    ['a path that is none', [arg('list', { numberValue: 1 }), over]],
    ['a path of nothing', [arg('$', { numberValue: 1 }), over]],
    ['a path with an open end', [arg('$.a[', { numberValue: 1 }), over]],
    ['a path through a text', [arg('$.a', { stringValue: 'x' }), arg('$.a.b', { stringValue: 'y' }), over]],
    ['a name in a list', [arg('$.a[0]', { stringValue: 'x' }), arg('$.a.b', { stringValue: 'y' }), over]],
    ['no value', [arg('$.a', {}), over]],
    ['a path that is very deep', [arg(`$${'.a'.repeat(400)}`, { numberValue: 1 }), over]],
    ['no end', []],
    ['another call before its end', [begin]],
  ])('%s', (_, pieces) => {
    const items = decoded([sse(begin, ...pieces, end())])
    expect(items.at(-1)).toMatchObject({ kind: 'failure', failure: { code: 'upstream_invalid' } })
  })
})
