import { expect, test } from 'vitest'
import { ByteCollector } from '../../src/common/bytes.ts'
import { countsOf } from '../helpers/counts.ts'
import { seeded } from '../helpers/seeded.ts'

const counts = countsOf('corpus')

const MIB = 1024 * 1024

test('returns the bytes in order, however they were cut', () => {
  const seed = Date.now() % 1_000_000
  console.log(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < counts(25, 2000); round++) {
    const bytes = Buffer.alloc(Math.floor(random() ** 3 * MIB), random().toString(36))
    const collector = new ByteCollector()
    const longest = 10 ** Math.ceil(random() * 5)
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + Math.floor(random() * longest)
      const piece = bytes.subarray(at, end)
      collector.add(random() < 0.5 ? piece : Buffer.from(piece))
      at = end
    }
    expect(collector.size).toBe(bytes.length)
    expect(collector.held).toBeLessThanOrEqual(2 * bytes.length + MIB)
    expect(collector.take().equals(bytes)).toBe(true)
    expect([collector.size, collector.held, collector.take().length]).toEqual([0, 0, 0])
  }
})

test('a single piece is not copied', () => {
  const collector = new ByteCollector()
  const piece = Buffer.alloc(100_000)
  collector.add(piece)
  expect(collector.held).toBe(piece.length)
  expect(collector.take()).toBe(piece)
})

test.each<[name: string, act: (collector: ByteCollector) => void]>([
  ['taken', collector => expect(collector.take().toString()).toBe('a'.repeat(2 * MIB))],
  ['cleared', collector => collector.clear()],
])('pieces that are its own are freed when they are %s', (_name, act) => {
  for (const owns of [true, false]) {
    const collector = new ByteCollector(owns)
    const pieces = [Buffer.allocUnsafeSlow(MIB), Buffer.allocUnsafeSlow(MIB)]
    for (const piece of pieces) collector.add(piece.fill('a'))
    act(collector)
    expect(collector.size).toBe(0)
    expect(pieces.map(({ length }) => length)).toEqual(owns ? [0, 0] : [MIB, MIB])
  }
})

test.each([
  ['each of 1 byte', [1], 2 * MIB],
  ['a large one after each small one', [1, 4096], 2 * MIB],
  ['large ones of a size that does not fill a block', [5000], 2 * MIB],
])('the memory for 1 MiB in pieces, %s', (_name, sizes, atMost) => {
  const collector = new ByteCollector()
  const pieces = sizes.map(size => Buffer.alloc(size))
  for (let index = 0; collector.size < MIB; index++) collector.add(pieces[index % pieces.length]!)
  expect(collector.held).toBeGreaterThanOrEqual(collector.size)
  expect(collector.held).toBeLessThanOrEqual(atMost)
})

test('a small view of something large does not keep it', () => {
  const collector = new ByteCollector()
  collector.add(Buffer.alloc(MIB).subarray(0, 100))
  expect(collector.held).toBe(1024)
  expect(collector.take().buffer.byteLength).toBe(1024)
})

test('cleared bytes are dropped', () => {
  const collector = new ByteCollector()
  collector.add(Buffer.from('before'))
  collector.clear()
  expect(collector.held).toBe(0)
  collector.add(Buffer.from('after'))
  expect(collector.take().toString()).toBe('after')
})

test('16 MiB in pieces of 1 byte take no memory besides the bytes', () => {
  const collector = new ByteCollector()
  const heldBefore = process.memoryUsage()
  const byte = Buffer.from('x')
  for (let at = 0; at < 16 * MIB; at++) collector.add(byte)
  const after = process.memoryUsage()
  const grown = after.heapUsed + after.arrayBuffers - heldBefore.heapUsed - heldBefore.arrayBuffers
  // The limit is 17 MiB. The rest is uncollected garbage of the test.
  expect(grown).toBeLessThan(64 * MIB)
  expect(collector.take()).toHaveLength(16 * MIB)
})
