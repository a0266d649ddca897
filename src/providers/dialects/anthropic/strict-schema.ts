/**
 * Converts JSON Schema for structured output and strict tools of the Messages API: closed objects, without unsupported keywords.
 * Removed keywords are added to the description, where the model can still read them.
 */

import { type Fields, isFields } from '../translate/value.ts'

/** A schema that the provider accepts, and the keywords that were removed. */
export interface ClosedSchema {
  readonly schema: Readonly<Record<string, unknown>>
  readonly lost: readonly string[]
}

export function closedSchema(schema: Readonly<Record<string, unknown>>): ClosedSchema {
  const lost = new Set<string>()
  return { schema: closed(schema, lost) as Record<string, unknown>, lost: [...lost] }
}

/** Keywords that limit a value and have no form in the provider's grammar. */
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
  const removed: string[] = []
  for (const [name, inner] of Object.entries(value)) {
    if (isLimit(name, inner, value)) {
      lost.add(name)
      removed.push(`${name}: ${JSON.stringify(inner)}`)
    } else if (NAMED.has(name)) kept.push([name, byName(inner, lost)])
    else if (name === 'oneOf') kept.push(['anyOf', closed(inner, lost)])
    else if (NESTED.has(name)) kept.push([name, closed(inner, lost)])
    else if (name !== 'additionalProperties') kept.push([name, inner])
  }
  const schema = Object.fromEntries(kept)
  if (isOfObjects(value)) {
    const open = value['additionalProperties']
    // By default `additionalProperties` has no meaning. If it is set, the client needs properties with unknown names.
    if (open !== undefined && open !== false) lost.add('additionalProperties')
    schema['additionalProperties'] = false
  }
  if (removed.length > 0) {
    const { description } = value
    schema['description'] = [...(typeof description === 'string' ? [description] : []), `(${removed.join(', ')})`].join(
      ' ',
    )
  }
  return schema
}

/** Merges a schema that is the only one in `allOf` into the schema around it. */
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
  // A list is a tuple of older drafts; with `prefixItems` it is about the items after those.
  if (name === 'items') return Array.isArray(value) || prefixItems !== undefined
  // The grammar does not support `$ref` inside `allOf`.
  if (name === 'allOf') return Array.isArray(value) && value.some(each => isFields(each) && each['$ref'] !== undefined)
  if (name === 'minItems') return value !== 0 && value !== 1
  return LIMITS.has(name)
}

function isOfObjects({ type, properties }: Fields): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || (type === undefined && !!properties)
}
