import { describe, expect, test } from 'vitest'
import { unit } from '#contract'
import { mistakesInSchema } from '../../src/config/schema-mistakes.ts'
import { BUILT_IN } from '../../src/pipeline/builtin.ts'

/** The settings schema of a plugin with one setting, `most`. */
const withSetting = (most: object, more: object = {}) => ({
  type: 'object',
  additionalProperties: false,
  properties: { most },
  ...more,
})

const SIZES = { $defs: { size: { type: 'integer', minimum: 1 } } }

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
      ['/properties/most: default must be at least 3, and is 2'],
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
      ['/properties/most: default must be at least 1, and is 0'],
    ],
    [
      'deep inside',
      withSetting({ type: 'array', items: { type: 'object', properties: { word: { type: 'string', default: 5 } } } }),
      ['/properties/most/items/properties/word: default must be text, not 5; put it in quotes'],
    ],
    [
      'a part of it',
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
  'the plugin %s has none',
  (_name, settings) => {
    expect(mistakesInSchema(settings)).toEqual([])
  },
)
