import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { answerText, ask, asking } from './demo-rig.ts'

describe('structured output', () => {
  const node = {
    type: 'object',
    properties: { value: { type: 'string' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
    required: ['value', 'next'],
    additionalProperties: false,
  }
  const tree = { type: 'object', properties: { kids: { type: 'array', items: { $ref: '#' } } }, required: ['kids'] }
  const schemas: [string, object][] = [
    [
      'nested objects',
      {
        type: 'object',
        properties: { a: { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] } },
        required: ['a'],
        additionalProperties: false,
      },
    ],
    [
      'enum and const',
      { type: 'object', properties: { kind: { const: 'x' }, unit: { enum: [3, 4] } }, required: ['kind', 'unit'] },
    ],
    ['lists', { type: 'array', items: { type: 'integer', multipleOf: 5 }, minItems: 4, uniqueItems: true }],
    ['tuples', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'boolean' }], items: false, minItems: 2 }],
    ['unique choices', { type: 'array', items: { enum: ['a', 'b', 'c'] }, minItems: 3, uniqueItems: true }],
    ['empty lists', { type: 'array', items: { type: 'string' }, maxItems: 0 }],
    ['bounds', { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }],
    ['below zero', { type: 'integer', maximum: -7 }],
    ['lengths', { type: 'string', minLength: 40, maxLength: 41 }],
    ['short', { type: 'string', maxLength: 2 }],
    ['or null', { type: ['string', 'null'] }],
    [
      'all of',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { properties: { b: { type: 'null' } }, required: ['b'] },
        ],
      },
    ],
    [
      'any of',
      { anyOf: [{ type: 'null' }, { type: 'object', properties: { z: { type: 'boolean' } }, required: ['z'] }] },
    ],
    [
      'references',
      {
        type: 'object',
        properties: { 'a/b': { $ref: '#/$defs/x~1y' } },
        required: ['a/b'],
        $defs: { 'x/y': { type: 'integer', minimum: 9 } },
      },
    ],
    ['a chain without end', { $ref: '#/$defs/node', $defs: { node } }],
    ['a tree without end', tree],
    [
      'formats',
      {
        type: 'object',
        properties: { at: { type: 'string', format: 'date-time' }, id: { type: 'string', format: 'uuid' } },
        required: ['at', 'id'],
      },
    ],
    [
      'a name that JavaScript knows',
      { type: 'object', properties: { ['__proto__']: { type: 'integer' } }, required: ['__proto__'] },
    ],
    [
      'a format that JavaScript knows',
      { type: 'object', properties: { a: { type: 'string', format: 'toString' } }, required: ['a'] },
    ],
    ['names only', { type: 'object', required: ['x'], additionalProperties: { type: 'integer' }, minProperties: 3 }],
  ]
  it.each(schemas)('is valid: %s', (_title, schema) => {
    const answer = answerText({
      ...asking('Add 2 and 3 for "Ada"'),
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)
    expect(validate(JSON.parse(answer)), `${answer} ${JSON.stringify(validate.errors)}`).toBe(true)
  })

  it.each([
    ['a pattern', { type: 'string', pattern: '^(a+)+$' }, 'it uses "pattern"'],
    [
      'no end',
      {
        $ref: '#/$defs/a',
        $defs: { a: { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] } },
      },
      'too large',
    ],
    ['a circle', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, 'circle'],
    ['a billion', { $defs: doublings(25), allOf: [{ $ref: '#/$defs/d25' }] }, 'too large'],
    ['a million items', { type: 'array', items: { type: 'null' }, minItems: 1_000_000 }, 'too long a list'],
    ['a reference to nowhere', { $ref: '#/$defs/a' }, 'does not exist'],
    ['a remote reference', { $ref: 'https://example.com/x' }, 'outside'],
    ['nothing', { type: 'integer', minimum: 2, maximum: 1 }, 'no value'],
  ])('is refused: %s', (_title, schema, message) => {
    const answer = ask({
      ...asking('Hello'),
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text).error).toMatchObject({
      param: 'response_format.json_schema.schema',
      message: expect.stringMatching(message),
    })
  })

  it('json_object is an object', () => {
    expect(JSON.parse(answerText({ ...asking('Hello'), response_format: { type: 'json_object' } }))).toMatchObject({
      turn: 1,
    })
  })
})

/** Definitions that each refer twice to the previous one. */
function doublings(count: number): Record<string, object> {
  const definitions: Record<string, object> = { d0: { type: 'object' } }
  for (let at = 1; at <= count; at++) {
    definitions[`d${at}`] = { allOf: [{ $ref: `#/$defs/d${at - 1}` }, { $ref: `#/$defs/d${at - 1}` }] }
  }
  return definitions
}
