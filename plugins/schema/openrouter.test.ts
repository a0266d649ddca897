/** Parameters of OpenRouter's API, which its clients send to each gateway. */
import { expect, test } from 'vitest'
import type { Catalog, Model } from '#contract'
import { createSteps } from '../../test/helpers/step.ts'
import schema from './index.ts'
import { MODEL } from './test-bodies.ts'

const plain = { ...MODEL, id: 'plain' }
const models: Model[] = [plain, { ...plain, id: 'thinker', reasoning: true }]
const catalog: Catalog = { find: id => models.find(model => model.id === id), list: () => models }
const refusing = createSteps([{ use: schema }], { catalog })
const passing = createSteps([{ use: schema, with: { unknown_fields: 'pass' } }], { catalog })

type Fields = Record<string, unknown>
const request = (fields: Fields) => ({ model: 'thinker', messages: [{ role: 'user', content: 'hi' }], ...fields })

test.each<[asked: Fields, code: string, param: string]>([
  [{ reasoning: 'high' }, 'invalid_type', 'reasoning'],
  [{ reasoning: { effort: 'huge' } }, 'invalid_value', 'reasoning.effort'],
  [{ reasoning: { max_tokens: -1 } }, 'invalid_value', 'reasoning.max_tokens'],
  [{ reasoning: { enabled: 'yes' } }, 'invalid_type', 'reasoning.enabled'],
  [{ usage: true }, 'invalid_type', 'usage'],
  [{ usage: { include: 'yes' } }, 'invalid_type', 'usage.include'],
  [{ models: 'a' }, 'invalid_type', 'models'],
  [{ provider: [] }, 'invalid_type', 'provider'],
  [{ transforms: [1] }, 'invalid_type', 'transforms[0]'],
])('%j is refused by its own name', async (asked, code, param) => {
  const { refusal } = await refusing({ body: request(asked) })
  expect(refusal).toMatchObject({ code, param, status: 400 })
})

test.each<[asked: Fields, read: Fields, dropped: string[]]>([
  [{ reasoning: { effort: 'high' } }, { reasoning_effort: 'high' }, []],
  [{ reasoning: { enabled: true } }, { reasoning_effort: 'medium' }, []],
  [{ reasoning: { enabled: false } }, { reasoning_effort: 'none' }, []],
  [{ reasoning: { enabled: true, effort: 'low' } }, { reasoning_effort: 'low' }, []],
  [{ reasoning: { max_tokens: 20_000 } }, { reasoning_effort: 'high' }, []],
  [{ reasoning: { max_tokens: 10_000 } }, { reasoning_effort: 'medium' }, []],
  [{ reasoning: { max_tokens: 100 } }, { reasoning_effort: 'low' }, []],
  [{ reasoning: { max_tokens: 0 } }, { reasoning_effort: 'none' }, []],
  [{ reasoning: { enabled: false, effort: 'high' } }, { reasoning_effort: 'none' }, []],
  [{ reasoning: { max_tokens: 100, effort: 'high' } }, { reasoning_effort: 'high' }, ['reasoning.max_tokens']],
  [{ reasoning: { effort: 'high', exclude: true } }, { reasoning_effort: 'high' }, ['reasoning.exclude']],
  [{ reasoning: { exclude: false } }, {}, []],
  [{ reasoning: { effort: 'high' }, reasoning_effort: 'low' }, { reasoning_effort: 'low' }, ['reasoning.effort']],
  [{ reasoning: { effort: 'low' }, reasoning_effort: 'low' }, { reasoning_effort: 'low' }, []],
  [{ reasoning: null }, {}, []],
  [{ reasoning: {} }, {}, []],
  [{ model: 'plain', reasoning: { effort: 'high' } }, {}, ['reasoning']],
  [{ model: 'plain', reasoning: { enabled: false } }, {}, []],
  [{ usage: { include: true } }, {}, []],
  [{ usage: { include: true }, stream: true }, { stream: true, stream_options: { include_usage: true } }, []],
  [{ usage: { include: false }, stream: true }, { stream: true }, []],
  [{ models: ['a', 'b'], route: 'fallback' }, {}, ['models', 'route']],
  [{ provider: { order: ['x'] }, transforms: ['middle-out'] }, {}, ['provider', 'transforms']],
  [{ provider: {}, models: [], transforms: null }, {}, []],
  [{ plugins: [{ id: 'web' }], include_reasoning: false }, {}, ['plugins', 'include_reasoning']],
  [{ include_reasoning: true }, {}, []],
])('%j becomes %j', async (asked, read, dropped) => {
  const { refusal, exchange } = await refusing({ body: request(asked) })
  expect(refusal).toBeNull()
  const { chat } = exchange
  const model = asked['model'] ?? 'thinker'
  expect(chat!.body).toEqual({ ...request({ model }), ...read })
  expect(JSON.parse(chat!.bytes.toString())).toEqual(chat!.body)
  expect(chat!.dropped ?? []).toEqual(dropped)
  expect(chat!.includeUsage).toBe(read['stream_options'] !== undefined)
})

test('with unknown_fields: pass they reach the provider', async () => {
  const asked = { reasoning: { effort: 'high' }, provider: { order: ['x'] }, usage: true }
  const { exchange } = await passing({ body: request(asked) })
  expect(exchange.chat!.body).toEqual(request(asked))
  expect(exchange.chat!.dropped).toBeUndefined()
})
