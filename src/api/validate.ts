/**
 * Validates a request by the schemas of its route. An error has code, place and rule, and never the value, which may be a password in the
 * wrong field.
 */

import { Ajv2020, type AnySchema, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { parseMoney, type Refusal, refuse, UnitError } from '#contract'
import { PATTERNS } from './inputs.ts'
import type { ApiRoute } from './route.ts'
import { type Schema, shape } from './schema.ts'

/** Validates the parts of a request. Each throws a refusal, or returns the value with its defaults. */
export interface RouteCheck {
  params(values: Readonly<Record<string, string>>): unknown
  query(text: string): unknown
  body(value: unknown): unknown
}

/** Compiles the schemas of a route. Throws for an unknown keyword or format. */
export function createCheck(route: ApiRoute): RouteCheck {
  const params = VALUES.compile((route.params ?? NOTHING) as AnySchema)
  const query = TEXTS.compile((route.query ?? NOTHING) as AnySchema)
  const body = VALUES.compile((route.body ?? NOTHING) as AnySchema)
  return {
    params(values) {
      // An invalid id is a missing object.
      if (!params(values)) throw refuse('not_found')
      return values
    },
    query: text => checked(query, queryOf(text)),
    body: value => checked(body, value),
  }
}

const NOTHING: Schema = shape({})

interface Format {
  readonly rule: string
  /** An example for a value of another type. */
  readonly example?: string
  readonly allows: (text: string) => boolean
}

/** The formats of our schemas, each with its rule for messages. */
export const FORMATS: Readonly<Record<string, Format>> = {
  'date-time': {
    rule: 'it must be a time such as 2027-01-31T00:00:00Z',
    example: '"2027-01-31T00:00:00Z"',
    allows: isTime,
  },
  email: { rule: 'it must be an e-mail address', allows: isEmail },
  money: {
    rule: 'it must be dollars such as "12.50", at most 999999999.999999999, with at most 9 decimals',
    example: '"12.50"',
    allows: isMoney,
  },
  'signed-money': {
    rule: 'it must be dollars such as "12.50" or "-5", at most 999999999.999999999, with at most 9 decimals',
    example: '"12.50" or "-5"',
    allows: text => isMoney(text.replace(/^-/, '')),
  },
}

/** ajv for values, or with `coerceTypes` for the texts of a query. */
export function createAjv(coerceTypes: boolean): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    useDefaults: true,
    allowUnionTypes: true,
    verbose: true,
    coerceTypes,
    // A test validates our schemas. Compiling the meta-schema twice, and optimizing the code of a hundred small schemas, would slow
    // each start.
    validateSchema: false,
    code: { optimize: false },
  })
  for (const [name, { allows }] of Object.entries(FORMATS)) ajv.addFormat(name, allows)
  return ajv
}

const VALUES = createAjv(false)
const TEXTS = createAjv(true)

function checked(validate: ValidateFunction, value: unknown): unknown {
  if (validate(value)) return value
  throw complain(validate.errors![0]!, value)
}

/** Each parameter once: for two, servers disagree on the one that counts. */
function queryOf(text: string): Record<string, string> {
  const query: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(text)) {
    if (Object.hasOwn(query, name)) {
      const param = placeOf(name)
      throw refuse('invalid_value', { message: `Invalid value for '${param}': it was sent twice.`, param })
    }
    query[name] = value
  }
  return query
}

function complain(error: ErrorObject, root: unknown): Refusal {
  const { keyword, params } = error
  const place = pathOf(error.instancePath, root)
  if (keyword === 'required') {
    const param = join(place, params.missingProperty as string)
    return refuse('missing_required_parameter', { message: `Missing required parameter: '${param}'.`, param })
  }
  if (keyword === 'additionalProperties') {
    const param = join(place, params.additionalProperty as string)
    return refuse('unknown_parameter', { message: `Unknown parameter: '${param}'.`, param })
  }
  if (keyword === 'type') return wrongType(error, place)
  const what = place === '' ? 'the body' : `'${place}'`
  return refuse('invalid_value', { message: `Invalid value for ${what}: ${ruleOf(error)}.`, param: place || null })
}

function wrongType({ schema, data, parentSchema }: ErrorObject, param: string): Refusal {
  if (param === '') return refuse('invalid_type', { message: 'The body must be a JSON object.' })
  const wanted = [schema as string | string[]].flat().filter(type => type !== 'null')
  const names = wanted.map(type => ARTICLES[type]).join(' or ')
  const example = FORMATS[(parentSchema as { format?: string }).format ?? '']?.example
  const found = ARTICLES[data === null ? 'null' : Array.isArray(data) ? 'array' : typeof data]
  return refuse('invalid_type', {
    message: `Invalid type for '${param}': expected ${names}${example === undefined ? '' : ` such as ${example}`}, but got ${found} instead.`,
    param,
  })
}

const ARTICLES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  array: 'an array',
  null: 'null',
}

function ruleOf({ keyword, params, schema }: ErrorObject): string {
  const limit = String(params['limit'])
  switch (keyword) {
    case 'enum':
      return `it must be one of ${(schema as unknown[]).filter(each => each !== null).join(', ')}`
    case 'const':
      return `it must be ${JSON.stringify(schema)}`
    case 'minimum':
      return `it must be at least ${limit}`
    case 'maximum':
      return `it must be at most ${limit}`
    case 'minLength':
      return limit === '1' ? 'it is empty' : `it must have at least ${limit} characters`
    case 'maxLength':
      return `it must have at most ${limit} characters`
    case 'minItems':
      return `it needs at least ${limit === '1' ? 'one entry' : `${limit} entries`}`
    case 'maxItems':
      return `it must have at most ${limit} entries`
    case 'uniqueItems':
      return 'it has the same entry twice'
    case 'minProperties':
      return 'it says nothing to change'
    case 'format':
      return FORMATS[schema as string]?.rule ?? `it is not a ${schema}`
    // `pattern`: test/api/inputs.test.ts looks for any other keyword.
    default:
      return PATTERNS[schema as string]!
  }
}

/** `/models/3` as `models[3]`. */
function pathOf(pointer: string, root: unknown): string {
  let path = ''
  let at = root
  for (const escaped of pointer.split('/').slice(1)) {
    const key = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    path = Array.isArray(at) ? `${path}[${key}]` : join(path, key)
    at = (at as Record<string, unknown>)[key]
  }
  return path
}

function join(path: string, key: string): string {
  return path === '' ? placeOf(key) : `${path}.${placeOf(key)}`
}

/** The name that was sent, if it has the form of a name. */
function placeOf(key: string): string {
  return /^[\w.$-]{1,64}$/.test(key) ? key : JSON.stringify(key.slice(0, 64))
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

function isTime(text: string): boolean {
  const match = TIME.exec(text)
  if (!match || Number.isNaN(Date.parse(text))) return false
  // JavaScript parses 30 February as 2 March.
  const [year, month, day] = match.slice(1, 4).map(Number) as [number, number, number]
  return new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day
}

/** A text, an @, a domain. Whether the address exists is not checked: no mail is ever sent. */
export function isEmail(text: string): boolean {
  return (
    /^[^\s@"(),:;<>[\\\]\u0000-\u001f\u007f-\u009f]{1,64}@[\p{L}\p{N}](?:[\p{L}\p{N}.-]{0,251}[\p{L}\p{N}])?$/u.test(
      text,
    ) && !text.includes('..')
  )
}

function isMoney(text: string): boolean {
  try {
    parseMoney(text)
    return !text.startsWith('$') && text === text.trim()
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    return false
  }
}
