import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CHAT_PARAMETERS } from '../../../src/providers/dialects/json-bytes.ts'
import { SCAN_LIMITS, scanJson } from '../../../src/providers/dialects/json-scan.ts'
import { scanTopLevel, setMembers } from '../../../src/providers/dialects/json-splice.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

const scan = (text: string) => scanJson(Buffer.from(text))
const problem = (text: string | Buffer) => {
  const result = scanJson(Buffer.from(text as string))
  return result.ok ? null : result.problem
}

describe('the scan refuses', () => {
  test.each([
    ['an empty body', '', 'invalid_json', null, 'empty'],
    ['only white space', ' \n', 'invalid_json', null, 'expected a value, and the body ends'],
    ['a byte order mark', '\ufeff{}', 'invalid_json', null, 'byte order mark'],
    ['a word', 'hello', 'invalid_json', null, 'expected a value (byte 0)'],
    ['NaN', '{"a":NaN}', 'invalid_json', null, 'expected a value (byte 5)'],
    ['a value missing', '{"a":}', 'invalid_json', null, 'expected a value'],
    ['a colon missing', '{"a" 1}', 'invalid_json', null, 'expected ":"'],
    ['a bare key', '{a:1}', 'invalid_json', null, 'a key in double quotes'],
    ['a single-quoted key', "{'a':1}", 'invalid_json', null, 'a key in double quotes'],
    ['a trailing comma in an object', '{"a":1,}', 'invalid_json', null, 'a key in double quotes'],
    ['a trailing comma in an array', '[1,]', 'invalid_json', null, 'expected a value'],
    ['brackets that do not match', '{"a":[1}', 'invalid_json', null, 'expected "," or "]"'],
    ['an object that breaks off', '{"a":1', 'invalid_json', null, 'expected "," or "}", and the body ends'],
    ['a string that breaks off', '{"a":"x', 'invalid_json', null, 'a string is not closed (byte 5)'],
    ['a string whose end is escaped', '{"a":"x\\"}', 'invalid_json', null, 'not closed'],
    ['a long string whose end is escaped', `{"a":"${'x'.repeat(200)}\\"}`, 'invalid_json', null, 'not closed'],
    ['a key that breaks off', '{"abc', 'invalid_json', null, 'not closed'],
    ['a key that breaks off in an escape', '{"abc\\', 'invalid_json', null, 'not closed'],
    ['a key with a bad escape', '{"a\\x":1}', 'invalid_json', null, 'bad escape'],
    ['text after the end', '{} {}', 'invalid_json', null, 'expected the end of the body (byte 3)'],
    [
      'a key twice',
      '{"model":"a","model":"b"}',
      'invalid_json',
      'model',
      '"model" occurs twice in one object (byte 13)',
    ],
    ['a key twice, once escaped', '{"model":"a","\\u006dodel":"b"}', 'invalid_json', 'model', '"model" occurs twice'],
    ['a key twice, first escaped', '{"\\u006dodel":"a","model":"b"}', 'invalid_json', 'model', '"model" occurs twice'],
    ['a key twice, both escaped', '{"\\u006dodel":"a","m\\u006fdel":"b"}', 'invalid_json', 'model', '(byte 18)'],
    ['an empty key twice', '{"":1,"":2}', 'invalid_json', '[""]', 'twice'],
    [
      'a key twice, deeply nested',
      '{"messages":[{},{"x":[{"y":1,"y":2}]}]}',
      'invalid_json',
      'messages[1].x[0].y',
      '"y"',
    ],
    ['a key twice around an object', '{"a":1,"b":{"c":{"d":1}},"a":2}', 'invalid_json', 'a', 'twice'],
    ['a long key twice', `{"${'k'.repeat(99)}":1,"${'k'.repeat(99)}":1}`, 'invalid_json', null, 'kkk...'],
    ['__proto__', '{"__proto__":{"admin":true}}', 'invalid_json', '__proto__', '"__proto__" is not allowed'],
    ['__proto__, escaped', '{"a":{"\\u005f_proto__":1}}', 'invalid_json', 'a.__proto__', 'not allowed'],
    ['__proto__ in an array', '{"a":[1,{"__proto__":1}]}', 'invalid_json', 'a[1].__proto__', 'not allowed'],
    ['a parameter in capitals', '{"MAX_TOKENS":1}', 'unknown_parameter', 'MAX_TOKENS', "Did you mean 'max_tokens'?"],
    ['a parameter with a capital', '{"model":"a","Model":"b"}', 'unknown_parameter', 'Model', "Did you mean 'model'?"],
    ['a parameter with a capital, escaped', '{"\\u004dodel":"b"}', 'unknown_parameter', 'Model', "'model'"],
    ['a parameter with the long s', '{"logprob\u017f":1}', 'unknown_parameter', '["logprob\u017f"]', "'logprobs'"],
    ['a key with line breaks twice', '{"\u2028\\n":1,"\\u2028\\n":1}', 'invalid_json', null, 'key "\\u2028\\n" occurs'],
    ['a key over 4096 bytes', `{"${'k'.repeat(5000)}":1}`, 'request_too_complex', null, 'longer than 4096 bytes'],
  ])('%s', (_name, text, code, param, sentence) => {
    const found = problem(text)
    expect(found).toMatchObject({ code })
    if (param !== null) expect(found?.param).toBe(param)
    expect(found?.message).toContain(sentence)
    expect(found?.message.length).toBeLessThan(200)
  })

  test('a duplicate key among many, at any two places', () => {
    const keys = Array.from({ length: 40 }, (_, i) => `a rather long name of a property, number ${i}`)
    for (const [from, to] of [
      [0, 39],
      [0, 1],
      [16, 17],
      [38, 39],
      [5, 20],
    ] as const) {
      const text = `{${keys.map((key, i) => `"${i === to ? keys[from] : key}":{"${key}":${i}}`).join(',')}}`
      expect(problem(text)?.message).toContain('occurs twice')
    }
    expect(scan(`{${keys.map(key => `"${key}":1`).join(',')}}`).ok).toBe(true)
  })

  test('equal keys in different objects are not duplicates', () => {
    expect(scan('{"a":{"a":{"a":1},"b":{"a":1}},"b":[{"a":1},{"a":1}]}').ok).toBe(true)
  })

  test.each([...CHAT_PARAMETERS])('%s in capitals', name => {
    expect(problem(`{"${name.toUpperCase()}":null}`)?.code).toBe('unknown_parameter')
    expect(scan(`{"${name}":null}`).ok).toBe(true)
    expect(scan(`{"tools":[{"${name.toUpperCase()}":null}]}`).ok).toBe(true)
  })

  test('bytes that are not UTF-8, with their offset', () => {
    for (const [bytes, offset] of [
      [Buffer.from([0x22, 0xff, 0x22]), 1],
      [Buffer.concat([Buffer.from(`"${'é\ufffd'.repeat(99)}`), Buffer.from([0xc3, 0x22])]), 1 + 99 * 5],
      [Buffer.concat([Buffer.alloc(5000, 'x'), Buffer.alloc(3000, 0x80), Buffer.alloc(5000, 'x')]), 5000],
    ] as const) {
      const result = scanJson(bytes)
      expect(result).toMatchObject({ ok: false, problem: { code: 'invalid_json' } })
      if (!result.ok) expect(Math.abs(result.problem.offset - offset)).toBeLessThanOrEqual(4)
    }
  })

  test('one level above the limit, but not the limit itself', () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    expect(scan(nested(SCAN_LIMITS.depth)).ok).toBe(true)
    expect(problem(nested(SCAN_LIMITS.depth + 1))).toMatchObject({
      code: 'request_too_complex',
      param: 'a[0]',
      message: expect.stringContaining('more than 64 levels'),
    })
    expect(scanJson(Buffer.from('[[[]]]'), { depth: 3, structural: 100 }).ok).toBe(true)
    expect(scanJson(Buffer.from('[[[]]]'), { depth: 2, structural: 100 }).ok).toBe(false)
    expect(scanJson(Buffer.from(nested(500)), { depth: 500, structural: 5000 }).ok).toBe(true)
  })

  test('one structural character above the limit, but not the limit itself', () => {
    const wide = (structural: number) => `[${'1,'.repeat(structural - 2)}1]`
    expect(scan(wide(50_000)).ok).toBe(true)
    expect(problem(wide(50_001))).toMatchObject({
      code: 'request_too_complex',
      message: expect.stringContaining('more than 50,000 brackets, commas and colons'),
    })
    expect(scan(JSON.stringify({ text: '[{,:}]'.repeat(50_000) })).ok).toBe(true)
  })
})

const MiB = 1024 * 1024
const filled = (head: string, fill: string, tail = '') =>
  Buffer.from(head + fill.repeat(Math.floor((4 * MiB - head.length - tail.length) / fill.length)) + tail)
const manyKeys = (key: (i: number) => string) =>
  Buffer.from(`{"a":{${Array.from({ length: 16_000 }, (_, i) => `"${key(i)}":1`).join(',')}}}`)

// A scan in more than linear time would exceed the time limit of the tests.
test.each([
  ['open brackets', filled('', '['), 'request_too_complex'],
  ['open objects', filled('', '{"a":'), 'request_too_complex'],
  ['a wide array', filled('[', '1,', '1]'), 'request_too_complex'],
  ['white space', filled('', ' ', '{}'), 'ok'],
  ['digits', filled('[', '1', ']'), 'ok'],
  ['escaped quotes', filled('{"a":"', '\\"', '"}'), 'ok'],
  ['backslashes', filled('{"a":"', '\\\\', '"}'), 'ok'],
  ['escaped quotes after 64 bytes', filled('{"a":"', `${'x'.repeat(64)}\\"`, '"}'), 'ok'],
  ['a string without end', filled('{"a":"', 'x'), 'invalid_json'],
  ['one long key', filled('{"', 'k', '":1}'), 'request_too_complex'],
  ['long keys that differ in the middle', manyKeys(i => `${'a'.repeat(99)}${i}${'b'.repeat(99)}`), 'ok'],
  ['short keys', manyKeys(String), 'ok'],
  ['keys with escapes', manyKeys(i => `\\n${'a'.repeat(99)}${i}`), 'ok'],
  ['keys of escapes', manyKeys(i => `${'\\n'.repeat(30)}${i}`), 'request_too_complex'],
  ['an end that is not UTF-8', Buffer.concat([filled('"', '\ufffd'), Buffer.from([0xff])]), 'invalid_json'],
])('4 MiB of %s', (_name, bytes, outcome) => {
  const result = scanJson(bytes)
  expect(result.ok ? 'ok' : result.problem.code).toBe(outcome)
})

/** A small seeded generator: failing cases can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Writes valid but unusual JSON: random white space, random escapes. */
function write(value: unknown, random: () => number): string {
  const space = () => [' ', '\n', '\t\r', '', '', '', ''][Math.floor(random() * 7)]
  if (typeof value === 'string') return writeString(value, random)
  if (Array.isArray(value)) return `[${space()}${value.map(item => write(item, random) + space()).join(`,${space()}`)}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([key, item]) => `${writeString(key, random)}${space()}:${space()}${write(item, random)}${space()}`,
    )
    return `{${space()}${members.join(`,${space()}`)}}`
  }
  return JSON.stringify(value)
}

function writeString(text: string, random: () => number): string {
  const often = random() < 0.2 ? 0.5 : 0
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  const body = text.replace(/[\s\S]/gu, character =>
    random() < often ? character.replace(/[\s\S]/g, escaped) : JSON.stringify(character).slice(1, -1),
  )
  return `"${body}"`
}

const key = fc.oneof(
  fc.constantFrom('model', 'usage', 'stream', 'id', 'choices', 'max_tokens', 'a"b', 'c\\', '', 'é', '😀'),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
)
const anyObject = fc
  .dictionary(key, fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }), { maxKeys: 30 })
  .map(object => JSON.parse(JSON.stringify(object)) as Record<string, unknown>)
  .filter(object => scan(JSON.stringify(object)).ok)
const written = fc
  .tuple(anyObject, fc.integer())
  .map(([object, seed]) => ({ object, bytes: Buffer.from(` ${write(object, randomFrom(seed))}\n`) }))

/** The spans and names of the outermost object, its keys decoded. */
function membersOf(bytes: Buffer) {
  const [open, close, ...rest] = scanTopLevel(bytes)!
  const members = []
  for (let i = 0; i < rest.length; i += 3) {
    const [keyStart, valueStart, valueEnd] = rest.slice(i, i + 3) as [number, number, number]
    const [key = ''] = Object.keys(JSON.parse(`{${bytes.toString('utf8', keyStart, valueEnd)}}`))
    members.push({ key, keyStart, valueStart, valueEnd })
  }
  return { open: open!, close: close!, members }
}

describe('properties', () => {
  test('the spans hold exactly the members that JSON.parse reads', () => {
    fc.assert(
      fc.property(written, ({ object, bytes }) => {
        const spans: number[] = []
        expect(scanJson(bytes, SCAN_LIMITS, spans)).toMatchObject({ ok: true })
        expect(scanTopLevel(bytes)).toEqual(spans)
        const { open, close, members } = membersOf(bytes)
        expect(bytes[open]).toBe('{'.charCodeAt(0))
        expect(bytes[close]).toBe('}'.charCodeAt(0))
        const read = members.map(({ key, keyStart, valueStart, valueEnd }) => {
          expect(bytes[keyStart]).toBe('"'.charCodeAt(0))
          return [key, JSON.parse(bytes.toString('utf8', valueStart, valueEnd))]
        })
        expect(Object.fromEntries(read)).toEqual(object)
        expect(read.length).toBe(Object.keys(object).length)
      }),
      { numRuns: counts(75, 20_000) },
    )
  })

  test('setMembers makes the same change as on the parsed object and leaves all other bytes unchanged', () => {
    const change = fc.dictionary(key, fc.option(fc.jsonValue({ maxDepth: 1 }), { nil: undefined }), { maxKeys: 5 })
    fc.assert(
      fc.property(written, change, fc.integer(), ({ object, bytes }, changes, seed) => {
        const spans = scanTopLevel(bytes)!
        const random = randomFrom(seed)
        const texts: Record<string, string | undefined> = {}
        const expected: Record<string, unknown> = { ...object }
        for (const [name, value] of Object.entries(changes)) {
          if (name === '__proto__') continue
          texts[name] = value === undefined ? undefined : write(value, random)
          if (value === undefined) delete expected[name]
          else expected[name] = JSON.parse(JSON.stringify(value))
        }
        const result = setMembers(bytes, spans, texts)
        expect(JSON.parse(result.toString())).toEqual(expected)
        const after = membersOf(result)
        for (const member of membersOf(bytes).members) {
          if (Object.hasOwn(texts, member.key)) continue
          const now = after.members.findLast(({ key }) => key === member.key)!
          const before = bytes.subarray(member.keyStart, member.valueEnd)
          expect(result.subarray(now.keyStart, now.valueEnd).equals(before)).toBe(true)
        }
      }),
      { numRuns: counts(75, 20_000) },
    )
  })

  test('JSON.parse also refuses what the scan calls invalid, and scanTopLevel reads every object', () => {
    const broken = fc.tuple(written, fc.array(fc.tuple(fc.nat(), fc.integer({ min: -1, max: 255 })), { maxLength: 3 }))
    const bytesOf = fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map(bytes => Buffer.from(bytes)),
      fc.string({ unit: fc.constantFrom(...'{}[],:"\\ 1tn\n\u00e9'), maxLength: 30 }).map(text => Buffer.from(text)),
      broken.map(([{ bytes }, edits]) => {
        let result = bytes
        for (const [place, byte] of edits) {
          const at = place % result.length
          const between = byte < 0 ? Buffer.alloc(0) : Buffer.from([byte])
          result = Buffer.concat([result.subarray(0, at), between, result.subarray(at + 1)])
        }
        return result
      }),
    )
    fc.assert(
      fc.property(bytesOf, bytes => {
        const result = scanJson(bytes)
        const quick = scanTopLevel(bytes)
        for (let i = 2; quick && i < quick.length; i += 3) expect(quick[i + 2]).toBeGreaterThan(quick[i + 1]!)
        let parsed: { value: unknown } | null = null
        try {
          parsed = { value: JSON.parse(new TextDecoder('utf8', { fatal: true, ignoreBOM: true }).decode(bytes)) }
        } catch {}
        if (!result.ok && /not valid|empty|mark/.test(result.problem.message)) expect(parsed).toBeNull()
        if (result.ok && parsed) expect(quick !== null).toBe(isObject(parsed.value))
      }),
      { numRuns: counts(500, 100_000) },
    )
  })
})

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

describe('setMembers', () => {
  test.each([
    ['replaces', '{"a":1, "b":2}', { a: '"x"' }, '{"a":"x", "b":2}'],
    ['adds at the end', '{"a":1 }', { b: '2', c: '[]' }, '{"a":1,"b":2,"c":[] }'],
    ['adds to an empty object', ' { } ', { b: '2' }, ' { "b":2} '],
    ['removes the first', '{ "a":1 , "b":2 }', { a: undefined }, '{ "b":2 }'],
    ['removes the last', '{ "a":1 , "b":2 }', { b: undefined }, '{ "a":1 }'],
    ['removes one in the middle', '{"a":1,"b":2,"c":3}', { b: undefined }, '{"a":1,"c":3}'],
    ['removes the only one', '{ "a":1 }', { a: undefined }, '{  }'],
    ['removes all', '{"a":1,"b":2}', { a: undefined, b: undefined }, '{}'],
    ['removes all and adds', '{"a":1,"b":2}', { a: undefined, c: '3', b: undefined }, '{"c":3}'],
    ['removes the last and adds', '{"a":1,"b":2}', { b: undefined, c: '3' }, '{"a":1,"c":3}'],
    ['replaces and removes and adds', '{"a":1,"b":2}', { a: '0', b: undefined, c: '3' }, '{"a":0,"c":3}'],
    ['ignores a missing key', '{"a":1}', { b: undefined }, '{"a":1}'],
    ['changes both of two equal keys', '{"a":1,"b":2,"a":3}', { a: '9' }, '{"a":9,"b":2,"a":9}'],
    ['removes both of two equal keys', '{"a":1,"b":2,"a":3}', { a: undefined }, '{"b":2}'],
    [
      'adds a key that is also the new value of another',
      '{"a":1,"b":2}',
      { a: 'true', b: undefined, true: '3', '': '4' },
      '{"a":true,"true":3,"":4}',
    ],
    ['recognises an escaped key', '{"\\u0061":1}', { a: '2' }, '{"\\u0061":2}'],
    ['writes a key that needs escapes', '{}', { 'a"b': '1' }, '{"a\\"b":1}'],
    [
      'keeps numbers as they were',
      '{"a":1e5,"b":1.50,"c":12345678901234567890}',
      { a: '1' },
      '{"a":1,"b":1.50,"c":12345678901234567890}',
    ],
  ] as [string, string, Record<string, string | undefined>, string][])('%s', (_name, text, changes, expected) => {
    const bytes = Buffer.from(text)
    expect(setMembers(bytes, scanTopLevel(bytes)!, changes).toString()).toBe(expected)
  })

  test('counts bytes, not characters', () => {
    const bytes = Buffer.from('{"ä":"ö","b":"€","c":3}')
    const set = setMembers(bytes, scanTopLevel(bytes)!, { b: '"üü"', d: '"ß"', c: undefined })
    expect(set.toString()).toBe('{"ä":"ö","b":"üü","d":"ß"}')
    expect(bytes.toString()).toBe('{"ä":"ö","b":"€","c":3}')
  })

  test('returns the same buffer when nothing changes', () => {
    const bytes = Buffer.from('{"a":1}')
    expect(setMembers(bytes, scanTopLevel(bytes)!, { b: undefined })).toBe(bytes)
  })
})

describe('scanTopLevel', () => {
  test.each(
    [
      ['', '[]', '"a"', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":}', '{"a":1}x', '{a:1}', '{"a":{"b":1}'],
    ].flat(),
  )('returns null for %s', text => expect(scanTopLevel(Buffer.from(text))).toBeNull())
})
