/**
 * The schema checker for gateway.yaml, policies and settings of steps. It adds these keywords to JSON Schema 2020-12:
 *
 * - `unit`: parses the text with the contract's unit and replaces it by the parsed value
 * - `within`: the bounds of the parsed value, in its unit
 * - `refused`: the key must not be used; the value is the message with the reason
 * - `instead`: the replacement for a value of the wrong type that matches a pattern
 * - `unknown`: the key under which unknown keys of the map probably belong
 * - `hints`: suggestions for misplaced keys and values
 * - `sentence`: the message for a wrong value, in place of the keyword's own
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

/** The function that ajv calls for a keyword. It returns its error in `errors`. */
interface Check {
  (data: unknown, context?: DataContext): boolean
  errors?: Partial<ErrorObject>[]
}

const errorOf = (keyword: string, message: string) => [{ keyword, message, params: {} }]

function createAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    // `anyOf: [{ required: ['a'] }, { required: ['b'] }]` means "one of the two".
    strictRequired: false,
    allErrors: true,
    verbose: true,
    useDefaults: true,
    allowUnionTypes: true,
    // A configuration is checked once. Optimizing the generated code and compiling the meta-schema took half of a start. A
    // test checks our schemas against the meta-schema, and `schemaErrors` those of external plugins.
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
          check.errors = errorOf('unit', (error as Error).message)
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
    compile: (reason: string) => {
      const check: Check = () => {
        check.errors = errorOf('refused', reason)
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

/** Runs after `unit` and gets the parsed number. `unit` reports a text that it cannot parse. */
function compileWithin({ unit, from, to }: Within): Check {
  const [least, most] = [parseUnit[unit](from) as number, parseUnit[unit](to) as number]
  const check: Check = data => {
    if (typeof data !== 'number') return true
    if (data >= least && data <= most) return true
    check.errors = errorOf('within', `must be between ${from} and ${to}`)
    return false
  }
  return check
}

const ajv = createAjv()
const compiled = new WeakMap<object, ValidateFunction>()

/** All keywords that a schema can have, including ours. */
export const KEYWORDS: readonly string[] = Object.keys(ajv.RULES.keywords)

/** Checks an external plugin's schema against the meta-schema. */
export function schemaErrors(schema: object): readonly ErrorObject[] {
  return compiled.has(schema) || ajv.validateSchema(schema as AnySchema) === true ? [] : (ajv.errors ?? [])
}

/** Compiles a schema once. Throws if it uses unknown or misused keywords. */
export function compileSchema(schema: object): ValidateFunction {
  const known = compiled.get(schema)
  if (known !== undefined) return known
  const validate = ajv.compile(schema as AnySchema)
  compiled.set(schema, validate)
  return validate
}

/** The errors of a value against a schema that is used once; none if the schema cannot be compiled. */
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
 * Checks a value of a file against a schema, reports problems, and returns a copy with units parsed and defaults filled in.
 * Addresses with problems are not `sound()`, and must not be used.
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
  // A copy: checking parses units in place.
  const checked = structuredClone(value)
  return validate(checked) ? { checked, errors: [] } : { checked, errors: validate.errors ?? [] }
}

/** YAML reads `trust_proxy: ${HOPS}` as text. Converts such a value if the schema wants a number or a boolean. */
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

/** The reverse of `pointer()` for one segment. */
export function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
