import { describe, expect, test } from 'vitest'
import { formatProblem, nearest, type Problem } from '../../../src/config/yaml/problem.ts'

const at = (line: number, column: number, more: Partial<Problem> = {}): Problem => ({
  file: 'gateway.yaml',
  line,
  column,
  rule: 'wrong-value',
  message: 'something is wrong',
  ...more,
})

describe('formatProblem', () => {
  test.each<[string, Problem, string | undefined, string[]]>([
    ['without the source', at(3, 5), undefined, ['gateway.yaml:3:5: something is wrong']],
    [
      'with the source',
      at(2, 9, { suggestion: 'did you mean "drain"?' }),
      'version: 1\nlimits: [ x ]\n',
      ['gateway.yaml:2:9: something is wrong; did you mean "drain"?', '   2 | limits: [ x ]', '     |         ^'],
    ],
    [
      'windows line ends',
      at(1, 4),
      'a: b\r\nc: d',
      ['gateway.yaml:1:4: something is wrong', '   1 | a: b', '     |    ^'],
    ],
    ['tabs', at(1, 4), '\ta:\tb', ['gateway.yaml:1:4: something is wrong', '   1 | \ta:\tb', '     | \t  ^']],
    ['an empty line', at(2, 1), 'a: b\n\n', ['gateway.yaml:2:1: something is wrong']],
    ['past the end', at(9, 1), 'a: b\n', ['gateway.yaml:9:1: something is wrong']],
    ['past the line', at(1, 7), 'a: b', ['gateway.yaml:1:7: something is wrong', '   1 | a: b', '     |       ^']],
    [
      'escape sequences',
      at(1, 1),
      'a: \x1b[31mred',
      ['gateway.yaml:1:1: something is wrong', '   1 | a: \ufffd[31mred', '     | ^'],
    ],
    ['a secret', at(1, 10, { concealed: true }), 'api_key: xyz', ['gateway.yaml:1:10: something is wrong']],
  ])('%s', (_, problem, source, lines) => {
    expect(formatProblem(problem, source).split('\n')).toEqual(lines)
  })

  test('a long line is cut around the position', () => {
    const line = `${'a'.repeat(200)}!${'b'.repeat(200)}`
    const [, source, caret] = formatProblem(at(1, 201), line).split('\n')
    expect(source!.length).toBeLessThan(140)
    expect(source![caret!.indexOf('^')]).toBe('!')
  })

  test('colours only on request', () => {
    expect(formatProblem(at(1, 1), 'a: b')).not.toContain('\x1b')
    expect(formatProblem(at(1, 1), 'a: b', { colours: true })).toContain('\x1b[31m^\x1b[0m')
  })
})

describe('nearest', () => {
  const known = ['listen', 'limits', 'id', 'use', 'base_url', 'max_output']
  test.each([
    ['lisen', 'listen'],
    ['lsiten', 'listen'],
    ['Listen', 'listen'],
    ['baseurl', 'base_url'],
    ['max_ouptut', 'max_output'],
    ['di', 'id'],
    ['ix', 'id'],
    ['uses', 'use'],
    ['xy', undefined],
    ['telemetry', undefined],
    ['', undefined],
  ])('%s -> %s', (word, expected) => expect(nearest(word, known)).toBe(expected))
})
