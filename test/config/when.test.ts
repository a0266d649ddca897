/** Conditions at run time. What is refused at load is in policy-problems.test.ts. */
import { describe, expect, test } from 'vitest'
import type { FactName } from '#contract'
import { compileWhen, WHEN_FIELDS, type WhenContext, whenFacts } from '../../src/config/when.ts'

const FACTS: FactName[] = ['key', 'account', 'chat', 'model', 'targets']

function compile(source: string, given: readonly FactName[] = FACTS) {
  const result = compileWhen(source, {
    given: new Set(given),
    missing: fact => ({ message: `${fact} is missing` }),
  })
  if ('error' in result) throw new Error(`${result.error.offset}: ${result.error.message}`)
  return result.when
}

/** A context whose exchange has all facts, most of them empty. */
function context({ headers = {}, body = {}, ...more }: Record<string, unknown> = {}): WhenContext {
  return {
    method: 'POST',
    path: '/v1/chat/completions',
    get: (name: string) => (headers as Record<string, string>)[name.toLowerCase()] ?? '',
    exchange: {
      address: '127.0.0.1',
      key: { id: 'key_1', name: '' },
      account: { id: 'acc_1', name: 'Ada', plan: 'free' },
      chat: {
        body: { model: 'small', messages: [{ role: 'user' }], ...(body as object) },
        stream: false,
        choices: 1,
        cap: 4096,
        ...more,
      },
      model: { id: 'small', reasoning: false, context: 8192, maxOutput: 1024, price: null },
    },
  } as unknown as WhenContext
}

test.each<[string, boolean, Record<string, unknown>?]>([
  ['request.method == "POST" && request.path.startsWith("/v1/")', true],
  ['request.address in ["127.0.0.1", "::1"]', true],
  ['key.id == "key_1" && key.name == ""', true],
  ['account.plan == "free"', true],
  ['account.plan in ["team", "pro"]', false],
  ['account.name.contains("d")', true],
  ['chat.stream', false],
  ['!chat.stream', true],
  ['chat.cap > 4000 && chat.cap <= 4096', true],
  ['chat.choices > 1', true, { choices: 2 }],
  ['chat.messages == 1 && chat.tools == 0', true],
  ['chat.tools >= 2', true, { body: { tools: [{}, {}] } }],
  ['chat.tools == 0', true, { body: { tools: null } }],
  ['chat.reasoning_effort == ""', true],
  ['chat.reasoning_effort == "high"', true, { body: { reasoning_effort: 'high' } }],
  ['chat.model == model.id', true],
  ['model.reasoning || model.priced', false],
  ['model.context / 2 > model.max_output', true],
  ['header("x-team") == "blue"', true, { headers: { 'x-team': 'blue' } }],
  ['header("X-Team") == ""', true],
  ['["x-a", "x-b"].exists(name, header(name) != "")', true, { headers: { 'x-b': '1' } }],
  ['has(account.plan)', true],
  ['key["id"] == "key_1"', true],
])('%s is %s', (source, expected, more) => {
  expect(compile(source).evaluate(whenFacts(context(more)))).toBe(expected)
})

test('every declared field has a value of its type, also when everything is empty', () => {
  const empty: Record<string, string> = { string: '""', int: '0', bool: 'true' }
  for (const [name, fields] of Object.entries(WHEN_FIELDS)) {
    for (const [field, type] of Object.entries(fields)) {
      const { evaluate } = compile(`${name}.${field} == ${empty[type]} || true`)
      expect(evaluate(whenFacts(context())), `${name}.${field}`).toBe(true)
      expect(compile(`${name}.${field} != ${name}.${field}`).evaluate(whenFacts(context())), `${name}.${field}`).toBe(
        false,
      )
    }
  }
})

test('facts are read when they are named, not before', () => {
  const exchange = new Proxy(
    { address: '::1' },
    {
      get(target, property) {
        if (property === 'address') return target.address
        throw new Error(`${String(property)} was looked at`)
      },
    },
  )
  const facts = whenFacts({ ...context(), exchange } as unknown as WhenContext)
  expect(compile('request.address == "::1" || account.plan == "x"').evaluate(facts)).toBe(true)
  expect(() => compile('request.address == "" || account.plan == "x"').evaluate(facts)).toThrow('account was looked at')
})

test('a condition that throws says so', () => {
  const { evaluate } = compile('int(header("x-count")) > 1')
  expect(evaluate(whenFacts(context({ headers: { 'x-count': '2' } })))).toBe(true)
  expect(() => evaluate(whenFacts(context({ headers: { 'x-count': 'two' } })))).toThrow()
  // And the next one is none the worse for it.
  expect(compile('header("x") == ""').evaluate(whenFacts(context()))).toBe(true)
})

describe('what is not given cannot be named', () => {
  test.each([
    ['account.plan == ""', [], '0: account is missing'],
    ['true || chat.stream', ['key', 'account'], '8: chat is missing'],
    ['nobody', FACTS, '0: nothing is called "nobody" here'],
    ['', FACTS, '0: the condition is wrong here'],
    ['('.repeat(200), FACTS, 'the condition is wrong here: exceeded maxDepth'],
    [`${'1 + '.repeat(2000)}1 > 0`, FACTS, 'the condition is wrong here: exceeded max'],
  ] as [string, FactName[], string][])('%.20s', (source, given, message) => {
    expect(() => compile(source, given)).toThrow(message)
  })
})
