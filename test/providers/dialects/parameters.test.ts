/** Three places that must not import one another name the request's parameters: here they are compared. */
import { expect, test } from 'vitest'
import { PARAMETERS } from '../../../plugins/schema/chat-completions.ts'
import { CHAT_PARAMETERS } from '../../../src/providers/dialects/json-bytes.ts'
import { COMMON_PARAMETERS, modelEntry } from '../../../src/request/answer/entries.ts'

test('the scan knows exactly the parameters of the schema', () => {
  expect([...CHAT_PARAMETERS].sort()).toEqual(Object.keys(PARAMETERS).sort())
})

test.each([false, true])('what a model is said to support, the schema takes (reasoning: %s)', reasoning => {
  const { supported_parameters: supported } = modelEntry({ price: null, description: null, reasoning } as never) as {
    supported_parameters: string[]
  }
  expect(supported).toEqual(expect.arrayContaining(COMMON_PARAMETERS))
  expect(Object.keys(PARAMETERS)).toEqual(expect.arrayContaining(supported))
})
