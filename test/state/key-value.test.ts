/** Texts with a time to live, in memory. */
import { describe, expect, test } from 'vitest'
import { createKeyValue } from '../../src/state/key-value.ts'
import { testClock } from '../store/helpers.ts'

test('a text exists until it expires, is deleted or is replaced', async () => {
  const clock = testClock()
  const texts = createKeyValue(clock, 10_000)
  expect(await texts.get('a')).toBeUndefined()
  texts.set('a', 'one', 1000)
  texts.set('b', '', 5000)
  clock.ms += 999
  expect([await texts.get('a'), await texts.get('b')]).toEqual(['one', ''])
  texts.set('a', 'two', 1000)
  clock.ms += 999
  expect(await texts.get('a')).toBe('two')
  clock.ms += 1
  expect([await texts.get('a'), await texts.get('b')]).toEqual([undefined, ''])
  texts.delete('b')
  expect(await texts.get('b')).toBeUndefined()
})

describe('memory', () => {
  test('is bounded: the least recently used text is evicted', async () => {
    const texts = createKeyValue(testClock(), 3 * (2 * 101 + 256))
    for (const name of ['a', 'b', 'c']) texts.set(name, 'x'.repeat(100), 1000)
    await texts.get('a')
    texts.set('d', 'x'.repeat(100), 1000)
    expect(await Promise.all(['a', 'b', 'c', 'd'].map(name => texts.get(name) !== undefined))).toEqual([
      true,
      false,
      true,
      true,
    ])
  })

  test('is not used for a text that exceeds all of it, and the former text is removed too', async () => {
    const texts = createKeyValue(testClock(), 1000)
    texts.set('a', 'one', 1000)
    texts.set('a', 'x'.repeat(1000), 1000)
    expect(await texts.get('a')).toBeUndefined()
  })
})

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('a time to live of %s ms is a bug of the caller', ttlMs => {
  expect(() => createKeyValue(testClock(), 1000).set('a', 'one', ttlMs)).toThrow(RangeError)
})
