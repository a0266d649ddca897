/** The cache marks that are kept for a provider that takes four. */
import { expect, test } from 'vitest'
import { fitMarks } from '../../../src/providers/dialects/translate/cache.ts'

test.each<[marks: string, fit: string]>([
  ['', ''],
  ['.a.', '.a.'],
  ['aaaaaa', '..aaaa'],
  ['AAaaaa', '..aaaa'],
  ['aA.Aa', 'aa.aa'],
  ['aAAAA', '.AAAA'],
  ['AAaA', 'AAaa'],
])('marks %j come to %j', (marks, fit) => {
  // `a` is a mark of five minutes, `A` one of an hour; each letter is a list of its own.
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
