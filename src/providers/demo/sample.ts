/**
 * Generates a value that satisfies a JSON Schema, for the demo's structured output and the arguments of its tool calls.
 *
 * Supported keywords:
 * - `type`, `enum`, `const`, `default`, `examples`, `anyOf`, `oneOf`, `allOf`, `$ref` inside the document, also recursive
 * - `properties`, `required`, `additionalProperties`, `minProperties`
 * - `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems`
 * - the numeric bounds, `multipleOf`, `minLength`, `maxLength`, the common formats
 *
 * `pattern` is not supported: a client's regular expression could block the whole process.
 */
import { isRecord } from './request.ts'

/** Values from the conversation for free fields. */
export interface Hints {
  /** A word or name for short strings. */
  readonly word: string
  /** A sentence for fields that ask for prose. */
  readonly sentence: string
  /** Numbers, each used once. */
  readonly numbers: readonly number[]
}

/** The schema uses an unsupported keyword, contradicts itself, or asks for too large a value. */
export class SampleError extends Error {
  override readonly name = 'SampleError'
}

/** Below this depth only required properties are filled in, so that recursive schemas end. */
const DEEP = 5
const DEEPEST = 64
const MAX_VALUES = 1000
const MAX_STRING_LENGTH = 10_000
const NOT_UNDERSTOOD = [
  'pattern',
  'patternProperties',
  'not',
  'if',
  'contains',
  'dependentRequired',
  'dependentSchemas',
]

type Schema = Readonly<Record<string, unknown>>

/** Generates a value. `strict`: throws a `SampleError` for unsupported keywords instead of ignoring them. */
export function sample(root: unknown, hints: Hints, strict: boolean): unknown {
  return new Sampler(root, hints, strict).sample()
}

class Sampler {
  readonly #root: unknown
  readonly #hints: Hints
  readonly #strict: boolean
  readonly #numbers: number[]
  #values = 0

  constructor(root: unknown, hints: Hints, strict: boolean) {
    this.#root = root
    this.#hints = hints
    this.#strict = strict
    this.#numbers = [...hints.numbers]
  }

  sample(): unknown {
    return this.#value(this.#root, 0, '', 0)
  }

  /** `nth`: the index of the item in a list with unique items. */
  #value(given: unknown, depth: number, key: string, nth: number): unknown {
    if (++this.#values > MAX_VALUES || depth > DEEPEST) throw new SampleError('it asks for too large a value')
    if (given === false) throw new SampleError('a part of it allows no value')
    const schema = this.#flatten(given, 0)
    if ('const' in schema) return schema['const']
    if (Array.isArray(schema['enum']) && schema['enum'].length > 0) return schema['enum'][nth % schema['enum'].length]
    const branches = schema['anyOf'] ?? schema['oneOf']
    if (Array.isArray(branches) && branches.length > 0) return this.#oneOf(schema, branches, depth, key, nth)
    if ('default' in schema && nth === 0) return schema['default']
    if (Array.isArray(schema['examples']) && schema['examples'].length > nth) return schema['examples'][nth]
    if (this.#strict) refuseUnknown(schema)
    switch (typeOf(schema)) {
      case 'object':
        return this.#object(schema, depth)
      case 'array':
        return this.#array(schema, depth, key)
      case 'integer':
      case 'number':
        return this.#number(schema, nth)
      case 'boolean':
        return nth % 2 === 0
      case 'null':
        return null
      default:
        return this.#string(schema, key, nth)
    }
  }

  /** Follows `$ref` and merges `allOf`. The result has neither. */
  #flatten(given: unknown, hops: number): Schema {
    if (!isRecord(given)) return {}
    if (++this.#values > MAX_VALUES) throw new SampleError('it asks for too large a value')
    if (hops > DEEPEST) throw new SampleError('its references run in a circle')
    let schema: Schema = given
    if (typeof given['$ref'] === 'string') {
      const { $ref, ...rest } = given
      schema = merge(this.#flatten(this.#resolve($ref as string), hops + 1), rest)
    }
    if (!Array.isArray(schema['allOf'])) return schema
    const { allOf, ...rest } = schema
    return (allOf as unknown[]).reduce<Schema>((merged, part) => merge(merged, this.#flatten(part, hops + 1)), rest)
  }

  #resolve(pointer: string): unknown {
    if (!pointer.startsWith('#')) throw new SampleError(`"${pointer}" is outside of the schema`)
    let found: unknown = this.#root
    for (const step of pointer.split('/').slice(1)) {
      const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
      found = isRecord(found) && Object.hasOwn(found, name) ? found[name] : undefined
    }
    if (found === undefined) throw new SampleError(`"${pointer}" does not exist`)
    return found
  }

  /** The first branch that can be filled. Below `DEEP`, branches that end the recursion come first. */
  #oneOf(schema: Schema, branches: readonly unknown[], depth: number, key: string, nth: number): unknown {
    const { anyOf: _any, oneOf: _one, ...rest } = schema
    const rank = depth >= DEEP ? weight : (branch: unknown) => (weight(branch) === 0 ? 1 : 0)
    const sorted = branches.toSorted((a, b) => rank(a) - rank(b))
    let failure: unknown
    for (const branch of sorted) {
      try {
        return this.#value(merge(this.#flatten(branch, 0), rest), depth + 1, key, nth)
      } catch (error) {
        if (!(error instanceof SampleError)) throw error
        failure = error
      }
    }
    throw failure
  }

  #object(schema: Schema, depth: number): Record<string, unknown> {
    const properties = isRecord(schema['properties']) ? schema['properties'] : {}
    const required = (Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : []).map(String)
    const names = required.length === 0 && depth < DEEP ? Object.keys(properties) : required
    // A null prototype, because a property may be called __proto__.
    const filled: Record<string, unknown> = Object.create(null)
    for (const name of names) {
      const known = Object.hasOwn(properties, name)
      filled[name] = this.#value(known ? properties[name] : schema['additionalProperties'], depth + 1, name, 0)
    }
    const least = Math.min(countOf(schema, 'minProperties') ?? 0, MAX_VALUES)
    for (let extra = 1; Object.keys(filled).length < least; extra++) {
      filled[`key${extra}`] = this.#value(schema['additionalProperties'], depth + 1, 'key', 0)
    }
    return filled
  }

  #array(schema: Schema, depth: number, key: string): unknown[] {
    const prefix = Array.isArray(schema['prefixItems']) ? (schema['prefixItems'] as unknown[]) : []
    const least = countOf(schema, 'minItems') ?? 0
    const usual = schema['items'] !== false && depth < DEEP ? 1 : 0
    const count = Math.min(
      Math.max(least, prefix.length, usual),
      countOf(schema, 'maxItems') ?? Number.MAX_SAFE_INTEGER,
    )
    if (count > MAX_VALUES) throw new SampleError('it asks for too long a list')
    const unique = schema['uniqueItems'] === true
    return Array.from({ length: count }, (_, at) =>
      this.#value(prefix[at] ?? schema['items'], depth + 1, key, unique ? at : 0),
    )
  }

  #number(schema: Schema, nth: number): number {
    const whole = typeOf(schema) === 'integer'
    const step = numberOf(schema, 'multipleOf') ?? (whole ? 1 : 0)
    const above = numberOf(schema, 'exclusiveMinimum')
    const below = numberOf(schema, 'exclusiveMaximum')
    const least = Math.max(numberOf(schema, 'minimum') ?? -Infinity, above ?? -Infinity)
    const most = Math.min(numberOf(schema, 'maximum') ?? Infinity, below ?? Infinity)
    const fits = (candidate: number) =>
      candidate >= least &&
      candidate <= most &&
      candidate !== above &&
      candidate !== below &&
      (step === 0 || Number.isInteger(candidate / step))
    const hinted = this.#numbers.findIndex(fits)
    if (hinted >= 0 && nth === 0) return this.#numbers.splice(hinted, 1)[0]!
    const start = least > -Infinity ? least : Math.min(1, most)
    const first = step > 0 ? Math.ceil(start / step) * step : start
    const stride = step || 1
    const middle = least > -Infinity && most < Infinity ? (least + most) / 2 : Number.NaN
    const found = [first, first + stride, first - stride, middle, 0].map(base => base + nth * stride).find(fits)
    if (found === undefined) throw new SampleError('its numeric bounds leave no value')
    return found
  }

  #string(schema: Schema, key: string, nth: number): string {
    const { format: name } = schema
    const format = typeof name === 'string' && Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined
    const least = countOf(schema, 'minLength') ?? 0
    const most = countOf(schema, 'maxLength') ?? MAX_STRING_LENGTH
    this.#values += Math.floor(least / 100)
    if (least > MAX_STRING_LENGTH) throw new SampleError('it asks for too long a string')
    if (format) return format(nth)
    const base = PROSE.test(key) ? this.#hints.sentence : this.#hints.word
    const points = [...(nth === 0 ? base : `${nth} ${base}`)]
    while (points.length < least) points.push('.')
    return points.slice(0, Math.max(most, least)).join('')
  }
}

/** Names of fields that get a sentence instead of a word. */
const PROSE = /answer|content|description|explanation|message|note|reason|response|summary|text/i

const two = (n: number) => String(n % 60).padStart(2, '0')

const FORMATS: Readonly<Record<string, (nth: number) => string>> = {
  'date-time': nth => `2026-01-01T12:00:${two(nth)}Z`,
  date: nth => new Date(Date.UTC(2026, 0, 1 + nth)).toISOString().slice(0, 10),
  time: nth => `12:00:${two(nth)}Z`,
  duration: nth => `PT${nth + 1}M`,
  email: nth => `person${nth}@example.com`,
  hostname: nth => `host${nth}.example.com`,
  ipv4: nth => `192.0.2.${nth % 256}`,
  ipv6: nth => `2001:db8::${nth.toString(16)}`,
  uri: nth => `https://example.com/${nth}`,
  uuid: nth => `00000000-0000-4000-8000-${String(nth).padStart(12, '0')}`,
}

/** How deep a branch may become: 0 for null, most for a reference or an object. */
function weight(branch: unknown): number {
  if (!isRecord(branch)) return 1
  if (branch['type'] === 'null') return 0
  if ('$ref' in branch || branch['type'] === 'object' || 'properties' in branch) return 3
  return branch['type'] === 'array' ? 2 : 1
}

function refuseUnknown(schema: Schema): void {
  const unknown = NOT_UNDERSTOOD.find(keyword => keyword in schema)
  if (unknown) throw new SampleError(`it uses "${unknown}", which the demo cannot follow`)
}

/** Merges two schemas: properties and required add up, of other keywords the right side's counts. */
function merge(left: Schema, right: Schema): Schema {
  const merged: Record<string, unknown> = { ...left, ...right }
  if (isRecord(left['properties']) && isRecord(right['properties'])) {
    merged['properties'] = { ...left['properties'], ...right['properties'] }
  }
  if (Array.isArray(left['required']) && Array.isArray(right['required'])) {
    merged['required'] = [...new Set([...(left['required'] as unknown[]), ...(right['required'] as unknown[])])]
  }
  return merged
}

function typeOf(schema: Schema): unknown {
  const type = schema['type']
  if (Array.isArray(type)) return (type as unknown[]).find(one => one !== 'null') ?? 'null'
  if (type !== undefined) return type
  if ('properties' in schema || 'required' in schema) return 'object'
  return 'items' in schema || 'prefixItems' in schema ? 'array' : 'string'
}

function numberOf(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

function countOf(schema: Schema, keyword: string): number | undefined {
  const value = numberOf(schema, keyword)
  return value === undefined || value < 0 ? undefined : value
}
