/** Schemas that can be kept to strictly. */
import { isFields } from '../translate/value.ts'

/**
 * Whether providers that are strict about schemas take this one strictly: every object names all its members, wants all of
 * them and allows no others. To a schema that does not the model keeps as well as it can.
 */
export function isClosed(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isClosed)
  if (!isFields(schema)) return true
  const { type, properties, required, additionalProperties } = schema
  if (type === 'object' || isFields(properties)) {
    const names = Object.keys(isFields(properties) ? properties : {})
    const wanted = new Set(Array.isArray(required) ? required : [])
    if (additionalProperties !== false || !names.every(name => wanted.has(name))) return false
  }
  return Object.values(schema).every(isClosed)
}

/** Whether OpenAI takes the schema of a function's arguments strictly: closed, an object, and without what it refuses then. */
export function canBeStrict(schema: unknown): boolean {
  return isFields(schema) && schema['type'] === 'object' && isClosed(schema) && isPlain(schema)
}

const REFUSED: ReadonlySet<string> = new Set([
  ...['allOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'patternProperties'],
  'uniqueItems',
])

/** A property of such a name counts too: the schema is then kept to as well as the model can. */
function isPlain(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isPlain)
  if (!isFields(value)) return true
  return Object.entries(value).every(([name, inner]) => !REFUSED.has(name) && isPlain(inner))
}
