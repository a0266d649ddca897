/** Compares the request parameters of three modules that must not import one another. */
import { expect, test } from 'vitest'
import { PARAMETERS } from '../../../plugins/schema/chat-completions.ts'
import { CHAT_PARAMETERS } from '../../../src/providers/dialects/json-bytes.ts'
import { COMMON_PARAMETERS, modelEntry } from '../../../src/request/answer/entries.ts'

test('the scan has exactly the parameters of the schema', () => {
  expect([...CHAT_PARAMETERS].sort()).toEqual(Object.keys(PARAMETERS).sort())
})

test.each([false, true])(
  'the schema accepts every parameter that a model lists as supported (reasoning: %s)',
  reasoning => {
    const { supported_parameters: supported } = modelEntry({ price: null, description: null, reasoning } as never) as {
      supported_parameters: string[]
    }
    expect(supported).toEqual(expect.arrayContaining(COMMON_PARAMETERS))
    expect(Object.keys(PARAMETERS)).toEqual(expect.arrayContaining(supported))
  },
)
