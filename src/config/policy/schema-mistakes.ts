/** Finds mistakes in the settings schema of a plugin, which are its author's, not those of the policy. */
import { parseUnit, UNIT_SCHEMAS, UNITS_ID } from '#contract'
import { LISTS, MAPS, ONES } from '../json-schema.ts'
import { compileSchema, KEYWORDS, schemaErrors, unescapePointer, validateOnce, type Within } from '../yaml/ajv.ts'
import { didYouMean, listed } from '../yaml/problem.ts'
import { inSentences } from '../yaml/shape-errors.ts'
import { pointer } from '../yaml/source.ts'

type Schema = Readonly<Record<string, unknown>>

const known = new WeakMap<object, readonly string[]>()

/** Returns a sentence for each mistake, without a full stop, that begins with the place as a JSON pointer. */
export function mistakesInSchema(schema: object): readonly string[] {
  let mistakes = known.get(schema)
  if (mistakes === undefined) known.set(schema, (mistakes = find(schema as Schema)))
  return mistakes
}

function find(root: Schema): string[] {
  const all = [...subschemas(root, '')]
  const unknown = all.flatMap(([at, schema]) => unknownKeywords(at, schema))
  const found = [...unknown, ...malformed(root)]
  // The other checks would report a malformed part again in other words.
  if (found.length > 0) return found
  const deeper = all.flatMap(([at, schema]) => [
    ...noEffect(at, schema),
    ...badNames(root, at, schema),
    ...badPatterns(at, schema),
    ...badUnits(at, schema),
    ...badDefault(root, at, schema),
  ])
  return deeper.length > 0 ? deeper : notCompiled(root)
}

/** A schema and all schemas within it, each with its place. */
function* subschemas(schema: unknown, at: string): Generator<readonly [at: string, schema: Schema]> {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return
  yield [at, schema as Schema]
  for (const [keyword, value] of Object.entries(schema)) {
    const inner = at + pointer(keyword)
    if (ONES.has(keyword)) yield* subschemas(value, inner)
    else if (MAPS.has(keyword) || LISTS.has(keyword)) {
      for (const [name, each] of Object.entries(Object(value))) yield* subschemas(each, inner + pointer(name))
    }
  }
}

function unknownKeywords(at: string, schema: Schema): string[] {
  const unknown = Object.keys(schema).filter(word => !KEYWORDS.includes(word))
  return unknown.map(word => sentence(at, `unknown keyword "${word}"`, didYouMean(word, KEYWORDS)))
}

/** The errors of the meta-schema. For several errors about one value, the most specific one. */
function malformed(root: Schema): string[] {
  const errors = schemaErrors(root)
  const places = new Set(errors.map(error => error.instancePath))
  return [...places].flatMap(place => {
    const here = errors.filter(error => error.instancePath === place)
    const isFork = (keyword: string) => keyword === 'anyOf' || keyword === 'oneOf'
    const best = here.find(({ keyword }) => keyword === 'enum') ?? here.find(({ keyword }) => !isFork(keyword))
    if (best === undefined) return []
    const above = place.slice(0, place.lastIndexOf('/'))
    return inSentences([best], '').map(({ message }) => sentence(above, message))
  })
}

function noEffect(at: string, schema: Schema): string[] {
  const found: string[] = []
  if ('if' in schema && !('then' in schema || 'else' in schema)) {
    found.push(sentence(at, '"if" has no effect without "then" or "else"'))
  }
  if (Array.isArray(schema['enum']) && schema['enum'].length === 0) found.push(sentence(at, 'enum has no values'))
  return found
}

/** Names of properties that do not exist, and broken references. */
function badNames(root: Schema, at: string, schema: Schema): string[] {
  const { properties, required, additionalProperties, patternProperties, $ref } = schema
  const names = Object.keys(Object(properties))
  const isClosed = additionalProperties === false && patternProperties === undefined
  const missing = isClosed && Array.isArray(required) ? required.filter(name => !names.includes(String(name))) : []
  const found = missing.map(name =>
    sentence(at, `required lists "${name}", which is not a property`, didYouMean(String(name), names)),
  )
  if (typeof $ref === 'string' && !leadsSomewhere(root, $ref)) {
    const known = Object.keys(Object(root['$defs'])).map(name => `#/$defs/${name}`)
    const units = Object.keys(UNIT_SCHEMAS.$defs).map(name => `${UNITS_ID}#/$defs/${name}`)
    found.push(sentence(at, `$ref "${$ref}" does not exist`, didYouMean($ref, [...known, ...units])))
  }
  return found
}

function leadsSomewhere(root: Schema, reference: string): boolean {
  const [id = '', path = ''] = reference.split('#')
  const begin: unknown = id === '' ? root : id === UNITS_ID ? UNIT_SCHEMAS : undefined
  const parts = path.split('/').slice(1).map(unescapePointer)
  return parts.reduce((part, name) => (Object(part) as Schema)[name], begin) !== undefined
}

function badPatterns(at: string, { pattern, patternProperties }: Schema): string[] {
  const patterns = [...(typeof pattern === 'string' ? [pattern] : []), ...Object.keys(Object(patternProperties))]
  return patterns.flatMap(each => {
    try {
      new RegExp(each, 'u')
      return []
    } catch (error) {
      const reason = (error as Error).message.replace(/^.*\/u?: /, '')
      return [sentence(at, `the pattern "${each}" is not a regular expression: ${reason}`)]
    }
  })
}

function badUnits(at: string, { unit, within }: Schema): string[] {
  const units = Object.keys(parseUnit)
  const { unit: ofBounds, from, to } = Object(within) as Partial<Within>
  const unknown = [unit, ofBounds].filter(name => name !== undefined && !units.includes(String(name)))
  if (unknown.length > 0) {
    return unknown.map(name =>
      sentence(at, `unknown unit "${name}"`, didYouMean(String(name), units) ?? `there are ${listed(units, 'and')}`),
    )
  }
  if (ofBounds === undefined) return within === undefined ? [] : [sentence(at, 'within has no "unit"')]
  return [from, to].flatMap(bound => {
    try {
      parseUnit[ofBounds](bound as string)
      return []
    } catch (error) {
      return [sentence(at, `within: ${(error as Error).message}`)]
    }
  })
}

/** A default must match its own schema, because it replaces a missing value. */
function badDefault(root: Schema, at: string, schema: Schema): string[] {
  if (!Object.hasOwn(schema, 'default')) return []
  const { $defs, definitions } = root
  const alone = {
    ...($defs ? { $defs } : {}),
    ...(definitions ? { definitions } : {}),
    properties: { default: schema },
  }
  const errors = validateOnce({ type: 'object', ...alone }, { default: schema['default'] })
  return inSentences(errors, at).map(({ message }) => sentence(at, message))
}

/** Errors that only the compiler finds, in its own words, with our form of the place. */
function notCompiled(root: Schema): string[] {
  try {
    compileSchema(root)
    return []
  } catch (error) {
    const text = (error as Error).message.split('\n', 1)[0]!.replace(/^strict mode: /, '')
    const [, type, keyword, typed] =
      /^missing type "(.+)" for keyword "(.+)" at "#(.*)" \(strictTypes\)$/.exec(text) ?? []
    if (typed !== undefined) return [sentence(typed, `"${keyword}" needs "type": "${type!.replace(',', '" or "')}"`)]
    const [, format, formatted] = /^unknown format "(.+)" ignored in schema at path "#(.*)"$/.exec(text) ?? []
    if (formatted !== undefined) return [sentence(formatted, `unknown format "${format}"`, 'use "pattern"')]
    return [text]
  }
}

function sentence(at: string, message: string, suggestion?: string): string {
  return `${at === '' ? '' : `${at}: `}${message}${suggestion === undefined ? '' : `; ${suggestion}`}`
}
