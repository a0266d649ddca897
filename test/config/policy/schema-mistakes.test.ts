import { describe, expect, test } from 'vitest'
import { unit } from '#contract'
import { mistakesInSchema } from '../../../src/config/policy/schema-mistakes.ts'
import { BUILT_IN } from '../../../src/loader/builtin.ts'

/** The settings schema of a plugin with one setting, `most`. */
const withSetting = (most: object, more: object = {}) => ({
  type: 'object',
  additionalProperties: false,
  properties: { most },
  ...more,
})

const SIZES = { $defs: { size: { type: 'integer', minimum: 1 } } }

describe('a schema with a mistake', () => {
  test.each<[string, object, string[]]>([
    [
      'a type',
      withSetting({ type: 'interger' }),
      [
        '/properties/most: type: "interger" is not one of array, boolean, integer, null, number, object or string; did you mean "integer"?',
      ],
    ],
    [
      'a keyword',
      withSetting({ type: 'integer', minimun: 1 }),
      ['/properties/most: unknown keyword "minimun"; did you mean "minimum"?'],
    ],
    [
      'an unknown keyword',
      withSetting({ type: 'integer', 'x-note': 1 }),
      ['/properties/most: unknown keyword "x-note"'],
    ],
    [
      'a keyword above all settings',
      withSetting({ type: 'integer' }, { requird: ['most'] }),
      ['unknown keyword "requird"; did you mean "required"?'],
    ],
    [
      'a value of a keyword',
      withSetting({ type: 'integer', minimum: 'one' }),
      ['/properties/most: minimum must be a number, not "one"'],
    ],
    ['no list', withSetting({ type: 'integer' }, { required: 'most' }), ['required must be a list, not "most"']],
    ['no map', withSetting({ type: 'object', properties: 3 }), ['/properties/most: properties must be a map, not 3']],
    [
      'a list of forms',
      withSetting({ type: 'array', items: [{}] }),
      ['/properties/most: items must be a map or true or false, not a list'],
    ],
    ['no words', withSetting({ enum: [] }), ['/properties/most: enum has no values']],
    [
      'a pattern',
      withSetting({ type: 'string', pattern: '(' }),
      ['/properties/most: the pattern "(" is not a regular expression: Unterminated group'],
    ],
    [
      'a name in required',
      withSetting({ type: 'integer' }, { required: ['mots'] }),
      ['required lists "mots", which is not a property; did you mean "most"?'],
    ],
    [
      'a reference',
      withSetting({ $ref: '#/$defs/sise' }, SIZES),
      ['/properties/most: $ref "#/$defs/sise" does not exist; did you mean "#/$defs/size"?'],
    ],
    [
      'a reference to a unit',
      withSetting({ $ref: 'tollgate:units#/$defs/duratoin' }),
      [
        '/properties/most: $ref "tollgate:units#/$defs/duratoin" does not exist; did you mean "tollgate:units#/$defs/duration"?',
      ],
    ],
    [
      'a unit',
      withSetting({ type: 'string', unit: 'duratoin' }),
      ['/properties/most: unknown unit "duratoin"; did you mean "duration"?'],
    ],
    [
      'bounds',
      withSetting({ ...unit('duration'), within: { unit: 'duration', from: '1', to: '2s' } }),
      [expect.stringMatching(/^\/properties\/most: within: "1" is not a duration/)],
    ],
    [
      'a format',
      withSetting({ type: 'string', format: 'uri' }),
      ['/properties/most: unknown format "uri"; use "pattern"'],
    ],
    ['a keyword without its type', withSetting({ minimum: 3 }), ['/properties/most: "minimum" needs "type": "number"']],
    [
      'if alone',
      withSetting({ type: 'integer', if: { minimum: 3 } }),
      ['/properties/most: "if" has no effect without "then" or "else"'],
    ],
    [
      'several',
      withSetting({ type: 'integer', minimun: 1, maximun: 2 }),
      [
        '/properties/most: unknown keyword "minimun"; did you mean "minimum"?',
        '/properties/most: unknown keyword "maximun"; did you mean "maximum"?',
      ],
    ],
  ])('%s', (_name, schema, mistakes) => {
    expect(mistakesInSchema(schema)).toEqual(mistakes)
  })
})

describe('a default that does not fit its own schema', () => {
  test.each<[string, object, string[]]>([
    [
      'a type',
      withSetting({ type: 'integer', default: 'ten' }),
      ['/properties/most: default must be a whole number, not "ten"'],
    ],
    [
      'a bound',
      withSetting({ type: 'integer', minimum: 3, default: 2 }),
      ['/properties/most: default must be at least 3, not 2'],
    ],
    [
      'a word',
      withSetting({ enum: ['open', 'closed'], default: 'opne' }),
      ['/properties/most: default: "opne" is not one of open or closed; did you mean "open"?'],
    ],
    [
      'a unit',
      withSetting({ ...unit('duration'), default: '5' }),
      [expect.stringMatching(/^\/properties\/most: default: "5" is not a duration/)],
    ],
    [
      'a definition',
      withSetting({ $ref: '#/$defs/size', default: 0 }, SIZES),
      ['/properties/most: default must be at least 1, not 0'],
    ],
    [
      'deep inside',
      withSetting({ type: 'array', items: { type: 'object', properties: { word: { type: 'string', default: 5 } } } }),
      ['/properties/most/items/properties/word: default must be text, not 5; put it in quotes'],
    ],
    [
      'a part of a default',
      withSetting({ type: 'object', properties: { a: { type: 'integer' } }, default: { a: 'x' } }),
      ['/properties/most: a must be a whole number, not "x"'],
    ],
    ['good ones', withSetting({ ...unit('duration'), default: '5s' }, SIZES), []],
    ['a setting called default', withSetting({ type: 'object', properties: { default: { type: 'string' } } }), []],
  ])('%s', (_name, schema, mistakes) => {
    expect(mistakesInSchema(schema)).toEqual(mistakes)
  })
})

test.each(BUILT_IN.map(({ name, settings }) => [name, settings] as const))(
  'the settings schema of %s has no mistakes',
  (_name, settings) => {
    expect(mistakesInSchema(settings)).toEqual([])
  },
)
