/**
 * The one set-up of the schema checker, for gateway.yaml, for policies and for the settings of steps, with the keywords
 * that our schemas have beyond JSON Schema 2020-12:
 *
 * - `unit`: the text is parsed by the contract's unit and replaced by the parsed value
 * - `within`: the parsed value lies between two others of its unit
 * - `refused`: the key is known and not to be used; the value is the sentence that says why
 * - `instead`: what to write instead of a value of the wrong type that looks like this
 * - `unknown`: the key of the map to which keys belong that it does not know
 * - `hints`: suggestions for keys and values of other places, by these
 * - `sentence`: what to say when the value does not fit, instead of a sentence made from the keyword
 */
import { Ajv2020, type AnySchema, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { parseUnit, UNIT_SCHEMAS, type UnitName } from '#contract'
import { reportErrors } from './shape-errors.ts'
import type { Source } from './source.ts'

/** The value of the keyword `within`. */
export interface Within {
  readonly unit: UnitName
  readonly from: string | number
  readonly to: string | number
}

interface DataContext {
  readonly parentData: Record<string | number, unknown>
  readonly parentDataProperty: string | number
}

/** What ajv calls for a keyword; it leaves its complaint in `errors`. */
interface Check {
  (data: unknown, context?: DataContext): boolean
  errors?: Partial<ErrorObject>[]
}

const complaint = (keyword: string, message: string) => [{ keyword, message, params: {} }]

function createAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    // `anyOf: [{ required: ['a'] }, { required: ['b'] }]` is how a schema says "one of the two".
    strictRequired: false,
    allErrors: true,
    verbose: true,
    useDefaults: true,
    allowUnionTypes: true,
    // A configuration is checked once: to tidy the generated code and to compile the schema of schemas took half of a
    // start. Our own schemas are held against that one by a test, those of others by `schemaErrors`.
    code: { optimize: false },
    validateSchema: false,
  })
  ajv.addKeyword({
    keyword: 'unit',
    type: ['string', 'number'],
    schemaType: 'string',
    modifying: true,
    errors: true,
    compile: (name: UnitName) => {
      const check: Check = (data, context) => {
        try {
          context!.parentData[context!.parentDataProperty] = parseUnit[name](data as string)
          return true
        } catch (error) {
          check.errors = complaint('unit', (error as Error).message)
          return false
        }
      }
      return check
    },
  })
  ajv.addKeyword({ keyword: 'within', schemaType: 'object', errors: true, compile: compileWithin })
  ajv.addKeyword({
    keyword: 'refused',
    schemaType: 'string',
    errors: true,
    compile: (why: string) => {
      const check: Check = () => {
        check.errors = complaint('refused', why)
        return false
      }
      return check
    },
  })
  ajv.addKeyword({ keyword: 'sentence', schemaType: 'string' })
  ajv.addKeyword({ keyword: 'instead', schemaType: 'object' })
  ajv.addKeyword({ keyword: 'hints', schemaType: 'object' })
  ajv.addKeyword({ keyword: 'unknown', schemaType: 'string' })
  ajv.addSchema(UNIT_SCHEMAS as unknown as AnySchema)
  return ajv
}

/** Runs after `unit`, so it sees the parsed number; a text that could not be parsed is that keyword's complaint. */
function compileWithin({ unit, from, to }: Within): Check {
  const [least, most] = [parseUnit[unit](from) as number, parseUnit[unit](to) as number]
  const check: Check = data => {
    if (typeof data !== 'number') return true
    if (data >= least && data <= most) return true
    check.errors = complaint('within', `must lie between ${from} and ${to}`)
    return false
  }
  return check
}

const ajv = createAjv()
const compiled = new WeakMap<object, ValidateFunction>()

/** All keywords that a schema may have, ours among them. */
export const KEYWORDS: readonly string[] = Object.keys(ajv.RULES.keywords)

/** What the schema of schemas says of a schema that others wrote. */
export function schemaErrors(schema: object): readonly ErrorObject[] {
  return compiled.has(schema) || ajv.validateSchema(schema as AnySchema) === true ? [] : (ajv.errors ?? [])
}

/** Compiles a schema once. Throws when it uses what there is not, or itself wrongly. */
export function compileSchema(schema: object): ValidateFunction {
  const known = compiled.get(schema)
  if (known !== undefined) return known
  const validate = ajv.compile(schema as AnySchema)
  compiled.set(schema, validate)
  return validate
}

/** What a value breaks of a schema that is used once; nothing where the schema itself cannot be compiled. */
export function validateOnce(schema: object, value: unknown): readonly ErrorObject[] {
  try {
    return run(ajv.compile(schema as AnySchema), value).errors
  } catch {
    return []
  } finally {
    ajv.removeSchema(schema as AnySchema)
  }
}

/**
 * Checks a value of a file against a schema, reports what is wrong, and gives a copy with units parsed and defaults
 * filled in. Addresses at which something was reported are not `sound()`: nothing should be built from them.
 */
export function checkShape(source: Source, address: string, value: unknown, schema: object): unknown {
  const validate = compileSchema(schema)
  let { checked, errors } = run(validate, value)
  const coerced = structuredClone(value)
  const retyped = errors.filter(error => error.keyword === 'type' && retype(source, address, coerced, error))
  if (retyped.length > 0) ({ checked, errors } = run(validate, coerced))
  reportErrors(source, address, errors)
  return checked
}

function run(validate: ValidateFunction, value: unknown): { checked: unknown; errors: readonly ErrorObject[] } {
  // Wrapped, so that a value which is itself a unit could be replaced too.
  const checked = structuredClone(value)
  return validate(checked) ? { checked, errors: [] } : { checked, errors: validate.errors ?? [] }
}

/** `trust_proxy: ${HOPS}` is text to YAML; where a number or a boolean is asked for, it is read as one. */
function retype(source: Source, address: string, root: unknown, error: ErrorObject): boolean {
  const text = source.wholly(address + error.instancePath)
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  const last = path.pop()
  if (text === null || last === undefined) return false
  const wanted = [error.schema as string | string[]].flat()
  const isNumber = (wanted.includes('integer') || wanted.includes('number')) && /^-?\d{1,15}(\.\d+)?$/.test(text)
  const isBoolean = wanted.includes('boolean') && /^(true|false)$/.test(text)
  if (!isNumber && !isBoolean) return false
  const parent = path.reduce((at, key) => (at as Record<string, unknown>)[key], root) as Record<string, unknown>
  parent[last] = isNumber ? Number(text) : text === 'true'
  return true
}

/** The reverse of `pointer()` for one part. */
export function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
