import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type SseEvent, SseReader } from '../../../src/providers/dialects/sse.ts'
import { testCases } from '../../helpers/cases.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

type ReadEvents = readonly (readonly [event: string, data: string])[]

const shown = (events: readonly SseEvent[]): ReadEvents => events.map(({ event, data }) => [event, data.toString()])

/** Reads a body that arrives in the given pieces. */
function read(pieces: readonly Buffer[]): ReadEvents {
  const reader = new SseReader()
  const events = pieces.flatMap(piece => reader.push(piece))
  return shown([...events, ...reader.end()])
}

const bytewise = (bytes: Buffer) => Array.from(bytes, byte => Buffer.of(byte))

/** Cuts bytes at sorted places (modulo the length). Equal places give empty pieces. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = places.map(place => place % (bytes.length + 1)).sort((a, b) => a - b)
  return [...at, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : at[i - 1], end))
}

describe('fields', () => {
  testCases('test/providers/dialects', 'sse.json', ({ text }) => {
    const bytes = Buffer.from(String(text))
    const events = read([bytes])
    expect(read(bytewise(bytes)), 'byte by byte').toEqual(events)
    return { events }
  })

  test('invalid UTF-8 is returned unchanged', () => {
    const [event] = new SseReader().push(Buffer.from('data: a\xff\xfeb\n\n', 'latin1'))
    expect(event!.data).toEqual(Buffer.from('a\xff\xfeb', 'latin1'))
  })
})

describe('any split of the bytes', () => {
  const SAMPLE = [
    '\ufeff: hello\r\n\r\n',
    'data: {"choices":[{"delta":{"content":"na\u00efve \u20ac \u{1f600}"}}]}\n\n',
    'event: error\rdata:{"error":"x"}\r\r',
    'data: {\r\ndata:  "pretty": true\r\ndata: }\r\n\r\n',
    ':\n\nid: 1\nretry: 5\ndata\ndata:\ndata: last of three\n\n',
    'data: [DONE]\n\ndata: unfinished',
  ].join('')
  const bytes = Buffer.from(SAMPLE)
  const whole = read([bytes])

  test('the sample has every kind of event', () => {
    expect(whole).toEqual([
      ['', '{"choices":[{"delta":{"content":"na\u00efve \u20ac \u{1f600}"}}]}'],
      ['error', '{"error":"x"}'],
      ['', '{\n "pretty": true\n}'],
      ['', '\n\nlast of three'],
      ['', '[DONE]'],
      ['', 'unfinished'],
    ])
  })

  test('one cut at any place gives the same events', () => {
    for (let at = 0; at <= bytes.length; at++) {
      expect(read([bytes.subarray(0, at), bytes.subarray(at)]), `cut at byte ${at}`).toEqual(whole)
    }
  })

  test('two cuts around any line end give the same events', () => {
    const ends = [...bytes.keys()].filter(at => bytes[at] === 10 || bytes[at] === 13)
    for (const at of ends) {
      for (const length of [1, 2, 3, 4]) {
        const pieces = [bytes.subarray(0, at), bytes.subarray(at, at + length), bytes.subarray(at + length)]
        expect(read(pieces), `cut at byte ${at} and ${length} later`).toEqual(whole)
      }
    }
  })

  test('any cuts of any text', () => {
    const line = fc.oneof(
      fc.constantFrom('', 'data', 'data:', 'event: error', 'event:', ': ping', 'data: [DONE]', '\ufeff'),
      fc.string({ unit: 'grapheme', maxLength: 20 }).map(text => `data: ${text.replace(/[\r\n]/g, '')}`),
    )
    const end = fc.constantFrom('\n', '\r\n', '\r', '\n\n', '\r\r', '\r\n\r\n')
    const body = fc
      .tuple(fc.constantFrom('', '\ufeff', '\ufeff\ufeff'), fc.array(fc.tuple(line, end), { maxLength: 20 }), line)
      .map(([start, lines, rest]) => Buffer.from(start + lines.flat().join('') + rest))
    fc.assert(
      fc.property(body, fc.array(fc.nat(), { maxLength: 40 }), (text, places) => {
        const expected = read([text])
        expect(read(cut(text, places))).toEqual(expected)
        expect(read(bytewise(text))).toEqual(expected)
      }),
      { numRuns: counts(125, 100_000) },
    )
  })

  test('the data of an event does not change when more is read', () => {
    const reader = new SseReader()
    const events: SseEvent[] = []
    for (let i = 0; i < 50; i++) {
      for (const piece of bytewise(Buffer.from(`data: event ${i}\n\nda`))) events.push(...reader.push(piece))
      reader.push(Buffer.from('ta: x\n\n'))
    }
    expect(shown(events)).toEqual(Array.from({ length: 50 }, (_, i) => ['', `event ${i}`]))
  })
})

test('a 1 MiB line that arrives byte by byte is copied and searched a few times, not once per byte', () => {
  const size = 1024 * 1024
  const work = countWork(() => {
    const reader = new SseReader()
    const piece = Buffer.from('x')
    for (let at = 0; at < size; at++) reader.push(piece)
    expect(shown(reader.push(Buffer.from('\ndata: after\n\n')))).toEqual([['', 'after']])
  })
  expect(work.copied).toBeGreaterThan(size)
  expect(work.copied).toBeLessThan(6 * size)
  expect(work.searched).toBeGreaterThan(size)
  expect(work.searched).toBeLessThan(6 * size)
})

/** The number of bytes that buffers copied and searched: a measure of time without a clock. */
function countWork(run: () => void): { readonly copied: number; readonly searched: number } {
  const { copy, indexOf, includes } = Buffer.prototype
  const work = { copied: 0, searched: 0 }
  Buffer.prototype.copy = function (this: Buffer, ...values: Parameters<typeof copy>) {
    const count = copy.apply(this, values)
    work.copied += count
    return count
  } as typeof copy
  Buffer.prototype.indexOf = function (this: Buffer, value: number, from = 0) {
    work.searched += this.length - from
    return indexOf.call(this, value, from)
  } as typeof indexOf
  Buffer.prototype.includes = function (this: Buffer, value: number) {
    work.searched += this.length
    return includes.call(this, value)
  } as typeof includes
  try {
    run()
  } finally {
    Object.assign(Buffer.prototype, { copy, indexOf, includes })
  }
  return work
}
