/**
 * JSON Schema as the Messages API takes it for answers of a shape and for strict tools: closed objects, and without the
 * keywords that its grammar can't hold. What is taken out goes into the description, where the model still reads it.
 */

import { type Fields, isFields } from '../translate/value.ts'

/** A schema that the provider takes, and the keywords that it could not hold. */
export interface ClosedSchema {
  readonly schema: Readonly<Record<string, unknown>>
  readonly lost: readonly string[]
}

export function closedSchema(schema: Readonly<Record<string, unknown>>): ClosedSchema {
  const lost = new Set<string>()
  return { schema: closed(schema, lost) as Record<string, unknown>, lost: [...lost] }
}

/** Keywords that limit a value, and that the grammar has no form for. */
const LIMITS: ReadonlySet<string> = new Set([
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'contains',
  'minContains',
  'maxContains',
  'prefixItems',
  'additionalItems',
  'unevaluatedItems',
  'minProperties',
  'maxProperties',
  'patternProperties',
  'propertyNames',
  'unevaluatedProperties',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
  'if',
  'then',
  'else',
  'not',
])
const FORMATS: ReadonlySet<unknown> = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
])
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const NESTED: ReadonlySet<string> = new Set(['items', 'anyOf', 'allOf', 'oneOf'])
const NAMED: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions'])

function closed(given: unknown, lost: Set<string>): unknown {
  if (Array.isArray(given)) return given.map(each => closed(each, lost))
  if (!isFields(given)) return given
  const value = merged(given)
  const kept: [name: string, value: unknown][] = []
  const told: string[] = []
  for (const [name, inner] of Object.entries(value)) {
    if (isLimit(name, inner, value)) {
      lost.add(name)
      told.push(`${name}: ${JSON.stringify(inner)}`)
    } else if (NAMED.has(name)) kept.push([name, byName(inner, lost)])
    else if (name === 'oneOf') kept.push(['anyOf', closed(inner, lost)])
    else if (NESTED.has(name)) kept.push([name, closed(inner, lost)])
    else if (name !== 'additionalProperties') kept.push([name, inner])
  }
  const schema = Object.fromEntries(kept)
  if (isOfObjects(value)) {
    const open = value['additionalProperties']
    // Left out, it says nothing; said, somebody counts on names that nobody knows beforehand.
    if (open !== undefined && open !== false) lost.add('additionalProperties')
    schema['additionalProperties'] = false
  }
  if (told.length > 0) {
    const { description } = value
    schema['description'] = [...(typeof description === 'string' ? [description] : []), `(${told.join(', ')})`].join(
      ' ',
    )
  }
  return schema
}

/** A schema that `allOf` names alone is a part of the schema around it. */
function merged(schema: Fields): Fields {
  const { allOf, ...others } = schema
  const [only, ...more] = Array.isArray(allOf) ? allOf : []
  if (!isFields(only) || more.length > 0) return schema
  const isApart = Object.keys(only).every(name => name === 'description' || !Object.hasOwn(others, name))
  return isApart ? { ...only, ...others } : schema
}

function byName(schemas: unknown, lost: Set<string>): unknown {
  if (typeof schemas !== 'object' || schemas === null) return schemas
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, closed(schema, lost)]))
}

function isLimit(name: string, value: unknown, { prefixItems }: Fields): boolean {
  if (name === 'format') return !FORMATS.has(value)
  // A list is a tuple of older drafts; beside `prefixItems` it is about the items behind those.
  if (name === 'items') return Array.isArray(value) || prefixItems !== undefined
  // The grammar has no `$ref` in it.
  if (name === 'allOf') return Array.isArray(value) && value.some(each => isFields(each) && each['$ref'] !== undefined)
  if (name === 'minItems') return value !== 0 && value !== 1
  return LIMITS.has(name)
}

function isOfObjects({ type, properties }: Fields): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || (type === undefined && !!properties)
}
