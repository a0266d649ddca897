/** The request for another model than the requested one. */
import { expect, test } from 'vitest'
import type { Catalog, Chat, Model } from '#contract'
import { createSteps } from '../../test/helpers/step.ts'
import schema from './index.ts'
import { MODEL } from './test-bodies.ts'

const THINKER: Model = {
  ...MODEL,
  id: 'thinker',
  reasoning: true,
  maxOutput: 8_192,
  defaultOutput: 8_000,
  allow: ['audio'],
}
const SMALL: Model = { ...MODEL, id: 'small', maxOutput: 1_000, defaultOutput: 500, maxChoices: 1 }
const catalog: Catalog = { find: () => THINKER, list: () => [THINKER] }
const run = createSteps([{ use: schema }], { catalog })

async function chatOf(body: object): Promise<Chat> {
  const { exchange, refusal } = await run({
    body: { model: 'thinker', messages: [{ role: 'user', content: 'Hi' }], ...body },
  })
  expect(refusal).toBeNull()
  return exchange.chat!
}

test('has the output cap of that model', async () => {
  const plain = await chatOf({})
  expect([plain.cap, plain.forModel!(plain, SMALL).cap]).toEqual([8_000, 500])
  const asked = await chatOf({ max_completion_tokens: 4_000 })
  expect(asked.forModel!(asked, SMALL)).toMatchObject({ cap: 1_000, requestedCap: 4_000 })
})

test('drops the effort for a model without reasoning', async () => {
  const asked = await chatOf({ reasoning_effort: 'high' })
  const { body, bytes, dropped } = asked.forModel!(asked, SMALL)
  expect([body.reasoning_effort, dropped]).toEqual([undefined, ['reasoning_effort']])
  expect(JSON.parse(bytes.toString())).toEqual(body)
})

test('is refused if that model cannot answer it', async () => {
  const asked = await chatOf({ n: 2 })
  expect(() => asked.forModel!(asked, SMALL)).toThrow(expect.objectContaining({ code: 'unsupported_parameter' }))
})
