import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type SseEvent, SseReader } from '../../../src/providers/dialects/sse.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

type Read = readonly (readonly [event: string, data: string])[]

const shown = (events: readonly SseEvent[]): Read => events.map(({ event, data }) => [event, data.toString()])

/** Reads a body in the given pieces. */
function read(pieces: readonly Buffer[]): Read {
  const reader = new SseReader()
  const events = pieces.flatMap(piece => reader.push(piece))
  return shown([...events, ...reader.end()])
}

const readText = (text: string) => read([Buffer.from(text)])
const bytewise = (bytes: Buffer) => Array.from(bytes, byte => Buffer.of(byte))

/** Cuts bytes at the given places (taken modulo the length), in order; equal places give empty pieces. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = places.map(place => place % (bytes.length + 1)).sort((a, b) => a - b)
  return [...at, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : at[i - 1], end))
}

describe('what the fields mean', () => {
  test.each<[name: string, text: string, events: Read]>([
    ['nothing', '', []],
    ['blank lines only', '\n\n\n', []],
    ['one event', 'data: {"a":1}\n\n', [['', '{"a":1}']]],
    ['no space after the colon', 'data:{"a":1}\n\n', [['', '{"a":1}']]],
    ['two spaces: one belongs to the data', 'data:  x\n\n', [['', ' x']]],
    ['a tab is no space', 'data:\tx\n\n', [['', '\tx']]],
    ['several lines of data', 'data: a\ndata:b\ndata: c\n\n', [['', 'a\nb\nc']]],
    ['an empty line of data between', 'data: a\ndata\ndata: c\n\n', [['', 'a\n\nc']]],
    ['an event without data', 'event: ping\n\n', []],
    ['an event with empty data', 'data:\n\ndata\n\n', []],
    ['a name', 'event: error\ndata: x\n\n', [['error', 'x']]],
    ['a name after the data', 'data: x\nevent:error\n\n', [['error', 'x']]],
    ['a name is forgotten with its event', 'event: a\n\ndata: x\n\n', [['', 'x']]],
    ['the last name counts', 'event: a\nevent: b\ndata: x\n\n', [['b', 'x']]],
    ['comments', ': OPENROUTER PROCESSING\n\n:\n: keep-alive\ndata: x\n:in between\n\n', [['', 'x']]],
    ['id and retry', 'id: 7\nretry: 1000\ndata: x\n\n', [['', 'x']]],
    ['a field that only begins like data', 'database: y\ndat: y\ndata2\n data: y\nDATA: y\ndata: x\n\n', [['', 'x']]],
    ['a field that only begins like event', 'events: y\nevent_: y\ndata: x\n\n', [['', 'x']]],
    ['lines that are no fields', '{"choices": []}\n\ndata: x\n\n', [['', 'x']]],
    ['a byte order mark', '\ufeffdata: x\n\n', [['', 'x']]],
    ['a second byte order mark is text', '\ufeff\ufeffdata: x\n\ndata: y\n\n', [['', 'y']]],
    ['a byte order mark in the middle is text', 'data: x\n\n\ufeffdata: y\n\n', [['', 'x']]],
    [
      'no blank line at the end',
      'data: a\n\ndata: [DONE]\n',
      [
        ['', 'a'],
        ['', '[DONE]'],
      ],
    ],
    [
      'no line end at the end',
      'data: a\n\ndata: [DONE]',
      [
        ['', 'a'],
        ['', '[DONE]'],
      ],
    ],
    ['a name and no line end at the end', 'data: a\nevent: error', [['error', 'a']]],
    [
      'CRLF',
      'data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n',
      [
        ['', 'a\nb'],
        ['', 'c'],
      ],
    ],
    [
      'CR',
      'data: a\rdata: b\r\rdata: c\r\r',
      [
        ['', 'a\nb'],
        ['', 'c'],
      ],
    ],
    [
      'all of them',
      'data: a\r\n\ndata: b\r\rdata: c\n\r\ndata: d\n\r',
      [
        ['', 'a'],
        ['', 'b'],
        ['', 'c'],
        ['', 'd'],
      ],
    ],
    ['a NUL', 'data: a\u0000b\n\n', [['', 'a\u0000b']]],
    ['other line separators are text', 'data: a\u2028b\u0085c\u000bd\n\n', [['', 'a\u2028b\u0085c\u000bd']]],
    ['letters of several bytes', 'data: na\u00efve \u20ac \u{1f600}\n\n', [['', 'na\u00efve \u20ac \u{1f600}']]],
  ])('%s', (_name, text, events) => {
    expect(readText(text)).toEqual(events)
    expect(read(bytewise(Buffer.from(text)))).toEqual(events)
  })

  test('bytes that are no UTF-8 are passed on as they are', () => {
    const [event] = new SseReader().push(Buffer.from('data: a\xff\xfeb\n\n', 'latin1'))
    expect(event!.data).toEqual(Buffer.from('a\xff\xfeb', 'latin1'))
  })
})

describe('however the bytes were split', () => {
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

  test('cut once, at every place, the events are the same', () => {
    for (let at = 0; at <= bytes.length; at++) {
      expect(read([bytes.subarray(0, at), bytes.subarray(at)]), `cut at byte ${at}`).toEqual(whole)
    }
  })

  test('cut twice, at every pair of places around a line end, the events are the same', () => {
    const ends = [...bytes.keys()].filter(at => bytes[at] === 10 || bytes[at] === 13)
    for (const at of ends) {
      for (const length of [1, 2, 3, 4]) {
        const pieces = [bytes.subarray(0, at), bytes.subarray(at, at + length), bytes.subarray(at + length)]
        expect(read(pieces), `cut at byte ${at} and ${length} later`).toEqual(whole)
      }
    }
  })

  test('any cuts of anything', () => {
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

  test('an event keeps its data when more is read', () => {
    const reader = new SseReader()
    const events: SseEvent[] = []
    for (let i = 0; i < 50; i++) {
      for (const piece of bytewise(Buffer.from(`data: event ${i}\n\nda`))) events.push(...reader.push(piece))
      reader.push(Buffer.from('ta: x\n\n'))
    }
    expect(shown(events)).toEqual(Array.from({ length: 50 }, (_, i) => ['', `event ${i}`]))
  })
})

test('a line of 1 MiB that arrives byte by byte is copied and searched a few times, not once a byte', () => {
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

/** How many bytes buffers copied and searched meanwhile: what a clock would show, without the clock. */
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
