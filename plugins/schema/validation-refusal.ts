/** Turns the errors of ajv into a refusal with code, place, value and rule. */
import type { ErrorObject } from 'ajv'
import { type Refusal, refuse } from '#contract'
import { meant, shortJson } from './words.ts'

/** The refusal for the first error. It shows values that are short words or numbers, and never the text of a message. */
export function validationRefusal(error: ErrorObject, body: unknown): Refusal {
  const place = pathOf(error, body)
  const { keyword, params, data, parentSchema } = error
  if (place === '' && keyword === 'type') return refuse('invalid_type', { message: 'The body must be a JSON object.' })
  if (keyword === 'required') return missing(join(place, params.missingProperty as string, false))
  if (keyword === 'additionalProperties')
    return unknown(place, params.additionalProperty as string, parentSchema as object)
  if (keyword === 'discriminator') {
    const { tag, tagValue } = params as { tag: string; tagValue: unknown }
    const param = join(place, tag, false)
    if (tagValue === undefined) return missing(param)
    if (typeof tagValue !== 'string') return wrongType(param, ['string'], tagValue)
    const tags = tagsOf(parentSchema!, tag)
    return wrongValue(param, `${shortJson(tagValue)} is not one of ${quoted(tags)}`, meant(tagValue, tags))
  }
  if (keyword === 'type') return wrongType(place, [error.schema as string | string[]].flat(), data)
  return wrongValue(place, ruleOf(error))
}

function missing(param: string): Refusal {
  return refuse('missing_required_parameter', { message: `Missing required parameter: '${param}'.`, param })
}

const PASS_HINT = " An operator lets it pass to the provider with 'unknown_fields: pass' at the step 'schema'."

function unknown(place: string, name: string, { properties = {} }: { readonly properties?: object }): Refusal {
  const known = Object.keys(properties)
  const param = join(place, name, false)
  const hint = meant(name, known) || (place === '' ? PASS_HINT : '')
  return refuse('unknown_parameter', { message: `Unknown parameter: '${param}'.${hint}`, param })
}

const ARTICLES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  array: 'an array',
  null: 'null',
}

function wrongType(param: string, types: readonly string[], data: unknown): Refusal {
  // For a client that sent another type, `null` is not a useful hint.
  const named = types.filter(type => type !== 'null').map(type => ARTICLES[type])
  const found = typeof data === 'number' ? shortJson(data) : ARTICLES[typeOf(data)]
  const message = `Invalid type for '${param}': expected ${named.join(' or ')}, but got ${found} instead.`
  return refuse('invalid_type', { message, param })
}

function wrongValue(param: string, rule: string, hint = ''): Refusal {
  return refuse('invalid_value', { message: `Invalid value for '${param}': ${rule}.${hint}`, param })
}

function ruleOf({ keyword, params, schema, data }: ErrorObject): string {
  const limit = String(params.limit)
  const size = (of: string) => `it has ${sizeOf(data)} ${of}, and the`
  switch (keyword) {
    case 'enum':
      return `${shortJson(data)} is not one of ${quoted(params.allowedValues as unknown[])}`
    case 'const':
      return `${shortJson(data)} is not ${quoted([params.allowedValue])}`
    case 'minimum':
      return `${shortJson(data)} is less than the minimum of ${limit}`
    case 'maximum':
      return `${shortJson(data)} is more than the maximum of ${limit}`
    case 'minItems':
      return `${size('items')} minimum is ${limit}`
    case 'maxItems':
      return `${size('items')} maximum is ${limit}`
    case 'maxProperties':
      return `${size('members')} maximum is ${limit}`
    case 'not':
      return 'it is empty'
    case 'longest':
      return `${size('characters')} maximum is ${schema}`
    default:
      return 'it is not as the format says'
  }
}

function quoted(values: readonly unknown[]): string {
  return values
    .filter(value => value !== null)
    .map(value => `'${value}'`)
    .join(', ')
}

function tagsOf(schema: object, tag: string): unknown[] {
  const { oneOf } = schema as { oneOf: { properties: Record<string, { const: unknown }> }[] }
  return oneOf.map(({ properties }) => properties[tag]!.const)
}

function typeOf(data: unknown): string {
  if (data === null) return 'null'
  return Array.isArray(data) ? 'array' : typeof data
}

function sizeOf(data: unknown): number {
  if (typeof data === 'string' || Array.isArray(data)) return data.length
  return Object.keys(data as object).length
}

/** `/messages/1/content/0/type` as `messages[1].content[0].type`. Numbers are indexes in arrays and names in objects. */
function pathOf({ instancePath, propertyName }: ErrorObject, body: unknown): string {
  let path = ''
  let at = body
  for (const escaped of instancePath.split('/').slice(1)) {
    const key = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    path = join(path, key, Array.isArray(at))
    at = (at as Record<string, unknown>)[key]
  }
  return propertyName === undefined ? path : join(path, propertyName, false)
}

function join(path: string, key: string, index: boolean): string {
  if (index) return `${path}[${key}]`
  if (!/^[\w$-]{1,64}$/.test(key)) return `${path}[${shortJson(key)}]`
  return path === '' ? key : `${path}.${key}`
}
