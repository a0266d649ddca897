import { describe, expect, test } from 'vitest'
import { createCredentials } from '../../src/upstream/credentials.ts'

const OUT_MS = 60_000

function start(...all: string[]) {
  const clock = { now: 1000 }
  const told: [index: number, left: number][] = []
  const credentials = createCredentials(
    all,
    () => clock.now,
    (index, left) => told.push([index, left]),
  )
  const next = (times: number) => Array.from({ length: times }, () => credentials.next()?.credential ?? null).join('')
  return { clock, told, credentials, next }
}

describe('a refused credential', () => {
  test('is left out for a minute, and told once', () => {
    const { clock, told, credentials, next } = start('a', 'b', 'c')
    expect(credentials.refused(1)).toBe(2)
    expect(credentials.refused(1)).toBe(2)
    expect(told).toEqual([[1, 2]])
    expect(next(4)).toBe('acac')
    clock.now += OUT_MS
    expect(next(3)).toBe('abc')
  })

  test('is told again when it is refused again after its time', () => {
    const { clock, told, credentials } = start('a', 'b')
    credentials.refused(0)
    clock.now += OUT_MS
    credentials.refused(0)
    expect(told).toEqual([
      [0, 1],
      [0, 1],
    ])
  })

  test('comes back at once when it is taken after all', () => {
    const { credentials, next } = start('a', 'b')
    credentials.refused(0)
    credentials.taken(0)
    expect(next(2)).toBe('ab')
  })

  test('is used all the same when all are refused: the one whose time is over first', () => {
    const { clock, told, credentials, next } = start('a', 'b')
    credentials.refused(1)
    clock.now += 10
    expect(credentials.refused(0)).toBe(0)
    expect(told.at(-1)).toEqual([0, 0])
    expect(next(2)).toBe('bb')
  })
})

test.each([
  ['none', [], 2, ''],
  ['one', ['a'], 3, 'aaa'],
  ['three take turns', ['a', 'b', 'c'], 5, 'abcab'],
])('%s', (_name, all, times, order) => {
  expect(start(...all).next(times)).toBe(order)
})
