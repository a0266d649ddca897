/**
 * Schemas of tools for providers that take less of JSON Schema than OpenAI does. A keyword that is written otherwise is
 * reported; where a provider refuses it, the model reads it in the description.
 */
import { refuse } from '#contract'

type Schema = Readonly<Record<string, unknown>>

/** A schema that the provider takes, and the keywords that are not as the client has written them. */
export interface FitSchema {
  readonly schema: Schema
  readonly lost: readonly string[]
}

/** Arguments are an object, whether the schema says so or not. */
export function objectSchema(schema: Schema): FitSchema {
  const { type } = schema
  if (type === undefined) return { schema: { type: 'object', ...schema }, lost: [] }
  if (!Array.isArray(type) || !type.includes('object')) return { schema, lost: [] }
  return { schema: { ...schema, type: 'object' }, lost: ['type'] }
}

/** Whether an object may be valid, as far as its kind says it. */
export function allowsObject(schema: unknown): boolean {
  if (!isSchema(schema)) return schema !== false
  const { type, enum: values, const: value, anyOf, oneOf, allOf } = schema
  if (type !== undefined && type !== 'object' && !(Array.isArray(type) && type.includes('object'))) return false
  if (value !== undefined && !isSchema(value)) return false
  if (Array.isArray(values) && !values.some(isSchema)) return false
  if ([anyOf, oneOf].some(ways => Array.isArray(ways) && !ways.some(allowsObject))) return false
  return !Array.isArray(allOf) || allOf.every(allowsObject)
}

/** Claude's own limits: of the root, of its names, and of the draft. Throws a refusal for names that it does not take. */
export function schemaForClaude(parameters: Schema, index: number): FitSchema {
  const { schema, lost } = objectSchema(parameters)
  checkNames(schema, index)
  const reported = new Set(lost)
  const root = ROOT.some(name => schema[name] !== undefined) ? inWords(schema, ROOT, reported) : schema
  return { schema: rewritten(root, each => newer(each, reported)) as Schema, lost: [...reported] }
}

/** Claude refuses them at the root. */
const ROOT = ['anyOf', 'oneOf', 'allOf']

const NAME = /^[a-zA-Z0-9_.-]{1,64}$/

function checkNames({ properties }: Schema, index: number): void {
  const wrong = Object.keys(properties ?? {}).find(name => !NAME.test(name))
  if (wrong === undefined) return
  const shown = JSON.stringify(wrong.length > 80 ? `${wrong.slice(0, 80)}…` : wrong)
  const param = `tools[${index}].function.parameters.properties`
  const message = `${param} has the name ${shown}: this model takes 1 to 64 letters, digits, '_', '-' and '.'.`
  throw refuse('unsupported_parameter', { message, param })
}

/** The same with these keywords in the description. */
function inWords(schema: Schema, names: readonly string[], lost: Set<string>): Schema {
  const moved = names.filter(name => schema[name] !== undefined)
  for (const name of moved) lost.add(name)
  const kept = Object.entries(schema).filter(([name]) => !moved.includes(name))
  const words = `(${moved.map(name => `${name}: ${JSON.stringify(schema[name])}`).join(', ')})`
  const { description } = schema
  return { ...Object.fromEntries(kept), description: description === undefined ? words : `${description} ${words}` }
}

/** Keywords whose value is a schema or a list of schemas, or schemas by name. */
const NESTED: ReadonlySet<string> = new Set([
  ...['items', 'additionalItems', 'unevaluatedItems', 'contains', 'prefixItems'],
  ...['additionalProperties', 'unevaluatedProperties', 'propertyNames', 'contentSchema'],
  ...['anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else'],
])
const NAMED: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'],
])

/** A schema with each schema in it changed, from the outermost on. What needs no change is the same object. */
export function rewritten(value: unknown, change: (schema: Schema) => Schema): unknown {
  if (Array.isArray(value)) return mapped(value, each => rewritten(each, change))
  if (!isSchema(value)) return value
  return changed(change(value), (inner, name) => {
    if (NESTED.has(name)) return rewritten(inner, change)
    return NAMED.has(name) && isSchema(inner) ? changed(inner, each => rewritten(each, change)) : inner
  })
}

/** Keywords of older drafts as the draft of 2020-12 has them. */
function newer(given: Schema, lost: Set<string>): Schema {
  const schema = withNumbers(given, lost)
  return Array.isArray(schema['items']) ? inWords(schema, ['items'], lost) : schema
}

/** In draft 4 a limit was exclusive or not; since then it is a number of its own. */
function withNumbers(schema: Schema, lost: Set<string>): Schema {
  let written = schema
  for (const [exclusive, limit] of LIMITS) {
    if (typeof schema[exclusive] !== 'boolean') continue
    const { [exclusive]: is, ...rest } = written
    lost.add(exclusive)
    // With digits of its own, a number is an object.
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

/**
 * Whether a grammar can be made of a schema: a schema within itself has no end, and one that is elsewhere cannot be read.
 */
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

/** They count where something refers to them. */
const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions'])

/** Their targets depend on the way to them. */
const DYNAMIC = ['$dynamicRef', '$recursiveRef']

/** The value at a JSON pointer in a fragment; undefined for any other reference, and where nothing is. */
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
