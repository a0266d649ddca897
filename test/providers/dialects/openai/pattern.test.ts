import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StreamItem } from '#contract'
import { openAiDialect } from '../../../../src/providers/dialects/openai/index.ts'
import { countsOf } from '../../../helpers/counts.ts'

const counts = countsOf('corpus')

const dialect = openAiDialect(() => 0)
/** A decoder of a stream whose choices have begun. */
const decoderOf = (includeUsage = false) => {
  const decoder = dialect.decodeStream({ model: 'chat-small', includeUsage, exchange: 'req_1', createdAt: 1 })
  for (const index of [0, 1, 2, 3]) decoder.push(event(chunk({ role: 'assistant' }, {}, { index })))
  return decoder
}
const event = (data: string) => Buffer.from(`data: ${data}\n\n`)
const chunk = (delta: object, more: object = {}, choice: object = {}) =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_790_000_000,
    model: 'some-mini-2026',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...choice }],
    usage: null,
    ...more,
  })

/** The counted fields of an item, and whether they were found without parsing. */
function seen(item: StreamItem | undefined) {
  if (item?.kind !== 'chunk') return { item, isText: false }
  const { chunk, raw, usage, text } = item
  if (text) {
    const [choice] = chunk.choices
    const { content, reasoning_content: thought } = choice!.delta
    expect(text.index).toBe(choice!.index)
    expect(text.bytes).toBe(Buffer.byteLength(content || thought!))
    expect(text.event.toString()).toBe(`data: ${raw}\n\n`)
  }
  return { item: { chunk, raw: raw?.toString(), usage }, isText: text !== undefined }
}

/**
 * Reads the events with one decoder, and each also with a new decoder. Both must agree.
 * Returns for each event whether the first decoder read it without parsing.
 */
function readWithoutParsing(events: readonly string[], includeUsage = false): boolean[] {
  const decoder = decoderOf(includeUsage)
  return events.map(data => {
    const alone = seen(decoderOf(includeUsage).push(event(data))[0])
    const behind = seen(decoder.push(event(data))[0])
    expect(behind.item).toEqual(alone.item)
    return behind.isText
  })
}

describe('the second piece of text is not parsed', () => {
  const say = (content: string) => chunk({ content })
  const TEXTS = [' the', 'é€😀', '\n\n"\\', ' \u2028\u0007']
  test.each<[name: string, data: (text: string) => string]>([
    ['as OpenAI writes it', say],
    ['with an obfuscation', text => chunk({ content: text }, { obfuscation: 'x'.repeat(20 - (text.length % 7)) })],
    ['with a role each time', text => chunk({ role: 'assistant', content: text })],
    ['with thinking', text => chunk({ content: null, reasoning_content: text })],
    ['of a later choice', text => chunk({ content: text }, {}, { index: 3 })],
    ['with white space', text => ` ${say(text).replaceAll('":', '" : ').replaceAll(',"', ' , "')} `],
    ['with the characters escaped', text => say(text).replaceAll('e', '\\u0065').replaceAll('\\u0065"', 'e"')],
    ['without a model', text => chunk({ content: text }, { model: undefined })],
    [
      'with the model last',
      text =>
        say(text)
          .replace(/"model":"[^"]*",/, '')
          .replace(/}$/, ',"model":"m"}'),
    ],
    ['with the model twice', text => say(text).replace(/}$/, ',"model":"m"}')],
    ["with the catalog's model", text => chunk({ content: text }, { model: 'chat-small' })],
    ['with the content twice', text => say(text).replace('{"content"', '{"content":"a","content"')],
  ])('%s', (_name, data) => {
    for (const includeUsage of [false, true]) {
      expect(readWithoutParsing(TEXTS.map(data), includeUsage)).toEqual([false, true, true, true])
    }
  })
})

describe('is parsed:', () => {
  const before = [chunk({ content: 'a' }), chunk({ content: 'b' })]
  test.each<[name: string, data: string]>([
    ['an empty text', chunk({ content: '' })],
    ['a finish reason', chunk({}, {}, { finish_reason: 'stop' })],
    ['text with a finish reason', chunk({ content: 'c' }, {}, { finish_reason: 'stop' })],
    [
      'text with usage',
      chunk({ content: 'c' }, { usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }),
    ],
    ['text of another choice', chunk({ content: 'c' }, {}, { index: 1 })],
    ['text that is one of several', chunk({ content: 'c', refusal: 'd' })],
    [
      'a call',
      chunk({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } }] }),
    ],
    ['text in parts', chunk({ content: [{ type: 'text', text: 'c' }] })],
    ['an error', chunk({ content: 'c' }, { error: { message: 'no' } })],
    ['text after its end', `${chunk({ content: 'c' })}}`],
    ['JSON that breaks off', chunk({ content: 'c' }).slice(0, -1)],
    ['a text that breaks off', chunk({ content: 'c' }).slice(0, chunk({}).indexOf('"delta"') + 21)],
    ['a bad escape', chunk({ content: 'c@' }).replace('@', '\\x')],
    ['an escape that breaks off', chunk({ content: 'c@' }).replace('@', '\\u12')],
    ['a control character', chunk({ content: 'c@' }).replace('@', '\u0007')],
    ['a text over 4 KiB', chunk({ content: 'c'.repeat(4096) })],
  ])('%s', (_name, data) => {
    expect(readWithoutParsing([...before, data]).at(-1)).toBe(false)
  })

  test('an event named error', () => {
    const decoder = decoderOf()
    for (const data of before) decoder.push(event(data))
    const [item] = decoder.push(Buffer.concat([Buffer.from('event: error\n'), event(before[1]!)]))
    expect(item?.kind).toBe('failure')
  })

  test('two events over 4 KiB and the first that follows them', () => {
    const long = chunk({ content: 'c' }, { more: 'm'.repeat(4096) })
    expect(readWithoutParsing([long, long, ...before])).toEqual([false, false, false, true])
  })

  test('a stream whose chunks all differ', () => {
    const texts = Array.from({ length: 10 }, (_, index) => chunk({ content: 'a' }, { created: index }))
    expect(readWithoutParsing([...texts, ...before, ...before]).includes(true)).toBe(false)
  })
})

test('of a stream that changes at every fourth chunk, only the changed chunks are parsed', () => {
  const texts = Array.from({ length: 60 }, (_, index) => chunk({ content: 'a' }, { created: index >> 2 }))
  expect(readWithoutParsing(texts).filter(isText => isText).length).toBe(45)
})

test.each([
  ['an event name', 'event: error\n'],
  ['an unknown event name', 'event: ping\n'],
  ['an empty line of data', 'data:\n'],
  ['the beginning of a line', 'da'],
  ['the beginning of data', 'data: {'],
  ['a line of data', 'data: {"a":\n'],
  ['JSON without a field', '{"error":\n'],
  ['half of a line ending', ': ping\r'],
  ['an event before it', event(chunk({ content: 'b' })).toString()],
  ['nothing', ''],
])('after %s, whole events and single bytes give the same items', (_name, before) => {
  const [text, last] = [event(chunk({ content: 'a' })), event(chunk({ content: 'c' }))]
  for (const between of ['', '\n', ': ping\n\n']) {
    const bytes = Buffer.from(before + between)
    const [whole, single] = [decoderOf(), decoderOf()]
    const all = Buffer.concat([text, text, bytes, last, last])
    const bySingle = [...all].flatMap(byte => single.push(Buffer.from([byte]))).map(each => seen(each).item)
    expect([text, text, bytes, last, last].flatMap(piece => whole.push(piece)).map(each => seen(each).item)).toEqual(
      bySingle,
    )
  }
})

test('a damaged event is read the same after other events', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 6 })
  const written = fc
    .tuple(text, fc.constantFrom({}, { obfuscation: 'xyz' }, { created: 1 }))
    .map(([content, more]) => chunk({ content }, more))
  const broken = fc.tuple(written, fc.nat(), fc.constantFrom(...'"\\,:{}[]x 1\u0001é', '')).map(([data, place, by]) => {
    const at = place % data.length
    return data.slice(0, at) + by + data.slice(at + 1)
  })
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ arbitrary: written, weight: 4 }, broken), { maxLength: 8 }),
      fc.boolean(),
      (events, includeUsage) => void readWithoutParsing(events, includeUsage),
    ),
    { numRuns: counts(75, 20_000) },
  )
})
