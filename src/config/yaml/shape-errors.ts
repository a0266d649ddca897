/** The schema checker's errors as sentences at their place. */
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

/** Reports each error once; what only repeats another error in other words is left out. */
export function reportErrors(source: Source, address: string, errors: readonly ErrorObject[]): void {
  // Not by the value, where a default may stand.
  for (const meant of errors.flatMap(meantKeys)) if (!source.has(address + meant)) source.giveUp(address + meant)
  for (const error of errors) {
    const empty = emptyAbove(error, errors)
    if (empty !== undefined) source.giveUp(address + empty.instancePath)
  }
  const found = wordsOf(source, address, errors)
  // What was reported before (a value that could not be read) needs no second complaint about its shape.
  const told = new Set<string>()
  for (const { where, rule, message, suggestion, key } of found.filter(each => !source.reported(each.where))) {
    if (told.has(`${where} ${message}`)) continue
    told.add(`${where} ${message}`)
    source.report(where, message, { rule, ...(key ? { key } : {}), suggestion })
  }
}

/** The same sentences about a value that stands in no file. */
export function inSentences(errors: readonly ErrorObject[], address: string): { where: string; message: string }[] {
  return wordsOf(NO_FILE, address, errors).map(({ where, message, suggestion }) => ({
    where,
    message: suggestion === undefined ? message : `${message}; ${suggestion}`,
  }))
}

/** How values are shown. */
type Shown = Pick<Source, 'show' | 'substituted'>

const NO_FILE: Shown = { show: (_address, value) => show(value), substituted: () => false }

function wordsOf(source: Shown, address: string, errors: readonly ErrorObject[]) {
  return withoutEchoes(errors).map(error => {
    const at = address + error.instancePath
    const words = isFork(error) ? noForm(source, error, at, errors) : inWords(source, error, at, errors)
    return {
      ...words,
      rule: words.rule ?? ruleOf(error),
      where: words.child === undefined ? at : at + pointer(words.child),
    }
  })
}

/** `if`, and the branches of `anyOf` and `oneOf`, say what another error says already. */
function withoutEchoes(errors: readonly ErrorObject[]): ErrorObject[] {
  const forks = errors.filter(error => isFork(error) || error.keyword === 'contains')
  const units = new Set(errors.filter(error => error.keyword === 'unit').map(error => error.instancePath))
  const typed = new Set<string>()
  const meant = new Set(errors.flatMap(meantKeys))
  const empty = new Set(errors.map(error => emptyAbove(error, errors)))
  const replaced = new Set(errors.flatMap(error => replacedBy(error, errors) ?? []))
  const wanted = new Set(forks.flatMap(fork => branchesOf(fork, errors)).map(addressOfMissing))
  const mayBeThere = (error: ErrorObject) => meant.has(addressOfMissing(error))
  return errors.filter(error => {
    // What belongs below it is told: it is not indented.
    if (empty.has(error)) return false
    // The key is there, misspelt: that is told. Likewise where one of several is wanted.
    if (error.keyword === 'required' && replaced.has(addressOfMissing(error))) return false
    if (error.keyword === 'dependentRequired' && (mayBeThere(error) || wanted.has(addressOfMissing(error))))
      return false
    if (isFork(error) && branchesOf(error, errors).some(mayBeThere)) return false
    if (error.keyword === 'if' || (error.propertyName !== undefined && error.keyword !== 'propertyNames')) return false
    // A number where a unit's text is wanted: the unit's sentence says more than "must be text".
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

/** The addresses that an unknown key may have been meant for: of the word that is near, or else of all keys with such values. */
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

/** The missing key in whose place an unknown one stands: the one that is near, or else the only one of its map. */
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

/** That a key of the same map is empty, below which an unknown one would be known. */
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

/** In braces `path:/v1` and `path /v1` are keys without a value. */
function nearKey(key: string, schema: Schema): string | undefined {
  if (hintFor(key, schema.hints) !== undefined) return undefined
  const known = knownKeys(schema)
  return known.find(each => key.startsWith(`${each}:`) || key.startsWith(`${each} `)) ?? nearest(key, known)
}

function knownKeys({ properties = {} }: Schema): string[] {
  return Object.keys(properties).filter(word => !('refused' in properties[word]!))
}

/** The kind of problem that a keyword of the schema speaks of. */
function ruleOf({ keyword, params }: ErrorObject): Rule {
  if (keyword === 'required' && params['missingProperty'] === 'price') return 'no-price'
  return RULE_OF_KEYWORD[keyword] ?? 'wrong-value'
}

const isFork = (error: ErrorObject) => error.keyword === 'anyOf' || error.keyword === 'oneOf'

/** What the forms of a fork complain about. */
function branchesOf(fork: ErrorObject, errors: readonly ErrorObject[]): ErrorObject[] {
  return errors.filter(error => error !== fork && error.schemaPath.startsWith(`${fork.schemaPath}/`))
}

/** The value fits none of several forms: what each would want. */
function noForm(source: Shown, fork: ErrorObject, address: string, errors: readonly ErrorObject[]): Words {
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
  return { message: `${name} fits none of its forms: ${[...new Set(wants.map(each => each.message))].join('; ')}` }
}

/** The value fits several forms of which it may have one: mostly each wants a key, and the value has them all. */
function severalForms({ schema, data }: ErrorObject, name: string): Words {
  const keys = (schema as Schema[]).flatMap(form => (form['required'] as string[] | undefined)?.slice(0, 1) ?? [])
  const said = keys.filter(key => Object.hasOwn(Object(data), key))
  if (said.length < 2) return { message: `${name} fits more than one of its forms` }
  return {
    message: `${name} says ${listed(
      said.map(key => `"${key}"`),
      'and',
    )}, and may say only one of them`,
    suggestion: said.length === 2 ? 'remove one of the two' : 'keep one of them',
  }
}

interface Words {
  /** Where the keyword alone does not say it. */
  readonly rule?: Rule
  readonly message: string
  readonly suggestion?: string | undefined
  /** Point at the key. */
  readonly key?: boolean
  /** The problem belongs to this entry of the map. */
  readonly child?: string
}

function inWords(source: Shown, error: ErrorObject, address: string, errors: readonly ErrorObject[]): Words {
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
      return { message: `${name} has no "${params.missingProperty}", which goes with its other parts` }
    case 'refused':
      return { message: error.message!, key: true }
    case 'propertyNames':
      return badName(params.propertyName!, schema)
    case 'unit':
      // The unit's sentence quotes the text or a part of it, which must not be what a reference stands for.
      if (source.substituted(address))
        return { message: `${name}: ${value} does not stand for a value of the unit "${error.schema}"` }
      return { message: `${name}: ${error.message}` }
    case 'within':
      return { message: `${name} ${error.message}` }
    case 'type':
      return wrongType(error, name, value, source.substituted(address) ? undefined : insteadOf(error))
    case 'enum':
      return notOneOf(error, name, value)
    case 'uniqueItems':
      // Which of the two is `i` depends on their type; the later one is to go.
      return {
        message: `${name} has the same entry twice`,
        child: String(Math.max(Number(params.i), Number(params.j))),
      }
  }
  const own = sentenceOf(schema)
  return { message: own === undefined ? fallback(error, name, value) : `${name} ${own}, not ${value}` }
}

interface Meant {
  /** The address of the missing key in whose place it stands. */
  readonly replaced: string | undefined
  /** The address of the empty key below which it belongs. */
  readonly above: string | undefined
}

function unknownKey(key: string, schema: Schema, { replaced, above }: Meant): Words {
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

/** The suggestion for a word that is, or is nearly, one of `hints`. */
function hintNear(word: string, { hints = {} }: Schema): string | undefined {
  const near = nearest(word, Object.keys(hints))
  return hintFor(word, hints) ?? (near && hints[near])
}

/** The keys of a map; a long list helps nobody. */
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

/** What to write instead, where the schema knows it. */
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
      return `${name} must be at least ${limit}, and is ${value}`
    case 'maximum':
      return `${name} must be at most ${limit}, and is ${value}`
    case 'exclusiveMinimum':
      return `${name} must be more than ${limit}, and is ${value}`
    case 'exclusiveMaximum':
      return `${name} must be less than ${limit}, and is ${value}`
    case 'multipleOf':
      return `${name} must be a multiple of ${error.schema}, and is ${value}`
    case 'const':
      return `${name} must be ${show(error.schema)}, and is ${value}`
    case 'minItems':
    case 'minProperties':
      return `${name} needs at least ${limit === 1 ? 'one entry' : `${limit} entries`}`
    case 'minLength':
      return limit === 1 ? `${name} is empty` : `${name} must have at least ${limit} characters`
    case 'maxItems':
    case 'items':
    case 'maxProperties':
      return `${name} may have at most ${limit === 1 ? 'one entry' : `${limit} entries`}`
    case 'maxLength':
      return `${name} may have at most ${limit} characters`
    case 'contains':
      return `${name} has no entry of the kind that it needs`
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

/** What to call the value at an address: its key, or for an entry of a list the list's key and its number. */
function nameOf(address: string): string {
  const parts = address
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = parts.at(-1)
  if (last === undefined) return 'the file'
  return /^\d+$/.test(last) && parts.length > 1 ? `entry ${Number(last) + 1} of ${parts.at(-2)}` : last
}

/** The value of the keyword `instead`: `VALUE` in `write` stands for what was written. */
export interface Instead {
  /** A regular expression. */
  readonly of: string
  readonly write: string
}
