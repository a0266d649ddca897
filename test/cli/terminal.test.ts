import { expect, test } from 'vitest'
import { progressLine, progressStages, type Terminal } from '../../src/cli/terminal.ts'

function terminal(watched: boolean): { seen: string[]; terminal: Terminal } {
  const seen: string[] = []
  const err = (text: string) => void seen.push(text)
  return { seen, terminal: { env: {}, folder: '/', out: () => {}, err, watched, self: 'tollgate' } }
}

test('where nobody watches there is no progress', () => {
  const { seen, terminal: blind } = terminal(false)
  const progress = progressLine(blind, 'Verifying')
  progress.show(1, 2)
  progress.end()
  expect(seen).toEqual([])
})

test('one line, written again only when the percentage changes, and wiped at the end', () => {
  const { seen, terminal: watched } = terminal(true)
  const progress = progressLine(watched, 'Verifying')
  for (let done = 0; done <= 1000; done++) progress.show(done, 1000)
  expect(seen).toHaveLength(101)
  expect(seen.at(-1)).toBe('\rVerifying: 1000 of 1000 (100 %)\x1b[K')
  progress.end()
  expect(seen.at(-1)).toBe('\r\x1b[K')
})

test('nothing to do is done', () => {
  const { seen, terminal: watched } = terminal(true)
  progressLine(watched, 'Verifying').show(0, 0)
  expect(seen).toEqual(['\rVerifying: 0 of 0 (100 %)\x1b[K'])
})

test('a sentence between two parts of the work has a line of its own, and the part goes on behind it', () => {
  const { seen, terminal: watched } = terminal(true)
  const stages = progressStages(watched)
  stages.show('Verifying', 1, 2)
  stages.print('Waiting.')
  stages.print('Still waiting.')
  stages.show('Verifying', 1, 2)
  stages.end()
  const wipe = '\r\x1b[K'
  const line = '\rVerifying: 1 of 2 (50 %)\x1b[K'
  expect(seen).toEqual([line, wipe, 'Waiting.\n', 'Still waiting.\n', line, wipe])
  const blind = terminal(false)
  progressStages(blind.terminal).print('Waiting.')
  expect(blind.seen).toEqual(['Waiting.\n'])
})
