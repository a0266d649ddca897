/** Checks whether schemas can be strict. */
import { isFields } from '../translate/value.ts'

/**
 * Whether providers can enforce this schema: every object lists all its members, requires all of them and allows no others. The model
 * follows any other schema without enforcement.
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

/** Whether OpenAI accepts the schema of a function's arguments as strict: closed, an object, and without the keywords it refuses. */
export function canBeStrict(schema: unknown): boolean {
  return isFields(schema) && schema['type'] === 'object' && isClosed(schema) && isPlain(schema)
}

const REFUSED: ReadonlySet<string> = new Set([
  ...['allOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'patternProperties'],
  'uniqueItems',
])

/** A property with such a name counts too; the schema is then not enforced. */
function isPlain(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isPlain)
  if (!isFields(value)) return true
  return Object.entries(value).every(([name, inner]) => !REFUSED.has(name) && isPlain(inner))
}
