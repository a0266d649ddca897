/** Converts the schema checker's errors to messages with positions. */
import type { ErrorObject } from 'ajv/dist/2020.js'
import { didYouMean, hintFor, listed, nearest, show } from './problem.ts'
import { RULE_OF_KEYWORD } from './rule-of-keyword.ts'
import type { Rule } from './rules.ts'
import { pointer, type Source } from './source.ts'

type Schema = Readonly<Record<string, unknown>> & {
  readonly properties?: Record<string, Schema>
  readonly unknown?: string
  readonly hints?: Readonly<Record<string, string>>
}

/** Reports each error once, without errors that repeat others in other words. */
export function reportErrors(source: Source, address: string, errors: readonly ErrorObject[]): void {
  // Check the file, not the value, which may be a default.
  for (const meant of errors.flatMap(meantKeys)) if (!source.has(address + meant)) source.markUnusable(address + meant)
  for (const error of errors) {
    const empty = emptyAbove(error, errors)
    if (empty !== undefined) source.markUnusable(address + empty.instancePath)
  }
  const found = wordsOf(source, address, errors)
  // An address with an earlier problem (an unreadable value) gets no second one about its shape.
  const reported = new Set<string>()
  for (const { where, rule, message, suggestion, key } of found.filter(each => !source.reported(each.where))) {
    if (reported.has(`${where} ${message}`)) continue
    reported.add(`${where} ${message}`)
    source.report(where, message, { rule, ...(key ? { key } : {}), suggestion })
  }
}

/** The messages for a value that is not from a file. */
export function inSentences(errors: readonly ErrorObject[], address: string): { where: string; message: string }[] {
  return wordsOf(NO_FILE, address, errors).map(({ where, message, suggestion }) => ({
    where,
    message: suggestion === undefined ? message : `${message}; ${suggestion}`,
  }))
}

/** Formats values for messages. */
type ValueSource = Pick<Source, 'show' | 'substituted'>

const NO_FILE: ValueSource = { show: (_address, value) => show(value), substituted: () => false }

function wordsOf(source: ValueSource, address: string, errors: readonly ErrorObject[]) {
  return withoutRepeats(errors).map(error => {
    const at = address + error.instancePath
    const words = isFork(error) ? noForm(source, error, at, errors) : inWords(source, error, at, errors)
    return {
      ...words,
      rule: words.rule ?? ruleOf(error),
      where: words.child === undefined ? at : at + pointer(words.child),
    }
  })
}

/** Removes errors that repeat others: `if`, and the branches of `anyOf` and `oneOf`. */
function withoutRepeats(errors: readonly ErrorObject[]): ErrorObject[] {
  const forks = errors.filter(error => isFork(error) || error.keyword === 'contains')
  const units = new Set(errors.filter(error => error.keyword === 'unit').map(error => error.instancePath))
  const typed = new Set<string>()
  const meant = new Set(errors.flatMap(meantKeys))
  const empty = new Set(errors.map(error => emptyAbove(error, errors)))
  const replaced = new Set(errors.flatMap(error => replacedBy(error, errors) ?? []))
  const wanted = new Set(forks.flatMap(fork => branchesOf(fork, errors)).map(addressOfMissing))
  const mayBeThere = (error: ErrorObject) => meant.has(addressOfMissing(error))
  return errors.filter(error => {
    // The unindented key that belongs below it is reported instead.
    if (empty.has(error)) return false
    // The misspelt key is reported instead. The same applies if one of several keys is required.
    if (error.keyword === 'required' && replaced.has(addressOfMissing(error))) return false
    if (error.keyword === 'dependentRequired' && (mayBeThere(error) || wanted.has(addressOfMissing(error))))
      return false
    if (isFork(error) && branchesOf(error, errors).some(mayBeThere)) return false
    if (error.keyword === 'if' || (error.propertyName !== undefined && error.keyword !== 'propertyNames')) return false
    // For a number in place of a unit's text, the unit's message is better than "must be text".
    if ((error.keyword === 'type' || error.keyword === 'within') && units.has(error.instancePath)) return false
    if (error.keyword === 'type') {
      if (typed.has(error.instancePath)) return false
      typed.add(error.instancePath)
    }
    return !forks.some(fork => fork !== error && error.schemaPath.startsWith(`${fork.schemaPath}/`))
  })
}

const addressOfMissing = ({ instancePath, params }: ErrorObject) => `${instancePath}/${params['missingProperty']}`

/** The unknown key that an error is about. */
function unknownIn({ keyword, params }: ErrorObject): string | undefined {
  if (keyword === 'additionalProperties') return params['additionalProperty']
  return keyword === 'unevaluatedProperties' ? params['unevaluatedProperty'] : undefined
}

/** The addresses that an unknown key may mean: that of a similar key, or else of all keys with such values. */
function meantKeys(error: ErrorObject): string[] {
  const key = unknownIn(error)
  const schema = error.parentSchema as Schema
  if (key === undefined || hintFor(key, schema.hints) !== undefined) return []
  const near = nearKey(key, schema)
  const kind = kindOf((error.data as Record<string, unknown>)[key])
  const fits = (each: string) => each === schema.unknown || takes(schema.properties![each]!, kind)
  const known = near === undefined ? knownKeys(schema).filter(fits) : [near]
  return known.map(each => `${error.instancePath}/${each}`)
}

const kindOf = (value: unknown) => (Array.isArray(value) ? 'array' : typeof value === 'object' ? 'object' : 'scalar')

function takes(schema: Schema, kind: string): boolean {
  const types = [schema['type'] ?? 'scalar'].flat() as string[]
  return types.some(type => (type === 'object' || type === 'array' ? type : 'scalar') === kind)
}

/** The missing key that an unknown one probably means: a similar one, or else the only missing one of its map. */
function replacedBy(error: ErrorObject, errors: readonly ErrorObject[]): string | undefined {
  const key = unknownIn(error)
  if (key === undefined) return undefined
  const near = nearKey(key, error.parentSchema as Schema)
  if (near !== undefined) return `${error.instancePath}/${near}`
  const beside = errors.filter(each => each.instancePath === error.instancePath)
  const missing = beside.filter(each => each.keyword === 'required' && each.parentSchema === error.parentSchema)
  const alone = beside.filter(each => unknownIn(each) !== undefined).length === 1 && missing.length === 1
  const [only] = alone ? missing.map(addressOfMissing) : []
  return only !== undefined && meantKeys(error).includes(only) ? only : undefined
}

/** The error of an empty key in the same map below which the unknown key would be allowed. */
function emptyAbove(error: ErrorObject, errors: readonly ErrorObject[]): ErrorObject | undefined {
  const key = unknownIn(error)
  if (key === undefined) return undefined
  return errors.find(({ keyword, data, instancePath, parentSchema }) => {
    if (keyword !== 'type' || data !== null || parentOf(instancePath) !== error.instancePath) return false
    const { type, properties, additionalProperties } = parentSchema as Schema
    return (
      type === 'object' && (typeof additionalProperties === 'object' || Object.hasOwn(properties ?? { [key]: 0 }, key))
    )
  })
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'))

/** In braces, `path:/v1` and `path /v1` are keys without a value. */
function nearKey(key: string, schema: Schema): string | undefined {
  if (hintFor(key, schema.hints) !== undefined) return undefined
  const known = knownKeys(schema)
  return known.find(each => key.startsWith(`${each}:`) || key.startsWith(`${each} `)) ?? nearest(key, known)
}

function knownKeys({ properties = {} }: Schema): string[] {
  return Object.keys(properties).filter(word => !('refused' in properties[word]!))
}

function ruleOf({ keyword, params }: ErrorObject): Rule {
  if (keyword === 'required' && params['missingProperty'] === 'price') return 'no-price'
  return RULE_OF_KEYWORD[keyword] ?? 'wrong-value'
}

const isFork = (error: ErrorObject) => error.keyword === 'anyOf' || error.keyword === 'oneOf'

/** The errors of the branches of a fork. */
function branchesOf(fork: ErrorObject, errors: readonly ErrorObject[]): ErrorObject[] {
  return errors.filter(error => error !== fork && error.schemaPath.startsWith(`${fork.schemaPath}/`))
}

/** The message for a value that matches no branch. */
function noForm(source: ValueSource, fork: ErrorObject, address: string, errors: readonly ErrorObject[]): Words {
  const branches = branchesOf(fork, errors)
  const name = nameOf(address)
  if (branches.length === 0) return severalForms(fork, name)
  if (branches.every(error => error.keyword === 'required' && error.instancePath === fork.instancePath)) {
    return {
      rule: 'missing-key',
      message: `${name} needs ${listed(branches.map(error => `"${error.params.missingProperty}"`))}`,
    }
  }
  const own = sentenceOf(fork.parentSchema)
  if (own !== undefined) return { message: `${name} ${own}, not ${source.show(address, fork.data)}` }
  const wants = branches.map(error =>
    inWords(source, error, address + error.instancePath.slice(fork.instancePath.length), errors),
  )
  return { message: `${name} matches none of its forms: ${[...new Set(wants.map(each => each.message))].join('; ')}` }
}

/** The message for a value that matches several branches: usually it has a key of each. */
function severalForms({ schema, data }: ErrorObject, name: string): Words {
  const keys = (schema as Schema[]).flatMap(form => (form['required'] as string[] | undefined)?.slice(0, 1) ?? [])
  const present = keys.filter(key => Object.hasOwn(Object(data), key))
  if (present.length < 2) return { message: `${name} matches more than one of its forms` }
  return {
    message: `${name} has ${listed(
      present.map(key => `"${key}"`),
      'and',
    )}, but can have only one of them`,
    suggestion: present.length === 2 ? 'remove one of the two' : 'keep one of them',
  }
}

interface Words {
  /** Set if the keyword does not determine it. */
  readonly rule?: Rule
  readonly message: string
  readonly suggestion?: string | undefined
  /** Point at the key. */
  readonly key?: boolean
  /** The problem belongs to this entry of the map. */
  readonly child?: string
}

function inWords(source: ValueSource, error: ErrorObject, address: string, errors: readonly ErrorObject[]): Words {
  const schema = error.parentSchema as Schema
  const name = nameOf(address)
  const value = source.show(address, error.data)
  const params = error.params as Record<string, string>
  switch (error.keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return unknownKey(unknownIn(error)!, schema, {
        replaced: replacedBy(error, errors),
        above: emptyAbove(error, errors)?.instancePath,
      })
    case 'required':
      return missingKey(params.missingProperty!, address, schema)
    case 'dependentRequired':
      return { message: `${name} has no "${params.missingProperty}", which its other keys require` }
    case 'refused':
      return { message: error.message!, key: true }
    case 'propertyNames':
      return badName(params.propertyName!, schema)
    case 'unit':
      // The unit's message quotes the text, which may be a secret.
      if (source.substituted(address))
        return { message: `${name}: ${value} has a value that cannot be read in the unit "${error.schema}"` }
      return { message: `${name}: ${error.message}` }
    case 'within':
      return { message: `${name} ${error.message}` }
    case 'type':
      return wrongType(error, name, value, source.substituted(address) ? undefined : insteadOf(error))
    case 'enum':
      return notOneOf(error, name, value)
    case 'uniqueItems':
      // The order of `i` and `j` depends on the type. Report the later entry.
      return {
        message: `${name} has the same entry twice`,
        child: String(Math.max(Number(params.i), Number(params.j))),
      }
  }
  const own = sentenceOf(schema)
  return { message: own === undefined ? fallback(error, name, value) : `${name} ${own}, not ${value}` }
}

interface KeyHints {
  /** The address of the missing key that it probably means. */
  readonly replaced: string | undefined
  /** The address of the empty key below which it belongs. */
  readonly above: string | undefined
}

function unknownKey(key: string, schema: Schema, { replaced, above }: KeyHints): Words {
  const message = `unknown key "${key}"`
  if (above !== undefined) return { message, suggestion: `indent it below "${nameOf(above)}"`, key: true, child: key }
  const missing = replaced?.slice(replaced.lastIndexOf('/') + 1)
  const near = nearKey(key, schema)
  const suggestion =
    near !== undefined
      ? /[: ]/.test(key)
        ? `write "${near}: ${key.slice(near.length + 1)}"`
        : `did you mean "${near}"?`
      : missing !== undefined
        ? `did you mean "${missing}", which is missing?`
        : schema.unknown !== undefined
          ? `if it is a setting, write it below "${schema.unknown}"`
          : (hintNear(key, schema) ?? fewKeys(schema, 'there is', 'there are'))
  return { message, suggestion, key: true, child: key }
}

/** The suggestion for a word that equals or resembles one of `hints`. */
function hintNear(word: string, { hints = {} }: Schema): string | undefined {
  const near = nearest(word, Object.keys(hints))
  return hintFor(word, hints) ?? (near && hints[near])
}

/** The keys of a map, if there are at most 12. */
function fewKeys(schema: Schema, one: string, many: string): string | undefined {
  const keys = knownKeys(schema)
  return keys.length > 0 && keys.length <= 12 ? `${keys.length > 1 ? many : one} ${listed(keys, 'and')}` : undefined
}

function missingKey(key: string, address: string, schema: Schema): Words {
  const what = address === '' ? 'the file' : nameOf(address)
  const hint = schema.properties?.[key]?.sentence
  return { message: `${what} has no "${key}"`, suggestion: typeof hint === 'string' ? `it ${hint}` : undefined }
}

const TYPE_NAMES: Record<string, string> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'a map',
  array: 'a list',
  null: 'empty',
}

function badName(name: string, schema: Schema): Words {
  const own = sentenceOf(schema.propertyNames) ?? 'must be an allowed name'
  return { message: `the name ${show(name)} ${own}`, key: true, child: name }
}

/** The replacement from the schema's `instead`. */
function insteadOf({ data, parentSchema }: ErrorObject): string | undefined {
  const { instead } = parentSchema as { instead?: Instead }
  if (!instead || !new RegExp(instead.of).test(String(data))) return undefined
  return `write ${instead.write.replace('VALUE', () => String(data))}`
}

function wrongType(error: ErrorObject, name: string, value: string, instead: string | undefined): Words {
  const wanted = [error.schema as string | string[]].flat().map(type => TYPE_NAMES[type] ?? type)
  if (error.data === null)
    return { message: `${name} is empty`, suggestion: instead ?? 'give it a value or remove the key' }
  const own = sentenceOf(error.parentSchema)
  if (own !== undefined) return { message: `${name} ${own}, not ${value}`, suggestion: instead }
  const message = `${name} must be ${listed(wanted)}, not ${value}`
  const isText = wanted.includes('text') && typeof error.data !== 'object'
  const keys = wanted.length > 1 ? undefined : fewKeys(error.parentSchema as Schema, 'its key is', 'its keys are')
  return { message, suggestion: instead ?? (isText ? 'put it in quotes' : keys) }
}

function notOneOf(error: ErrorObject, name: string, value: string): Words {
  const allowed = (error.schema as unknown[]).map(String)
  const schema = error.parentSchema as Schema
  const own = sentenceOf(schema)
  const message =
    own === undefined ? `${name}: ${value} is not one of ${listed(allowed)}` : `${name} ${own}, not ${value}`
  const word = String(error.data)
  return { message, suggestion: hintFor(word, schema.hints) ?? didYouMean(word, allowed) ?? hintNear(word, schema) }
}

function fallback(error: ErrorObject, name: string, value: string): string {
  const limit = (error.params as { limit?: number }).limit
  switch (error.keyword) {
    case 'minimum':
      return `${name} must be at least ${limit}, not ${value}`
    case 'maximum':
      return `${name} must be at most ${limit}, not ${value}`
    case 'exclusiveMinimum':
      return `${name} must be more than ${limit}, not ${value}`
    case 'exclusiveMaximum':
      return `${name} must be less than ${limit}, not ${value}`
    case 'multipleOf':
      return `${name} must be a multiple of ${error.schema}, not ${value}`
    case 'const':
      return `${name} must be ${show(error.schema)}, not ${value}`
    case 'minItems':
    case 'minProperties':
      return `${name} needs at least ${limit === 1 ? 'one entry' : `${limit} entries`}`
    case 'minLength':
      return limit === 1 ? `${name} is empty` : `${name} must have at least ${limit} characters`
    case 'maxItems':
    case 'items':
    case 'maxProperties':
      return `${name} can have at most ${limit === 1 ? 'one entry' : `${limit} entries`}`
    case 'maxLength':
      return `${name} can have at most ${limit} characters`
    case 'contains':
      return `${name} has no entry of the required kind`
    case 'not':
      return `${name}: ${value} is not allowed`
    case 'false schema':
      return `${name} is not allowed here`
    case 'pattern':
      return `${name}: ${value} does not match ${(error.schema as string).toString()}`
    default:
      return `${name}: ${error.message}`
  }
}

function sentenceOf(schema: unknown): string | undefined {
  const own = (schema as { sentence?: unknown } | undefined)?.sentence
  return typeof own === 'string' ? own : undefined
}

/** The name of the value at an address: its key, or the list's key with the number of the entry. */
function nameOf(address: string): string {
  const parts = address
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = parts.at(-1)
  if (last === undefined) return 'the file'
  return /^\d+$/.test(last) && parts.length > 1 ? `entry ${Number(last) + 1} of ${parts.at(-2)}` : last
}

/** The value of the keyword `instead`. `VALUE` in `write` is replaced by the value in the file. */
export interface Instead {
  /** A regular expression. */
  readonly of: string
  readonly write: string
}
