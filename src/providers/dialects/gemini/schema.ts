/**
 * Converts JSON Schema of answers for Gemini. Gemini ignores keywords that are not in its list, so they are sent and reported. Schemas
 * of tools have no such limit. https://ai.google.dev/api/generate-content#GenerationConfig
 */
import { type FitSchema, rewritten } from '../translate/tool-schema.ts'
import type { Fields } from '../translate/value.ts'

export function schemaForGemini(schema: Fields): FitSchema {
  const lost = new Set<string>()
  const isOlder = schema['definitions'] !== undefined && schema['$defs'] === undefined
  const fit = rewritten(schema, each => {
    const written = apart(withoutConst(isOlder ? newer(each) : each))
    for (const name of IGNORED_KEYWORDS) if (written[name] !== undefined) lost.add(name)
    return written
  })
  return { schema: fit as Fields, lost: [...lost] }
}

const IGNORED_KEYWORDS = [
  ...['const', 'pattern', 'minLength', 'maxLength', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['uniqueItems', 'contains', 'minContains', 'maxContains', 'additionalItems', 'unevaluatedItems'],
  ...['minProperties', 'maxProperties', 'patternProperties', 'propertyNames', 'unevaluatedProperties'],
  ...['dependentRequired', 'dependentSchemas', 'dependencies', 'if', 'then', 'else', 'not', 'allOf'],
  ...['$dynamicRef', '$recursiveRef'],
]

/** Renames `definitions` of older drafts. */
function newer({ definitions, ...schema }: Fields): Fields {
  const { $ref: ref } = schema
  return {
    ...schema,
    ...(definitions === undefined ? {} : { $defs: definitions }),
    ...(typeof ref === 'string' ? { $ref: ref.replace(/^#\/definitions\//, '#/$defs/') } : {}),
  }
}

function withoutConst(schema: Fields): Fields {
  const { const: value, ...others } = schema
  const isKept = (typeof value === 'string' || typeof value === 'number') && schema['enum'] === undefined
  return isKept ? { ...others, enum: [value] } : schema
}

/** Beside a reference the provider refuses all keywords that do not begin with `$`. */
function apart(schema: Fields): Fields {
  const { $ref: ref, ...others } = schema
  const isAlone = ref === undefined || Object.keys(others).every(name => name.startsWith('$'))
  return isAlone || others['anyOf'] !== undefined ? schema : { ...others, anyOf: [{ $ref: ref }] }
}
