import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Checkpoint, Ledger, Log } from '#contract'
import { until } from '../../test/helpers/until.ts'
import { type OpenStream, startCheckpoints } from './checkpoints.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

function started(checkpoint?: Ledger['checkpoint']) {
  const written: Checkpoint[][] = []
  const warned: string[] = []
  const ledger = {
    checkpoint: checkpoint ?? (async (all: readonly Checkpoint[]) => void written.push([...all])),
  } as Ledger
  const log = { warn: (_fields: object, message: string) => void warned.push(message) } as Log
  const checkpoints = startCheckpoints(ledger, log, 5_000)
  return { written, warned, checkpoints, round: () => vi.advanceTimersByTime(5_000) }
}

function stream(exchange: string): OpenStream & { count: number } {
  const self = {
    exchange,
    count: 0,
    tokens: () => self.count,
    sofar: (): Checkpoint => ({ exchange, amount: BigInt(self.count), usage: { input: 1, output: self.count } }),
  }
  return self
}

test('streams with new tokens are written in one call', () => {
  const { written, checkpoints, round } = started()
  const [a, b, c] = [stream('a'), stream('b'), stream('c')]
  for (const each of [a, b, c]) checkpoints.follow(each)
  round()
  expect(written).toEqual([])
  a.count = 3
  b.count = 4
  round()
  expect(written).toEqual([[a.sofar(), b.sofar()]])
  round()
  expect(written).toHaveLength(1)
  b.count = 5
  c.count = 1
  round()
  expect(written[1]).toEqual([b.sofar(), c.sofar()])
})

test('an ended stream is not written again', () => {
  const { written, checkpoints, round } = started()
  const a = stream('a')
  const end = checkpoints.follow(a)
  a.count = 3
  end()
  end()
  round()
  expect(written).toEqual([])
})

test('without streams the timer stops, and the next stream starts it again', () => {
  const { written, checkpoints, round } = started()
  expect(vi.getTimerCount()).toBe(0)
  checkpoints.follow(stream('a'))()
  round()
  expect(vi.getTimerCount()).toBe(0)
  const b = stream('b')
  checkpoints.follow(b)
  b.count = 1
  round()
  expect(written).toEqual([[b.sofar()]])
})

test('a failed checkpoint is logged only: the settle at the end counts', async () => {
  const { warned, checkpoints, round } = started(() => Promise.reject(new Error('disk full')))
  const a = stream('a')
  checkpoints.follow(a)
  a.count = 1
  round()
  await until(() => expect(warned).toEqual(['failed to write checkpoints']))
})

test('after stop the timer is off', () => {
  const { written, checkpoints, round } = started()
  const a = stream('a')
  checkpoints.follow(a)
  a.count = 1
  checkpoints.stop()
  expect(vi.getTimerCount()).toBe(0)
  round()
  expect(written).toEqual([])
})
