/** Unreachable steps and routes, and conditions without effect. The mark ▸ shows where the problem must be reported. */
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { type RoutePath, truthOf } from '../../../src/config/conditions/truth.ts'
import { compileWhen, whenFacts } from '../../../src/config/conditions/when.ts'
import { loadConfiguration } from '../../../src/config/load.ts'
import { createRegistry } from '../../../src/loader/registry.ts'
import { standIns } from '../stand-ins.ts'
import { ENV, expectProblems, type Files, HERE, openWorkshop, PARTS, STANDARD, textsOf } from '../workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const limited = (when: string) =>
  `steps:\n  - use: api-key\n  - use: schema\n  - use: remark\n    when: ${when}\n  - use: credits\n  - use: route\n`
const two = (policy: string): Files => ({
  standard: policy,
  gateway: { routes: `${PARTS.routes}\n  - { path: /v1/messages, policy: standard }` },
})
const raw = (path: string, more = ''): Files => ({
  gateway: {
    routes: `${PARTS.routes}\n  - { path: ${path}, kind: raw, policy: catalog, provider: far, price: free${more} }`,
  },
})

type Row = readonly [name: string, files: Files, rule: string, says: string]

const NEVER: Row[] = [
  ['the word false', { standard: limited('▸"false"') }, 'unreachable-step', 'the condition is never true, so "remark"'],
  [
    'the word true',
    { standard: limited('▸"true"') },
    'constant-when',
    'the condition is always true; remove this line',
  ],
  ['false after &&', { standard: limited('▸chat.stream && false') }, 'unreachable-step', 'never true'],
  ['true after ||', { standard: limited('▸chat.stream || true') }, 'constant-when', 'always true'],
  ['numbers only', { standard: limited('▸1 > 2') }, 'unreachable-step', 'never true'],
  [
    'a field with two values at once',
    { standard: limited('▸account.plan == "free" && account.plan == "pro"') },
    'unreachable-step',
    'never true',
  ],
  [
    'a field with a value outside of its list',
    { standard: limited('▸key.name in ["a", "b"] && key.name == "c"') },
    'unreachable-step',
    'never true',
  ],
  ['a list without entries', { standard: limited('▸key.name in []') }, 'unreachable-step', 'never true'],
  [
    'a path that no route of the policy has',
    { standard: limited('▸request.path == "/v1/messages"') },
    'unreachable-step',
    'the condition is never true on POST /v1/chat/completions, where this policy is used, so "remark" never runs',
  ],
  [
    'a method that no route of the policy takes',
    two(limited('▸request.method == "GET"')),
    'unreachable-step',
    'never true on POST /v1/chat/completions, POST /v1/messages and POST /v1/messages/count_tokens, where',
  ],
  ...[
    'chat.stream && !chat.stream',
    'account.plan == "free" && account.plan != "free"',
    'size(account.plan) > 5 && size(account.plan) < 3',
  ].map(
    (when): Row => [when, { standard: limited(`▸${when}`) }, 'unreachable-step', 'the condition is never true, so'],
  ),
  [
    'a prefix of another path',
    { standard: limited('▸request.path.startsWith("/office/")') },
    'unreachable-step',
    'never true',
  ],
]

const LARGE = `${PARTS.models}
  large: { targets: [ { provider: demo, model: tiny } ], price: free, context: 64Ki, max_output: 4Ki }`
const SIZES: Row[] = [
  ...['model.context > 1000000', 'chat.cap > model.max_output', 'model.max_output * 20 < model.context'].map(
    (when): Row => [
      when,
      { standard: limited(`▸${when}`), gateway: { models: LARGE } },
      'unreachable-step',
      'the condition is false for every model of the catalog, so "remark" never runs; the largest context is 65536, the largest max_output 4096',
    ],
  ),
  [
    'a size of a disabled model',
    {
      standard: limited('▸model.context > 10000'),
      gateway: { models: LARGE.replace('price: free', 'price: free, enabled: false') },
    },
    'unreachable-step',
    'the largest context is 8192, the largest max_output 1024',
  ],
]

const NAMED = PARTS.models.replace('targets:', 'aliases: [tiny, fast]\n    targets:')
const MODELS: Row[] = [
  [
    'an unknown model in a list, after a known one',
    { standard: limited('chat.stream && !(model.id in ["small", ▸"haiku"])') },
    'unknown-model',
    'unknown model "haiku"; the models are small',
  ],
  [
    'an unknown model on the left, compared with the requested name',
    { standard: limited('\'▸"large" != chat.model\'') },
    'unknown-model',
    'unknown model "large"',
  ],
  [
    'an alias compared with model.id',
    { standard: limited('model.id == ▸"fast"'), gateway: { models: NAMED } },
    'unknown-model',
    '"fast" is an alias, but model.id is the id of a model; write "small", or chat.model',
  ],
  [
    'an unknown model in a variable',
    { standard: limited('▸\'model.id == "${FAR_KEY}"\'') },
    'unknown-model',
    'the condition names an unknown model after its ${…} are replaced',
  ],
]

const ROUTES: Row[] = [
  [
    'a path twice',
    raw('/v1/files', ` }\n  - { path: ▸/v1/files, kind: raw, policy: catalog, provider: far, price: free`),
    'duplicate-path',
    'the path /v1/files exists already (line 16); remove one of the two',
  ],
  [
    'a path that the gateway answers',
    raw('▸/livez'),
    'unreachable-route',
    '/livez is served by the gateway itself; remove this route',
  ],
  [
    'two dots',
    raw('▸/v1/../files'),
    'unreachable-route',
    'no client can request /v1/../files: ".." is resolved before a request is sent',
  ],
  ['one dot', raw('▸/v1/./files'), 'unreachable-route', '"." is resolved before a request is sent'],
  [
    'dots at the end of a known path',
    raw('▸/../v1/messages'),
    'unreachable-route',
    'no client can request /../v1/messages: ".." is resolved before a request is sent',
  ],
]

const IDS: Row[] = [
  [
    'a plugin twice without an id',
    { standard: `${STANDARD}  - use: remark\n  - use: ▸remark\n` },
    'duplicate-id',
    'the id "remark" exists already (line 6)',
  ],
  [
    'an id that is the name of another plugin',
    { standard: `${STANDARD}  - use: remark\n    id: ▸credits\n` },
    'duplicate-id',
    'the id "credits" exists already (line 4)',
  ],
]

test.each([...NEVER, ...SIZES, ...MODELS, ...ROUTES, ...IDS])('%s', async (_, files, rule, says) => {
  await expectProblems(workshop, files, says)
  expect((await workshop.problems(files))[0]!.rule).toBe(rule)
})

describe('no problem', () => {
  test.each<[string, Files]>([
    ['a step that is off, whatever its condition', { standard: limited('"false"\n    mode: off') }],
    ['a path of one of two routes', two(limited('request.path == "/v1/messages"'))],
    ['a header of the client', { standard: limited('header("x") == "a" && chat.stream') }],
    ['two values of two fields', { standard: limited('account.plan == "free" && key.name == "pro"') }],
    ['two values of one field with ||', { standard: limited('key.name == "a" || key.name == "b"') }],
    [
      'a method that all current routes have: the policy may get other routes',
      { standard: limited('request.method == "POST"') },
    ],
    ['a model by its id', { standard: limited('model.id in ["small"] && chat.model == "small"') }],
    ['an alias as the requested name', { standard: limited('chat.model == "fast"'), gateway: { models: NAMED } }],
    [
      'a part of a model id, and a value of another fact',
      { standard: limited('model.id.startsWith("x") || key.name == "x"') },
    ],
    ['an unknown model, for a step that is off', { standard: limited('model.id == "x"\n    mode: off') }],
    ['a size of one of the models', { standard: limited('model.context > 10000'), gateway: { models: LARGE } }],
    ['a size that every current model has', { standard: limited('model.context > 100') }],
    ['an impossible size with ||', { standard: limited('model.context > 1000000 || chat.stream') }],
    ['a cap compared with a part of max_output', { standard: limited('chat.cap > model.max_output / 2') }],
    ['a size, for a step that is off', { standard: limited('model.context > 1000000\n    mode: off') }],
    ['a more exact path after one with braces', raw('"/v1/files/{id}"')],
  ])('%s', async (_, files) => {
    await workshop.good(files)
  })
})

test('sizes are not checked while a model is invalid', async () => {
  const models = LARGE.replace('64Ki', '▸many')
  await expectProblems(
    workshop,
    { standard: limited('model.context > 10000'), gateway: { models } },
    'not a whole number',
  )
})

test('sizes are not checked if a local plugin gives the model', async () => {
  const giver = definePlugin({
    name: 'giver',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    gives: ['chat', 'model', 'targets'],
    create: () => async () => {},
  })
  const load = async () => ({ plugin: giver, origin: 'file', foreign: false, file: '/p.ts' }) as const
  const registry = { ...createRegistry(standIns), load }
  const readFile = reader(limited('chat.cap > model.max_output').replace('schema', './plugins/p.ts'))
  const result = await loadConfiguration('/nowhere/gateway.yaml', { env: ENV, registry, readFile })
  expect('problems' in result ? result.problems.map(({ message }) => message) : []).toEqual([
    expect.stringContaining('gives targets, which'),
  ])
})

test('a policy is not checked while one of its routes is invalid', async () => {
  const routes = `${PARTS.routes}\n  - { path: ▸/v1/mesages, policy: standard }`
  await expectProblems(
    workshop,
    { standard: limited('request.path == "/v1/messages"'), gateway: { routes } },
    'the path /v1/mesages is unknown',
  )
})

test('with a Koa middleware a policy gets OPTIONS requests, so a condition may name that method', async () => {
  const foreign = {
    plugin: standIns.find(({ name }) => name === 'remark')!,
    origin: 'npm',
    foreign: true,
    file: null,
  } as const
  const load = async () => foreign
  const registry = { ...createRegistry(standIns), load }
  const check = async (standard: string) => {
    const result = await loadConfiguration('/nowhere/gateway.yaml', { env: ENV, registry, readFile: reader(standard) })
    return 'problems' in result ? result.problems.map(({ rule }) => rule) : []
  }
  const policy = `${STANDARD}  - use: remark\n    when: request.method == "OPTIONS"\n`
  expect(await check(policy)).toEqual(['unreachable-step'])
  expect(await check(policy.replace('steps:', 'steps:\n  - use: npm:cors\n    id: cors'))).toEqual([])
})

/** Reads the good configuration with another policy from memory. */
function reader(standard: string) {
  const files = Object.entries(textsOf({ standard }))
  return async (path: string) => {
    const text = files.find(([name]) => path.endsWith(name))?.[1]
    if (text === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    return text.replaceAll(HERE, '')
  }
}

test('steps after one that ends every request are unreachable', async () => {
  const wall = definePlugin({
    name: 'wall',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => async () => {
      throw new Error('never called')
    },
  })
  const registry = createRegistry([...standIns, Object.assign(wall, { ends: true })])
  const check = async (standard: string) => {
    const result = await loadConfiguration('/nowhere/gateway.yaml', { env: ENV, registry, readFile: reader(standard) })
    if (!('problems' in result)) return []
    return result.problems.map(({ rule, line, column, message }) => [rule, line, column, message])
  }
  const policy = (more: string) => `${STANDARD}  - use: wall\n${more}  - use: remark\n`
  expect(await check(policy(''))).toEqual([
    [
      'unreachable-step',
      7,
      10,
      '"remark" never runs: the step "wall" (line 6) answers or refuses every request before it',
    ],
  ])
  expect(await check(policy('    when: chat.stream\n'))).toEqual([])
  expect(await check(policy('    mode: off\n'))).toEqual([])
})

describe('truthOf', () => {
  const routePath: RoutePath = { method: 'POST', path: '/v1/messages' }
  const braces: RoutePath = { method: 'GET', path: '/v1/files/{id}' }
  test.each<[string, RoutePath | null, boolean | null]>([
    ['request.method == "POST"', routePath, true],
    ['request.method == "POST"', braces, false],
    ['request.method == "POST"', null, null],
    ['request.method in ["GET", "PUT"]', routePath, false],
    ['request.path.contains("files")', braces, null],
    ['request.path.endsWith("/messages") && chat.stream', routePath, null],
    ['!(request.path == "/v1/messages")', routePath, false],
    ['request.method == "POST" ? chat.stream : true', routePath, null],
    ['request.method == "GET" ? chat.stream : true', routePath, true],
    ['chat.stream || !chat.stream', routePath, true],
    ['chat.stream && !chat.stream', null, false],
    ['chat.stream || key.name == "a" && !chat.stream', null, null],
    ['account.plan == "free" && account.plan != "free"', null, false],
    ['account.plan != "a" || account.plan != "b"', null, true],
    ['account.plan in ["a", "b"] && !(account.plan == "a" || account.plan in ["b", "c"])', null, false],
    ['account.plan in ["a", "b"] && account.plan != "a"', null, null],
    ['key.name == account.plan && account.plan != key.name', null, false],
    ['size(account.plan) > 5 && size(account.plan) < 3', null, false],
    ['size(account.plan) > 5 && size(key.name) < 3', null, null],
    ['3 >= size(account.plan) && size(account.plan) > 3', null, false],
    ['chat.cap >= 3 && chat.cap <= 3', null, null],
    ['chat.cap == 3 && chat.cap > 5', null, false],
    ['chat.cap == 3 && double(chat.cap) == 3.0', null, null],
    ['!(chat.cap > 5) && chat.cap < 3', null, null],
    ['header("a") == "x" && header("b") == "y"', null, null],
    ['header("a") == "x" && header("a") == "y"', null, false],
    ['key.name == "a" && (chat.stream && key.name == "b")', null, false],
    ['uint(chat.cap) > 6u && !(uint(chat.cap) > 5u)', null, null],
    ['uint(chat.cap) > 5u && !(uint(chat.cap) > 6u)', null, null],
    ['chat.cap > 5 && 2 <= 1', null, false],
    ['"free" == account.plan && account.plan in ["pro"]', null, false],
    ['account.plan == key.name && account.plan == "a"', null, null],
    ['this is not CEL', null, null],
    ['b"a" == b"a"', routePath, null],
    ['b"a" != b"a"', routePath, null],
  ])('%s', (when, at, expected) => expect(truthOf(when, at)).toBe(expected))

  test.each<[string, boolean | null]>([
    ['model.context > 8000', true],
    ['model.context > 8192 || model.max_output == 1024', true],
    ['model.max_output * 8 < model.context', false],
    ['model.context / (model.max_output - 1024) > 1', null],
    ['9223372036854775807 + model.context > 0', null],
    ['chat.cap > model.max_output', false],
    ['model.max_output >= chat.cap', true],
    ['1024 < chat.cap', false],
    ['chat.cap >= 1024', null],
    ['chat.cap == 1025', false],
    ['chat.cap != 1025', true],
    ['chat.cap > 10', null],
  ])('of a model with 8192 tokens, of which 1024 may be an answer: %s', (when, expected) => {
    expect(truthOf(when, null, { context: 8192, maxOutput: 1024 })).toBe(expected)
  })
})

/** Conditions of every form that `truthOf` can decide, on facts with two values each. */
const atoms = [
  'true',
  'false',
  'chat.stream',
  'request.method == "POST"',
  'request.method != "GET"',
  'request.path == "/v1/messages"',
  'request.path in ["/v1/messages", "/v1/x"]',
  'request.path.startsWith("/v1/m")',
  'account.plan == "a"',
  '"b" == account.plan',
  'account.plan in ["a", "c"]',
  'account.plan != "a"',
  'key.name == "a"',
  'account.plan == key.name',
  'account.plan != key.name',
  'size(account.plan) < 1',
  'chat.cap > 5',
  'chat.cap <= 5',
  'chat.cap < 9',
  'chat.cap == 9',
  '9 < chat.cap',
  '1 + 1 == 2',
]
const { condition } = fc.letrec<{ condition: string }>(tie => ({
  condition: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(...atoms),
    fc.tuple(tie('condition'), fc.constantFrom('&&', '||'), tie('condition')).map(([a, op, b]) => `(${a} ${op} ${b})`),
    tie('condition').map(inner => `!(${inner})`),
    fc.tuple(tie('condition'), tie('condition'), tie('condition')).map(([a, b, c]) => `(${a} ? ${b} : ${c})`),
  ),
}))

test('a condition that `truthOf` calls always or never true is so for every request', () => {
  let opinions = 0
  const plan = fc.constantFrom('a', 'b')
  const words = fc.record({ method: fc.constantFrom('GET', 'POST'), path: fc.constantFrom('/v1/messages', '/v1/x') })
  const facts = fc.record({ plan, name: plan, stream: fc.boolean(), cap: fc.constantFrom(1, 9), routePath: words })
  fc.assert(
    fc.property(condition, facts, (when, { plan, name, stream, cap, routePath }) => {
      const given = new Set(['key', 'account', 'chat'] as const)
      const compiled = compileWhen(when, { given, missing: () => ({ message: '' }) })
      if (!('when' in compiled)) throw new Error(compiled.error.message)
      const exchange = { address: '', account: { plan }, key: { name }, chat: { stream, cap } }
      const value = compiled.when.evaluate(whenFacts({ ...routePath, get: () => '', exchange } as never))
      for (const known of [null, routePath]) {
        const opinion = truthOf(when, known)
        if (opinion === null) continue
        opinions++
        if (opinion !== value) throw new Error(`${when} is ${value}`)
      }
    }),
    { numRuns: 2000, seed: 6 },
  )
  expect(opinions).toBeGreaterThan(200)
})
