import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { at, lineWith, refusedLine } from '../replay/lines.ts'
import { makePlace, type Place } from './helpers.ts'

const gateway = (policy: string) => `version: 1
providers:
  far: { dialect: openai, base_url: "https://api.example.com/v1", api_key: "\${FAR_KEY}" }
models:
  m:
    targets: [{ provider: far, model: big }]
    price: { per: 1M tokens, input: $1, output: $2 }
    context: 8192
    max_output: 1000
routes:
  - { path: /v1/chat/completions, policy: ${policy} }
`
const limited = (burst: number) => `steps:
  - use: usage-log
    with: { file: ../nowhere/usage.jsonl }
  - use: api-key
  - use: schema
  - use: rate-limit
    id: burst
    with: { per: account, requests: 60 per minute, burst: ${burst} }
  - use: credits
  - use: route
`
/** Nine exchanges in one second, of two accounts and three keys. */
const LINES = Array.from({ length: 9 }, (_, nth) => {
  const who = nth % 3
  return lineWith({
    ...at(nth),
    account: { id: `acc_${who && 1}`, name: who ? 'acme' : 'zenith', plan: 'default' },
    key: { id: `key_${who}`, name: `laptop ${who}`, models: null },
  })
})
const jsonl = (lines: readonly object[]) => lines.map(line => `${JSON.stringify(line)}\n`).join('')

let place: Place
const tollgate = (...args: readonly string[]) => place.tollgate(args)
beforeEach(() => {
  place = makePlace(gateway('new'))
  mkdirSync(join(place.folder, 'policies'))
  place.write('old.yaml', gateway('old'))
  place.write('policies/old.yaml', limited(3))
  place.write('policies/new.yaml', limited(2))
  place.write('usage.jsonl', jsonl(LINES))
})
afterEach(() => place.remove())

describe('wrong arguments', () => {
  test.each<[string, string[], number, string]>([
    ['no log', ['replay'], 2, "missing required argument 'logs'"],
    ['a missing log', ['replay', 'none.jsonl'], 1, 'none.jsonl'],
    ['an invalid balance', ['replay', 'usage.jsonl', '--balance', 'much'], 2, 'is not an amount of dollars'],
    ['an unknown gate', ['replay', 'usage.jsonl', '--fail-on', 'refused,costs'], 2, '"costs" is not one of'],
    ['an invalid number of lines', ['replay', 'usage.jsonl', '--limit', '0'], 2, 'a number of lines'],
    ['a missing file of balances', ['replay', 'usage.jsonl', '--balances', 'none.json'], 1, 'none.json'],
    ['an invalid file of balances', ['replay', 'usage.jsonl', '--balances', 'usage.jsonl'], 1, 'it is not JSON'],
    ['a balance in words', ['replay', 'usage.jsonl', '--balances', 'words.json'], 1, 'the balance of "acme": "lots"'],
    ['a log without lines', ['replay', 'gateway.yaml'], 1, 'the log has no line to replay'],
    [
      'a mistyped account',
      ['replay', 'usage.jsonl', '--account', 'acne'],
      1,
      'the account "acne"; did you mean "acme"?',
    ],
    ['a mistyped id', ['replay', 'usage.jsonl', '--account', 'acc_11'], 1, 'did you mean "acc_1"?'],
    ['another account', ['replay', 'usage.jsonl', '--account', 'unknown'], 1, 'it has "zenith", "acme"\n'],
    [
      'an account in a log without accounts',
      ['replay', 'no-account.jsonl', '--account', 'acme'],
      1,
      'its lines have no account',
    ],
    ['a missing other configuration', ['replay', 'usage.jsonl', '--against', 'older.yaml'], 1, 'older.yaml:1:1'],
  ])('%s', async (_name, args, code, sentence) => {
    place.write('words.json', '{"acme": "lots"}')
    place.write('no-account.jsonl', jsonl([lineWith({ account: null, key: null })]))
    const result = await tollgate(...args)
    expect(result.code).toBe(code)
    expect(result.err).toContain(sentence)
  })

  test('an account without lines fails with any gate, and prints no table', async () => {
    const { code, out } = await tollgate('replay', 'usage.jsonl', '--account', 'unknown', '--fail-on', 'refused')
    expect({ code, out }).toEqual({ code: 1, out: '' })
    const json = await tollgate('replay', 'usage.jsonl', '--account', 'unknown', '--json')
    expect(json.code).toBe(1)
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, failed: [expect.stringContaining('"unknown"')] })
  })

  test('a configuration with problems is reported and not replayed', async () => {
    place.write('policies/new.yaml', limited(2).replace('burst: 2', 'bursts: 2'))
    const { code, out, err } = await tollgate('replay', 'usage.jsonl')
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain('policies/new.yaml:8:')
    expect(err).toContain('A configuration with problems is not replayed.')
  })
})

test('changed verdicts, the affected accounts and keys, and the cost', async () => {
  const { code, out, err } = await tollgate('replay', 'usage.jsonl')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toBe(`9 exchanges, 2026-11-20 08:00 UTC to 2026-11-20 08:00 UTC, compared with the log.
5 of 9 verdicts change (55.56 %): 5 refused now.

LINES  BEFORE  AFTER                            ACCOUNTS  KEYS
    5  200     429 rate_limit_exceeded (burst)         2     3

200 -> 429 rate_limit_exceeded (burst)
  accounts  acme 4, zenith 1
  keys      laptop 1 (key_1) 2, laptop 2 (key_2) 2, laptop 0 (key_0) 1
  such as   ${[4, 5, 6].map(nth => LINES[nth]!['id']).join(', ')}

COST              BEFORE    AFTER            DIFFERENCE
all             $0.00045  $0.0002  -$0.00025 (-55.55 %)
model m         $0.00045  $0.0002  -$0.00025 (-55.55 %)
account acme     $0.0003  $0.0001   -$0.0002 (-66.66 %)
account zenith  $0.00015  $0.0001  -$0.00005 (-33.33 %)

This log does not show:
  credit: No balances were given: every account has enough. Use --balance or --balances.
  rate-limit: Its buckets are full at the first line, but may not have been then. This does not affect --against.
`)
})

test('against another configuration, from a compressed file with invalid lines', async () => {
  writeFileSync(join(place.folder, 'torn.gz'), gzipSync(`{"half":\n${jsonl(LINES).slice(0, -20)}`))
  const { code, out } = await tollgate('replay', 'torn.gz', '--against', 'old.yaml')
  expect(code).toBe(0)
  expect(out).toContain('8 exchanges')
  expect(out).toContain('compared with old.yaml.')
  expect(out).toContain('2 of 8 verdicts change')
  expect(out).toContain('2 lines skipped:\n  torn.gz:1: it is not JSON')
  expect(out).not.toContain('rate-limit:')
})

test('as JSON', async () => {
  place.write('balances.json', '{"accounts": [{"id": "acc_1", "available": "0.000000000"}]}')
  const line = refusedLine(429, 'rate_limit_exceeded', 'burst', at(60_000))
  place.write('more.jsonl', jsonl([{ ...line, account: { id: 'acc_0', name: 'zenith', plan: 'default' } }]))
  const args = ['usage.jsonl', 'more.jsonl', '--balances', 'balances.json', '--balance', '25', '--json']
  const { code, out } = await tollgate('replay', ...args)
  expect(code).toBe(0)
  const report = JSON.parse(out)
  expect(report).toMatchObject({
    ok: true,
    lines: 10,
    changed: 8,
    refused: 7,
    admitted: 1,
    estimated_lines: 1,
    failed: [],
  })
  expect(report.changes.map((change: { after: object }) => change.after)).toEqual([
    { status: 429, code: 'rate_limit_exceeded', decided_by: 'burst', outcome: 'refused' },
    { status: 402, code: 'insufficient_quota', decided_by: 'credits', outcome: 'refused' },
    { status: 200, code: null, decided_by: null, outcome: 'answered' },
  ])
  expect(report.cost).toEqual({
    before: '0.000450000',
    after: '0.000150000',
    difference: '-0.000300000',
    estimated: '0.000050000',
  })
  expect(report.changes[0].accounts).toEqual({
    count: 2,
    most: [
      { id: 'acc_1', name: 'acme', lines: 4 },
      { id: 'acc_0', name: 'zenith', lines: 1 },
    ],
  })
})

describe('with --fail-on', () => {
  test.each<[string, number, string]>([
    ['refused>5', 0, ''],
    ['refused>4', 1, 'refused: 5 of 9 exchanges (--fail-on "refused>4")\n'],
    ['admitted,cost', 0, ''],
    ['changed>50%', 1, 'changed: 5 of 9 exchanges (--fail-on "changed>50%")\n'],
  ])('%s', async (gate, code, sentence) => {
    const result = await tollgate('replay', 'usage.jsonl', '--fail-on', gate)
    expect(result.code).toBe(code)
    expect(result.err).toBe(sentence)
  })
})

test('unreadable lines are a failure only with --fail-on skipped', async () => {
  const usage = { prompt_tokens: -4, completion_tokens: 1, source: 'reported' }
  place.write('bad.jsonl', jsonl([...LINES, lineWith({ usage })]))
  const plain = await tollgate('replay', 'bad.jsonl', '--fail-on', 'admitted')
  expect(plain).toMatchObject({ code: 0, out: expect.stringContaining('bad.jsonl:10: `usage.prompt_tokens` is -4') })
  expect(await tollgate('replay', 'bad.jsonl', '--fail-on', 'skipped')).toMatchObject({
    code: 1,
    err: 'skipped: 1 of 10 lines (--fail-on "skipped")\n',
  })
  expect((await tollgate('replay', 'bad.jsonl', '--fail-on', 'skipped>10%')).code).toBe(0)
  expect((await tollgate('replay', 'bad.jsonl', '--account', 'zenith', '--fail-on', 'skipped>9%')).code).toBe(1)
})

test('a guard changed from shadow to enforce: its refusals in shadow mode count, and lines without its verdict are not compared', async () => {
  const guard =
    '  - { use: guard, MODE with: { rules: [{ name: red, pattern: red, action: refuse }] } }\n  - use: credits'
  const policy = (mode: string) => limited(9).replace('  - use: credits', guard.replace('MODE', mode))
  place.write('policies/old.yaml', policy('mode: shadow,'))
  place.write('policies/new.yaml', policy(''))
  const trails = [[{ step: 'guard', verdict: 'would_refuse', code: 'content_filter' }], [], []]
  const passed = [{ step: 'guard', verdict: 'passed' }]
  place.write('guarded.jsonl', jsonl(LINES.map((line, nth) => ({ ...line, trail: trails[nth] ?? passed }))))
  for (const against of [[], ['--against', 'old.yaml']]) {
    const { code, out, err } = await tollgate('replay', 'guarded.jsonl', ...against, '--fail-on', 'refused>1')
    expect(out).toContain('1 of 9 verdicts changes (11.11 %): 1 refused now.')
    expect(out).toContain('2 lines not compared: a step reads text, which is not in the log')
    expect(err).toContain('refused: 1 of 9 exchanges, and 2 more may be: a step needs text that is not in the log')
    expect(code).toBe(1)
    expect((await tollgate('replay', 'guarded.jsonl', ...against, '--fail-on', 'refused>1,unknown>2')).code).toBe(0)
  }
})

describe('a custom plugin without dryRun', () => {
  test('is named, and its lines are not compared', async () => {
    place.write('own.ts', own("(_ctx, next) => { throw new Error('it ran') }").replace('  dryRun: true,\n', ''))
    place.write('policies/new.yaml', withOwn().replace('burst: 3', 'burst: 9'))
    const { code, out, err } = await tollgate('replay', 'usage.jsonl', '--fail-on', 'refused')
    expect(out).toContain('  not run: "own": their recorded verdicts are used.')
    expect(out).toContain('9 lines not compared: the step own was not run, and the log does not have its decision')
    expect(out).toContain('Nothing could be compared.')
    expect(err).toContain('refused: 0 of 9 exchanges, and 9 more may be')
    expect(code).toBe(1)
  })
})

test('a replay with most lines not compared fails', async () => {
  const unknown = Array.from({ length: 10 }, (_, nth) =>
    refusedLine(429, 'rate_limit_exceeded', 'door', { ...at(nth), account: null, key: null }),
  )
  place.write('unknown.jsonl', jsonl([...LINES, ...unknown]))
  const { code, out, err } = await tollgate('replay', 'unknown.jsonl', '--fail-on', 'cost')
  expect(code).toBe(1)
  expect(err).toContain('unknown: 10 of 19 exchanges were not compared, so the gates have little meaning')
  expect(out).toContain('10 of them were not compared, for reasons below.\n')
  expect((await tollgate('replay', 'unknown.jsonl', '--fail-on', 'cost,unknown>10')).code).toBe(0)
  place.write('unknown.jsonl', jsonl(unknown))
  expect((await tollgate('replay', 'unknown.jsonl')).out).toContain('Nothing could be compared.\n')
})

test('balances of unknown accounts are reported', async () => {
  place.write('balances.json', '{"unknown": "1"}')
  const { out } = await tollgate('replay', 'usage.jsonl', '--balances', 'balances.json')
  expect(out).toContain('  balances: "unknown" in --balances is in no line that was taken.\n')
  expect(out).toContain('  balances: "zenith", "acme" of the log are not in --balances: the balance is enough.\n')
})

test('changed prompts are reported as an estimate', async () => {
  place.write(
    'policies/new.yaml',
    limited(3).replace('  - use: credits', '  - { use: prompt, with: { system: Be kind. } }\n$&'),
  )
  const { out } = await tollgate('replay', 'usage.jsonl', '--against', 'old.yaml')
  expect(out).toContain('6 prompts are changed by steps: their sizes are estimated, with one token for 4 bytes.\n')
})

/** Runs the program as a process, so that uncaught errors are its own. */
function program(...args: readonly string[]) {
  const command = fileURLToPath(new URL('../../src/cli/tollgate.js', import.meta.url))
  const { stdout, stderr, status } = spawnSync(process.execPath, [command, ...args], {
    cwd: place.folder,
    encoding: 'utf8',
    env: {},
  })
  return { out: stdout, err: stderr, code: status }
}

const own = (create: string) => `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'own',
  dryRun: true,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (${create}),
})
`
const withOwn = () => limited(3).replace('  - use: credits', '  - use: ../own.ts\n$&')

describe('a custom plugin', () => {
  beforeEach(() => place.write('policies/new.yaml', withOwn()))

  test.each<[string, string, number, string]>([
    [
      'that is not released is named, and does not prevent the report',
      '{ handle: (_ctx, next) => next(), dispose: () => new Promise(() => {}) }',
      0,
      'the step "own" was not released: its dispose() did not end within 5 s\n',
    ],
    [
      'that throws on release is named too',
      "{ handle: (_ctx, next) => next(), dispose() { throw new Error('stuck') } }",
      0,
      'the step "own" was not released: stuck (own.ts:',
    ],
    [
      'that throws in a later turn is reported, and the replay fails',
      "(_ctx, next) => { setImmediate(() => { throw new Error('later') }); return next() }",
      1,
      'an uncaught error, which ends a gateway: later (',
    ],
    [
      'that drops a rejected promise is reported',
      "(_ctx, next) => { void Promise.reject(new Error('dropped')); return next() }",
      0,
      'an unhandled rejected promise: dropped (',
    ],
  ])('%s', (_name, create, code, sentence) => {
    place.write('own.ts', own(create))
    const result = program('replay', 'usage.jsonl')
    expect(result.out).toContain('9 exchanges, ')
    expect(result.out).toContain('own" ran unchanged')
    expect(result.err).toContain(sentence)
    expect(result.err.split('\n')).toHaveLength(2)
    expect(result.code).toBe(code)
  })
})

test('a log in reversed order is reported', async () => {
  const minutes = Array.from({ length: 600 }, (_, nth) => lineWith(at(nth * 60_000)))
  place.write('backwards.jsonl', jsonl(minutes.toReversed()))
  const { out } = await tollgate('replay', 'backwards.jsonl')
  expect(out).toMatch(/\n\d+ lines out of order, replayed later than at their time; sort the log by at\.\n/)
  place.write('forwards.jsonl', jsonl(minutes))
  expect((await tollgate('replay', 'forwards.jsonl')).out).not.toContain('out of order')
})

test('a terminal shows the progress', async () => {
  const { err } = await place.tollgate(['replay', 'usage.jsonl'], { watched: true })
  expect(err).toMatch(/replaying: \d+ lines, \d+ a second \(\d+ %, \d+ s left\)/)
})
