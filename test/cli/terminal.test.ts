import { expect, test } from 'vitest'
import { progressLine, progressStages, type Terminal } from '../../src/cli/terminal.ts'

function terminal(watched: boolean): { seen: string[]; terminal: Terminal } {
  const seen: string[] = []
  const err = (text: string) => void seen.push(text)
  return { seen, terminal: { env: {}, folder: '/', out: () => {}, err, watched, self: 'tollgate' } }
}

test('without a terminal no progress is written', () => {
  const { seen, terminal: pipe } = terminal(false)
  const progress = progressLine(pipe, 'Verifying')
  progress.show(1, 2)
  progress.end()
  expect(seen).toEqual([])
})

test('one line is rewritten only when the percentage changes, and erased at the end', () => {
  const { seen, terminal: watched } = terminal(true)
  const progress = progressLine(watched, 'Verifying')
  for (let done = 0; done <= 1000; done++) progress.show(done, 1000)
  expect(seen).toHaveLength(101)
  expect(seen.at(-1)).toBe('\rVerifying: 1000 of 1000 (100 %)\x1b[K')
  progress.end()
  expect(seen.at(-1)).toBe('\r\x1b[K')
})

test('progress without any work is 100 %', () => {
  const { seen, terminal: watched } = terminal(true)
  progressLine(watched, 'Verifying').show(0, 0)
  expect(seen).toEqual(['\rVerifying: 0 of 0 (100 %)\x1b[K'])
})

test('a message has a line of its own, and the progress continues after it', () => {
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
  const pipe = terminal(false)
  progressStages(pipe.terminal).print('Waiting.')
  expect(pipe.seen).toEqual(['Waiting.\n'])
})
