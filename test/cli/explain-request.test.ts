import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CHAT, GATEWAY, LATE, STANDARD } from './explain-samples.ts'
import { makePlace, type Place, type Result } from './helpers.ts'

let place: Place
let server: Server
let connections: number
let env: Record<string, string>
beforeEach(async () => {
  place = makePlace(GATEWAY)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD)
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n  - use: credits\n')
  place.write('late.ts', LATE)
  connections = 0
  server = createServer(socket => {
    connections++
    socket.destroy()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  env = { NEAR_URL: `http://127.0.0.1:${port}/v1`, NEAR_KEY: 'sk-near-and-very-secret' }
})
afterEach(() => {
  server.close()
  place.remove()
  // No test may send anything.
  expect(connections).toBe(0)
})

async function explain(args: readonly string[]): Promise<Result> {
  const result = await place.tollgate(['explain', ...args], { env })
  expect(result.out + result.err).not.toContain('sk-near-and-very-secret')
  return result
}

/** Returns the text of an explanation, and the same as JSON. */
async function explainRequest(body: unknown, ...args: string[]) {
  place.write('request.json', typeof body === 'string' ? body : JSON.stringify(body))
  const { code, out, err } = await explain(['--request', 'request.json', ...args])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(Math.max(...out.split('\n').map(line => line.length))).toBeLessThanOrEqual(100)
  const { out: json } = await explain(['--request', 'request.json', ...args, '--json'])
  // Undoes the wrapping of long lines.
  return { out: out.replaceAll(/\n\s+/g, ' '), story: JSON.parse(json) }
}

const stepOf = (story: { steps: { id: string }[] }, id: string) => story.steps.find(step => step.id === id)

describe('requests that cannot be explained', () => {
  test.each([
    ['a missing file', 'nothing.json', [], 'the request nothing.json cannot be read: the file does not exist'],
    ['an unknown model', 'ok.json', ['--models', 'smal'], 'unknown model "smal"; did you mean "small"?'],
    ['an invalid status', 'ok.json', ['--upstream', '777'], '777 is not a status'],
    ['a misspelt key', 'misspelt.yaml', [], 'misspelt.yaml:2:1: unknown key "boddy"; did you mean "body"?'],
    ['an invalid path', 'path.yaml', [], 'path.yaml:1:7: path must be a path such as /v1/chat/completions'],
    ['a header of two lines', 'header.yaml', [], 'must be one line of text'],
    ['nothing', 'empty.yaml', [], 'empty.yaml:1:1:'],
  ])('%s', async (_name, file, args, sentence) => {
    place.write('ok.json', JSON.stringify(CHAT))
    place.write('misspelt.yaml', 'method: POST\nboddy: {}\n')
    place.write('path.yaml', 'path: v1\n')
    place.write('header.yaml', 'headers: { x-a: "a\\nb" }\n')
    place.write('empty.yaml', '')
    const { code, out, err } = await explain(['--request', file, ...args])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(sentence)
  })

  test.each([
    ['--at', 'soon', 'a time such as'],
    ['--at', '2027-02-31T25:00:00Z', 'a time such as'],
    ['--balance', 'much', 'amount of dollars'],
    ['--header', 'x-team', "'name: value'"],
    ['--header', 'x team: a', 'valid header.'],
  ])('%s %s', async (option, value, sentence) => {
    const { code, err } = await explain(['--request', 'x', option, value])
    expect(code).toBe(2)
    expect(err).toContain(sentence)
  })
})

describe('refused before any step', () => {
  test('an unknown path: the nearest one is suggested', async () => {
    const { out, story } = await explainRequest(CHAT, '--path', '/chat/completions')
    expect(story.verdict).toMatchObject({ status: 404, code: 'unknown_url', decided_by: 'gateway' })
    expect(out).toContain('for operators: did you mean /v1/chat/completions?')
  })

  test('a wrong method: the right one is suggested', async () => {
    place.write('get.yaml', 'method: GET\npath: /v1/chat/completions\n')
    const { code, out } = await explain(['--request', 'get.yaml'])
    expect(code).toBe(0)
    expect(out).toMatch(/VERDICT {2}405 method_not_allowed, decided by gateway/)
    expect(out).toContain('GET is not for /v1/chat/completions; use POST.')
  })
})

describe('refused by a step', () => {
  test.each([
    ['a text that is not JSON', '{"model": ', { code: 'invalid_json', decided_by: 'schema' }],
    ['a duplicate key', '{"model":"small","model":"retired"}', { status: 400, decided_by: 'schema' }],
    ['a misspelt parameter', { ...CHAT, temprature: 1 }, { code: 'unknown_parameter', decided_by: 'schema' }],
  ])('%s', async (_name, body, verdict) => {
    const { story } = await explainRequest(body)
    expect(story.verdict).toMatchObject({ ...verdict, message: expect.stringMatching(/./) })
    expect(stepOf(story, 'schema')).toMatchObject({ verdict: 'refused', reason: story.verdict.message })
    expect(stepOf(story, 'credits')).toMatchObject({ verdict: 'not reached' })
    expect(story.sent).toEqual([])
  })

  test.each([
    ['that is misspelt', 'smal', [], 'this model does not exist; did you mean "small"?'],
    ['that the key may not use', 'small', ['--models', 'hidden,retired'], 'the key can only use hidden and retired'],
    ['that is not public', 'hidden', [], 'not public: a key must list it'],
    ['that is disabled', 'retired', ['--models', 'retired'], 'has enabled: false'],
  ])('a model %s: the reason is shown here but not to the client', async (_name, model, args, detail) => {
    const { story } = await explainRequest({ ...CHAT, model }, ...args)
    expect(story.verdict).toMatchObject({
      status: 404,
      code: 'model_not_found',
      detail: expect.stringContaining(detail),
    })
    expect(story.verdict.message).not.toContain(detail)
  })

  test('without a key, and with a malformed one', async () => {
    const none = await explainRequest(CHAT, '--header', 'authorization:')
    expect(none.story.verdict).toMatchObject({ status: 401, code: 'missing_api_key', decided_by: 'api-key' })
    const unknown = await explainRequest(CHAT, '--header', 'Authorization: Bearer whatever')
    expect(unknown.story.verdict).toMatchObject({ status: 401, code: 'malformed_api_key' })
  })

  test('too little credit: the amounts needed and available, and no retry by clients', async () => {
    const { out, story } = await explainRequest(CHAT, '--balance', '0')
    expect(story.verdict).toMatchObject({ status: 402, code: 'insufficient_quota', decided_by: 'credits' })
    expect(out).toMatch(/for operators: needs \$0\.00208\d*, and \$0\.000\d+ with the output cap lowered to 64 tokens/)
    expect(out).toContain('the account has $0 available and $0 on hold')
    expect(out).toContain('client libraries do not retry (x-should-retry: false)')
    expect(story.hold).toBeNull()
  })
})

describe('a condition shows the values that it uses', () => {
  test('that is false', async () => {
    const { story } = await explainRequest(CHAT)
    expect(stepOf(story, 'free')).toMatchObject({
      verdict: 'skipped',
      reason:
        'account.plan == "free" && header("x-team") != "cats" is false: account.plan is "default", header("x-team") is ""',
    })
  })

  test('that is true, and the remainder of the limit', async () => {
    const { story } = await explainRequest(CHAT, '--plan', 'free', '--header', 'x-team: mice', '--account', 'mouse')
    expect(stepOf(story, 'free')).toMatchObject({
      verdict: 'passed',
      reason: expect.stringContaining('is true: account.plan is "free", header("x-team") is "mice"'),
      otherwise: expect.stringContaining('4 of 5 requests left, full again in 3s; refused when none are left; took 10'),
    })
    expect(story.given).toMatchObject({ account: 'mouse', plan: 'free' })
  })
})

describe('a custom step', () => {
  test('in shadow mode: the refusal that it would have sent', async () => {
    const { out, story } = await explainRequest(CHAT, '--header', 'x-late: yes')
    expect(story.verdict).toMatchObject({ status: 200, code: null, decided_by: null })
    expect(stepOf(story, 'late')).toMatchObject({ verdict: 'would_refuse', code: 'forbidden' })
    expect(out).toContain('would refuse forbidden in shadow mode, so the request continues; Too late for that.')
  })

  test('that refuses, and that throws', async () => {
    place.write('policies/standard.yaml', STANDARD.replace('    mode: shadow\n', ''))
    const refused = await explainRequest(CHAT, '--header', 'x-late: yes')
    expect(stepOf(refused.story, 'late')).toMatchObject({ verdict: 'refused', reason: 'Too late for that.' })
    const broken = await explainRequest(CHAT, '--header', 'x-break: yes')
    expect(broken.story.verdict).toMatchObject({ status: 500, code: 'plugin_error', decided_by: 'late' })
    expect(broken.out).toContain('it failed: a screw is loose')
    expect(broken.story.mistakes).toEqual([
      expect.stringMatching(/^the step "late" threw: a screw is loose \(.*late\.ts:7:\d+\)$/),
    ])
  })

  test('that returns late is awaited and reported', async () => {
    place.write('policies/standard.yaml', STANDARD.replace('    mode: shadow\n', ''))
    const { story } = await explainRequest(CHAT, '--header', 'x-linger: yes')
    expect(story.verdict).toMatchObject({ status: 200 })
    expect(stepOf(story, 'late')).toMatchObject({ verdict: 'late' })
    expect(story.mistakes).toEqual([
      'the step "late" did not return within 1000 ms after the answer ended or the client disconnected',
    ])
  })
})

describe('requests that pass', () => {
  test('the hold and the charge, with their formulas', async () => {
    const { story } = await explainRequest(
      { ...CHAT, max_tokens: 100, n: 2 },
      '--balance',
      '$1',
      '--upstream',
      'One two',
    )
    const bytes = JSON.stringify({ ...CHAT, max_tokens: 100, n: 2 }).length
    const ceiling = bytes + 16
    expect(story.hold).toMatchObject({
      amount: `0.000${ceiling + 400}000`,
      input_ceiling: ceiling,
      output_cap: 200,
      formula: `input ceiling ${ceiling} tokens (${bytes} bytes + 16 for each of 1 message) x $1/M + output cap 200 tokens (2 choices x 100) x $2/M`,
    })
    expect(Number(story.hold.available) + Number(story.hold.amount)).toBeCloseTo(1, 9)
    // 10 tokens of the prompt at $1, and 2 words in each of 2 choices at $2.
    expect(story.charge).toMatchObject({ amount: '0.000018000', source: 'reported' })
    expect(story.charge.formula).toBe('10 tokens of the prompt x $1/M + 4 tokens of the answer x $2/M')
    expect(stepOf(story, 'credits')).toMatchObject({
      otherwise: expect.stringContaining('of $1 available; with less than'),
    })
  })

  test('the hold and the charge with searches', async () => {
    const always = { ...CHAT, model: 'search', max_tokens: 100, web_search_options: {} }
    const { story } = await explainRequest(always, '--balance', '$1', '--upstream', 'One')
    expect(story.hold.formula).toBe(
      'input ceiling 8192 tokens (the whole context: its bytes do not show the number of tokens) x $1/M + output cap 100 tokens x $2/M + 1 search x $0.01',
    )
    expect(story.charge.formula).toContain(' of the answer x $2/M + 1 search x $0.01')
    const tools = [{ type: 'anthropic', anthropic: { type: 'web_search_20250305', name: 'web_search', max_uses: 3 } }]
    const { story: tool } = await explainRequest(
      { ...CHAT, model: 'claude', max_tokens: 100, tools },
      '--balance',
      '$1',
    )
    expect(tool.hold).toMatchObject({
      amount: '0.113920000',
      formula:
        'input ceiling 81920 tokens (10 passes of a search x the whole context) x $1/M + output cap 1000 tokens (10 passes of a search x 100) x $2/M + 3 searches x $0.01',
    })
  })

  test('with little credit the output cap is lowered, and the step and a header say so', async () => {
    const { story } = await explainRequest(CHAT, '--balance', '0.001')
    expect(stepOf(story, 'credits')).toMatchObject({
      verdict: 'passed',
      reason: expect.stringMatching(/^output capped at \d+ tokens: the balance does not pay for 1000$/),
      otherwise: expect.stringContaining(
        '; with less credit the output cap is lowered further, until the request is refused',
      ),
    })
    expect(story.headers).toHaveProperty('x-tollgate-max-output-tokens', String(story.hold.output_cap))
  })

  test('changes to the body that is sent', async () => {
    const { out, story } = await explainRequest({ ...CHAT, model: 'little', stream: true, max_tokens: 7 })
    expect(story.sent).toMatchObject([{ to: 'near/near-small', dialect: 'openai', path: '/chat/completions' }])
    expect(story.sent[0].changes).toEqual([
      { name: 'model', from: 'little', to: 'near-small' },
      { name: 'max_tokens', from: 7, to: null },
      { name: 'max_completion_tokens', from: null, to: 7 },
      { name: 'stream_options', from: null, to: { include_usage: true } },
    ])
    expect(out).toContain('model: "near-small" in place of "little"')
    expect(out).toContain('max_tokens: 7 was removed')
  })

  test('the chosen target, and the reasons against the others', async () => {
    const { out, story } = await explainRequest(CHAT)
    expect(story.targets).toMatchObject([
      { id: 'near/near-small', verdict: 'asked', why: '200' },
      { id: 'demo/demo-small', verdict: 'in reserve', why: expect.stringContaining('first for 25 % of requests') },
      { id: 'other/other-small', verdict: 'in reserve', why: 'priority 2, but near/near-small has 1' },
    ])
    expect(out).toContain('here the choice was near/near-small')
  })

  test.each([
    ['{ order: listed }', 'it is listed after near/near-small (order: listed)'],
    ['{ order: latency }', 'no latency was measured here,'],
    ['{ sticky: key }', 'but this key is bound to'],
  ])('another order: %s', async (settings, why) => {
    place.write('policies/standard.yaml', STANDARD.replace('use: route', `use: route\n    with: ${settings}`))
    const { out } = await explainRequest(CHAT)
    expect(out).toContain(why)
  })

  test('a failing provider is followed by the next target', async () => {
    const { story } = await explainRequest(
      CHAT,
      '--upstream',
      'unreachable',
      '--upstream',
      '503',
      '--upstream',
      'There.',
    )
    expect(story.verdict).toMatchObject({ status: 200 })
    expect(story.attempts).toHaveLength(3)
    expect(story.attempts.map(({ code }: { code: string | null }) => code)).toEqual([
      'upstream_unreachable',
      'upstream_overloaded',
      null,
    ])
    const failed = await explainRequest(CHAT, '--upstream', '401')
    expect(failed.story.verdict).toMatchObject({ decided_by: 'send' })
    expect(failed.story.charge).toMatchObject({ amount: '0.000000000', source: 'released' })
  })
})

describe('a parameter that the dialect does not support', () => {
  const LOSSY = GATEWAY.replace('      - { provider: near, model: near-small, weight: 3 }\n', '').replace(
    '      - { provider: demo, model: demo-small, weight: 1 }\n',
    '',
  )

  test('is dropped and reported', async () => {
    place.write('gateway.yaml', LOSSY)
    const { out, story } = await explainRequest({ ...CHAT, logit_bias: { '50256': -100 } })
    expect(story.verdict).toMatchObject({ status: 200 })
    expect(story.sent).toMatchObject([{ to: 'other/other-small', dialect: 'anthropic', dropped: ['logit_bias'] }])
    expect(story.sent[0].body).toMatchObject({ model: 'other-small', max_tokens: 1000 })
    expect(out).toContain('dropped parameters (x-tollgate-dropped): logit_bias')
  })

  test('excludes the target, if the policy says so', async () => {
    place.write(
      'policies/standard.yaml',
      STANDARD.replace('use: route', 'use: route\n    with: { on_dropped: refuse }'),
    )
    const body = { ...CHAT, logit_bias: { '50256': -100 } }
    const among = await explainRequest(body)
    expect(among.story.targets.at(-1)).toMatchObject({
      id: 'other/other-small',
      verdict: 'passed over',
      why: "anthropic: This model's provider does not support 'logit_bias'. Leave it out.",
    })
    place.write('gateway.yaml', LOSSY)
    const alone = await explainRequest(body)
    expect(alone.story.verdict).toMatchObject({ status: 400, code: 'unsupported_parameter', decided_by: 'send' })
    expect(alone.story.charge).toMatchObject({ amount: '0.000000000' })
  })
})

describe('other routes', () => {
  test('a request in another format, from YAML with its path', async () => {
    const body = { model: 'small', max_tokens: 50, messages: CHAT.messages }
    place.write('request.yaml', JSON.stringify({ method: 'POST', path: '/v1/messages', headers: { 'x-a': 'b' }, body }))
    const { code, out } = await explain(['--request', 'request.yaml', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ request: { path: '/v1/messages' }, verdict: { status: 200 } })
    expect(JSON.parse(out).sent[0].body).toMatchObject({ model: 'near-small', max_completion_tokens: 50 })
  })

  test('a body with `input` is sent to the route for such bodies', async () => {
    const { story } = await explainRequest({ model: 'small', input: 'Hello' })
    expect(story).toMatchObject({ request: { path: '/v1/responses' }, verdict: { status: 200 } })
  })

  test('raw: the body is unchanged and has the price of the route', async () => {
    const { out, story } = await explainRequest({ model: 'any', input: 'Hello' }, '--path', '/v1/embeddings')
    expect(story).toMatchObject({
      verdict: { status: 200 },
      hold: { amount: '0.010000000', formula: '$0.01 for the request' },
      sent: [{ to: 'near', dialect: 'raw', path: '/embeddings' }],
    })
    expect(out).toContain('the unchanged body')
    const held = await explainRequest({ input: 'Hello' }, '--path', '/v1/audio/speech')
    expect(held.story.hold).toMatchObject({ amount: '0.500000000', formula: 'the hold of the route' })
  })

  test('the catalog', async () => {
    place.write('models.yaml', 'path: /v1/models\n')
    const { out } = await explain(['--request', 'models.yaml', '--models', 'hidden'])
    expect(out).toContain('GET /v1/models · policy catalog')
    expect(out).toContain('VERDICT  200 answered\n')
    expect(out).toContain('can use hidden;')
  })
})

test('a token of an identity provider is assumed to be valid, and the provider is not contacted', async () => {
  const jwt = `{ issuer: me, audience: you, account: acme, jwks: "${env['NEAR_URL']}/keys" }`
  place.write('policies/standard.yaml', STANDARD.replace('use: api-key', `use: jwt\n    with: ${jwt}`))
  const { story } = await explainRequest(CHAT, '--models', 'small')
  expect(story.verdict).toMatchObject({ status: 200 })
  expect(stepOf(story, 'jwt')).toMatchObject({
    reason: 'assumed to be signed by the identity provider, which is not contacted here',
    otherwise: expect.stringContaining('the token can use small'),
  })
  const none = await explainRequest(CHAT, '--header', 'authorization:')
  expect(none.story.verdict).toMatchObject({ status: 401, code: 'missing_api_key', decided_by: 'jwt' })
})

test('nothing is written: the usage log of the policy is not opened', async () => {
  const log = 'use: usage-log\n    with: { file: usage.jsonl }\n  - use: concurrency\n    with: { per: key, limit: 3 }'
  place.write('policies/standard.yaml', STANDARD.replace('use: credits', `${log}\n  - use: credits`))
  const { story } = await explainRequest(CHAT)
  expect(stepOf(story, 'usage-log')).toMatchObject({ reason: 'not run here: it writes outside this process' })
  expect(stepOf(story, 'concurrency')).toMatchObject({ otherwise: 'refused with 3 in progress; this is the first' })
  expect(readdirSync(join(place.folder, 'policies')).sort()).toEqual(['raw.yaml', 'standard.yaml'])
  expect(readdirSync(place.folder).filter(name => name.includes('usage') || name === '.tollgate')).toEqual([])
})

describe('a custom plugin', () => {
  const source = (more: string) => `import { appendFileSync } from 'node:fs'
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'caller',
  ${more}
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create(_settings, _services, { run }) {
    appendFileSync(${JSON.stringify('FILE')}, run)
    return async (_ctx, next) => next()
  },
})
`
  const write = (more = '') => {
    place.write('policies/caller.ts', source(more).replace('FILE', join(place.folder, 'called.txt')))
    place.write('policies/standard.yaml', STANDARD.replace('use: credits', 'use: ./caller.ts\n  - use: credits'))
  }

  test('without dryRun is not run, so the verdict is unknown', async () => {
    write()
    const { story, out } = await explainRequest(CHAT)
    expect(existsSync(join(place.folder, 'called.txt'))).toBe(false)
    expect(story.not_run).toEqual(['caller'])
    expect(story.own_steps).toEqual(['late'])
    expect(story.steps.find((step: { id: string }) => step.id === 'caller')).toMatchObject({ verdict: 'not run' })
    expect(out).toContain('VERDICT  unknown, because the step was not run: caller. If it lets the request pass: 200')
  })

  test('with dryRun is run, and receives the kind of run', async () => {
    write('dryRun: true,')
    const { story } = await explainRequest(CHAT)
    expect({ not_run: story.not_run, own: story.own_steps }).toEqual({ not_run: [], own: ['late', 'caller'] })
    expect(readFileSync(join(place.folder, 'called.txt'), 'utf8')).toMatch(/^(explain)+$/)
  })

  test('that identifies the caller and is not run is replaced by the given account', async () => {
    write("gives: ['key', 'account'],")
    place.write('policies/standard.yaml', STANDARD.replace('use: api-key', 'use: ./caller.ts'))
    const { story } = await explainRequest(CHAT)
    expect(story.verdict).toMatchObject({ status: 200 })
    expect(story.not_run).toEqual(['caller'])
  })
})

test('a custom plugin that only observes is not run', async () => {
  const source = `import { appendFileSync } from 'node:fs'
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'diary',
  records: true,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async (_ctx, next) => {
    appendFileSync(${JSON.stringify(join(place.folder, 'diary.txt'))}, 'x')
    await next()
  },
})
`
  place.write('policies/diary.ts', source)
  place.write('policies/standard.yaml', STANDARD.replace('use: credits', 'use: ./diary.ts\n  - use: credits'))
  const { story } = await explainRequest(CHAT)
  expect(stepOf(story, 'diary')).toMatchObject({ reason: 'not run here: it writes outside this process' })
  expect(existsSync(join(place.folder, 'diary.txt'))).toBe(false)
})

test('the changes of a guard, and the refusal of one in shadow mode', async () => {
  const rules = (action: string) =>
    `use: guard\n    with: { rules: [{ name: word, pattern: Hello, action: ${action} }] }`
  const guards = `${rules('redact')}\n  - id: strict\n    mode: shadow\n    ${rules('refuse')}`
  place.write('policies/standard.yaml', STANDARD.replace('use: credits', `${guards}\n  - use: credits`))
  const { story } = await explainRequest(CHAT, '--upstream', 'Hello')
  expect(stepOf(story, 'guard')).toMatchObject({
    reason: expect.stringContaining('in the request'),
    otherwise: 'never refuses',
  })
  // It is closer to the provider, so it sees the answer first.
  expect(stepOf(story, 'strict')).toMatchObject({ verdict: 'would_refuse', code: 'content_filter', otherwise: null })
  const { story: other } = await explainRequest(CHAT, '--upstream', 'Bye')
  expect(stepOf(other, 'strict')).toMatchObject({
    verdict: 'passed',
    otherwise: 'in shadow mode: refused if a rule with "action: refuse" matches',
  })
  expect(story.sent[0].changes).toContainEqual(expect.objectContaining({ name: 'messages' }))
})

test('--at sets the time of the request', async () => {
  const prompt = `use: prompt\n    with: { system: "Today is {{date}}." }\n  - use: credits`
  place.write('policies/standard.yaml', STANDARD.replace('use: credits', prompt))
  const { story } = await explainRequest(CHAT, '--at', '2031-05-06T07:08:09Z')
  expect(story.given).toMatchObject({ at: '2031-05-06T07:08:09.000Z' })
  expect(JSON.stringify(story.sent[0].changes)).toContain('Today is 2031-05-06.')
})

test('the request has a host that the gateway accepts', async () => {
  place.write('gateway.yaml', `hosts: [gate.example.com]\n${GATEWAY}`)
  expect((await explainRequest(CHAT)).story.verdict).toMatchObject({ status: 200 })
})

test('an unknown model in the path of the catalog', async () => {
  const { story } = await explainRequest({ method: 'GET', path: '/v1/models/smal', headers: {} })
  expect(story.verdict).toMatchObject({ status: 404, code: 'model_not_found' })
  expect(story.verdict.detail).toBe('this model does not exist; did you mean "small"?')
})

test('custom steps are named, because they may send requests of their own', async () => {
  const { out } = await explainRequest(CHAT)
  expect(out).toContain('no provider was called. But your own step late ran')
})

test('tags, and a condition that uses one', async () => {
  const tags = '{ tags: { team: { from: header x-team, client: true, values: [ads, search] } } }'
  const policy = STANDARD.replace('  - use: schema\n', `  - use: tags\n    with: ${tags}\n  - use: schema\n`)
  place.write('policies/standard.yaml', policy.replace('account.plan == "free"', 'tags.team == "ads"'))
  const { story } = await explainRequest(CHAT, '--header', 'x-team: ads')
  expect(stepOf(story, 'tags')).toMatchObject({
    otherwise: 'team is "ads"; refused with a value that is not allowed, or without a required one',
  })
  expect(stepOf(story, 'free')).toMatchObject({ reason: expect.stringContaining('tags.team is "ads"') })
  const { story: none } = await explainRequest(CHAT)
  expect(stepOf(none, 'tags')).toMatchObject({ otherwise: expect.stringContaining('gives no tag') })
  expect(stepOf(none, 'free')).toMatchObject({ verdict: 'skipped', reason: expect.stringContaining('tags.team is ""') })
  expect((await explainRequest(CHAT, '--header', 'x-team: sales')).story).toMatchObject({
    verdict: { status: 400, code: 'invalid_tag', decided_by: 'tags' },
  })
})
