/**
 * Converts schemas of tools for providers that support less of JSON Schema than OpenAI. A keyword that is rewritten is reported. A
 * keyword that the provider refuses becomes part of the description.
 */
import { refuse } from '#contract'

type Schema = Readonly<Record<string, unknown>>

/** A converted schema, and the keywords that were changed. */
export interface FitSchema {
  readonly schema: Schema
  readonly lost: readonly string[]
}

/** Makes the root an object, which arguments always are. */
export function objectSchema(schema: Schema): FitSchema {
  const { type } = schema
  if (type === undefined) return { schema: { type: 'object', ...schema }, lost: [] }
  if (!Array.isArray(type) || !type.includes('object')) return { schema, lost: [] }
  return { schema: { ...schema, type: 'object' }, lost: ['type'] }
}

/** Whether the schema may allow an object, as far as its types show. */
export function allowsObject(schema: unknown): boolean {
  if (!isSchema(schema)) return schema !== false
  const { type, enum: values, const: value, anyOf, oneOf, allOf } = schema
  if (type !== undefined && type !== 'object' && !(Array.isArray(type) && type.includes('object'))) return false
  if (value !== undefined && !isSchema(value)) return false
  if (Array.isArray(values) && !values.some(isSchema)) return false
  if ([anyOf, oneOf].some(ways => Array.isArray(ways) && !ways.some(allowsObject))) return false
  return !Array.isArray(allOf) || allOf.every(allowsObject)
}

/** Applies Claude's rules for the root, the names and the draft. Throws a refusal for invalid property names. */
export function schemaForClaude(parameters: Schema, index: number): FitSchema {
  const { schema, lost } = objectSchema(parameters)
  checkNames(schema, index)
  const reported = new Set(lost)
  const root = ROOT.some(name => schema[name] !== undefined) ? intoDescription(schema, ROOT, reported) : schema
  return { schema: rewritten(root, each => newer(each, reported)) as Schema, lost: [...reported] }
}

/** Claude refuses these keywords at the root. */
const ROOT = ['anyOf', 'oneOf', 'allOf']

const NAME = /^[a-zA-Z0-9_.-]{1,64}$/

function checkNames({ properties }: Schema, index: number): void {
  const wrong = Object.keys(properties ?? {}).find(name => !NAME.test(name))
  if (wrong === undefined) return
  const shown = JSON.stringify(wrong.length > 80 ? `${wrong.slice(0, 80)}…` : wrong)
  const param = `tools[${index}].function.parameters.properties`
  const message = `${param} has the name ${shown}: a name must have 1 to 64 letters, digits, '_', '-' and '.' for this model.`
  throw refuse('unsupported_parameter', { message, param })
}

/** Moves these keywords into the description. */
function intoDescription(schema: Schema, names: readonly string[], lost: Set<string>): Schema {
  const moved = names.filter(name => schema[name] !== undefined)
  for (const name of moved) lost.add(name)
  const kept = Object.entries(schema).filter(([name]) => !moved.includes(name))
  const words = `(${moved.map(name => `${name}: ${JSON.stringify(schema[name])}`).join(', ')})`
  const { description } = schema
  return { ...Object.fromEntries(kept), description: description === undefined ? words : `${description} ${words}` }
}

/** Keywords whose value is a schema or a list of schemas; `NAMED` has those whose value is schemas by name. */
const NESTED: ReadonlySet<string> = new Set([
  ...['items', 'additionalItems', 'unevaluatedItems', 'contains', 'prefixItems'],
  ...['additionalProperties', 'unevaluatedProperties', 'propertyNames', 'contentSchema'],
  ...['anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else'],
])
const NAMED: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'],
])

/** Changes a schema and each schema in it, outermost first. Returns the same object if nothing changes. */
export function rewritten(value: unknown, change: (schema: Schema) => Schema): unknown {
  if (Array.isArray(value)) return mapped(value, each => rewritten(each, change))
  if (!isSchema(value)) return value
  return changed(change(value), (inner, name) => {
    if (NESTED.has(name)) return rewritten(inner, change)
    return NAMED.has(name) && isSchema(inner) ? changed(inner, each => rewritten(each, change)) : inner
  })
}

/** Converts keywords of older drafts to draft 2020-12. */
function newer(given: Schema, lost: Set<string>): Schema {
  const schema = withNumbers(given, lost)
  return Array.isArray(schema['items']) ? intoDescription(schema, ['items'], lost) : schema
}

/** In draft 4, `exclusiveMinimum` and `exclusiveMaximum` were booleans; later they are numbers. */
function withNumbers(schema: Schema, lost: Set<string>): Schema {
  let written = schema
  for (const [exclusive, limit] of LIMITS) {
    if (typeof schema[exclusive] !== 'boolean') continue
    const { [exclusive]: is, ...rest } = written
    lost.add(exclusive)
    // A number with its own digits is a raw JSON object.
    written = is === true && schema[limit] !== undefined ? { ...rest, [exclusive]: schema[limit] } : rest
  }
  return written
}

const LIMITS = [
  ['exclusiveMinimum', 'minimum'],
  ['exclusiveMaximum', 'maximum'],
] as const

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function changed(schema: Schema, change: (value: unknown, name: string) => unknown): Schema {
  let written: Record<string, unknown> | undefined
  for (const [name, value] of Object.entries(schema)) {
    const made = change(value, name)
    if (made !== value) (written ??= { ...schema })[name] = made
  }
  return written ?? schema
}

function mapped(list: readonly unknown[], change: (value: unknown) => unknown): readonly unknown[] {
  const made = list.map(change)
  return made.some((value, index) => value !== list[index]) ? made : list
}

/** Whether a grammar can be made of a schema: it must not be recursive, and must not refer to another document. */
export function hasGrammar(schema: Schema): boolean {
  const open = new Set<string>()
  const closed = new Set<string>()
  const isEnding = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.every(isEnding)
    if (!isSchema(value)) return true
    if (DYNAMIC.some(name => value[name] !== undefined)) return false
    const { $ref: ref } = value
    if (typeof ref === 'string') {
      if (open.has(ref)) return false
      if (!closed.has(ref)) {
        const target = at(schema, ref)
        if (target === undefined) return false
        open.add(ref)
        const ends = isEnding(target)
        open.delete(ref)
        if (!ends) return false
        closed.add(ref)
      }
    }
    return Object.entries(value).every(([name, inner]) => {
      if (DEFINITIONS.has(name)) return true
      if (NAMED.has(name)) return !isSchema(inner) || Object.values(inner).every(isEnding)
      return !NESTED.has(name) || isEnding(inner)
    })
  }
  return isEnding(schema)
}

/** Definitions count only where they are referenced. */
const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions'])

/** References whose target depends on the path to them. */
const DYNAMIC = ['$dynamicRef', '$recursiveRef']

/** The value at a JSON pointer in a fragment; undefined for any other reference and for a missing target. */
function at(schema: Schema, ref: string): unknown {
  const pointer = ref.startsWith('#/') ? decoded(ref.slice(2)) : null
  if (pointer === null) return undefined
  let value: unknown = schema
  for (const part of pointer.split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Schema)[name]
  }
  return value
}

function decoded(fragment: string): string | null {
  try {
    return decodeURIComponent(fragment)
  } catch {
    return null
  }
}
