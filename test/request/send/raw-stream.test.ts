import { describe, expect, test } from 'vitest'
import { plainPrice } from '#contract'
import { RawFailure } from '../../../src/providers/raw.ts'
import type { Client } from '../../../src/request/answer/client.ts'
import { deliveryOf, EventStream } from '../../../src/request/send/raw-stream.ts'
import { usageIn, usageOfRaw } from '../../../src/request/send/raw-usage.ts'
import { expectWithin } from '../../helpers/promised.ts'

const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' }, length: null }

/** A client that records writes in order. */
function setUp() {
  const pieces: string[] = []
  let headSent = false
  const client = {
    left: false,
    get headSent() {
      return headSent
    },
    writeStream(bytes: Buffer) {
      pieces.push(bytes.toString())
      return true
    },
    endStream: (bytes: Buffer) => void pieces.push(`end:${bytes}`),
    sendWhole: (_status: number, _headers: object, bytes: Buffer) => void pieces.push(`whole:${bytes}`),
    writeHead() {
      headSent = true
    },
  } as unknown as Client
  const stream = new EventStream(
    { client, head: HEAD },
    {
      failureOf: data => ({ code: 'upstream_error', detail: data.toString() }),
      largestBytes: 4_000_000,
      holds: bytes => bytes <= 2_000_000,
      identity: null,
    },
  )
  return { pieces, stream }
}

const DELTA = 'data: {"delta":"a"}\n\n'
const LAST = 'data: {"type":"transcript.text.done"}\n\n'
const PING = ': ping\n\n'
const USAGE = 'event: done\ndata: {"usage":{"input_tokens":3,"output_tokens":4}}\n\n'
const DONE = 'data: [DONE]\n\n'

describe('events', () => {
  test.each<[string, readonly string[], readonly string[]]>([
    ['the usage and later events are withheld', [DELTA, DELTA, USAGE, DONE], [DELTA, DELTA, `end:${USAGE}${DONE}`]],
    ['usage alone', [USAGE], [`whole:${USAGE}`]],
    ['repeated usage', [DELTA, USAGE, USAGE, DONE], [DELTA, USAGE, `end:${USAGE}${DONE}`]],
    ['[DONE] without usage: the event before it is withheld too', [DELTA, LAST, DONE], [DELTA, `end:${LAST}${DONE}`]],
    ['no end marker: the last event', [DELTA, DELTA, LAST], [DELTA, DELTA, `end:${LAST}`]],
    ['one event alone', [LAST], [`whole:${LAST}`]],
    ['a comment after the last event', [DELTA, LAST, PING], [DELTA, PING, `end:${LAST}`]],
    ['a comment after the usage', [DELTA, USAGE, PING, DONE], [DELTA, PING, `end:${USAGE}${DONE}`]],
    ['an end without a blank line', [DELTA, LAST, USAGE.trimEnd()], [DELTA, `end:${LAST}${USAGE.trimEnd()}`]],
    ['the word usage without usage', ['data: "usage"\n\n', DELTA], ['data: "usage"\n\n', `end:${DELTA}`]],
    ['comments', [PING, DELTA, USAGE], [PING, DELTA, `end:${USAGE}`]],
    ...['null', 'false', '""', '[]', '0'].map((none): [string, string[], string[]] => {
      const event = `data: {"error":${none}}\n\n`
      return [`an empty error: ${none}`, [event, USAGE], [event, `end:${USAGE}`]]
    }),
    ['nothing', [], ['whole:']],
  ])('%s', (_title, events, leaves) => {
    const { pieces, stream } = setUp()
    for (const each of events) stream.take(Buffer.from(each))
    stream.end()
    stream.finish()
    expect(pieces).toEqual(leaves)
  })

  test('events of one piece are sent in one piece', () => {
    const { pieces, stream } = setUp()
    stream.take(Buffer.from(`\n\n${DELTA}${DELTA}${USAGE}`))
    expect(pieces).toEqual([`\n\n${DELTA}${DELTA}`])
  })

  test.each(['\n', '\r\n', '\r'])('pass byte for byte however they are cut, with lines that end in %j', lineEnd => {
    const text = [PING, DELTA, 'data: 1\ndata: 2\n\n', USAGE, DONE].join('').replaceAll('\n', lineEnd)
    for (let size = 1; size < 12; size++) {
      const { pieces, stream } = setUp()
      const bytes = Buffer.from(text)
      for (let at = 0; at < bytes.length; at += size) stream.take(bytes.subarray(at, at + size))
      stream.end()
      const before = pieces.join('')
      stream.finish()
      const end = pieces.at(-1)!
      expect(before + end.slice('end:'.length)).toBe(text)
      expect(before).not.toContain('usage')
      expect(stream.usage).toMatchObject({ input: 3, output: 4 })
    }
  })

  test.each(['\n', '\r\n', '\r'])(
    'a comment is sent before a withheld event and never within one, with lines that end in %j',
    lineEnd => {
      const [last, ping] = [LAST, PING].map(each => each.replaceAll('\n', lineEnd)) as [string, string]
      for (let size = 1; size < 12; size++) {
        const { pieces, stream } = setUp()
        const bytes = Buffer.from(last + ping + last)
        for (let at = 0; at < bytes.length; at += size) stream.take(bytes.subarray(at, at + size))
        stream.end()
        expect(pieces.join('').split('transcript').length - 1, 'the last one waits').toBe(1)
        stream.finish()
        const all = pieces.join('').replace('end:', '')
        expect([ping + last + last, last + ping + last]).toContain(all)
      }
    },
  )

  test.each([
    ['larger than an answer may be', 4_000_001, 'upstream_too_large', 'limits.answer'],
    ['without room', 2_000_001, 'overloaded', 'limits.bodies_in_flight'],
  ])('an event %s is refused', (_name, size, code, limit) => {
    const { stream } = setUp()
    stream.take(Buffer.alloc(2_000_000, 'x'))
    expect(() => stream.take(Buffer.alloc(size - 2_000_000, 'x'))).toThrow(
      expect.objectContaining({
        failure: expect.objectContaining({ code, detail: expect.stringContaining(limit) }),
      }),
    )
  })

  test('a usage before many events is not the last one', () => {
    const { pieces, stream } = setUp()
    stream.take(Buffer.from(USAGE))
    for (let index = 0; index < 10; index++) stream.take(Buffer.from(`data: ${'x'.repeat(10_000)}\n\n`))
    expect(pieces.join('')).toContain('usage')
  })

  test.each(['{"type":"error","message":"no"}', '{"error":{"message":"no"}}', '{"error":"no"}', '{"error":["no"]}'])(
    '%s is a failure, and neither it nor the withheld events are sent',
    data => {
      const { pieces, stream } = setUp()
      expect(() => stream.take(Buffer.from(`${DELTA}${LAST}data: ${data}\n\n`))).toThrow(RawFailure)
      expect(pieces).toEqual([DELTA])
    },
  )

  test('a piece with very many events is read quickly', () => {
    const { stream } = setUp()
    const startedMs = performance.now()
    stream.take(Buffer.from('data: 1\r\n\r\n'.repeat(100_000)))
    stream.take(Buffer.from('\n'.repeat(1_000_000)))
    expectWithin(performance.now() - startedMs, 3000)
  })
})

test.each<[string | undefined, number | null, ReturnType<typeof deliveryOf>]>([
  ['application/json', null, null],
  ['application/json; charset=utf-8', 100_000_000, null],
  ['application/vnd.api+json', null, null],
  ['text/event-stream', null, 'events'],
  ['Text/Event-Stream; charset=utf-8', 10, 'events'],
  ['audio/mpeg', null, 'bytes'],
  ['audio/mpeg', 1000, null],
  ['audio/mpeg', 1_000_000, 'bytes'],
  ['application/jsonl', 1_000_000, 'bytes'],
  ['text/plain', null, 'bytes'],
  [undefined, 0, null],
  [undefined, null, 'bytes'],
])('an answer of type %s and length %s is sent as %s', (type, length, how) => {
  expect(deliveryOf({ status: 200, headers: type === undefined ? {} : { 'content-type': type }, length })).toBe(how)
})

test.each<[string, unknown, object | null]>([
  ['embeddings', { prompt_tokens: 5, total_tokens: 5 }, { input: 5 }],
  ['a total only', { total_tokens: 5 }, { input: 5 }],
  ['pictures', { input_tokens: 5, output_tokens: 6, total_tokens: 11 }, { input: 5, output: 6 }],
  [
    'with details',
    {
      prompt_tokens: 5,
      completion_tokens: 6,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 3 },
    },
    { input: 5, cached_input: 2, output: 6, reasoning: 3 },
  ],
  ['a total beside an output', { output_tokens: 6, total_tokens: 11 }, null],
  ['seconds', { type: 'duration', seconds: 3 }, { second: 3_000 }],
  ['audio beside tokens', { prompt_tokens: 5, prompt_audio_seconds: 2 }, { input: 5, second: 2_000 }],
  ['text', { prompt_tokens: '5' }, null],
  ['nothing', null, null],
  ['a list', [5], null],
  ['something inherited', Object.create({ prompt_tokens: 5 }), null],
])('usage of %s', (_title, usage, expected) => {
  const found = expected && { ...expected, source: 'reported' }
  expect(usageIn({ usage })).toEqual(found)
  expect(usageIn({ type: 'response.completed', response: { usage } })).toEqual(found)
})

test.each<[string, unknown, object | null]>([
  ['a transcription with its length', { text: 'a', duration: 2.5 }, { second: 2_500 }],
  ['processed pages', { pages: [{}], usage_info: { pages_processed: 4 } }, { page: 4 }],
  ['images', { data: [{ b64_json: 'x' }, { url: 'https://a' }, {}] }, { image: 2 }],
  ['vectors', { data: [{ embedding: [1] }] }, null],
])('an answer with %s', (_title, answer, expected) => {
  expect(usageIn(answer)).toEqual(expected && { ...expected, source: 'reported' })
})

describe('the charged usage', () => {
  const priced = (rates: object) => plainPrice({ input: 0n, output: 0n, request: 1n, ...rates })
  const price = priced({})
  const reported = usageIn({ usage: { input_tokens: 5, output_tokens: 6 } })
  const GUESSED = { input: 0, output: 0, source: 'estimated' }
  const NO_TOKENS = { input: 0, output: 0, source: 'reported' }
  const sizes = { request: Buffer.alloc(9, 'x'), answerBytes: 41 }

  test.each<[string, object | null, typeof reported, object]>([
    ['a price for requests: no tokens', price, reported, { input: 0, output: 0, source: 'reported' }],
    ['no price', null, null, { source: 'reported' }],
    ['a price for prompts', priced({ input: 1n }), reported, { input: 5, output: 0, source: 'reported' }],
    ['a price for both', priced({ input: 1n, output: 1n }), reported, { input: 5, output: 6, source: 'reported' }],
    [
      'a price for prompts, without reported usage',
      priced({ input: 1n }),
      null,
      { input: 3, output: 0, source: 'estimated' },
    ],
    ['a price for seconds', plainPrice({ second: 1n }), usageIn({ duration: 2 }), { second: 2_000, ...NO_TOKENS }],
    [
      'a price for images, and tokens that have none',
      plainPrice({ image: 1n }),
      { ...reported!, image: 2 },
      { image: 2, ...NO_TOKENS },
    ],
    ['a price for characters of a body without any', plainPrice({ character: 1n }), null, { ...GUESSED, character: 9 }],
    ['a price for seconds, without reported usage', plainPrice({ second: 1n }), null, { ...GUESSED, second: 3 }],
    ['a price for pages, without reported usage', plainPrice({ page: 1n }), null, { ...GUESSED, page: 1 }],
    ['a price for images, without a count', plainPrice({ image: 1n }), null, { ...GUESSED, image: 1 }],
    [
      'a free part of a paid whole',
      priced({ input: 1n, cached_input: 0n }),
      { ...reported!, cached_input: 5 },
      { ...NO_TOKENS, input: 5, cached_input: 5 },
    ],
    [
      'a price for both, without reported usage',
      priced({ output: 1n }),
      null,
      { input: 3, output: 11, source: 'estimated' },
    ],
  ])('%s', (_title, given, usage, expected) => {
    expect(usageOfRaw(given as typeof price | null, usage, sizes)).toEqual(expected)
  })

  test.each([
    [{ input: 'Grüße 👋' }, 7],
    [{ text: 'abc' }, 3],
    [{ input: ['a', 'b'] }, 2],
    [{ input: 'a', text: 'bcd' }, 4],
  ])('characters of the text to speak: %j', (body, character) => {
    const spoken = { request: Buffer.from(JSON.stringify(body)), answerBytes: 9 }
    expect(usageOfRaw(plainPrice({ character: 1n }), null, spoken)).toMatchObject({ character })
  })
})
