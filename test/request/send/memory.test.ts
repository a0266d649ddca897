import { expect, test } from 'vitest'
import { createMemory, type MemoryUser } from '../../../src/request/send/memory.ts'

const KIB = 1024
const exchangeOf = (account: string) =>
  ({ account: { id: account }, chat: null, answerBytes: 0 }) as unknown as MemoryUser
const create = () => createMemory(() => ({ bodyBytes: 100 * KIB, bodyBytesInflight: 1000 * KIB }))

test('bytes beyond the estimate are counted once, and returned at the end', () => {
  const memory = create()
  const [first, second, third] = [exchangeOf('a'), exchangeOf('a'), exchangeOf('a')]
  memory.reserveAnswer(first)
  memory.reserveAnswer(second)
  expect(memory.growAnswer(first, 10 * KIB), 'less than estimated').toBe(true)
  expect(first.answerBytes).toBe(16 * KIB)
  expect(memory.growAnswer(first, 400 * KIB)).toBe(true)
  expect(memory.growAnswer(first, 400 * KIB)).toBe(true)
  expect(first.answerBytes).toBe(400 * KIB)
  // An account has a share of the free bytes.
  expect(memory.growAnswer(second, 400 * KIB)).toBe(false)
  expect(second.answerBytes).toBe(16 * KIB)
  memory.countAnswer(first, 0)
  expect(memory.growAnswer(second, 400 * KIB)).toBe(true)
  memory.countAnswer(second, 0)
  // The only answer always has memory.
  expect(memory.growAnswer(third, 2000 * KIB)).toBe(true)
})
