/** The mailbox between two threads, compared with a list: where it wraps, is full, or counts beyond 32 bits. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createMailbox, createMailboxMemory, type Mailbox, NONE } from '../../../src/store/thread/mailbox.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

/** Both ends of a mailbox that has already carried `begin` bytes. */
function mailbox(size: number, begin = 0) {
  const memory = createMailboxMemory(size)
  memory.ends.fill(begin)
  return { writer: createMailbox(memory), reader: createMailbox(memory) }
}

test.each([0, 32, 96, 1000, 2 ** 20 + 1])('a ring of %i bytes is refused', size => {
  expect(() => createMailboxMemory(size)).toThrow(/expected a power of 2/)
})

/** False if the mailbox is full. It may reserve more than it needs. */
function write(writer: Mailbox, text: string, more = 0): boolean {
  const at = writer.reserve(Math.min(text.length + more, writer.largest))
  if (at === NONE) return false
  writer.put(writer.bytes.write(text, at, 'latin1'))
  writer.publish()
  return true
}

function read(reader: Mailbox): string | undefined {
  const at = reader.next()
  if (at === NONE) return undefined
  const text = reader.bytes.toString('latin1', at, at + reader.lengthAt(at))
  reader.release()
  return text
}

test('a record that could never fit is refused; the largest possible one fits an empty ring, wherever it begins', () => {
  for (let begin = 0; begin < 128; begin += 4) {
    const { writer, reader } = mailbox(128, begin)
    expect(() => writer.reserve(writer.largest + 1)).toThrow(/does not fit the mailbox/)
    const text = 'x'.repeat(writer.largest)
    expect(write(writer, text)).toBe(true)
    expect(read(reader)).toBe(text)
  }
})

test('a full mailbox accepts nothing, loses nothing, and accepts records again after a read', () => {
  const { writer, reader } = mailbox(64)
  let written = 0
  while (write(writer, `text ${written}`)) written++
  expect(written).toBe(5)
  expect([write(writer, 'text 5'), reader.empty()]).toEqual([false, false])
  expect([read(reader), write(writer, 'text 5')]).toEqual(['text 0', true])
  const rest = Array.from({ length: 5 }, () => read(reader))
  expect(rest).toEqual(['text 1', 'text 2', 'text 3', 'text 4', 'text 5'])
  expect([read(reader), reader.empty()]).toEqual([undefined, true])
})

test('nothing is visible before it is published, and then everything is', () => {
  const { writer, reader } = mailbox(64)
  for (const text of ['a', '', 'b']) {
    const at = writer.reserve(8)
    writer.put(writer.bytes.write(text, at))
  }
  expect([read(reader), reader.empty()]).toEqual([undefined, true])
  writer.publish()
  expect([read(reader), read(reader), read(reader), read(reader)]).toEqual(['a', '', 'b', undefined])
})

test('a record stays in place until it is released, and one that is not put leaves nothing', () => {
  const { writer, reader } = mailbox(64)
  while (write(writer, 'text')) {}
  const first = reader.next()
  expect([write(writer, 'more'), reader.bytes.toString('latin1', first, first + 4)]).toEqual([false, 'text'])
  while (reader.next() !== NONE) {}
  reader.release()
  writer.reserve(20)
  expect([write(writer, 'more'), read(reader), read(reader)]).toEqual([true, 'more', undefined])
})

describe('any order of writes and reads', () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('write' as const),
      text: fc.string({ unit: 'binary-ascii', maxLength: 124 }),
      more: fc.nat(124),
    }),
    fc.constant({ do: 'read' as const }),
  )

  // From the last place the count passes 2^32, from the one before 2^31.
  test.each([0, 2 ** 31 - 64, -64])('returns everything in order, from byte %i on', begin => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), steps => {
        const { writer, reader } = mailbox(256, begin)
        const list: string[] = []
        for (const each of steps) {
          if (each.do === 'read') expect(read(reader)).toEqual(list.shift())
          else if (write(writer, each.text, each.more)) list.push(each.text)
          else expect(list.length).toBeGreaterThan(0)
        }
        for (const text of list) expect(read(reader)).toEqual(text)
        expect(reader.empty()).toBe(true)
      }),
      { numRuns: counts(50, 5000) },
    )
  })
})
