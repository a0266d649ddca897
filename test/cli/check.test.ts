import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

const BROKEN = CONFIGURATION.replace('dialect: demo', 'dialekt: demo').replace('policy: standard', 'policy: standart')

test('a configuration that is not there', async () => {
  const { code, out } = await place.tollgate(['check', 'nowhere.yaml'])
  expect(code).toBe(1)
  expect(out).toContain('nowhere.yaml:1:1: the configuration cannot be read: there is no such file')
})

test('each problem with its place, its line and a caret; exit code 1', async () => {
  place.write('gateway.yaml', BROKEN)
  const { code, out, err } = await place.tollgate(['check'])
  expect({ code, err }).toEqual({ code: 1, err: '' })
  expect(out).toMatch(/^gateway\.yaml:5:5: .*dialekt/m)
  expect(out).toContain('did you mean "dialect"?')
  expect(out).toContain('did you mean "standard"?')
  expect(out).toMatch(/^ {3}5 \| {5}dialekt: demo\n {5}\| {5}\^$/m)
  expect(out).toMatch(/^\d+ problems in \.\/gateway\.yaml$/m)
})

test('the same as JSON', async () => {
  place.write('gateway.yaml', BROKEN)
  for (const args of [['--format', 'json'], ['--json']]) {
    const { code, out } = await place.tollgate(['validate', 'gateway.yaml', ...args])
    expect(code).toBe(1)
    const report = JSON.parse(out)
    expect(report).toMatchObject({ ok: false, files: [{ file: 'gateway.yaml', ok: false }] })
    expect(report.files[0].problems).toContainEqual({
      file: 'gateway.yaml',
      line: 5,
      column: 5,
      rule: 'unknown-key',
      message: expect.stringContaining('dialekt'),
      suggestion: 'did you mean "dialect"?',
    })
  }
})

test('a fine configuration says what is in it', async () => {
  expect(await place.tollgate(['check'])).toMatchObject({
    code: 0,
    out: 'OK: 1 provider, 1 model, 4 routes\n',
    err: '',
  })
  expect(JSON.parse((await place.tollgate(['check', '--json'])).out)).toEqual({
    ok: true,
    files: [{ file: './gateway.yaml', ok: true, providers: 1, models: 1, routes: 4, problems: [] }],
  })
})

test('several: all are checked, and one bad one makes the exit code 1', async () => {
  place.write('broken.yaml', BROKEN)
  const { code, out } = await place.tollgate(['check', 'broken.yaml', 'gateway.yaml'])
  expect(code).toBe(1)
  expect(out).toContain('problems in broken.yaml')
  expect(out).toContain('gateway.yaml: OK: 1 provider')
})

test('a variable is found in .env beside the configuration, and its value is not printed', async () => {
  const withKey = CONFIGURATION.replace(
    'dialect: demo\n    pace: 1ms',
    'dialect: openai\n    base_url: ${BASE}\n    api_key: ${KEY}',
  )
  place.write('gateway.yaml', withKey)
  const missing = await place.tollgate(['check'])
  expect(missing.code).toBe(1)
  expect(missing.out).toContain('the environment variable KEY is not set')
  place.write('.env', 'BASE=https://provider.example/v1\nKEY=sk-very-secret-value\n')
  expect(await place.tollgate(['check'])).toMatchObject({ code: 0 })
  place.write('gateway.yaml', `${withKey}unknown: 1\n`)
  const { code, out } = await place.tollgate(['check'])
  expect(code).toBe(1)
  expect(out).not.toContain('sk-very-secret-value')
})

test('a key for models that the catalog does not have is not made', async () => {
  await place.json('account.create', 'acme')
  const create = ['key', 'create', '--account', 'acme', '--models']
  const { code, err } = await place.tollgate([...create, 'demo-smal'])
  expect(code).toBe(1)
  expect(err).toContain('The catalog has no model "demo-smal"; did you mean "demo-small"?')
  expect((await place.json('key.list')).keys).toEqual([])
  expect((await place.json('key.create', '--account', 'acme', '--models', 'demo-small')).key.models).toEqual([
    'demo-small',
  ])

  // A raw route's own names are as good.
  const provider = '  far: { dialect: openai, base_url: "https://api.example.com/v1" }'
  const route = '  - { path: /v1/embeddings, kind: raw, policy: raw, provider: far, price: free, models: [embedder] }'
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n')
  const withRaw = CONFIGURATION.replace('routes:\n', `routes:\n${route}\n`)
  place.write('gateway.yaml', withRaw.replace('providers:\n', `providers:\n${provider}\n`))
  expect(await place.tollgate([...create, 'embeder'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('did you mean "embedder"?'),
  })
  expect((await place.json('key.create', '--account', 'acme', '--models', 'embedder,demo-small')).key.models).toEqual([
    'embedder',
    'demo-small',
  ])

  place.write('gateway.yaml', BROKEN)
  const unchecked = await place.tollgate([...create, 'anything'])
  expect(unchecked.code).toBe(0)
  expect(unchecked.err).toContain('The models were not checked')
})
