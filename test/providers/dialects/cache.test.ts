/** The cache marks that are kept for a provider with a maximum of four. */
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
])('of the marks %j, %j are sent', (marks, fit) => {
  // `a` is a mark of five minutes, `A` a mark of an hour. Each letter is a list of its own.
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
