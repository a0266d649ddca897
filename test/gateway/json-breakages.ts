/** Changes that make a valid chat invalid: in its bytes, its members, its values. */
import type { Chance } from './json-chance.ts'

const FIRST = '{"model":"m","messages":[{"role":"user","content":"hi"}],"user":"broken"'

/** Members that no body may have, after a valid one. */
const BAD_MEMBERS = (
  'NaN Infinity -Infinity undefined 0x10 01 +1 .5 1. 1e 1e+ -- - tru True nulll \'a\' `a` /a/ "\\x41" "\\u12" "\\u00zz" "a\nb" "a\0b" "\\" "'
    .split(' ')
    .map(value => `"seed":${value}`) as string[]
).concat([
  '"user":"again"',
  '"us\\u0065r":"again"',
  '"model":"n"',
  '"\\u006dodel":"n"',
  '"metadata":{"a":"","\\u0061":""}',
  '"tools":[{"type":"function","function":{"name":"f","name":"g"}}]',
  '"Model":"n"',
  '"MESSAGES":[]',
  '"\\u004dodel":"n"',
  '"\u017ftop":"x"',
  '"to\u212As":1',
  '"Max_Tokens":1',
  '"__proto__":{"stream":true}',
  '"__pr\\u006fto__":{"polluted":1}',
  '"metadata":{"__proto__":"x"}',
  '"tools":[{"__proto__":{}}]',
  '"constructor":{"prototype":{"polluted":1}}',
  '"toString":1',
  '"prototype":{}',
  '"":1',
  '"x":1',
  '"user ":""',
  '"plugin":[]',
  'x:1',
  "'x':1",
  '',
  ',',
  '"stop"',
  '"stop":',
  ':1',
  '"stop" "x"',
  '"seed":1 2',
  '"stop":[1,]',
  '"stop":[,1]',
  '"stop":["a"}',
  '"metadata":{"a":"b"]',
  '"metadata":{1:2}',
  '"seed":1/*c*/',
  '"seed":1//c\n',
  // Of the wrong type, or beyond every limit.
  ...Object.entries({
    stream: ['1', '0', '"true"', '[]', '{}', '"false"'],
    max_tokens: ['0', '-1', '1.5', '"1"', '1e400', '1e21', '-0', 'true', '[]', '99999999999999999999999'],
    max_completion_tokens: ['0', '{}', '1e-1', '-1e400'],
    n: ['0', '-0', '129', '1e400', '"1"', '0.5'],
    temperature: ['2.1', '-0.1', '"1"', '1e400', '[0]', 'true'],
    top_p: ['1.1', '-1e-9', '{}'],
    stop: ['1', '{}', '[[]]', '[null]', JSON.stringify(Array(65).fill('a')), 'true'],
    seed: ['"1"', '0.5', '1e400', '-1e400', '1e20', '[]'],
    tools: [
      '{}',
      '"x"',
      '[null]',
      '[[]]',
      '[{}]',
      '[1]',
      '[{"type":"function"}]',
      '[{"type":"function","function":{}}]',
      '[{"type":"nope"}]',
      '[{"type":"function","function":{"name":""}}]',
      '[{"type":"function","function":{"name":"f","parameters":[]}}]',
      '[{"type":["function"]}]',
    ],
    tool_choice: ['1', '"any"', '{}', '[]', '{"type":"function"}'],
    logit_bias: ['[]', '{"1":101}', '{"1":"1"}', '"x"'],
    metadata: [
      '[]',
      '{"a":1}',
      '{"a":null}',
      `{${Array.from({ length: 17 }, (_, i) => `"${i}":""`).join()}}`,
      `{"a":"${'x'.repeat(513)}"}`,
    ],
    response_format: ['"json"', '{}', '{"type":"json_schema"}', '[]'],
    stream_options: ['true', '[]', '{"include_usage":true}'],
    reasoning_effort: ['"high"', '1', '[]'],
    user: ['1', '[]', '{}'],
  }).flatMap(([name, values]) =>
    values.map(value => `${name === 'user' ? '"prompt_cache_key"' : `"${name}"`}:${value}`),
  ),
])

/** Replacements of the messages. */
const BAD_MESSAGES = [
  'null',
  '{}',
  '""',
  '[]',
  '[null]',
  '[[]]',
  '[1]',
  '[{}]',
  '[{"role":"user"}]',
  '[{"role":"unknown","content":"x"}]',
  '[{"role":1,"content":"x"}]',
  '[{"role":["user"],"content":"x"}]',
  '[{"content":"x"}]',
  '{"0":{"role":"user","content":"x"},"length":1}',
  ...[
    'null',
    '1',
    '{}',
    '[]',
    '[null]',
    '["x"]',
    '[[]]',
    '[{}]',
    '[{"type":"text"}]',
    '[{"type":"text","text":1}]',
    '[{"type":"nope","text":""}]',
    '[{"text":""}]',
    '[{"type":"image_url"}]',
    '[{"type":"image_url","image_url":"x"}]',
    '{"type":"text","text":""}',
    'true',
  ].map(content => `[{"role":"user","content":${content}}]`),
]
const BAD_MODELS = [
  'null',
  '1',
  '[]',
  '{}',
  '""',
  '"M"',
  '"m "',
  '["m"]',
  '"\\u0000m"',
  '"__proto__"',
  '"constructor"',
  '1e400',
]
const BAD_WHOLES = [
  '',
  ' ',
  'null',
  'true',
  '0',
  '-0',
  '""',
  '[]',
  '"x"',
  '[{}]',
  '{}',
  '{"model":"m"}',
  '{"messages":[]}',
  'model=m',
  '<x/>',
  '\0',
  '[',
  '{',
  '}',
  '"',
  '{"',
  ',',
  '1e400',
  'NaN',
]
const BAD_TEXTS = [
  [0xff],
  [0xc0, 0xaf],
  [0xed, 0xa0, 0x80],
  [0xf5, 0x80, 0x80, 0x80],
  [0x80],
  [0xe2, 0x82],
  [0xf0, 0x9f, 0x98],
]

export type Breakage = (chance: Chance, good: string) => Buffer | string

/** Each makes an invalid body from a valid one. */
export const BREAKINGS: Readonly<Record<string, Breakage>> = {
  'cut off': (chance, good) => Buffer.from(good).subarray(0, chance.below(Buffer.byteLength(good))),
  'something behind it': (chance, good) =>
    good + chance.pick(['x', '}', ']', ',', ' {}', 'null', '\0', '\u00a0', '\ufeff', '//', good]),
  'something before it': (chance, good) =>
    chance.pick(['\ufeff', ")]}',", '\0', '//\n', '\u00a0', '\v', '[', '{}', ',']) + good,
  'in UTF-16': (chance, good) =>
    chance.below(2) ? Buffer.from(good, 'utf16le') : Buffer.from(good, 'utf16le').swap16(),
  'invalid UTF-8': (chance, good) => {
    const bytes = Buffer.from(good)
    const at = bytes.indexOf('"user"') >= 0 ? bytes.indexOf('"user"') + 1 : 1
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(chance.pick(BAD_TEXTS)), bytes.subarray(at)])
  },
  'a member': chance => `${FIRST},${chance.pick(BAD_MEMBERS)}}`,
  'the messages': chance => `{"model":"m","messages":${chance.pick(BAD_MESSAGES)}}`,
  'the model': chance => `${FIRST.replace('"m"', chance.pick(BAD_MODELS))}}`,
  'no object': chance => chance.pick(BAD_WHOLES),
  'too deep': chance => {
    const levels = 65 + chance.below(chance.below(20) === 0 ? 100_000 : 200)
    const [open, close] = chance.pick([
      ['[', ']'],
      ['{"a":', '}'],
      ['[{"":', '}]'],
    ] as const)
    return `${FIRST},"tools":[{"x":${open.repeat(levels)}1${chance.below(2) ? close.repeat(levels) : ''}}]}`
  },
}

/** The same, but expensive to create and send: used rarely. */
export const tooWide: Breakage = chance => {
  const many = 50_001 + chance.below(20_000)
  return `${FIRST},"logit_bias":{${Array.from({ length: many / 2 }, (_, at) => `"${chance.pick(['', 'k', '__proto'])}${at}":1`).join()}}}`
}
