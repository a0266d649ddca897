import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Accounts, DecidingStep, Log } from '#contract'
import { createPlans } from '../../src/config/plan-catalog.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { createSteps, readSettings } from '../../test/helpers/step.ts'
import jwt from './index.ts'
import { AUDIENCE, createSigner, ISSUER, sign, weakJwk } from './test-provider.ts'

const clock = { time: Date.UTC(2026, 0, 1), now: () => clock.time }
const rsa = createSigner('RS256', 'rsa-1')
const elliptic = createSigner('ES256', 'ec-1')
const edwards = createSigner('EdDSA', 'ed-1')
const stranger = createSigner('RS256', 'rsa-1')
const SILENT = { info() {}, warn() {}, error() {} } as Log
let store: LocalStore
let accounts: Accounts
let adaId: string

beforeAll(async () => {
  store = await openStore({ url: 'memory', secret: 'a secret for tests, long enough to be one', clock })
  adaId = (await store.createAccount({ name: 'ada', plan: 'pro' })).id
  await store.createAccount({ name: 'cold' })
  await store.freeze('cold', true)
  accounts = { find: name => store.reads.findAccount(name) }
})
afterAll(() => store.close())

const INLINE = { keys: [rsa.jwk, elliptic.jwk, edwards.jwk] }
const SETTINGS = { issuer: ISSUER, audience: AUDIENCE, jwks: INLINE, account_claim: 'tenant' }

/** One step with keys in its settings; collects its log. */
function gate(settings: Readonly<Record<string, unknown>> = {}) {
  const logged: string[] = []
  const write = (fields: object, message: string) => void logged.push(JSON.stringify(fields) + message)
  const log = { info: write, warn: write, error: write } as Log
  const all = Object.fromEntries(
    Object.entries({ ...SETTINGS, ...settings }).filter(([, value]) => value !== undefined),
  )
  const send = createSteps([{ use: jwt, with: all }], { accounts, clock, log })
  const present = (...values: string[]) => send({ headers: values.map(value => ['Authorization', value] as const) })
  return { logged, present, send: (token: string) => present(`Bearer ${token}`) }
}

const good = (claims = {}, head = {}, signer = rsa) => sign(signer, clock.time, claims, head)
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('settings', () => {
  test.each<[string, Record<string, unknown>]>([
    ['no issuer', { issuer: undefined }],
    ['no audience', { audience: undefined }],
    ['an empty audience', { audience: [] }],
    ['no keys', { jwks: undefined }],
    ['an empty set', { jwks: { keys: [] } }],
    ['a set without `keys`', { jwks: { key: rsa.jwk } }],
    ['plain HTTP', { jwks: 'http://identity.example/keys' }],
    ['plain HTTP to a name that begins like this machine', { jwks: 'http://localhost.example/keys' }],
    ['a password in the address', { jwks: 'https://me:secret@identity.example/keys' }],
    ['a file', { jwks: 'file:///etc/keys.json' }],
    ['a private key', { jwks: { keys: [{ ...rsa.privateKey.export({ format: 'jwk' }) }] } }],
    ['a shared secret', { jwks: { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] } }],
    ['a shared secret as an algorithm', { algorithms: ['HS256'] }],
    ['the algorithm none', { algorithms: ['none'] }],
    ['no algorithm', { algorithms: [] }],
    ['no account', { account_claim: undefined }],
    ['two accounts', { account: 'ada' }],
    ['a tolerance of a day', { clock_tolerance: '24h' }],
    ['a timeout above that of a step', { timeout: '1m' }],
    ['an unknown name', { issuers: [ISSUER] }],
    ['plans without `plan_claim`', { plans: { a: 'pro' } }],
    ['no plans', { plan_claim: 'groups', plans: {} }],
    ['a plan without a name', { plan: '' }],
  ])('%s is refused', (_name, settings) => {
    expect(() => gate(settings)).toThrow('jwt:')
  })

  test.each<[string, object, string]>([
    ['a short RSA key', weakJwk(), 'it has 1024 bits, and the minimum is 2048'],
    ['an RSA key without numbers', { kty: 'RSA' }, 'it is not a public key of the family RSA'],
    ['an RSA key of junk', { kty: 'RSA', n: '!!!', e: 'AQAB' }, 'it has 0 bits'],
    ['a point on no curve', { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' }, 'it is not a public key of the family EC'],
    ['an unknown curve', { kty: 'EC', crv: 'secp256k1', x: 'AA', y: 'AA' }, 'its crv is not P-256'],
    ['a key for agreements', { kty: 'OKP', crv: 'X25519', x: 'AA' }, 'its crv is not Ed25519'],
  ])('%s in the configuration is refused at load', (_name, jwk, why) => {
    expect(() => gate({ jwks: { keys: [rsa.jwk, jwk] } })).toThrow(
      `/jwks/keys/1: this key cannot check signatures: ${why}`,
    )
    // This step ignores keys for encryption.
    expect(() => gate({ jwks: { keys: [rsa.jwk, { ...jwk, use: 'enc' }] } })).not.toThrow()
  })

  test('have defaults, and accept valid addresses', () => {
    for (const jwks of [
      'https://id.example/a?b=c',
      'https://id.example',
      'http://[::1]:8080/keys',
      'http://localhost/',
    ]) {
      expect(readSettings(jwt, { ...SETTINGS, jwks })).toEqual({
        ...SETTINGS,
        jwks,
        algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
        key_claim: 'sub',
        clock_tolerance: 30_000,
        refresh: 600_000,
        keep: 86_400_000,
        cooldown: 30_000,
        timeout: 3_000,
      })
    }
  })
})

describe('not a token', () => {
  test.each<[string, string[], string, number]>([
    ['nothing', [], 'missing_api_key', 401],
    ['an empty header', [''], 'missing_api_key', 401],
    ['the word alone', ['Bearer '], 'missing_api_key', 401],
    ['another scheme', ['Basic YTpi'], 'missing_api_key', 401],
    ['two headers', ['Bearer a.b.c', 'Bearer a.b.c'], 'bad_request', 400],
    ['a gateway key', ['Bearer tg_something'], 'malformed_api_key', 401],
    ['two parts', ['Bearer YQ.YQ'], 'malformed_api_key', 401],
    ['five parts, as encrypted ones have', ['Bearer a.b.c.d.e'], 'malformed_api_key', 401],
    ['parts that are not base64url', ['Bearer a+.b/.c='], 'malformed_api_key', 401],
    ['parts that are not JSON', ['Bearer YQ.YQ.YQ'], 'malformed_api_key', 401],
    ['two tokens', ['Bearer a.b.c a.b.c'], 'malformed_api_key', 401],
    ['a huge one', [`Bearer ${'a'.repeat(4000)}.${'b'.repeat(4000)}.${'c'.repeat(4000)}`], 'malformed_api_key', 401],
  ])('%s', async (_name, headers, code, status) => {
    const { refusal, passed } = await gate().present(...headers)
    expect(refusal).toMatchObject({ code, status })
    expect(passed).toBe(false)
    const scheme = code === 'missing_api_key' ? 'Bearer' : 'Bearer error="invalid_token"'
    if (status === 401) expect(refusal!.headers['www-authenticate']).toBe(scheme)
  })
})

describe('a token that is refused', () => {
  const publicPem = String(rsa.publicKey.export({ format: 'pem', type: 'spki' }))
  const now = () => Math.floor(clock.time / 1000)
  const claims = () => part({ iss: ISSUER, aud: AUDIENCE, sub: 'alice', tenant: 'ada', exp: now() + 3600 })
  const symmetric = (secret: string, alg = 'HS256') => {
    const signed = `${part({ alg, kid: 'rsa-1' })}.${claims()}`
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }
  test.each<[string, () => string | Promise<string>, string, string]>([
    [
      'the algorithm none',
      () => `${part({ alg: 'none' })}.${claims()}.YQ`,
      'invalid_api_key',
      'signature is wrong, or its key',
    ],
    [
      'HS256 with the public key as the secret',
      () => symmetric(publicPem),
      'invalid_api_key',
      'its algorithm is unknown',
    ],
    [
      'HS256 with the modulus as the secret',
      () => symmetric(String(rsa.jwk['n'])),
      'invalid_api_key',
      'its algorithm is unknown',
    ],
    [
      'an algorithm that is not allowed',
      () => good({}, { alg: 'RS512' }),
      'invalid_api_key',
      'its algorithm is unknown',
    ],
    ['no algorithm', () => `${part({})}.${claims()}.YQ`, 'malformed_api_key', 'one signed JWT'],
    ['a key of another kind', () => good({}, { kid: 'ec-1' }), 'invalid_api_key', 'its key'],
    ['an unknown key', () => good({}, { kid: 'other' }), 'invalid_api_key', 'its key'],
    ['the signature of another key', () => good({}, {}, stranger), 'invalid_api_key', 'its signature'],
    [
      'a stranger that brings its key',
      () => good({}, { jwk: stranger.jwk }, stranger),
      'invalid_api_key',
      'its signature',
    ],
    [
      'an unknown critical extension',
      () => good({}, { crit: ['x'], x: 1 }).catch(() => crit()),
      'invalid_api_key',
      'not accepted',
    ],
    [
      'another issuer',
      () => good({ iss: 'https://other.example' }),
      'invalid_api_key',
      'claim "iss" of the token does not',
    ],
    ['an issuer with a slash more', () => good({ iss: `${ISSUER}/` }), 'invalid_api_key', 'claim "iss"'],
    ['no issuer', () => good({ iss: undefined }), 'invalid_api_key', 'has no claim "iss"'],
    ['another audience', () => good({ aud: 'mail' }), 'invalid_api_key', 'claim "aud"'],
    ['other audiences', () => good({ aud: ['mail', 'tollgates'] }), 'invalid_api_key', 'claim "aud"'],
    ['no audience', () => good({ aud: undefined }), 'invalid_api_key', 'has no claim "aud"'],
    ['no expiry', () => good({ exp: undefined }), 'invalid_api_key', 'has no claim "exp"'],
    ['an expiry in words', () => good({ exp: 'tomorrow' }), 'invalid_api_key', 'claim "exp"'],
    ['expired', () => good({ exp: now() - 31 }), 'expired_api_key', 'has expired. Get a new one'],
    ['not valid yet', () => good({ nbf: now() + 31 }), 'invalid_api_key', 'not valid yet'],
    ['a claim that was changed', async () => changed(await good()), 'invalid_api_key', 'its signature'],
    ['no caller', () => good({ sub: undefined }), 'forbidden', 'no claim "sub" with the name of the caller'],
    ['a caller that is a number', () => good({ sub: 7 }), 'forbidden', 'no claim "sub"'],
    ['a caller with a line break', () => good({ sub: 'a\nb' }), 'forbidden', 'no claim "sub"'],
    ['a caller with a long name', () => good({ sub: 'a'.repeat(201) }), 'forbidden', 'no claim "sub"'],
    ['no account', () => good({ tenant: undefined }), 'forbidden', 'no claim "tenant" with the name of an account'],
    ['two accounts', () => good({ tenant: ['ada', 'cold'] }), 'forbidden', 'no claim "tenant"'],
    ['an unknown account', () => good({ tenant: 'eve' }), 'forbidden', 'its account does not exist here'],
    ['a frozen account', () => good({ tenant: 'cold' }), 'account_frozen', 'frozen'],
  ])('%s', async (_name, make, code, words) => {
    const token = await make()
    const { present, logged } = gate()
    const { refusal, passed, exchange } = await present(`Bearer ${token}`)
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code })
    expect(refusal!.message).toContain(words)
    expect([exchange.key, exchange.account]).toEqual([undefined, undefined])
    const shown = JSON.stringify([refusal!.message, refusal!.headers, refusal!.detail, exchange.trail, logged])
    for (const secret of token.split('.')) if (secret.length > 8) expect(shown).not.toContain(secret)
    expect(refusal!.cause).toBeUndefined()
  })

  /** jose does not sign such a token. */
  function crit(): string {
    return `${part({ alg: 'RS256', kid: 'rsa-1', crit: ['x'], x: 1 })}.${claims()}.YQ`
  }

  function changed(token: string): string {
    const [head, , signature] = token.split('.')
    return `${head}.${part({ iss: ISSUER, aud: AUDIENCE, sub: 'bob', tenant: 'ada', exp: now() + 3600 })}.${signature}`
  }

  test('a valid token that is too long', async () => {
    const { refusal } = await gate().send(await good({ groups: 'a'.repeat(8_000) }))
    expect(refusal).toMatchObject({ code: 'malformed_api_key', message: 'The token is longer than 8192 characters.' })
    expect((await gate().send(await good({ groups: 'a'.repeat(4_000) }))).refusal).toBeNull()
  })

  test('an algorithm that the step does not list', async () => {
    const only = gate({ algorithms: ['ES256'] })
    expect((await only.send(await good())).refusal).toMatchObject({ code: 'invalid_api_key' })
    expect((await only.send(await good({}, {}, elliptic))).refusal).toBeNull()
  })
})

describe('a valid token', () => {
  test.each<[string, () => Promise<string>]>([
    ['with RSA', () => good()],
    ['with an elliptic curve', () => good({}, {}, elliptic)],
    ['with an Edwards curve', () => good({}, {}, edwards)],
    ['without the name of its key', () => good({}, { kid: undefined })],
    ['with several audiences', () => good({ aud: ['mail', AUDIENCE] })],
    ['expired by a clock that is ahead', () => good({ exp: Math.floor(clock.time / 1000) - 29 })],
    ['not valid yet by a clock that is behind', () => good({ nbf: Math.floor(clock.time / 1000) + 30 })],
    ['with the id of the account', () => good({ tenant: adaId })],
  ])('%s', async (_name, make) => {
    const { refusal, passed, exchange } = await gate().send(await make())
    expect(refusal).toBeNull()
    expect(passed).toBe(true)
    expect(exchange.account).toMatchObject({ id: adaId, name: 'ada', plan: 'pro' })
    expect(exchange.key).toMatchObject({ accountId: adaId, name: 'alice', models: null, revokedAt: null })
  })

  test('of several keys without names, each is tried', async () => {
    const [one, two, three] = [createSigner('ES256'), createSigner('ES256'), createSigner('ES256')]
    const { send } = gate({ jwks: { keys: [one.jwk, two.jwk] } })
    expect((await send(await good({}, {}, one))).refusal).toBeNull()
    expect((await send(await good({}, {}, two))).refusal).toBeNull()
    expect((await send(await good({}, {}, three))).refusal).toMatchObject({ code: 'invalid_api_key' })
  })

  test('gives a key that stays the same for the caller, and differs from that of another provider', async () => {
    const ids = await Promise.all(
      [
        [gate(), await good()],
        [gate(), await good({ iat: 1 })],
        [gate({ issuer: 'https://other.example' }), await good({ iss: 'https://other.example' })],
        [gate({ key_claim: 'azp' }), await good({ azp: 'ci' })],
      ].map(async ([step, token]) => (await (step as ReturnType<typeof gate>).send(token as string)).exchange.key!.id),
    )
    expect(ids[0]).toMatch(/^jwt:[0-9a-f]{8}:alice$/)
    expect(ids[1]).toBe(ids[0])
    expect(ids[2]).not.toBe(ids[0])
    expect(ids[3]).toMatch(/:ci$/)
  })

  test('uses the account of the settings, if there is one', async () => {
    const step = gate({ account: 'ada', account_claim: undefined })
    expect((await step.send(await good({ tenant: undefined }))).exchange.account!.name).toBe('ada')
  })

  test.each<[unknown, readonly string[] | null]>([
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    ['a  b', ['a', 'b']],
    [[], []],
    ['', []],
    [undefined, null],
    [{ a: 1 }, null],
    [['a', 1], null],
    [Array(1001).fill('a'), null],
  ])('with the models %o', async (models, expected) => {
    const { refusal, exchange } = await gate({ models_claim: 'models' }).send(await good({ models }))
    if (expected) expect(exchange.key!.models).toEqual(expected)
    else expect(refusal).toMatchObject({ code: 'forbidden' })
  })

  test('is cached until it expires, or until its account is frozen', async () => {
    const { send } = gate()
    const token = await good({ exp: Math.floor(clock.time / 1000) + 60 })
    expect((await send(token)).refusal).toBeNull()
    expect((await send(token)).refusal).toBeNull()
    await store.freeze('ada', true)
    expect((await send(token)).refusal).toMatchObject({ code: 'account_frozen' })
    await store.freeze('ada', false)
    const before = clock.time
    clock.time += 89_999
    expect((await send(token)).refusal).toBeNull()
    clock.time += 1
    expect((await send(token)).refusal).toMatchObject({ code: 'expired_api_key' })
    clock.time = before
  })
})

describe('the plan of a token', () => {
  const PLANS = createPlans({
    plans: new Map(
      ['default', 'pro', 'free'].map(name => [name, { name, models: null, limits: [], budgets: [], weight: 1 }]),
    ),
  })
  const MAP = { plan_claim: 'groups', plans: { staff: 'pro', everyone: 'free' } }
  const run = async (settings: object, claims: object, plans = PLANS) => {
    const send = createSteps([{ use: jwt, with: { ...SETTINGS, ...settings } }], {
      accounts,
      clock,
      log: SILENT,
      plans,
    })
    return send({ headers: [['Authorization', `Bearer ${await good(claims)}`]] })
  }

  test.each<[name: string, settings: object, claims: object, code: string, says: string]>([
    ['no claim', MAP, {}, 'forbidden', 'The token has no claim "groups" with the name of a plan.'],
    ['a number', MAP, { groups: 7 }, 'forbidden', 'no claim "groups"'],
    ['a list with a number', MAP, { groups: ['staff', 7] }, 'forbidden', 'no claim "groups"'],
    [
      'no group that has a plan',
      MAP,
      { groups: ['x'] },
      'forbidden',
      'No value of the claim "groups" of the token has a plan here.',
    ],
    ['no group', MAP, { groups: [] }, 'forbidden', 'has a plan here'],
    [
      'a group with the name of a member of each object',
      MAP,
      { groups: ['constructor'] },
      'forbidden',
      'has a plan here',
    ],
    ['several plans', { plan_claim: 'plan' }, { plan: ['pro', 'free'] }, 'forbidden', 'names several plans'],
    ['a plan that is not declared', { plan_claim: 'plan' }, { plan: 'gold' }, 'plan_not_declared', '"gold"'],
    [
      'one, although there is a standard',
      { plan_claim: 'plan', plan: 'free' },
      { plan: 'gold' },
      'plan_not_declared',
      '"gold"',
    ],
    [
      'a number, although there is a standard',
      { ...MAP, plan: 'free' },
      { groups: 7 },
      'forbidden',
      'no claim "groups"',
    ],
  ])('%s is refused', async (_name, settings, claims, code, says) => {
    const { refusal, passed } = await run(settings, claims)
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code, status: 403 })
    expect(refusal!.message).toContain(says)
  })

  test.each<[name: string, settings: object, claims: object, plan: string]>([
    ["without settings it is the account's", {}, { plan: 'free' }, 'pro'],
    ['by name', { plan_claim: 'plan' }, { plan: 'free' }, 'free'],
    ['by a list of one name', { plan_claim: 'plan' }, { plan: ['free'] }, 'free'],
    ['by a group', MAP, { groups: 'everyone' }, 'free'],
    ['by the first group of the map', MAP, { groups: ['everyone', 'x', 'staff'] }, 'pro'],
    ['the standard without the claim', { ...MAP, plan: 'default' }, {}, 'default'],
    ['the standard without a known group', { ...MAP, plan: 'default' }, { groups: ['x'] }, 'default'],
    ['the same for all', { plan: 'free' }, { plan: 'pro' }, 'free'],
  ])('%s', async (_name, settings, claims, plan) => {
    const { exchange, passed } = await run(settings, claims)
    expect(passed).toBe(true)
    expect(exchange.account).toMatchObject({ id: adaId, plan })
  })

  test('without declared plans any name is accepted', async () => {
    const { exchange } = await run({ plan_claim: 'plan' }, { plan: 'gold' }, createPlans({ plans: null }))
    expect(exchange.account).toMatchObject({ plan: 'gold' })
  })

  test('groups that are whole numbers cause a warning, because they have no order', () => {
    const check = jwt.check as unknown as (settings: object) => readonly object[]
    expect(check({ jwks: INLINE, plans: { '7': 'pro' } })).toEqual([])
    const message = 'the order of plans matters, and a whole number such as 7 loses its place'
    expect(check({ jwks: INLINE, plans: { staff: 'pro', '7': 'free' } })).toEqual([{ at: '/plans/7', message }])
  })
})

test('later steps see all claims, and cannot change them', async () => {
  const send = createSteps([{ use: jwt, with: SETTINGS }], { accounts, clock, log: SILENT })
  const headers = [['Authorization', `Bearer ${await good({ team: { name: 'red' } })}`]] as const
  const { exchange } = await send({ headers })
  expect(exchange.claims).toMatchObject({ iss: ISSUER, sub: 'alice', team: { name: 'red' } })
  expect(Object.isFrozen(exchange.claims)).toBe(true)
  expect(Object.isFrozen(exchange.claims!['team'])).toBe(true)
})

test('recognizes its tokens by their issuer, without verifying them', async () => {
  const step = jwt.create(readSettings(jwt, SETTINGS) as never, { accounts, clock, log: SILENT } as never, {
    policy: 'test',
    id: 'jwt',
  }) as DecidingStep
  const takes = (...headers: string[]) => step.takes!(headers)
  const own = `Bearer ${await good({}, {}, stranger)}`
  expect(takes('Authorization', own)).toBe(true)
  expect(takes('authorization', own)).toBe(true)
  for (const headers of [
    [],
    ['Authorization', 'Bearer tg_live_x'],
    ['Authorization', 'Bearer a.b.c'],
    ['Authorization', 'Bearer YQ.bnVsbA.YQ'],
    ['X-Other', own],
    ['Authorization', `Bearer ${await good({ iss: 'https://else.example' })}`],
  ]) {
    expect(takes(...headers)).toBe(false)
  }
})
