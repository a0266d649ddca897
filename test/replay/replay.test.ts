import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { type AnyPlugin, definePlugin } from '#contract'
import type { Configuration } from '../../src/config/configuration.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { createRegistry } from '../../src/loader/registry.ts'
import { type ReplayOptions, replay } from '../../src/replay/replay.ts'
import { at, batchesOf, lineWith, refusedLine } from './lines.ts'

const folder = mkdtempSync(join(tmpdir(), 'replay-'))
mkdirSync(join(folder, 'policies'))
afterAll(() => rmSync(folder, { recursive: true }))

const LAST = [{ use: 'credits' }, { use: 'route' }]
const FIRST = [{ use: 'api-key' }, { use: 'schema' }]

const GATEWAY = {
  version: 1,
  store: 'memory',
  providers: { p: { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1' } },
  models: {
    m: {
      targets: [{ provider: 'p', model: 'up' }],
      price: { per: '1M tokens', input: '$1', output: '$2' },
      context: 8192,
      max_output: 1000,
    },
  },
  routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
}

/** Loads a configuration as a command does, without starting anything. */
async function configurationOf(
  steps: readonly object[],
  {
    yaml = {},
    plugins = [],
    files = {},
  }: {
    readonly yaml?: object
    readonly plugins?: readonly AnyPlugin[]
    readonly files?: Readonly<Record<string, object>>
  } = {},
): Promise<Configuration> {
  const texts: Readonly<Record<string, object>> = {
    [join(folder, 'gateway.yaml')]: { ...GATEWAY, ...yaml },
    [join(folder, 'policies/standard.yaml')]: { steps },
    ...Object.fromEntries(Object.entries(files).map(([name, content]) => [join(folder, name), content])),
  }
  const loaded = await loadConfiguration(join(folder, 'gateway.yaml'), {
    env: {},
    registry: createRegistry([...BUILT_IN, ...plugins]),
    readFile: async path => (texts[path] ? JSON.stringify(texts[path]) : Promise.reject(enoent(path))),
  })
  if ('problems' in loaded) throw new Error(loaded.problems.map(({ message }) => message).join('\n'))
  return loaded.configuration
}

function enoent(path: string): Error {
  return Object.assign(new Error(`there is no ${path}`), { code: 'ENOENT' })
}

const between = (...steps: object[]) => configurationOf([...FIRST, ...steps, ...LAST])

async function replayed(configuration: Configuration, lines: readonly object[], options: Partial<ReplayOptions> = {}) {
  const result = await replay(batchesOf(lines), {
    configuration,
    against: null,
    balanceOf: () => null,
    hasBalances: false,
    limit: Number.POSITIVE_INFINITY,
    account: null,
    progress() {},
    ...options,
  })
  const changes = [...result.found.changes.values()].map(
    ({ before, after, lines: count }) =>
      `${count}x ${before.code ?? before.status} (${before.decidedBy ?? 'answered'}) > ${after.code ?? after.status} (${after.decidedBy ?? 'answered'})`,
  )
  return { ...result, changes }
}

/** `count` requests, one every `everyMs` milliseconds. */
const row = (count: number, everyMs: number, changes: object = {}) =>
  Array.from({ length: count }, (_, nth) => lineWith({ ...at(nth * everyMs), ...changes }))

describe('each step on the traffic', () => {
  test.each<[string, object, readonly object[], string[]]>([
    [
      'a rate limit uses the time of the lines',
      { use: 'rate-limit', with: { per: 'key', requests: '60 per minute', burst: 2 } },
      // At one request a second, each finds a refilled token.
      [...row(10, 1_000), ...row(5, 0, at(60_000))],
      ['3x 200 (answered) > rate_limit_exceeded (rate-limit)'],
    ],
    [
      'concurrency: requests that overlapped overlap again',
      { use: 'concurrency', with: { per: 'account', limit: 2 } },
      row(6, 300),
      // Each request lasts a second. The third and fourth find two in progress; the fifth gets the slot of the first.
      ['2x 200 (answered) > rate_limit_exceeded (concurrency)'],
    ],
    [
      'a queue: a waiting request is admitted when its turn comes',
      { use: 'concurrency', with: { per: 'account', limit: 2, queue: { length: 9, wait: '5s' } } },
      row(6, 300),
      [],
    ],
    [
      'a queue whose waiting time is over',
      { use: 'concurrency', with: { per: 'account', limit: 1, queue: { length: 9, wait: '1200ms' } } },
      row(4, 10),
      // Each request lasts a second. The first runs, then the second; by then the others have waited too long.
      ['2x 200 (answered) > rate_limit_exceeded (concurrency)'],
    ],
    [
      'a condition',
      { use: 'rate-limit', when: 'account.plan == "free"', with: { per: 'account', requests: '1 per minute' } },
      [...row(3, 10), ...row(3, 10, { account: { id: 'acc_2', name: 'b', plan: 'free' } })],
      ['2x 200 (answered) > rate_limit_exceeded (rate-limit)'],
    ],
    [
      'a step in shadow',
      { use: 'rate-limit', mode: 'shadow', with: { per: 'key', requests: '1 per day' } },
      row(5, 0),
      [],
    ],
    [
      'one address per key if the log has none',
      { use: 'rate-limit', with: { per: 'address', requests: '1 per day' } },
      [...row(2, 0), ...row(2, 0, { key: { id: 'key_2', name: 'b', models: null } })],
      ['2x 200 (answered) > rate_limit_exceeded (rate-limit)'],
    ],
    [
      'the recorded address',
      { use: 'rate-limit', with: { per: 'address', requests: '1 per day' } },
      [...row(2, 0, { address: '192.0.2.1' }), ...row(2, 0, { address: '192.0.2.2' })],
      ['2x 200 (answered) > rate_limit_exceeded (rate-limit)'],
    ],
    [
      'the recorded headers',
      { use: 'rate-limit', when: 'header("x-team") == "bläu"', with: { per: 'key', requests: '1 per day' } },
      [...row(2, 0, { headers: { 'x-team': 'bläu' } }), ...row(2, 0, { headers: {} }), ...row(2, 0)],
      ['1x 200 (answered) > rate_limit_exceeded (rate-limit)'],
    ],
  ])('%s', async (_name, step, lines, expected) => {
    expect((await replayed(await between(step), lines)).changes).toEqual(expected)
  })

  test.each<[string, object, object[], string[], string[]]>([
    [
      'the recorded tags, if they come from the request',
      { from: 'header x-team', client: true },
      [...row(2, 0, { tags: { team: 'ads' } }), ...row(2, 0, { tags: {} })],
      ['1x 200 (answered) > rate_limit_exceeded (rate-limit)'],
      [],
    ],
    ['no recorded tags: unknown', { from: 'header x-team', client: true }, row(2, 0), [], ['not run: tags']],
    [
      'the names of the caller, even if no tags are recorded',
      { from: 'key', default: 'ads' },
      row(2, 0, { key: { id: 'key_1', name: 'ads', models: null } }),
      ['1x 200 (answered) > rate_limit_exceeded (rate-limit)'],
      [],
    ],
  ])('%s', async (_name, team, lines, expected, unknown) => {
    const limit = { use: 'rate-limit', when: 'tags.team == "ads"', with: { per: 'key', requests: '1 per day' } }
    const steps = [{ use: 'api-key' }, { use: 'tags', with: { tags: { team } } }, limit, { use: 'schema' }, ...LAST]
    const { changes, found } = await replayed(await configurationOf(steps), lines)
    expect(changes).toEqual(expected)
    expect([...found.unknown.keys()]).toEqual(unknown)
  })

  test('requests that shadow would have refused are counted', async () => {
    const configuration = await between({
      use: 'rate-limit',
      mode: 'shadow',
      with: { per: 'key', requests: '1 per day' },
    })
    const { found } = await replayed(configuration, row(5, 0))
    expect([...found.shadow.values()]).toEqual([{ step: 'rate-limit', code: 'rate_limit_exceeded', lines: 4 }])
  })

  test('a replay writes no usage log and uses no network', async () => {
    const idp = { issuer: 'https://idp.invalid', audience: 'a', jwks: 'https://idp.invalid/keys', account: 'acme' }
    // A real `jwt` would fetch its keys, and a real `usage-log` could not open its file.
    const recording = { use: 'usage-log', with: { file: 'no/such/folder/never.jsonl' } }
    const configuration = await configurationOf([recording, { use: 'jwt', with: idp }, { use: 'schema' }, ...LAST])
    const refused = refusedLine(401, 'unauthorized', 'jwt', {
      account: null,
      key: null,
      request: { params: undefined },
    })
    const { changes, found, gaps } = await replayed(configuration, [...row(2, 0), refused])
    expect(changes).toEqual([])
    expect(found.unknown.size).toBe(0)
    expect(gaps.map(({ about }) => about)).toContain('jwt')
  })
})

describe('the caller', () => {
  const unknownCaller = { account: null, key: null, request: { params: undefined, model: undefined } }
  test.each(['missing_api_key', 'malformed_api_key', 'invalid_api_key', 'revoked_api_key', 'expired_api_key'])(
    '%s is refused again',
    async code => {
      const { changes, found } = await replayed(await between(), [refusedLine(401, code, 'api-key', unknownCaller)])
      expect({ changes, unknown: found.unknown.size }).toEqual({ changes: [], unknown: 0 })
    },
  )

  test('a frozen account is refused again', async () => {
    const lines = [
      refusedLine(403, 'account_frozen', 'api-key', unknownCaller),
      refusedLine(403, 'account_frozen', 'credits'),
    ]
    expect((await replayed(await between(), lines)).changes).toEqual([])
  })

  test('a line without a caller is not compared', async () => {
    const lines = [refusedLine(429, 'rate_limit_exceeded', 'door', unknownCaller)]
    const { changes, found } = await replayed(await between(), lines)
    expect(changes).toEqual([])
    expect([...found.unknown]).toEqual([['who', 1]])
  })

  test('a key may use only its models', async () => {
    const key = { id: 'key_1', name: 'a', models: ['other'] }
    expect((await replayed(await between(), [lineWith({ key })])).changes).toEqual([
      '1x 200 (answered) > model_not_found (schema)',
    ])
  })
})

describe('money', () => {
  const balanceOf = (amount: bigint) => ({ balanceOf: () => amount, hasBalances: true })
  // 60 bytes, 16 for the message, and 1000 tokens: $0.002076 is held. 10 + 2 x 20 is charged: $0.00005.
  const HOLD = 2_076_000n
  const CHARGE = 50_000n

  test('a request is charged as recorded, to the nano-dollar', async () => {
    const { found } = await replayed(await between(), row(20, 2_000), balanceOf(HOLD + 19n * CHARGE))
    expect(found.cost).toEqual({ before: 20n * CHARGE, after: 20n * CHARGE, estimated: 0n })
    expect(found.changed).toBe(0)
  })

  test('an account cannot spend more than its balance', async () => {
    const refuse = { use: 'credits', with: { when_short: ['refuse'] } }
    const configuration = await configurationOf([...FIRST, refuse, { use: 'route' }])
    const { changes, found } = await replayed(configuration, row(20, 2_000), balanceOf(HOLD + 9n * CHARGE))
    expect(changes).toEqual(['10x 200 (answered) > insufficient_quota (credits)'])
    expect(found.cost.after).toBe(10n * CHARGE)
  })

  test('credit held by requests in progress is not available', async () => {
    const refuse = { use: 'credits', with: { when_short: ['refuse'] } }
    const configuration = await configurationOf([...FIRST, refuse, { use: 'route' }])
    expect((await replayed(configuration, row(2, 500), balanceOf(HOLD + CHARGE))).changes).toEqual([
      '1x 200 (answered) > credit_on_hold (credits)',
    ])
  })

  test('a cap that the balance lowered shortens the answer', async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 900, source: 'reported' }
    const { changes, found } = await replayed(
      await between(),
      [lineWith({ usage, charged: '0.001810000' })],
      balanceOf(HOLD - 1n),
    )
    expect(changes).toEqual([])
    expect(found.cost.after).toBeLessThan(1_100_000n)
    expect(found.cost.after).toBeGreaterThan(0n)
  })

  test('without balances every account has enough credit, except for lines that were refused for credit', async () => {
    const lines = [
      ...row(3, 0),
      refusedLine(402, 'insufficient_quota', 'credits'),
      refusedLine(429, 'credit_on_hold', 'credits'),
      refusedLine(402, 'spending_cap_reached', 'credits'),
    ]
    const { changes, gaps } = await replayed(await between(), lines)
    expect(changes).toEqual([])
    expect(gaps.find(({ about }) => about === 'credit')!.sentence).toContain('2 of 6 lines that were short of it')
    expect(gaps.map(({ about }) => about)).toContain("keys' spending caps")
  })

  test('another price changes the cost', async () => {
    const models = {
      m: {
        targets: [{ provider: 'p', model: 'up' }],
        price: { per: '1M tokens', input: '$2', output: '$4' },
        context: 8192,
        max_output: 1000,
      },
    }
    const { found } = await replayed(await configurationOf([...FIRST, ...LAST], { yaml: { models } }), row(3, 0))
    expect(found.cost).toEqual({ before: 3n * CHARGE, after: 6n * CHARGE, estimated: 0n })
    expect([...found.models]).toEqual([['m', found.cost]])
    expect([...found.accounts.values()]).toEqual([{ name: 'acme', ...found.cost }])
  })

  test.each<[string, Record<string, unknown>, bigint]>([
    [
      'failed before the first token',
      { outcome: 'failed', status: 502, code: 'upstream_error', usage: null, charged: '0.000000000' },
      0n,
    ],
    ['the client disconnected', { outcome: 'client_left', status: null, decided_by: null, stream: true }, CHARGE],
    ['cut', { outcome: 'cut', status: 200, code: 'shutting_down', stream: true }, CHARGE],
  ])('%s: charged as recorded', async (_name, changes, charge) => {
    const { changes: found, found: counted } = await replayed(await between(), [lineWith(changes)])
    expect(found).toEqual([])
    expect(counted.cost.after).toBe(charge)
  })

  const prompt = { prompt_tokens: 10, completion_tokens: 0, total_tokens: 10, source: 'estimated' }
  const disconnected = { outcome: 'client_left', status: null, decided_by: null, stream: true, usage: prompt }
  test.each([
    ['charged', 'charged', undefined, '0.000010000', 10_000n],
    ['forgiven, and is charged now', 'charged', undefined, '0.000000000', 10_000n],
    ['charged, and is forgiven now', 'forgiven', 'cancel_free', '0.000010000', 0n],
  ])('a prompt without an answer: %s', async (_name, _now, on_disconnect, charged, after) => {
    const credits = { use: 'credits', ...(on_disconnect ? { with: { on_disconnect } } : {}) }
    const configuration = await configurationOf([...FIRST, credits, { use: 'route' }])
    const { found } = await replayed(configuration, [lineWith({ ...disconnected, charged })])
    expect(found.cost.after).toBe(after)
  })

  test('a refused request that is now admitted costs as much as an average answer, marked as an estimate', async () => {
    const lines = [...row(3, 2_000), refusedLine(429, 'rate_limit_exceeded', 'burst', at(9_000))]
    const { changes, found } = await replayed(await between(), lines)
    expect(changes).toEqual(['1x rate_limit_exceeded (burst) > 200 (answered)'])
    expect(found.estimated).toBe(1)
    expect(found.cost).toEqual({ before: 3n * CHARGE, after: 4n * CHARGE, estimated: CHARGE })
  })

  test('a refusal because of the body stays one if the body was not recorded', async () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }
    const lines = [
      refusedLine(400, 'invalid_value', 'schema'),
      refusedLine(400, 'invalid_value', 'schema', { request: { body } }),
    ]
    expect((await replayed(await between(), lines)).changes).toEqual(['1x invalid_value (schema) > 200 (answered)'])
  })
})

describe('a request that refers to a kept response, which no log has', () => {
  const routes = (more: object) => [{ path: '/v1/responses', policy: 'standard', ...more }]
  const keeping = (more: object) => configurationOf([...FIRST, ...LAST], { yaml: { routes: routes(more) } })
  const lines = [
    { previous_response_id: 'resp_1', input: 'Hello' },
    { input: [{ type: 'item_reference', id: 'msg_1_0' }] },
    { input: 'Hello' },
  ].map(body => lineWith({ route: '/v1/responses', kind: 'responses', request: { body: { model: 'm', ...body } } }))

  test('has no verdict if responses are kept, and is refused if they are not', async () => {
    const { changes, found } = await replayed(await keeping({ keep_responses: '1h' }), lines)
    expect({ changes, unknown: [...found.unknown] }).toEqual({ changes: [], unknown: [['kept', 2]] })
    const without = await replayed(await keeping({}), lines)
    expect(without.changes).toEqual(['2x 200 (answered) > unsupported_parameter (schema)'])
  })
})

describe('a verdict on an answer, whose text no log has', () => {
  const SAID = {
    outcome: 'failed',
    status: 400,
    code: 'content_filter',
    decided_by: 'guard',
    charged: '0.000000000',
    request: { body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] } },
  }
  const rule = { name: 'red', pattern: 'red', on: 'answer', action: 'refuse' }
  const guard = (changes: object = {}, step: object = {}) => ({
    use: 'guard',
    with: { rules: [{ ...rule, ...changes }] },
    ...step,
  })
  test.each<[string, readonly object[], readonly object[] | null, number]>([
    ['the step exists', [guard()], null, 0],
    ['the step was removed', [], null, 1],
    ['it is off', [guard({}, { mode: 'off' })], null, 1],
    ['it is in shadow', [guard({}, { mode: 'shadow' })], null, 1],
    ['its condition is false', [guard({}, { when: 'account.plan == "gold"' })], null, 1],
    ['it checks only requests', [guard({ on: 'request' })], null, 1],
    ['it is the same on both sides', [guard()], [guard()], 0],
    ['it has another rule', [guard({ pattern: 'blue' })], [guard()], 1],
    ['it was removed on one side', [], [guard()], 1],
    ['it is new on one side', [guard()], [], 1],
  ])('%s', async (_name, steps, before, unknown) => {
    const against = before && (await between(...before))
    const { changes, found, gaps } = await replayed(await between(...steps), [lineWith(SAID)], { against })
    expect(changes).toEqual([])
    expect([...found.unknown]).toEqual(unknown === 0 ? [] : [['answer', 1]])
    const looks = [...steps, ...(before ?? [])].some(step => !/"off"|"on":"request"/.test(JSON.stringify(step)))
    expect(gaps.some(({ about }) => about === 'answers')).toBe(looks)
  })
})

describe('a guard whose text is not in the log', () => {
  const RULE = { name: 'red', pattern: 'red', action: 'refuse' }
  const guard = (step: object = {}, rule: object = {}) => ({
    use: 'guard',
    with: { rules: [{ ...RULE, ...rule }] },
    ...step,
  })
  const SHADOW = { mode: 'shadow' }
  const WOULD = { trail: [{ step: 'guard', verdict: 'would_refuse', code: 'content_filter' }] }
  const PASSED = { trail: [{ step: 'guard', verdict: 'passed' }] }
  const KEPT = { request: { body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] } } }
  const REFUSED = ['1x 200 (answered) > content_filter (guard)']

  test.each<
    [string, Readonly<Record<string, unknown>>, readonly object[], readonly object[] | null, string[], string[]]
  >([
    ['from shadow to enforce, the verdict of shadow is applied', WOULD, [guard()], null, REFUSED, []],
    ['also against the recorded configuration', WOULD, [guard()], [guard(SHADOW)], REFUSED, []],
    ['in shadow it is reported again', WOULD, [guard(SHADOW)], null, [], []],
    ['shadow admitted it', PASSED, [guard()], [guard(SHADOW)], [], []],
    ['the log does not mention the step', {}, [guard()], null, [], ['words']],
    ['the log does not mention the step, which is in shadow', {}, [guard(SHADOW)], null, [], []],
    ['the step is new', {}, [guard()], [], [], ['words']],
    ['the step is the same on both sides', {}, [guard()], [guard()], [], []],
    ['other rules than those that admitted it', PASSED, [guard({}, { pattern: 'blue' })], [guard()], [], ['words']],
    ['other rules than those in shadow', WOULD, [guard({}, { pattern: 'blue' })], [guard(SHADOW)], [], ['words']],
    ['the verdict of shadow on an answer', WOULD, [guard({}, { on: 'answer' })], null, REFUSED, []],
    ['on a request or an answer', WOULD, [guard({}, { on: 'both' })], null, REFUSED, []],
    [
      'on an answer, with the text of the request',
      { ...WOULD, ...KEPT },
      [guard({}, { on: 'both' })],
      null,
      REFUSED,
      [],
    ],
    ['the text of the request is recorded', KEPT, [guard()], null, [], []],
  ])('%s', async (_name, said, steps, before, changes, unknown) => {
    const against = before && (await between(...before))
    const result = await replayed(await between(...steps), [lineWith(said)], { against })
    expect({ changes: result.changes, unknown: [...result.found.unknown.keys()] }).toEqual({ changes, unknown })
  })

  test('two routes share a policy, and one of them had another', async () => {
    const twoRoutes = (other: string) => ({
      routes: [
        { path: '/v1/chat/completions', policy: 'standard' },
        { path: '/eu/v1/chat/completions', policy: other },
      ],
    })
    const steps = [...FIRST, guard(), ...LAST]
    const plain = { 'policies/plain.yaml': { steps: [...FIRST, ...LAST] } }
    const configuration = await configurationOf(steps, { yaml: twoRoutes('standard') })
    const against = await configurationOf(steps, { yaml: twoRoutes('plain'), files: plain })
    const lines = [lineWith(), lineWith({ route: '/eu/v1/chat/completions' })]
    const { found, changes } = await replayed(configuration, lines, { against })
    expect({ changes, unknown: [...found.unknown] }).toEqual({ changes: [], unknown: [['words', 1]] })
  })
})

describe('a request that steps lengthen', () => {
  const system = 'x'.repeat(8_000)
  const prompt = (changes: object = {}) => ({ use: 'prompt', with: { system, ...changes } })
  // The message in JSON: its text, 31 bytes around it and a comma, at four bytes a token.
  const MORE = (8_000n + 32n) / 4n

  test('is charged for tokens that the other configuration does not send', async () => {
    const [plain, long] = [await between(), await between(prompt())]
    const kept = { body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] } }
    const lines = [...row(2, 2_000), lineWith({ ...at(6_000), request: { ...kept, bytes: 90 } })]
    const { found, changes } = await replayed(long, lines, { against: plain })
    expect({ changes, resized: found.resized, estimated: found.estimated }).toEqual({
      changes: [],
      resized: 3,
      estimated: 0,
    })
    expect(found.cost.after - found.cost.before).toBe(3n * MORE * 1_000n)
    const back = await replayed(plain, lines, { against: long })
    // Of 10 prompt tokens at least one is left.
    expect(back.found.cost.after).toBe(3n * 41_000n)
  })

  test('is not charged more if both sides lengthen it', async () => {
    const long = await between(prompt())
    const { found, gaps } = await replayed(long, row(2, 2_000), { against: long })
    expect([found.resized, found.cost.after - found.cost.before]).toEqual([0, 0n])
    expect(gaps.map(({ about }) => about)).not.toContain('prompts')
  })

  test('is charged more even if the other side refused it', async () => {
    const limit = { use: 'rate-limit', with: { per: 'key', requests: '1 per day' } }
    const long = await between(prompt())
    const lines = [...row(1, 0), refusedLine(429, 'rate_limit_exceeded', 'rate-limit', at(5_000))]
    const { found } = await replayed(long, lines, { against: await between(limit, prompt()) })
    expect([found.admitted, found.resized, found.cost.estimated]).toEqual([1, 0, 50_000n])
    const more = await replayed(long, lines, { against: await between(limit) })
    expect([more.found.resized, more.found.cost.estimated]).toEqual([2, 50_000n + MORE * 1_000n])
  })

  test('is unknown against the log alone, and reported as such', async () => {
    const { found, gaps } = await replayed(await between(prompt()), row(2, 2_000))
    expect(found.cost.after).toBe(found.cost.before)
    expect(gaps.find(({ about }) => about === 'prompts')!.sentence).toContain('"prompt" rewrote the requests then')
  })

  test('is unknown without text, because it may have its own instructions', async () => {
    const options = { against: await between() }
    const { gaps } = await replayed(await between(prompt({ position: 'replace' })), row(2, 2_000), options)
    expect(gaps.find(({ about }) => about === 'prompts')!.sentence).toContain('all lines have no text')
  })
})

test('accounts that are only in --balances or only in the log are reported', async () => {
  const other = { account: { id: 'acc_2', name: 'poor', plan: 'free' } }
  const lines = [...row(2, 2_000), ...row(2, 2_000, other)]
  const balanceGaps = async (balancesFor: readonly string[], rest: bigint | null = null) => {
    const options = { hasBalances: true, balancesFor, balanceOf: () => rest }
    const { gaps } = await replayed(await between(), lines, options)
    return gaps.flatMap(({ about, sentence }) => (about === 'balances' ? [sentence] : []))
  }
  expect(await balanceGaps(['acme', 'acc_2'])).toEqual([])
  expect(await balanceGaps(['acne', 'poor'])).toEqual([
    '"acne" in --balances is in no line that was taken; did you mean "acme"?',
    '"acme" of the log is not in --balances: the balance is enough.',
  ])
  expect(await balanceGaps(['a1', 'a2', 'a3', 'a4', 'a5', 'a6'], 5_000_000_000n)).toEqual([
    '"a1", "a2", "a3", "a4", "a5" and 1 more in --balances are in no line that was taken.',
    '"acme", "poor" of the log are not in --balances: the balance is the amount of --balance.',
  ])
})

describe('against another configuration', () => {
  test('only differences between the two are reported', async () => {
    const limit = (burst: number) => ({ use: 'rate-limit', with: { per: 'key', requests: '60 per minute', burst } })
    const [before, after] = [await between(limit(3)), await between(limit(2))]
    const against = { against: before }
    expect((await replayed(after, row(5, 0), against)).changes).toEqual([
      '1x 200 (answered) > rate_limit_exceeded (rate-limit)',
    ])
    expect((await replayed(before, row(5, 0), { against: after })).changes).toEqual([
      '1x rate_limit_exceeded (rate-limit) > 200 (answered)',
    ])
  })

  test('requests for a removed route or model are refused', async () => {
    const without = await configurationOf([...FIRST, ...LAST], {
      yaml: { routes: [{ path: '/office/v1/chat/completions', policy: 'standard' }] },
    })
    expect((await replayed(without, row(1, 0))).changes).toEqual(['1x 200 (answered) > unknown_url (gateway)'])
    const { changes } = await replayed(await between(), [lineWith({ model: 'old', request: { model: 'old' } })])
    expect(changes).toEqual(['1x 200 (answered) > model_not_found (schema)'])
  })
})

test('your own plugins that may run here do, and the report names them', async () => {
  const night = definePlugin({
    name: 'night',
    dryRun: true,
    uses: ['clock'],
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create:
      (_settings, { clock }) =>
      async (ctx, next) => {
        if (new Date(clock.now()).getUTCHours() >= 9) ctx.throw(403, 'closed')
        await next()
      },
  })
  const configuration = await configurationOf([...FIRST, { use: 'night' }, ...LAST], { plugins: [night] })
  const { changes, gaps } = await replayed(configuration, row(4, 1_800_000))
  expect(changes).toEqual(['2x 200 (answered) > forbidden (night)'])
  expect(gaps[0]!.sentence).toContain('"night"')
})

test.each<[string, object, boolean, string[], string[]]>([
  ['the log does not mention it', {}, true, [], ['not run: caller']],
  ['nor does the configuration it is compared with', {}, false, [], ['not run: caller']],
  ['it admitted the request', { trail: [{ step: 'caller', verdict: 'passed' }] }, false, [], []],
  [
    'it would have refused',
    { trail: [{ step: 'caller', verdict: 'would_refuse', code: 'forbidden' }] },
    false,
    ['1x 200 (answered) > forbidden (caller)'],
    [],
  ],
  ['it refused the request', refusedLine(403, 'forbidden', 'caller'), false, [], []],
])('your own plugin runs only if it declares it: %s', async (_name, said, isNew, changes, unknown) => {
  let made = 0
  const caller = definePlugin({
    name: 'caller',
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create() {
      made++
      throw new Error('this would have called a service')
    },
  })
  const configuration = await configurationOf([...FIRST, { use: 'caller' }, ...LAST], { plugins: [caller] })
  const against = isNew ? await between() : null
  const result = await replayed(configuration, [lineWith({ ...said, id: 'req_1' })], { against })
  expect({ changes: result.changes, unknown: [...result.found.unknown.keys()], made }).toEqual({
    changes,
    unknown,
    made: 0,
  })
  expect(result.gaps.find(({ about }) => about === 'not run')!.sentence).toContain('"caller"')
})

test('the caller is the recorded one if your own plugin identifies it', async () => {
  const badge = definePlugin({
    name: 'badge',
    gives: ['key', 'account'],
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create() {
      throw new Error('this would have called a service')
    },
  })
  const configuration = await configurationOf([{ use: 'badge' }, ...FIRST.slice(1), ...LAST], { plugins: [badge] })
  const { changes, found } = await replayed(configuration, row(2, 2_000))
  expect({ changes, unknown: found.unknown.size, accounts: [...found.accounts.keys()] }).toEqual({
    changes: [],
    unknown: 0,
    accounts: ['acc_1'],
  })
})

test('a replay waits for a plugin that uses real time', async () => {
  const slow = definePlugin({
    name: 'slow',
    dryRun: true,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => async (_ctx, next) => {
      await new Promise(resolve => setTimeout(resolve, 5))
      await next()
    },
  })
  const configuration = await configurationOf([...FIRST, { use: 'slow' }, ...LAST], { plugins: [slow] })
  const { found, changes } = await replayed(configuration, row(3, 0))
  expect({ lines: found.lines, unknown: found.unknown.size, changes }).toEqual({ lines: 3, unknown: 0, changes: [] })
})

test('a request that waits for ever is not compared', async () => {
  let count = 0
  const stuck = definePlugin({
    name: 'stuck',
    dryRun: true,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => async (_ctx, next) => {
      if (++count > 1) await new Promise(() => {})
      await next()
    },
  })
  const configuration = await configurationOf([...FIRST, { use: 'stuck' }, ...LAST], { plugins: [stuck] })
  const { found } = await replayed(configuration, row(4, 0))
  expect({ lines: found.lines, unknown: [...found.unknown] }).toEqual({ lines: 4, unknown: [['unfinished', 3]] })
})

test('a replay takes a maximum number of lines, or the lines of one account', async () => {
  const lines = [...row(4, 0), ...row(3, 0, { account: { id: 'acc_2', name: 'b', plan: 'free' } })]
  const configuration = await between()
  const first = await replayed(configuration, lines, { limit: 5 })
  expect([first.found.lines, first.passedBy]).toEqual([5, 2])
  for (const account of ['acc_2', 'b']) {
    const only = await replayed(configuration, lines, { account })
    expect([only.found.lines, only.passedBy]).toEqual([3, 4])
  }
})

test('a repeated line counts once', async () => {
  const lines = row(3, 100)
  const { found, twice } = await replayed(await between(), [...lines, ...lines])
  expect([found.lines, twice]).toEqual([3, 3])

  // The same holds if the first line ended long before.
  const refused = row(3, 60_000, { outcome: 'refused', status: 429, code: 'overloaded', decided_by: 'gateway' })
  const later = row(1, 3_600_000, { id: 'req_later' })
  const again = await replayed(await between(), [...refused, ...later, ...refused])
  expect([again.found.lines, again.twice]).toEqual([4, 3])
})
