/** The schemas that the gateway does not check at its start are valid. problems.test.ts covers our own keywords. */
import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { UNIT_SCHEMAS } from '#contract'
import { chatCompletionsSchema } from '../../../plugins/schema/chat-completions.ts'
import { POLICY_SCHEMA } from '../../../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../../../src/config/schema.ts'
import { BUILT_IN } from '../../../src/loader/builtin.ts'
import { POLICY_TEST_SCHEMA } from '../../../src/testing/policy/schema.ts'

const trusted: readonly (readonly [name: string, schema: object])[] = [
  ['the units', UNIT_SCHEMAS],
  ['gateway.yaml', GATEWAY_SCHEMA],
  ['policies', POLICY_SCHEMA],
  ['the tests of policies', POLICY_TEST_SCHEMA],
  ['chat completions', chatCompletionsSchema('refuse')],
  ['chat completions with fields of others', chatCompletionsSchema('pass')],
  ...BUILT_IN.map(({ name, settings }) => [`the plugin ${name}`, settings] as const),
]

describe('valid by the meta-schema', () => {
  const ajv = new Ajv2020()
  test.each(trusted)('%s', (_name, schema) => {
    ajv.validateSchema(schema as AnySchema)
    expect(ajv.errors ?? null).toBeNull()
  })
})
