import { describe, expect, test } from 'vitest'
import { createCredentials } from '../../src/providers/credentials.ts'

const OUT_MS = 60_000

function start(...all: string[]) {
  const clock = { now: 1000 }
  const reported: [index: number, left: number][] = []
  const credentials = createCredentials(
    all,
    () => clock.now,
    (index, left) => reported.push([index, left]),
  )
  const take = () => credentials.next()!
  const next = (times: number) => Array.from({ length: times }, () => credentials.next()?.credential ?? null).join('')
  return { clock, reported, take, next, good: credentials.good }
}

describe('a refused credential', () => {
  test('is skipped for a minute and reported once', () => {
    const { clock, reported, take, next, good } = start('a', 'b', 'c')
    take()
    const b = take()
    expect(good()).toBe(3)
    expect(b.refused()).toBe(2)
    expect(good()).toBe(2)
    expect(b.refused()).toBe(2)
    expect(reported).toEqual([[1, 2]])
    expect(next(4)).toBe('caca')
    clock.now += OUT_MS
    expect(good()).toBe(3)
    expect(next(3)).toBe('bca')
  })

  test('is reported again if it is refused again after that minute', () => {
    const { clock, reported, take } = start('a', 'b')
    take().refused()
    clock.now += OUT_MS
    take()
    take().refused()
    expect(reported).toEqual([
      [0, 1],
      [0, 1],
    ])
  })

  test('is not restored by the answer to an earlier request', () => {
    const { take, next } = start('a', 'b')
    const earlier = take()
    take()
    take().refused()
    earlier.accepted()
    expect(next(2)).toBe('bb')
  })

  test('is used if all are refused, beginning with the one whose minute ends first, and restored when it is accepted', () => {
    const { clock, reported, take, next } = start('a', 'b')
    const a = take()
    const b = take()
    b.refused()
    clock.now += 10
    expect(a.refused()).toBe(0)
    expect(reported.at(-1)).toEqual([0, 0])
    expect(next(2)).toBe('bb')
    take().accepted()
    expect(next(2)).toBe('bb')
    expect(reported).toHaveLength(2)
  })
})

test('a rate-limited credential is skipped for its time and not reported', () => {
  const { clock, reported, take, next } = start('a', 'b')
  expect(take().limited(5000)).toBe(1)
  expect(next(3)).toBe('bbb')
  clock.now += 5000
  expect(next(2)).toBe('ab')
  expect(reported).toEqual([])
})

test.each([
  ['none', [], 2, ''],
  ['one', ['a'], 3, 'aaa'],
  ['three take turns', ['a', 'b', 'c'], 5, 'abcab'],
])('%s', (_name, all, times, order) => {
  expect(start(...all).next(times)).toBe(order)
})
