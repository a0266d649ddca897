import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { definePlugin, refuse } from '#contract'
import { createPlans } from '../../src/config/plan-catalog.ts'
import { runDry } from '../../src/runtime/dry-run.ts'
import { type BenchOptions, conform, openBench } from '../../src/testing/index.ts'
import { AS_ROOT, testWith } from '../../test/helpers/missing.ts'
import { readSettings } from '../../test/helpers/step.ts'
import usageLog from './index.ts'

type Line = Record<string, unknown> & { request: Record<string, unknown>; trail: unknown[] }

const parent = mkdtempSync(join(tmpdir(), 'usage-log-'))
afterAll(() => rmSync(parent, { recursive: true }))

function folderOf(): string {
  const folder = mkdtempSync(join(parent, 'bench-'))
  mkdirSync(join(folder, 'policies'))
  return folder
}

const INNER = [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route', with: { attempts: 1 } }]

async function open(settings: object = {}, options: BenchOptions & { readonly inner?: readonly object[] } = {}) {
  const folder = options.folder ?? folderOf()
  const file = join(folder, 'usage.jsonl')
  const { inner = INNER, ...more } = options
  const steps = [{ use: 'usage-log', with: { file: '../usage.jsonl', ...settings } }, ...inner]
  const bench = await openBench({ ...more, folder, steps })
  return {
    bench,
    file,
    /** All lines, after the gateway has closed the file. */
    async lines(): Promise<Line[]> {
      await bench.close()
      return linesOf(file)
    },
  }
}

const linesOf = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Line)

describe('settings', () => {
  test.each([
    [{}, 'required'],
    [{ file: '' }, 'fewer than 1'],
    [{ file: 'a\nb' }, 'pattern'],
    [{ file: 'a', bodies: 'all' }, 'allowed values'],
    [{ file: 'a', keep: 0 }, '>= 1'],
    [{ file: 'a', path: 'b' }, 'additional'],
    ...[
      'authorization',
      'proxy-authorization',
      'cookie',
      'x-api-key',
      'api-key',
      'x-auth-token',
      'x-client-secret',
      'x-credential',
      'x-amzn-oidc-data',
      'User-Agent',
      'a b',
    ].map(name => [{ file: 'a', headers: [name] }, 'pattern'] as [object, string]),
  ])('%j is refused', (settings, sentence) => {
    expect(() => readSettings(usageLog, settings as Record<string, unknown>)).toThrow(sentence)
  })

  test('a relative path begins at the folder of the policy', async () => {
    const { bench, file, lines } = await open({})
    await bench.chat()
    expect(await lines()).toHaveLength(1)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })
})

describe('a file that cannot be opened fails the load', () => {
  test.each<[string, (folder: string) => string, string]>([
    ['no folder', () => '../logs/usage.jsonl', 'its folder is missing'],
    ['a folder', () => '..', 'is not a regular file'],
    ['a device', () => '/dev/null', 'is not a regular file'],
    [
      'a file in place of a folder',
      folder => {
        writeFileSync(join(folder, 'usage'), '')
        return '../usage/a'
      },
      'its folder is missing',
    ],
  ])('%s', async (_name, make, sentence) => {
    const folder = folderOf()
    await expect(open({ file: make(folder) }, { folder })).rejects.toThrow(sentence)
    await expect(open({ file: make(folder) }, { folder })).rejects.toThrow('policies/bench.yaml:')
  })

  testWith(AS_ROOT, 'one that may not be written', async () => {
    const folder = folderOf()
    writeFileSync(join(folder, 'usage.jsonl'), '')
    chmodSync(join(folder, 'usage.jsonl'), 0o400)
    await expect(open({}, { folder })).rejects.toThrow('this process may not write it')
  })
})

const refuser = definePlugin({
  name: 'refuser',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw refuse('forbidden')
  },
})
const breaker = definePlugin({
  name: 'breaker',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw new Error('a bug')
  },
})
const forgetful = definePlugin({
  name: 'forgetful',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {},
})

describe('the end of an exchange', () => {
  test.each<
    [string, Parameters<typeof open>[1], (bench: Awaited<ReturnType<typeof openBench>>) => Promise<unknown>, object]
  >([
    [
      'no known caller',
      {},
      bench => bench.chat({}, { key: null }),
      {
        outcome: 'refused',
        status: 401,
        code: 'missing_api_key',
        decided_by: 'api-key',
        account: null,
        key: null,
        model: null,
        held: null,
        charged: null,
        usage: null,
        attempts: [],
        trail: [
          { step: 'usage-log', verdict: 'passed' },
          { step: 'api-key', verdict: 'refused', code: 'missing_api_key' },
        ],
        request: { bytes: 0 },
      },
    ],
    [
      'an unknown model',
      {},
      bench => bench.chat({ model: 'other' }),
      { status: 404, code: 'model_not_found', decided_by: 'schema', model: null },
    ],
    [
      'a bug of a step',
      { plugins: [breaker], inner: [{ use: 'breaker' }, ...INNER] },
      bench => bench.chat(),
      { outcome: 'failed', status: 500, code: 'plugin_error', decided_by: 'breaker' },
    ],
    [
      'a step that forgets next()',
      { plugins: [forgetful], inner: [{ use: 'forgetful' }, ...INNER] },
      bench => bench.chat(),
      {
        code: 'plugin_error',
        trail: expect.arrayContaining([
          { step: 'forgetful', verdict: 'failed', code: 'plugin_error', why: 'no_decision' },
        ]),
      },
    ],
    [
      'a body that is not JSON',
      {},
      bench => bench.send({ body: '{"model":' }),
      { status: 400, code: 'invalid_json', decided_by: 'schema', request: { bytes: 9 } },
    ],
    [
      'short of credit',
      { credit: '0' },
      bench => bench.chat(),
      { outcome: 'refused', status: 402, code: 'insufficient_quota', decided_by: 'credits', held: null, model: 'm' },
    ],
    [
      'a step in shadow, and one behind it',
      { plugins: [refuser], inner: [{ use: 'refuser', mode: 'shadow' }, ...INNER] },
      bench => bench.chat({ model: 'other' }),
      {
        decided_by: 'schema',
        trail: expect.arrayContaining([{ step: 'refuser', verdict: 'would_refuse', code: 'forbidden' }]),
      },
    ],
    [
      'the provider fails',
      {},
      bench => {
        bench.upstream.script({ status: 503 })
        return bench.chat()
      },
      {
        outcome: 'failed',
        status: 503,
        code: 'upstream_overloaded',
        decided_by: 'send',
        charged: '0.000000000',
        attempts: [{ target: 'p/upstream-model', status: 503, code: 'upstream_overloaded', ms: expect.any(Number) }],
      },
    ],
    [
      'the provider says nonsense of what it used',
      {},
      bench => {
        bench.upstream.script({ usage: { prompt: -4, completion: 1.5, cached: -1, reasoning: 0.5 } })
        return bench.chat()
      },
      {
        outcome: 'answered',
        usage: {
          prompt_tokens: 0,
          cached_tokens: 0,
          cache_write_tokens: 0,
          completion_tokens: 2,
          reasoning_tokens: expect.toSatisfy(Number.isSafeInteger),
          source: 'reported',
        },
      },
    ],
    [
      'the client leaves',
      {},
      bench => bench.chat({ stream: true }, { leaveAfter: 1 }),
      { outcome: 'client_left', status: null, code: null, decided_by: null, stream: true },
    ],
    [
      'answered, whole',
      { plan: 'free' },
      bench => bench.chat(),
      {
        v: 1,
        at: '2027-01-15T08:00:00.000Z',
        route: '/v1/chat/completions',
        kind: 'chat',
        method: 'POST',
        policy: 'bench',
        account: { id: expect.stringMatching(/^acc_/), name: 'bench', plan: 'free' },
        key: { id: expect.stringMatching(/^key_/), name: 'bench', models: null },
        model: 'm',
        stream: false,
        outcome: 'answered',
        status: 200,
        code: null,
        decided_by: null,
        usage: expect.objectContaining({ source: 'reported', completion_tokens: expect.any(Number) }),
        held: expect.stringMatching(/^0\.\d{9}$/),
        charged: expect.stringMatching(/^0\.\d{9}$/),
        request: {
          bytes: 60,
          model: 'm',
          n: null,
          cap: null,
          params: ['model', 'messages'],
          messages: 1,
          tools: 0,
          unsized: false,
        },
      },
    ],
    [
      'answered, as a stream, with all that the form says',
      {},
      bench =>
        bench.chat({
          stream: true,
          n: 2,
          max_tokens: 9,
          tools: [{ type: 'function', function: { name: 'f' } }],
          messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }] }],
        }),
      {
        stream: true,
        status: 200,
        request: expect.objectContaining({ n: 2, cap: 9, messages: 1, tools: 1, unsized: true }),
      },
    ],
  ])('%s', async (_name, options, send, expected) => {
    const { bench, lines } = await open({}, options)
    const answer = (await send(bench)) as { id: string }
    const [line, ...more] = await lines()
    expect(more).toEqual([])
    expect(line).toMatchObject({ id: answer.id, ...expected })
  })

  test('its duration and its charge', async () => {
    const { bench, lines } = await open()
    const answer = await bench.chat()
    const receipt = bench.ledger.receipt(answer)!
    const [line] = await lines()
    expect(BigInt((line!['charged'] as string).replace('.', ''))).toBe(receipt.charged)
    expect(BigInt((line!['held'] as string).replace('.', ''))).toBe(receipt.held)
    expect(receipt.charged).toBeGreaterThan(0n)
  })

  test('the dry run before a reload writes no line', async () => {
    const { bench, file, lines } = await open()
    const services = {
      clock: bench.clock,
      catalog: { find: () => undefined, list: () => [] },
      plans: createPlans({ plans: null }),
      random: () => 0,
    }
    const targets = { latencyMs: () => null }
    expect(await runDry(bench.configuration.routes, { ...services, targets }, 'reload')).toEqual([])
    await bench.chat()
    expect(await lines()).toHaveLength(1)
    expect(existsSync(file)).toBe(true)
  })
})

describe('the request in the line', () => {
  const secret = 'the words of a customer'
  const send = async (
    settings: object,
    body: unknown = { model: 'm', messages: [{ role: 'user', content: secret }] },
  ) => {
    const { bench, file, lines } = await open(settings)
    await bench.send({ body, headers: { 'x-team': 'bläu', 'x-other': 'red', cookie: 'a=b' } })
    const [line] = await lines()
    return { line: line!, text: readFileSync(file, 'utf8'), key: bench.key }
  }

  test('by default no text, no headers, no address, no key', async () => {
    const { line, text, key } = await send({})
    for (const word of [secret, key, 'bläu', 'a=b', '127.0.0.1', 'sha256']) expect(text).not.toContain(word)
    expect(line).not.toHaveProperty('headers')
    expect(line).not.toHaveProperty('address')
  })

  test('bodies: hash has its digest', async () => {
    const { line, text } = await send({ bodies: 'hash' })
    expect(line.request['sha256']).toMatch(/^[0-9a-f]{64}$/)
    expect(text).not.toContain(secret)
  })

  test('bodies: keep has the whole body, byte by byte, on one line', async () => {
    const body =
      '{ "model":"m",\r\n"messages":[{"role":"user","content":"a\\nb"}],\n "temperature": 1.0000000000000000001 }'
    const { line, text } = await send({ bodies: 'keep' }, body)
    expect(line.request['body']).toEqual(JSON.parse(body))
    expect(text).toContain('1.0000000000000000001')
    expect(line.request['bytes']).toBe(body.length)
  })

  test('a large body has its digest only', async () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(1024 * 1024) }] }
    const { line } = await send({ bodies: 'keep' }, body)
    expect(line.request).not.toHaveProperty('body')
    expect(line.request['sha256']).toMatch(/^[0-9a-f]{64}$/)
  })

  test('the headers of the settings, and the address', async () => {
    const { line } = await send({ headers: ['x-team', 'x-none'], address: true })
    expect(line['headers']).toEqual({ 'x-team': 'bläu' })
    expect(line['address']).toMatch(/\d/)
  })
})

test('a credential is replaced with ***, in whatever header', async () => {
  const jwt = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln'
  const values = {
    'x-a': 'KEY',
    'x-b': 'Bearer KEY',
    'x-c': jwt,
    'x-d': 'sk-proj-0123456789',
    'x-e': 'blue',
    'x-f': 'ask-me',
  }
  const { bench, file, lines } = await open({ headers: Object.keys(values) })
  const sent = Object.entries(values).map(([name, value]) => [name, value.replace('KEY', bench.key)])
  await bench.chat({}, { headers: Object.fromEntries(sent) })
  const [line] = await lines()
  const stars = { 'x-a': '***', 'x-b': '***', 'x-c': '***', 'x-d': '***' }
  expect(line!['headers']).toEqual({ ...stars, 'x-e': 'blue', 'x-f': 'ask-me' })
  expect(readFileSync(file, 'utf8')).not.toContain(bench.key)
})

test('a reload continues the file', async () => {
  const { bench, lines } = await open()
  await bench.chat()
  await bench.reload()
  await bench.chat()
  expect(await lines()).toHaveLength(2)
})

test('a line that cannot be written fails no exchange, and is in the log', async () => {
  const folder = folderOf()
  const { bench, file } = await open({}, { folder })
  rmSync(folder, { recursive: true })
  expect((await bench.chat()).status).toBe(200)
  await bench.close()
  expect(existsSync(file)).toBe(false)
  expect(bench.log).toContainEqual(
    expect.objectContaining({ level: 'error', step: 'usage-log', fields: expect.objectContaining({ lost: 1 }) }),
  )
  expect(bench.mistakes).toEqual([])
})

test.each(['none', 'keep'])('conforms, bodies: %s', async bodies => {
  const report = await conform(
    usageLog,
    { file: '../usage.jsonl', bodies, headers: ['user-agent'] },
    { folder: folderOf() },
  )
  expect(report.runs).toBeGreaterThan(30)
})
