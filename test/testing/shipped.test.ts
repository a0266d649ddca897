/** Every built-in plugin conforms on every ending, with settings that make it act. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { AUDIENCE, createSigner, ISSUER, sign } from '../../plugins/jwt/test-provider.ts'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { STANDARD_START_MS } from '../../src/simulate/time.ts'
import { type Bench, type ConformOptions, conform } from '../../src/testing/index.ts'
import { isFull } from '../helpers/counts.ts'

const full = isFull('clients')

interface Row {
  readonly name: string
  readonly what: string
  readonly settings?: Readonly<Record<string, unknown>>
  readonly options?: ConformOptions
}

const folder = await mkdtemp(join(tmpdir(), 'tollgate-shipped-'))
const signer = createSigner('ES256', 'here')
const token = await sign(signer, STANDARD_START_MS)
/** A request with text that a guard finds. */
const ASKED = { body: { messages: [{ role: 'user', content: 'Hello, I am ada@example.org.' }] } }

/** Sends the endings' request once before them, so that its answer is in the cache. */
async function fill(bench: Bench, form: 'whole' | 'stream'): Promise<void> {
  bench.upstream.script({ content: ['One', ' two', ' three'], usage: { prompt: 10, completion: 3 } })
  for (const found of ['miss', 'hit']) {
    const answer = await bench.chat(form === 'stream' ? { stream: true } : {})
    expect(answer.headers['x-tollgate-cache']).toBe(found)
  }
}

const ROWS: readonly Row[] = [
  { name: 'api-key', what: 'a good key' },
  {
    name: 'api-key',
    what: 'an unknown key',
    options: { refusesAll: true, request: { key: `tg_${'x'.repeat(40)}` } },
  },
  {
    name: 'jwt',
    what: 'a good token',
    settings: { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [signer.jwk] }, account: 'bench' },
    options: { request: { key: null, headers: { authorization: `Bearer ${token}` } }, secrets: [token] },
  },
  {
    name: 'jwt',
    what: 'a token of another issuer',
    settings: {
      issuer: ISSUER,
      audience: AUDIENCE,
      jwks: { keys: [createSigner('ES256', 'other').jwk] },
      account: 'bench',
    },
    options: { refusesAll: true, request: { key: null, headers: { authorization: `Bearer ${token}` } } },
  },
  {
    name: 'tags',
    what: 'with values that are counted',
    settings: {
      tags: { session: { from: ['header x-session', 'metadata.session'], client: true }, key: { from: 'key' } },
    },
  },
  {
    name: 'tags',
    what: 'without one that is required',
    settings: { tags: { session: { from: 'header x-session', client: true, required: true } } },
    options: { refusesAll: true },
  },
  { name: 'schema', what: 'a good request' },
  { name: 'schema', what: 'a bad one', options: { refusesAll: true, request: { body: { temperature: 'warm' } } } },
  {
    name: 'rate-limit',
    what: 'requests and tokens',
    settings: { per: 'key', requests: '60 per minute', tokens: '100k per minute' },
  },
  { name: 'rate-limit', what: 'the second one exceeds it', settings: { per: 'account', requests: '1 per hour' } },
  { name: 'concurrency', what: 'without a queue', settings: { per: 'key', limit: 1 } },
  {
    name: 'concurrency',
    what: 'with a queue',
    settings: { per: 'account', limit: 1, queue: { length: 5, wait: '30s' } },
  },
  { name: 'prompt', what: 'before', settings: { system: 'Be brief on {{date}}, {{account.plan}}.' } },
  { name: 'prompt', what: 'in place of theirs', settings: { system: 'Be brief.', position: 'replace' } },
  {
    name: 'guard',
    what: 'replaces, both ways',
    settings: { rules: [{ detect: 'email' }, { name: 'number', pattern: 'two|four' }] },
    options: { request: ASKED, secrets: ['ada@example.org'] },
  },
  {
    name: 'guard',
    what: 'refuses an answer in its middle',
    settings: { rules: [{ name: 'number', pattern: 'thr[a-z]{1,3}', on: 'answer', action: 'refuse' }] },
    options: { refusesAll: true },
  },
  {
    name: 'guard',
    what: 'refuses an answer in its middle, where it is charged',
    settings: { rules: [{ name: 'number', pattern: 'thr[a-z]{1,3}', on: 'answer', action: 'refuse' }] },
    options: {
      refusesAll: true,
      steps: [
        { use: 'api-key' },
        { use: 'schema' },
        { use: 'credits' },
        { use: 'guard' },
        { use: 'route', with: { attempts: 1 } },
      ],
    },
  },
  {
    name: 'guard',
    what: 'refuses a request',
    settings: { rules: [{ detect: 'email', action: 'refuse' }] },
    options: { refusesAll: true, request: ASKED, secrets: ['ada@example.org'] },
  },
  { name: 'cache', what: 'never asked before', settings: { temperature: 'any' } },
  { name: 'cache', what: 'filled', settings: { temperature: 'any' }, options: { prepare: fill } },
  {
    name: 'cache',
    what: 'filled, with a price',
    settings: { temperature: 'any', price: { request: '$0.001', per: '1M tokens', output: '$1' } },
    options: { prepare: fill },
  },
  { name: 'credits', what: 'cancels' },
  { name: 'credits', what: 'drains', settings: { on_disconnect: 'drain' } },
  { name: 'route', what: 'one attempt', settings: { attempts: 1 } },
  { name: 'route', what: 'three attempts, with the key', settings: { attempts: 3, sticky: 'key' } },
  {
    name: 'usage-log',
    what: 'keeps bodies',
    settings: { file: `${folder}/exchanges.jsonl`, bodies: 'hash' },
  },
]

/** A row takes a second or more. The quick run has the first row of each plugin, with an ending of every kind. */
const simulated = full ? ROWS : ROWS.filter(({ name }, i) => ROWS.findIndex(row => row.name === name) === i)
const OF_EVERY_KIND = [
  'answered three',
  'refuses a part',
  'services',
  'after its first chunk',
  'chunk 1',
  'reload',
  'killed',
]

afterAll(() => rm(folder, { recursive: true, force: true }))

test('every built-in plugin has a row', () => {
  expect(new Set(ROWS.map(({ name }) => name))).toEqual(new Set(BUILT_IN.map(({ name }) => name)))
})

describe.each(simulated)('$name', ({ name, what, settings = {}, options = {} }) => {
  test(what, async () => {
    const plugin = BUILT_IN.find(each => each.name === name)!
    const report = await conform(plugin, settings, full ? options : { ...options, endings: OF_EVERY_KIND })
    expect(report.plugin).toBe(name)
    expect(report.endings).toBeGreaterThan(full ? 45 : 14)
    expect(report.runs).toBeGreaterThanOrEqual(report.endings)
  })
})
