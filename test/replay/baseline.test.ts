/** A replay with the configuration that wrote the log: no verdict changes, and no charge by one nano-dollar. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, describe, expect, test } from 'vitest'
import { parseLine } from '../../src/replay/line.ts'
import { readLogs } from '../../src/replay/read.ts'
import { type ReplayOptions, replay } from '../../src/replay/replay.ts'
import { turn } from '../../src/simulate/time.ts'
import { type Bench, openBench } from '../../src/testing/index.ts'

const parent = mkdtempSync(join(tmpdir(), 'replay-'))
afterAll(() => rmSync(parent, { recursive: true }))

const MODELS = {
  m: {
    targets: [{ provider: 'p', model: 'up' }],
    price: { per: '1M tokens', input: '$100', output: '$200' },
    context: 8192,
    max_output: 1000,
  },
  free: { targets: [{ provider: 'p', model: 'up' }], price: 'free', context: 8192, max_output: 1000 },
}

const STEPS = [
  { use: 'rate-limit', id: 'door', with: { per: 'address', requests: '300 per minute', burst: 50 } },
  { use: 'api-key' },
  { use: 'schema' },
  { use: 'guard', with: { rules: [{ name: 'blue', pattern: 'blue moon', action: 'refuse' }] } },
  { use: 'rate-limit', id: 'burst', with: { per: 'key', requests: '60 per minute', burst: 12 } },
  { use: 'rate-limit', id: 'volume', when: 'chat.cap > 500', with: { per: 'account', tokens: '4k per minute' } },
  { use: 'rate-limit', id: 'tried', mode: 'shadow', with: { per: 'model', requests: '10 per minute' } },
  { use: 'concurrency', with: { per: 'account', limit: 2 } },
  { use: 'cache', with: { ttl: '1h' } },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

const YAML = {
  routes: [
    { path: '/v1/chat/completions', policy: 'bench' },
    { path: '/v1/messages', policy: 'bench' },
    { path: '/v1/responses', policy: 'bench' },
  ],
}

/** Sends exchanges with every kind of ending; time passes between them. */
async function traffic(bench: Bench): Promise<void> {
  const { upstream, clock, store, accountId } = bench
  const other = await store.createKey({ account: accountId, name: 'other', models: ['free'] })
  const poor = await store.createAccount({ name: 'poor', plan: 'free' })
  await store.credit({ account: poor.id, amount: 30_000_000n, reference: 'poor', actor: 'test' })
  const { token: poorKey } = await store.createKey({ account: poor.id, name: 'poor' })
  const broke = await store.createAccount({ name: 'broke' })
  const { token: brokeKey } = await store.createKey({ account: broke.id, name: 'broke' })
  const said = (content: string) => ({ messages: [{ role: 'user', content }] })
  for (let round = 0; round < 4; round++) {
    for (let nth = 0; nth < 8; nth++) {
      upstream.script({ content: ['Hel', 'lo', '.'.repeat(nth * 10)] })
      await bench.chat({
        ...said(`question ${nth}`),
        stream: nth % 2 === 1,
        max_tokens: 50 + nth * 100,
        n: 1 + (nth % 2),
      })
      await clock.pass(700)
    }
    await bench.chat({ ...said('the same'), temperature: 0 })
    await bench.chat({ ...said('the same'), temperature: 0 })
    await bench.chat({}, { key: null })
    await bench.chat({}, { key: 'tg_unknown' })
    await bench.chat({ model: 'free' }, { key: other.token })
    await bench.chat({ model: 'm' }, { key: other.token })
    await bench.chat({ model: 'none' })
    await bench.chat({ temperature: 9 })
    await bench.chat(said('a blue moon'))
    await bench.send({ body: '{"model":' })
    await bench.chat({}, { key: brokeKey })
    upstream.script({ status: 503 })
    await bench.chat()
    upstream.script({ status: 400 })
    await bench.chat({ stream: true })
    await bench.chat({ stream: true }, { leaveAfter: 1 })
    await bench.chat({ max_tokens: 1000, ...said('x'.repeat(3_000)) })
    for (let nth = 0; nth < 3; nth++) await bench.chat({ max_tokens: 80 }, { key: poorKey })
    await bench.send({ path: '/v1/messages', body: { model: 'm', max_tokens: 5_000, ...said('Hello') } })
    await bench.send({ path: '/v1/responses', body: { model: 'm', input: 'Hello', max_output_tokens: 60 } })
    // Several at once: some get no slot, and some have not enough credit.
    for (const key of [bench.key, poorKey]) {
      upstream.script([{ waitMs: 1_500 }, { waitMs: 900 }, { waitMs: 400 }])
      const together: Promise<unknown>[] = []
      for (const max_tokens of [100, 90, 80]) {
        together.push(bench.chat({ ...said('together'), max_tokens, stream: true }, { key }))
        for (let turns = 5; turns > 0; turns--) await turn()
        await clock.pass(1)
      }
      await clock.pass(2_000)
      await Promise.all(together)
    }
    await clock.pass(2_500)
  }
}

async function record(settings: object) {
  const folder = mkdtempSync(join(parent, 'bench-'))
  mkdirSync(join(folder, 'policies'))
  const usage = { use: 'usage-log', with: { file: '../usage.jsonl', address: true, ...settings } }
  const bench = await openBench({ folder, models: MODELS, yaml: YAML, credit: '2', steps: [usage, ...STEPS] })
  await traffic(bench)
  const balances: Record<string, bigint> = { bench: 2_000_000_000n, poor: 30_000_000n, broke: 0n }
  const spent = bench.store.reads.listAccounts().reduce((sum, { name, posted }) => sum + balances[name]! - posted, 0n)
  const { configuration } = bench
  await bench.close()
  const again = (options: Partial<ReplayOptions> = {}) =>
    replay(readLogs([join(folder, 'usage.jsonl')], { parse: parseLine, input: Readable.from([]), read() {} }), {
      configuration,
      against: null,
      balanceOf: ({ name }) => balances[name] ?? null,
      hasBalances: true,
      limit: Number.POSITIVE_INFINITY,
      account: null,
      progress() {},
      ...options,
    })
  const text = readFileSync(join(folder, 'usage.jsonl'), 'utf8')
  const codes = [...new Set([...text.matchAll(/"status":\S*?,"code":"?(\w+)/g)].map(([, code]) => code))].sort()
  return { again, spent, configuration, codes }
}

const verdictsOf = ({ found }: Awaited<ReturnType<typeof replay>>) =>
  [...found.changes.values()].map(
    ({ before, after, lines }) =>
      `${lines}: ${before.status} ${before.code} ${before.decidedBy} > ${after.status} ${after.code} ${after.decidedBy}`,
  )

describe('the configuration that wrote the log', () => {
  test('with bodies: every verdict and every charge is the same', async () => {
    const { again, spent, codes } = await record({ bodies: 'keep' })
    const result = await again()
    expect(verdictsOf(result)).toEqual([])
    const { found, skippedCount, late } = result
    expect({ unknown: found.unknown.size, skippedCount, late }).toEqual({ unknown: 0, skippedCount: 0, late: 0 })
    expect(found.lines).toBe(4 * 34)
    expect(found.cost.before).toBe(spent)
    expect(found.cost.after).toBe(spent)
    expect(spent).toBeGreaterThan(0n)
    // The traffic has every expected ending.
    expect(codes).toEqual(
      expect.arrayContaining([
        'content_filter',
        'credit_on_hold',
        'insufficient_quota',
        'malformed_api_key',
        'invalid_json',
        'invalid_value',
        'missing_api_key',
        'model_not_found',
        'null',
        'rate_limit_exceeded',
        'upstream_overloaded',
        'upstream_rejected',
      ]),
    )
    expect(found.shadow.get('tried rate_limit_exceeded')!.lines).toBeGreaterThan(10)
  })

  test.each(['none', 'hash'])('bodies: %s. The gaps are reported', async bodies => {
    const { again, spent } = await record({ bodies })
    const result = await again()
    const { found, gaps } = result
    // Without text, equal questions cannot be recognised.
    const isCache = /^\d: 200 null cache > 200 null null$/
    expect(verdictsOf(result).filter(change => !isCache.test(change))).toEqual([])
    expect(gaps.map(({ about }) => about)).toEqual(expect.arrayContaining(['guard', 'cache', 'schema']))
    expect(found.cost.before).toBe(spent)
    if (bodies === 'hash')
      expect({ changed: found.changed, cost: found.cost.after }).toEqual({ changed: 0, cost: spent })
    // Repeated questions are charged again.
    else expect(found.cost.after).toBe(spent + 7n * 1_600_000n)
  })

  test('against itself there are no changes, whatever the log lacks', async () => {
    const { again, configuration } = await record({ bodies: 'none' })
    const result = await again({ against: configuration, balanceOf: () => null, hasBalances: false })
    expect(verdictsOf(result)).toEqual([])
    expect(result.found.cost.after).toBe(result.found.cost.before)
  })
})
