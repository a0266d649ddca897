import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Log } from '#contract'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { startInProcess } from '../../test/helpers/in-process.ts'
import { createSteps } from '../../test/helpers/step.ts'
import { until } from '../../test/helpers/until.ts'
import jwt from './index.ts'
import { createKeySet, KeysUnavailable } from './key-set.ts'
import { AUDIENCE, createSigner, ISSUER, json, type Signer, serveKeys, sign, weakJwk } from './test-provider.ts'

const account = { id: 'acc_1', name: 'ada', plan: 'pro', frozen: false, createdAt: 0 }
let one: Signer
let two: Signer
let nameless: Signer
let provider: Awaited<ReturnType<typeof serveKeys>>

beforeAll(() => {
  one = createSigner('ES256', 'one')
  two = createSigner('ES256', 'two')
  nameless = createSigner('ES256')
})
beforeEach(async () => void (provider = await serveKeys(one)))
afterEach(() => provider.close())

/** A clock and a log; `step` loads the policy once more. Only the test of the timeout has a short one. */
function gateway(url = provider.url, timeoutMs = 5_000) {
  const clock = { time: Date.UTC(2026, 0, 1), now: () => clock.time }
  const logged: Record<string, unknown>[] = []
  const log = { warn: (fields, message) => void logged.push({ ...fields, message }) } as Log
  const step = () => {
    const settings = { issuer: ISSUER, audience: AUDIENCE, jwks: url, account: 'ada', timeout: `${timeoutMs}ms` }
    const send = createSteps([{ use: jwt, with: settings }], { clock, log, accounts: { find: () => account } })
    return (token: string) => send({ headers: [['authorization', `Bearer ${token}`]] })
  }
  const times = { refreshMs: 600_000, keepMs: 86_400_000, cooldownMs: 30_000, timeoutMs }
  const keySet = () => createKeySet(url, { clock, log, ...times })
  const token = (signer: Signer) => sign(signer, clock.time)
  return { clock, logged, step, keySet, token }
}

const codeOf = ({ refusal }: { readonly refusal: { readonly code: string } | null }) => refusal?.code ?? null

describe('a provider without usable keys', () => {
  type Answer = Parameters<typeof provider.answer>[0]
  const endless: Answer = (_request, response) => {
    response.writeHead(200)
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, ' '))) {}
    }
    response.on('drain', more)
    more()
  }
  const elsewhere: Answer = (request, response) => {
    if (request.url === '/elsewhere') json({ keys: [one.jwk] })(request, response)
    else response.writeHead(302, { location: '/elsewhere' }).end()
  }
  test.each<[string, Answer, RegExp]>([
    ['fails', json({ error: 'no' }, 500), /^status 500$/],
    ['answers with status 204', json('', 204), /^status 204$/],
    ['redirects', elsewhere, /redirect/],
    ['sends a page', json('<html>sign in</html>'), /not JSON/],
    ['sends nothing', json(''), /not JSON/],
    ['sends null', json(null), /not a set of at most 100 keys/],
    ['sends a list', json([]), /not a set of/],
    ['sends no keys', json({ keys: [] }), /no public key for signatures/],
    ['sends keys that are not objects', json({ keys: [null, 1, 'a'] }), /no public key/],
    ['sends keys for encryption', json({ keys: [{ kty: 'EC', use: 'enc' }] }), /no public key/],
    ['sends shared secrets', json({ keys: [{ kty: 'oct', k: 'c2VjcmV0' }] }), /no public key/],
    ['sends a short key', json({ keys: [weakJwk()] }), /no public key for signatures \(keys\[0\]: it has 1024 bits/],
    ['sends too many keys', json({ keys: Array(101).fill({ kty: 'EC' }) }), /not a set of/],
    ['sends without end', endless, /longer than 262144 bytes/],
    ['does not answer', () => {}, /aborted due to timeout/],
    ['stops in the middle', (_, response) => void response.writeHead(200).write('{"keys":['), /aborted due to timeout/],
    ['closes the connection', request => void request.socket.destroy(), /fetch failed: /],
  ])('%s: 503, and the log says why', async (_name, answer, why) => {
    provider.answer(answer)
    const { logged, step, token } = gateway(provider.url, why.source.includes('timeout') ? 200 : 5_000)
    const send = step()
    const { refusal, passed } = await send(await token(one))
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ status: 503, retryable: true })
    expect(refusal!.retryAfterMs).toBe(5_000)
    expect(logged).toHaveLength(1)
    expect(logged[0]!['error']).toMatch(why)
    expect(logged[0]!['jwks']).toBe(new URL(provider.url).host)
    expect(JSON.stringify(logged)).not.toContain('/keys')
  })

  test('is asked again after a pause, once for all callers, and then tokens are accepted', async () => {
    provider.answer(json({}, 503))
    const { clock, step, token } = gateway()
    const send = step()
    const good = await token(one)
    const first = await Promise.all(Array.from({ length: 20 }, () => send(good)))
    expect(new Set(first.map(codeOf))).toEqual(new Set(['overloaded']))
    expect(provider.asked()).toBe(1)
    provider.serve(one)
    clock.time += 4_999
    const { refusal } = await send(good)
    expect(refusal!.retryAfterMs).toBe(1_000)
    expect(provider.asked()).toBe(1)
    clock.time += 1
    expect((await Promise.all(Array.from({ length: 20 }, () => send(good)))).map(codeOf)).toEqual(Array(20).fill(null))
    expect(provider.asked()).toBe(2)
  })

  test('that fails later: its keys stay in use for `keep`, and a token with an unknown key gets a 503', async () => {
    const { clock, step, token, logged } = gateway()
    const send = step()
    expect(codeOf(await send(await token(one)))).toBeNull()
    provider.answer(json({}, 503))
    clock.time += 86_400_000 + 599_999
    expect(codeOf(await send(await token(one)))).toBeNull()
    await until(() => expect(logged).toHaveLength(1))
    expect(codeOf(await send(await token(two)))).toBe('overloaded')
    clock.time += 1
    expect(codeOf(await send(await token(one)))).toBe('overloaded')
    provider.serve(one)
    clock.time += 5_000
    expect(codeOf(await send(await token(one)))).toBeNull()
  })

  test('that sends garbage after good keys: the good ones stay in use', async () => {
    const { clock, step, token, logged } = gateway()
    const send = step()
    expect(codeOf(await send(await token(one)))).toBeNull()
    provider.answer(json({ keys: [] }))
    clock.time += 600_000
    expect(codeOf(await send(await token(one)))).toBeNull()
    await until(() => expect(logged).toHaveLength(1))
    expect(codeOf(await send(await token(one)))).toBeNull()
  })

  test('that is down at a reload: callers are not locked out', async () => {
    const { step, token } = gateway()
    expect(codeOf(await step()(await token(one)))).toBeNull()
    provider.answer(json({}, 503))
    expect(codeOf(await step()(await token(one)))).toBeNull()
    // Another gateway has a memory of its own.
    expect(codeOf(await gateway().step()(await token(one)))).toBe('overloaded')
  })
})

describe('keys that cannot check signatures', () => {
  test('are ignored and logged once; the others work, and a token that names an ignored key is refused', async () => {
    const bad = [
      { ...weakJwk('short'), alg: 'ES256' },
      weakJwk('weak'),
      { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'point' },
      { ...one.privateKey.export({ format: 'jwk' }), kid: 'private' },
    ]
    const ops = { ...two.jwk, key_ops: ['verify', 'encrypt'] }
    provider.answer(json({ keys: [...bad, one.jwk, ops, { kty: 'OKP', crv: 'X25519', x: 'AA', use: 'enc' }] }))
    const { clock, logged, step, token } = gateway()
    const send = step()
    expect(codeOf(await send(await token(one)))).toBeNull()
    expect(codeOf(await send(await token(two)))).toBeNull()
    for (const kid of ['short', 'weak', 'point', 'private']) {
      const { refusal, reports } = await send(await sign(one, clock.time, {}, { kid }))
      expect({ code: refusal?.code, reports }).toEqual({ code: 'invalid_api_key', reports: [] })
    }
    const fetches = provider.asked()
    await until(async () => {
      // Each time, because a pending fetch counts from its end.
      clock.time += 600_000
      await send(await token(one))
      expect(provider.asked()).toBeGreaterThanOrEqual(fetches + 2)
    })
    expect(logged).toEqual([
      {
        jwks: new URL(provider.url).host,
        left_out: [
          'keys[0]: it has 1024 bits, and the minimum is 2048',
          'keys[1]: it has 1024 bits, and the minimum is 2048',
          'keys[2]: it is not a public key of the family EC',
          'keys[3]: it has a part of a private key',
        ],
        message: 'ignoring keys of the identity provider that cannot check signatures',
      },
    ])
  })

  test.each([
    ['an exponent of 0', { e: 'AA' }],
    ['an exponent of 1', { e: 'AQ' }],
    ['an even exponent', { e: 'BA' }],
    ['a number of 32768 bits', { n: Buffer.alloc(4096, 255).toString('base64url') }],
  ])('%s causes a refusal, not an error', async (_name, part) => {
    const rsa = createSigner('RS256', 'rsa')
    provider.answer(json({ keys: [{ ...rsa.jwk, ...part }] }))
    const { step, token } = gateway()
    const { refusal, reports } = await step()(await token(rsa))
    expect({ code: refusal?.code, reports }).toEqual({ code: 'invalid_api_key', reports: [] })
  })
})

describe('keys that change', () => {
  test('a new key is fetched when a token names it, at most once in a cooldown', async () => {
    const { clock, step, token } = gateway()
    const send = step()
    expect(codeOf(await send(await token(two)))).toBe('invalid_api_key')
    expect(provider.asked()).toBe(1)
    provider.serve(one, two)
    clock.time += 29_999
    expect(codeOf(await send(await token(two)))).toBe('invalid_api_key')
    expect(provider.asked()).toBe(1)
    clock.time += 1
    const many = await Promise.all([token(two), token(two), token(one), token(two)].map(async each => send(await each)))
    expect(many.map(codeOf)).toEqual([null, null, null, null])
    expect(provider.asked()).toBe(2)
    clock.time += 1_000
    expect(codeOf(await send(await sign(one, clock.time, {}, { kid: 'other' })))).toBe('invalid_api_key')
    expect(provider.asked()).toBe(2)
  })

  test('a new key without a name is fetched when a signature does not fit', async () => {
    provider.serve(nameless)
    const { clock, step, token } = gateway()
    const send = step()
    expect(codeOf(await send(await token(nameless)))).toBeNull()
    const next = createSigner('ES256')
    provider.serve(next)
    clock.time += 30_000
    expect(codeOf(await send(await token(next)))).toBeNull()
    // The signature is wrong for a known key, also while the provider is down.
    provider.answer(json({}, 503))
    clock.time += 30_000
    expect(codeOf(await send(await token(nameless)))).toBe('invalid_api_key')
  })

  test('a removed key is refused after `refresh`, also for a cached token', async () => {
    provider.serve(one, two)
    const { clock, step, token, keySet } = gateway()
    const send = step()
    const old = await token(one)
    expect(codeOf(await send(old))).toBeNull()
    provider.serve(two)
    clock.time += 599_999
    expect(codeOf(await send(old))).toBeNull()
    clock.time += 1
    // Renewed in the background: this request does not wait.
    expect(codeOf(await send(old))).toBeNull()
    await until(async () => expect(codeOf(await send(old))).toBe('invalid_api_key'))
    expect(provider.asked()).toBe(2)
    keySet().close()
  })

  test('an unchanged set stays the same object, so verified tokens stay in the cache', async () => {
    const { clock, keySet } = gateway()
    const keys = keySet()
    const before = await keys.current()
    clock.time += 30_000
    expect(await keys.newerThan(before)).toBeNull()
    expect(provider.asked()).toBe(2)
    expect(await keys.current()).toBe(before)
    keys.close()
  })

  test('a clock that is set back does not delay a fetch', async () => {
    const { clock, keySet, logged } = gateway()
    const keys = keySet()
    const before = await keys.current()
    // Nor does it start a second fetch at the same time.
    provider.answer(() => {})
    clock.time += 600_001
    expect(await keys.current()).toBe(before)
    clock.time -= 1
    expect(await keys.current()).toBe(before)
    await until(() => expect(logged).toHaveLength(1))
    expect(provider.asked()).toBe(2)
    provider.serve(two)
    clock.time -= 3_600_000
    expect(await keys.newerThan(before)).not.toBeNull()
    keys.close()
  })
})

test('close ends a pending fetch without a log line', async () => {
  provider.answer(() => {})
  const { logged, keySet } = gateway()
  const keys = keySet()
  const waiting = keys.current()
  keys.close()
  await expect(waiting).rejects.toBeInstanceOf(KeysUnavailable)
  expect(logged).toEqual([])
})

test('in the gateway: a caller is charged like a key, by its own name, and no log contains a token', async () => {
  const signer = createSigner('RS256', 'rsa')
  provider.serve(signer)
  await using gateway = await startInProcess({
    plugins: [jwt].filter(plugin => !BUILT_IN.includes(plugin)),
    steps: [
      {
        use: 'jwt',
        with: {
          issuer: ISSUER,
          audience: AUDIENCE,
          jwks: provider.url,
          account_claim: 'tenant',
          models_claim: 'models',
        },
      },
      { use: 'schema' },
      { use: 'rate-limit', with: { per: 'key', requests: '100 per minute' } },
      { use: 'credits' },
      { use: 'route' },
    ],
  })
  const token = await sign(signer, Date.now(), { tenant: 'test', models: ['m'] })
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const ids: string[] = []
  for (const stream of [false, true]) {
    const answer = await gateway.chat({ stream }, { headers })
    expect(answer.status).toBe(200)
    await answer.text()
    await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    const receipt = gateway.receipt(answer)!
    expect(receipt.charged).toBeGreaterThan(0n)
    ids.push(receipt.keyId)
  }
  expect(ids[0]).toMatch(/^jwt:[0-9a-f]{8}:alice$/)
  expect(ids[1]).toBe(ids[0])
  const { posted, held } = gateway.balance()
  expect(held).toBe(0n)
  expect(posted).toBeLessThan(10_000_000_000n)
  const report = gateway.running.store.reads.verify()
  expect(report.violations).toEqual([])

  const other = await sign(signer, Date.now(), { tenant: 'test', models: ['other'] })
  const refused = await gateway.chat({}, { headers: { ...headers, authorization: `Bearer ${other}` } })
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    404,
    'model_not_found',
  ])
  const log = JSON.stringify(gateway.log)
  for (const secret of [...token.split('.'), ...other.split('.')]) expect(log).not.toContain(secret)
})
