/** Reads values of a client's body. Throws a refusal with the client's own place for an invalid value. */
import { type Refusal, refuse } from '#contract'
import { hintOf } from '../../../../common/nearest.ts'

export type Fields = Readonly<Record<string, unknown>>

/** An object; `place` is empty for the body itself. */
export function fieldsIn(value: unknown, place: string): Fields {
  if (isFields(value)) return value
  if (place === '') throw refuse('invalid_type', { message: 'The body must be a JSON object.' })
  throw missingOr(value, place, 'an object')
}

export function listIn(value: unknown, place: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw missingOr(value, place, 'an array')
}

export function textIn(value: unknown, place: string): string {
  if (typeof value === 'string') return value
  throw missingOr(value, place, 'a string')
}

/** The text, or null if it is missing. */
export function optionalTextIn(value: unknown, place: string): string | null {
  return value === undefined || value === null ? null : textIn(value, place)
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value is absent, null, or an empty list. */
export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

export function wrongType(place: string, expected: string, value: unknown): Refusal {
  const message = `Invalid type for '${place}': expected ${expected}, but got ${kindOf(value)} instead.`
  return refuse('invalid_type', { message, param: place })
}

/** @param rule the violated rule, as the end of a sentence without its full stop */
export function wrongValue(place: string, rule: string, hint = ''): Refusal {
  return refuse('invalid_value', { message: `Invalid value for '${place}': ${rule}.${hint}`, param: place })
}

/** @param sentence what is not supported, and what the client can do instead */
export function unsupported(place: string, sentence: string): Refusal {
  return refuse('unsupported_parameter', { message: sentence, param: place })
}

/** The refusal of a value that is not one of the format's words. */
export function unknownValue(place: string, value: unknown, words: readonly string[]): Refusal {
  if (value === undefined) return missing(place)
  if (typeof value !== 'string') return wrongType(place, 'a string', value)
  const list = words.map(word => `'${word}'`).join(', ')
  return wrongValue(place, `${shown(value)} is not one of ${list}`, hintOf(value, words))
}

export function missing(place: string): Refusal {
  const message = `Missing required parameter: '${place}'.`
  return refuse('missing_required_parameter', { message, param: place })
}

/** Maximum length of a value in a message. */
const MAX_SHOWN_LENGTH = 40

/** A text for a sentence: on one line, shortened. */
export function shown(text: string): string {
  const start = [...text.slice(0, MAX_SHOWN_LENGTH + 1)]
  const cut = start.length > MAX_SHOWN_LENGTH ? `${start.slice(0, MAX_SHOWN_LENGTH).join('')}...` : text
  return JSON.stringify(cut)
}

function missingOr(value: unknown, place: string, expected: string): Refusal {
  return value === undefined ? missing(place) : wrongType(place, expected, value)
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
