import type { Rule } from './rules.ts'

/** The kind of problem that a keyword of a schema reports. */
export const RULE_OF_KEYWORD: Readonly<Record<string, Rule>> = {
  additionalProperties: 'unknown-key',
  unevaluatedProperties: 'unknown-key',
  refused: 'unknown-key',
  required: 'missing-key',
  dependentRequired: 'missing-key',
  propertyNames: 'wrong-name',
  unit: 'wrong-unit',
  within: 'out-of-bounds',
  minimum: 'out-of-bounds',
  maximum: 'out-of-bounds',
  exclusiveMinimum: 'out-of-bounds',
  exclusiveMaximum: 'out-of-bounds',
  minItems: 'out-of-bounds',
  maxItems: 'out-of-bounds',
  minProperties: 'out-of-bounds',
  minLength: 'out-of-bounds',
  maxLength: 'out-of-bounds',
  type: 'wrong-type',
  uniqueItems: 'duplicate-entry',
}
