/** The mailbox between two threads: against a list, and where it wraps, is full, or counts beyond 32 bits. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createMailbox, createMailboxMemory, ELSEWHERE } from '../../src/store/mailbox.ts'
import { counts } from '../helpers/counts.ts'

/** Both ends, beginning so many bytes into the life of the ring. */
function mailbox(size: number, begin = 0) {
  const memory = createMailboxMemory(size)
  memory.ends.fill(begin)
  return { writer: createMailbox(memory), reader: createMailbox(memory) }
}

test.each([0, 32, 96, 1000, 2 ** 20 + 1])('a ring of %i bytes is refused', size => {
  expect(() => createMailboxMemory(size)).toThrow(/no power of 2/)
})

test('a text that could never fit is refused; one as large as can be fits into an empty ring, wherever it begins', () => {
  for (let begin = 0; begin < 128; begin += 4) {
    const { writer, reader } = mailbox(128, begin)
    expect(() => writer.write('x'.repeat(writer.largest + 1))).toThrow(/beyond the mailbox/)
    const text = 'x'.repeat(writer.largest)
    expect(writer.write(text)).toBe(true)
    expect(reader.read()).toBe(text)
  }
})

test('a full one takes nothing, loses nothing, and takes again what was read away', () => {
  const { writer, reader } = mailbox(64)
  let written = 0
  while (writer.write(`text ${written}`)) written++
  expect(written).toBe(5)
  expect([writer.write('text 5'), writer.empty()]).toEqual([false, false])
  expect([reader.read(), writer.write('text 5')]).toEqual(['text 0', true])
  const rest = Array.from({ length: 5 }, () => reader.read())
  expect(rest).toEqual(['text 1', 'text 2', 'text 3', 'text 4', 'text 5'])
  expect([reader.read(), reader.empty()]).toEqual([undefined, true])
})

test('an empty text, and a mark for one that comes another way, keep their places', () => {
  const { writer, reader } = mailbox(64)
  for (const write of [
    () => writer.write('a'),
    writer.writeElsewhere,
    () => writer.write(''),
    () => writer.write('b'),
  ]) {
    expect(write()).toBe(true)
  }
  expect([reader.read(), reader.read(), reader.read(), reader.read(), reader.read()]).toEqual([
    'a',
    ELSEWHERE,
    '',
    'b',
    undefined,
  ])
})

describe('whatever is written and read in whatever order', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('write' as const), text: fc.string({ unit: 'binary', maxLength: 40 }) }),
    fc.constant({ do: 'mark' as const }),
    fc.constant({ do: 'read' as const }),
  )

  // The last one goes beyond 32 bits on its way, the one before beyond 31.
  test.each([0, 2 ** 31 - 64, -64])('comes out whole and in order, from byte %i on', begin => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), steps => {
        const { writer, reader } = mailbox(256, begin)
        const list: unknown[] = []
        for (const each of steps) {
          if (each.do === 'read') expect(reader.read()).toEqual(list.shift())
          else if (each.do === 'mark' ? writer.writeElsewhere() : fits(writer, each.text)) {
            list.push(each.do === 'mark' ? ELSEWHERE : each.text.toWellFormed())
          } else expect(list.length).toBeGreaterThan(0)
        }
        for (const text of list) expect(reader.read()).toEqual(text)
        expect(reader.empty()).toBe(true)
      }),
      { numRuns: counts(200, 5000) },
    )
  })

  function fits(writer: ReturnType<typeof createMailbox>, text: string): boolean {
    return Buffer.byteLength(text) <= writer.largest && writer.write(text)
  }
})
