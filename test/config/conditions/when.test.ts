/** Compiled conditions. Positions of refused conditions in a policy file are tested in problems.test.ts. */
import { describe, expect, test } from 'vitest'
import type { FactName } from '#contract'
import { compileWhen, WHEN_FIELDS, type WhenContext, whenFacts } from '../../../src/config/conditions/when.ts'
import { expectWithin } from '../../helpers/promised.ts'

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

describe('tags', () => {
  const place = (tags?: string[]) => ({ given: new Set<FactName>(['tags']), missing: () => ({ message: '' }), tags })
  const evaluate = (source: string, tags?: string[]) => {
    const result = compileWhen(source, place(tags))
    if ('error' in result)
      throw new Error(`${result.error.offset}: ${result.error.message}; ${result.error.suggestion}`)
    return result.when.evaluate(whenFacts({ ...context(), exchange: { address: '', tags: { team: 'search' } } }))
  }

  test.each<[string, string[] | undefined, string]>([
    ['tags.taem == ""', ['team', 'user'], '5: the step "tags" declares no tag "taem"; did you mean "team"?'],
    ['has(tags.xyz)', ['team', 'user'], 'the step "tags" declares no tag "xyz"; it declares team and user'],
    ['tags.team == 3', ['team'], '== cannot be used with a text and a whole number'],
    ['tags[header("x")] == ""', ['team'], 'a field of tags must be written as a name'],
    ['tags["taem"] == ""', ['team'], 'declares no tag "taem"'],
    ['tags == ""', ['team'], '0: '],
  ])('%s is refused', (source, tags, message) => {
    expect(() => evaluate(source, tags)).toThrow(message)
  })

  test.each<[string, boolean]>([
    ['tags.team == "search"', true],
    ['tags["team"] in ["search", "ads"]', true],
    ['tags.user == ""', true],
    ['tags.user.startsWith("a") || has(tags.team)', true],
    ['tags.team.contains("x")', false],
  ])('%s is %s', (source, expected) => {
    expect(evaluate(source, ['team', 'user'])).toBe(expected)
    // Without declared tags, a condition may name any tag.
    expect(evaluate(source)).toBe(expected)
  })
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

test('an evaluation that fails throws', () => {
  const { evaluate } = compile('int(header("x-count")) > 1')
  expect(evaluate(whenFacts(context({ headers: { 'x-count': '2' } })))).toBe(true)
  expect(() => evaluate(whenFacts(context({ headers: { 'x-count': 'two' } })))).toThrow()
  // The next condition is not affected.
  expect(compile('header("x") == ""').evaluate(whenFacts(context()))).toBe(true)
})

describe('a condition with an unavailable fact or invalid syntax is refused', () => {
  test.each([
    ['account.plan == ""', [], '0: account is missing'],
    ['true || chat.stream', ['key', 'account'], '8: chat is missing'],
    ['stranger', FACTS, '0: the name "stranger" is unknown here'],
    ['', FACTS, '0: the condition has an error here'],
    ['('.repeat(200), FACTS, 'the condition has an error here: exceeded maxDepth'],
    [`${'1 + '.repeat(2000)}1 > 0`, FACTS, 'the condition has an error here: exceeded max'],
  ] as [string, FactName[], string][])('%.20s', (source, given, message) => {
    expect(() => compile(source, given)).toThrow(message)
  })
})

describe('a condition that would fail for every request is refused', () => {
  test.each<[string, string]>([
    ['optional.of(account.plan).hasValue()', '0: the name "optional" is unknown here'],
    ['type(chat.cap) == int', '18: the name "int" is unknown here'],
    ['type(duration("1s")) == google.protobuf.Duration', '24: the name "google" is unknown here'],
    ['["a"].exists(x, x == "a") && type(cel) == type(cel)', '34: the name "cel" is unknown here'],
    [
      'int("abc") > 3',
      '0: the condition has an error here: int() type error: cannot convert to int, so every request would',
    ],
    [
      'chat.stream && duration("zz") > duration("1s")',
      '15: the condition has an error here: invalid duration string: zz',
    ],
    ['["a", "1"].exists(x, int(x) > 1)', '0: the condition has an error here: int() type error'],
    ['["a"].exists(x, x == account.plan && int("q") > 1)', '37: the condition has an error here: int() type error'],
    ['9223372036854775807 + 1 > chat.cap', '0: the condition has an error here: integer overflow'],
    ['chat.messages / 0 > 1', '16: this divides by 0, so every request would fail'],
    ['chat.messages % 0 == 0', '16: this divides by 0'],
    ['chat.cap / (2 - 2) > 1', '12: this divides by 0'],
  ])('%s', (source, message) => {
    expect(() => compile(source)).toThrow(message)
  })

  test.each<[string, boolean]>([
    ['true || int("abc") > 3', true],
    ['1.0 / 0.0 > 1.0', true],
    ['duration("90s").getMinutes() == 1', true],
    ['chat.cap / 2 == 2048', true],
    ['cel.bind(plan, account.plan, plan == "a" || plan == "free")', true],
    ['{"free": 5, "pro": 50}[account.plan] < 10', true],
    ['[1, 2, 3].map(n, n * 2).exists(n, n == 6) && b"a" != b"b"', true],
  ])('%s is accepted', (source, expected) => {
    expect(compile(source).evaluate(whenFacts(context()))).toBe(expected)
  })
})

describe('a condition that a client could make slow is refused', () => {
  const letters = 'header("x").split("")'
  const digits = JSON.stringify(Array.from({ length: 10 }, (_, i) => i))
  test.each<[string, string]>([
    [
      `${letters}.exists(a, ${letters}.exists(b, a == "b"))`,
      ' million steps for one request, and 1 million are allowed; read a value',
    ],
    [`${letters}.exists(a, header("y").contains(a))`, 'a client could block the gateway here'],
    [`${letters}.exists(a, a in header("y").split(""))`, 'a client could'],
    [`${letters}.map(a, header("x")).join("") == ""`, 'a client could'],
    [`${letters}.map(a, header("x")).exists(b, b.contains("zz"))`, 'a client could'],
    [`${letters}.join(header("y")).contains("b")`, 'a client could'],
    [`${letters}${'.join("0123456789").split("")'.repeat(4)}.size() > 1`, 'a client could'],
    [`request.path.split("/").all(a, request.path.split("/").exists_one(b, a == b))`, 'a client could'],
    [`["x"].map(n, header(n)).exists(h, h.split("").exists(a, h.split("").exists(b, a == b)))`, 'a client could'],
    [`cel.bind(h, ${letters}, h.exists(a, h.exists(b, a == b)))`, 'a client could'],
    [
      `${'abcdefg'
        .split('')
        .map(each => `${digits}.exists(${each}, `)
        .join('')}a + g == chat.cap${')'.repeat(7)}`,
      'a client',
    ],
    ['duration(header("x")) > duration("1s")', 'use duration() only with a constant text'],
  ])('%.70s', (source, message) => {
    const result = compileWhen(source, { given: new Set(FACTS), missing: () => ({ message: '' }) })
    const error = 'error' in result ? result.error : null
    expect(`${error?.message}; ${error?.suggestion}`).toContain(message)
  })

  /** Each is evaluated with headers of about the maximum length. */
  test.each([
    `${letters}.exists(a, a.trim() == "b")`,
    'header("x").split(",").exists(team, team.trim().lowerAscii() == account.plan)',
    '["a", "b", "c", "d", "e", "f"].exists(n, header("x").split(",").exists(team, team == n))',
    '"vip" in header("x").split(",").map(team, team.trim())',
    'header("x").split(";").filter(a, a.startsWith("k=")).exists(a, a.split("=")[1] == "v")',
    'header("x").contains(header("y")) && header("x").endsWith(account.name)',
    'request.path.split("/").all(part, size(part) < 40)',
    `account.name.split(" ").exists(a, account.name.split(" ").exists(b, a == b + b))`,
  ])('%.70s is accepted and fast', source => {
    const { evaluate } = compile(source)
    for (const x of ['a'.repeat(15_000), ','.repeat(15_000), 'k=1;'.repeat(3_500)]) {
      const facts = whenFacts(context({ headers: { x, y: 'a'.repeat(1_000) } }))
      const started = performance.now()
      evaluate(facts)
      expectWithin(performance.now() - started, 1_000)
    }
  })
})
