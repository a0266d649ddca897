/** Reads a client's JSON. Throws a refusal with the place and the rule for an invalid value. */
import { type Refusal, refuse } from '#contract'
import { hintOf } from '../../../../common/nearest.ts'

export type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The path of the member `name` of an object at `place`: `input[2].call_id`. */
export const at = (place: string, name: string): string => (place === '' ? name : `${place}.${name}`)

export function fieldsOf(value: unknown, place: string): Fields {
  if (isFields(value)) return value
  throw value === undefined ? missing(place) : wrongType(place, 'an object', value)
}

/** Null for null and undefined. */
export function optionalFieldsOf(value: unknown, place: string): Fields | null {
  return value == null ? null : fieldsOf(value, place)
}

export function listOf(value: unknown, place: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw value === undefined ? missing(place) : wrongType(place, 'an array', value)
}

export function textOf(value: unknown, place: string): string {
  if (typeof value === 'string') return value
  throw value === undefined ? missing(place) : wrongType(place, 'a string', value)
}

export function optionalTextOf(value: unknown, place: string): string | null {
  return value == null ? null : textOf(value, place)
}

export function missing(param: string): Refusal {
  return refuse('missing_required_parameter', { message: `Missing required parameter: '${param}'.`, param })
}

export function wrongType(param: string, expected: string, value: unknown): Refusal {
  const message = `Invalid type for '${param}': expected ${expected}, but got ${kindOf(value)} instead.`
  return refuse('invalid_type', { message, param })
}

/** @param rule the end of the sentence: `it is empty` */
export function wrongValue(param: string, rule: string, hint = ''): Refusal {
  return refuse('invalid_value', { message: `Invalid value for '${param}': ${rule}.${hint}`, param })
}

export function notOneOf(param: string, value: unknown, allowed: Iterable<string>): Refusal {
  const words = [...allowed]
  const list = words.map(word => `'${word}'`).join(', ')
  return wrongValue(param, `${shown(value)} is not one of ${list}`, hintOf(value, words))
}

/** A refusal of something the gateway does not support. `message` is a whole sentence. */
export function unsupported(param: string, message: string): Refusal {
  return refuse('unsupported_parameter', { message, param })
}

const LONGEST = 60

/** A client's value for a sentence, as JSON. */
export function shown(value: unknown): string {
  if (typeof value !== 'string') return isScalar(value) ? String(value) : kindOf(value)
  const json = JSON.stringify(value.slice(0, LONGEST))
  return value.length > LONGEST ? `${json.slice(0, -1)}..."` : json
}

export function isScalar(value: unknown): boolean {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  return typeof value === 'number' ? String(value) : `a ${typeof value}`
}
