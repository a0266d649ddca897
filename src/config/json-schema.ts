/**
 * The JSON Schema for editors: gateway.yaml, policies and their tests, with the settings of every plugin.
 *
 * It is draft-07, which the YAML servers of editors support best and which loses nothing here. One schema covers all kinds
 * of file, so the line at the top is always the same. A policy has `steps`, a test file has `tests`. The loader checks
 * more; this schema never rejects what the loader accepts.
 */
import { type AnyPlugin, UNITS_ID, type UnitName } from '#contract'
import { POLICY_SCHEMA } from './policy-schema.ts'
import { GATEWAY_SCHEMA } from './schema.ts'
import type { Within } from './yaml/ajv.ts'

/** A plugin as policies name it: `rate-limit`, `./plugins/office-hours.ts`. */
export interface NamedPlugin {
  readonly use: string
  readonly plugin: AnyPlugin
}

type Schema = Readonly<Record<string, unknown>>

/**
 * @param plugins the built-in ones, and those of the gateway's own policies
 * @param tests the schema of policy tests, with the loader's own keywords
 */
export function editorSchema(plugins: readonly NamedPlugin[], tests: object): object {
  const settings = plugins.map(({ plugin: { name, settings } }, i) => {
    const definition = `settings-${i + 1}-${name}`
    return [definition, forEditors(settings, definition)] as const
  })
  const step = stepSchema(
    plugins,
    settings.map(([definition]) => definition),
  )
  const policy = forEditors(POLICY_SCHEMA) as { properties: { steps: object } }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Tollgate',
    type: 'object',
    if: { required: ['steps'] },
    then: { $ref: '#/definitions/policy' },
    else: {
      if: { required: ['tests'] },
      then: { $ref: '#/definitions/tests' },
      else: { $ref: '#/definitions/gateway' },
    },
    definitions: {
      gateway: forEditors(GATEWAY_SCHEMA),
      policy: { ...policy, properties: { ...policy.properties, steps: { ...policy.properties.steps, items: step } } },
      tests: forEditors(tests),
      ...Object.fromEntries(settings),
    },
  }
}

/** A step: the names of the plugins, and for each of them the schema of `with`. */
function stepSchema(plugins: readonly NamedPlugin[], definitions: readonly string[]): object {
  const { steps } = POLICY_SCHEMA.properties as unknown as { steps: { items: Schema } }
  const step = forEditors(steps.items) as { properties: Record<string, Schema> }
  const known = plugins.map(({ use, plugin }) => ({ const: use, description: purposeOf(plugin) }))
  const other = { type: 'string', pattern: '^(\\.{1,2}/|npm:|.*\\$\\{)', description: 'A plugin of your own.' }
  const { minLength: _, type: __, ...use } = step.properties['use']!
  return {
    ...step,
    properties: { ...step.properties, use: { ...use, anyOf: [...known, other] } },
    allOf: plugins.map(({ use, plugin }, i) => ({
      if: { properties: { use: { const: use } }, required: ['use'] },
      then: {
        properties: { with: { $ref: `#/definitions/${definitions[i]}` } },
        ...(needsSettings(plugin) ? { required: ['with'] } : {}),
      },
    })),
  }
}

function purposeOf({ name, description, gives = [] }: AnyPlugin): string {
  const given = gives.length === 0 ? '' : ` It gives ${gives.join(', ')}.`
  return `${description ?? `The plugin ${name}.`}${given}`
}

const needsSettings = ({ settings }: AnyPlugin) => settings.required !== undefined && settings.required.length > 0

/** A reference, whose value only the loader knows. */
const REFERENCE = '\\$\\{[^}]*\\}'

/** Keywords of the loader that editors do not know. */
const OURS = new Set(['unit', 'within', 'sentence', 'instead', 'hints', 'unknown', 'refused', '$schema', '$id'])
/** Keywords of 2020-12 with another name in draft-07. */
const RENAMED: Readonly<Record<string, string>> = {
  dependentRequired: 'dependencies',
  dependentSchemas: 'dependencies',
  prefixItems: 'items',
}
/** Keywords whose value is a map of schemas, a list of schemas, or one schema. */
export const MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
])
export const LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
export const ONES: ReadonlySet<string> = new Set([
  'items',
  'additionalProperties',
  'propertyNames',
  'contains',
  'not',
  'if',
  'then',
  'else',
])

/** Keywords whose schema is only tested: a reference must not match there. */
const TESTING = new Set(['if', 'not'])

/**
 * Translates a schema for editors: units become patterns, and `${…}` is allowed wherever the loader accepts it.
 * @param definition the schema's future name in `definitions`, for its own references
 */
function forEditors(schema: unknown, definition?: string, isTest = false): object {
  if (typeof schema !== 'object' || schema === null) return schema as unknown as object
  const { $ref, ...rest } = schema as Schema
  const unit = typeof $ref === 'string' ? unitOf($ref) : undefined
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(rest)) {
    if (OURS.has(keyword)) continue
    const name = keyword === 'items' && 'prefixItems' in rest ? 'additionalItems' : (RENAMED[keyword] ?? keyword)
    const walked = (inner: unknown) => forEditors(inner, definition, isTest || TESTING.has(keyword))
    if (MAPS.has(keyword)) result[name] = { ...(result[name] as object), ...mapOf(value as Schema, walked) }
    else if (LISTS.has(keyword)) result[name] = (value as unknown[]).map(walked)
    else if (ONES.has(keyword)) result[name] = walked(value)
    else if (name === 'dependencies') result[name] = { ...(result[name] as object), ...(value as object) }
    else result[name] = value
  }
  if (unit !== undefined) return measured(unit, rest, result)
  if (typeof $ref === 'string') result['$ref'] = $ref.replace('#', definition ? `#/definitions/${definition}` : '#')
  return isTest ? result : withReferences(result)
}

function mapOf(map: Schema, walked: (schema: unknown) => object): object {
  const allowed = Object.entries(map).filter(([, schema]) => !(schema as { refused?: string }).refused)
  return Object.fromEntries(allowed.map(([key, schema]) => [key, walked(schema)]))
}

function unitOf($ref: string): UnitName | undefined {
  const start = `${UNITS_ID}#/$defs/`
  return $ref.startsWith(start) ? ($ref.slice(start.length) as UnitName) : undefined
}

const SUFFIX = '([kKMG]|[KMG]i)?'
const COUNT = `\\d+(\\.\\d+)?\\s*${SUFFIX}`
const WINDOW = '(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)'
const SPAN = `\\d+(\\.\\d+)?\\s*(milliseconds?|ms|${WINDOW})`

/** The pattern of a unit, the types of its values, and examples. */
const UNITS: Readonly<Record<UnitName, readonly [pattern: string, types: string | string[], written: string]>> = {
  rate: [`\\d+(\\.\\d+)?${SUFFIX}(\\s+per|\\s*/)\\s*(\\d+\\s*)?${WINDOW}`, 'string', '"60 per minute", "200k/hour"'],
  duration: [`${SPAN}(\\s*${SPAN})*`, 'string', '500ms, 15s, 10m, 1h30m, 30d'],
  bytes: [`${COUNT}B?`, ['string', 'integer'], '4MiB, 64KiB, 1000'],
  tokens: [COUNT, ['string', 'integer'], '4096, 200k, 128Ki'],
  money: ['\\$?\\d{1,9}(\\.\\d{1,9})?', ['string', 'number'], '$0.15 (at most 9 decimals)'],
}

/** Examples of the values of each unit. */
export const WRITTEN_UNITS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(UNITS).map(([unit, [, , written]]) => [unit, written]),
)

/** A unit as a pattern. The description ends with examples and bounds. */
function measured(unit: UnitName, { within }: Schema, rest: Record<string, unknown>): object {
  const [pattern, type, written] = UNITS[unit]
  const bounds = within === undefined ? '' : ` From ${(within as Within).from} to ${(within as Within).to}.`
  const description = `${rest['description'] ?? ''} Written as ${written}.${bounds}`.trim()
  return { ...rest, type, pattern: `^\\s*${pattern}\\s*$|${REFERENCE}`, description }
}

/** Allows `${NAME}` in place of a number, a flag, a word of a list or a pattern. */
function withReferences(schema: Record<string, unknown>): object {
  const { type, enum: words, const: word, pattern, ...rest } = schema
  const types = [type ?? []].flat() as string[]
  if (words !== undefined || typeof word === 'string') {
    const fixed = words === undefined ? { const: word } : { enum: words }
    // The words stay outside the pattern, so that editors can offer them.
    return { ...rest, ...(type ? { type } : {}), anyOf: [fixed, { type: 'string', pattern: REFERENCE }] }
  }
  if (types.some(each => each === 'integer' || each === 'number' || each === 'boolean') && !types.includes('string')) {
    return { ...rest, type: [...types, 'string'], pattern: `^${REFERENCE}$` }
  }
  if (typeof pattern === 'string' && types.includes('string')) {
    return { ...rest, type, pattern: `${pattern}|${REFERENCE}` }
  }
  return schema
}
