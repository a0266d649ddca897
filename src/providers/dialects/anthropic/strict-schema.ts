/**
 * JSON Schema as the Messages API takes it for answers of a shape and for strict tools: closed objects, and without the
 * keywords that its grammar can't hold. What is taken out goes into the description, where the model still reads it.
 */

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
  'minProperties',
  'maxProperties',
  'patternProperties',
  'propertyNames',
  'dependentRequired',
  'dependentSchemas',
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
const NESTED: ReadonlySet<string> = new Set(['items', 'anyOf', 'allOf', 'oneOf', 'prefixItems'])
const NAMED: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions'])

function closed(value: unknown, lost: Set<string>): unknown {
  if (Array.isArray(value)) return value.map(each => closed(each, lost))
  if (typeof value !== 'object' || value === null) return value
  const kept: [name: string, value: unknown][] = []
  const told: string[] = []
  for (const [name, inner] of Object.entries(value)) {
    if (isLimit(name, inner)) {
      lost.add(name)
      told.push(`${name}: ${JSON.stringify(inner)}`)
    } else if (NAMED.has(name)) kept.push([name, byName(inner, lost)])
    else if (name === 'oneOf') kept.push(['anyOf', closed(inner, lost)])
    else if (NESTED.has(name)) kept.push([name, closed(inner, lost)])
    else if (name !== 'additionalProperties') kept.push([name, inner])
  }
  const schema = Object.fromEntries(kept)
  if (isOfObjects(value as Record<string, unknown>)) {
    const open = (value as { additionalProperties?: unknown }).additionalProperties
    // Left out, it says nothing; said, somebody counts on names that nobody knows beforehand.
    if (open !== undefined && open !== false) lost.add('additionalProperties')
    schema['additionalProperties'] = false
  }
  if (told.length > 0) {
    const { description } = value as { description?: unknown }
    schema['description'] = [...(typeof description === 'string' ? [description] : []), `(${told.join(', ')})`].join(
      ' ',
    )
  }
  return schema
}

function byName(schemas: unknown, lost: Set<string>): unknown {
  if (typeof schemas !== 'object' || schemas === null) return schemas
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, closed(schema, lost)]))
}

function isLimit(name: string, value: unknown): boolean {
  if (name === 'format') return !FORMATS.has(value)
  if (name === 'minItems') return value !== 0 && value !== 1
  return LIMITS.has(name)
}

function isOfObjects({ type, properties }: Readonly<Record<string, unknown>>): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || (type === undefined && !!properties)
}
