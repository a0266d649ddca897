import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Keys } from '#contract'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { createSteps } from '../../test/helpers/step.ts'
import apiKey from './index.ts'

const clock = { time: Date.UTC(2026, 0, 1), now: () => clock.time }
let store: LocalStore
let token: string

beforeAll(async () => {
  store = await openStore({ url: 'memory', secret: 'a secret for tests, long enough to be one', clock })
  await store.createAccount({ name: 'ada' })
  token = (await store.createKey({ account: 'ada', name: 'laptop' })).token
})
afterAll(() => store.close())

const present = (...headers: [string, string][]) =>
  createSteps([{ use: apiKey }], { keys: store.keys, clock })({ headers: [['Host', 'localhost'], ...headers] })

const presentMessages = (...headers: [string, string][]) =>
  createSteps([{ use: apiKey }], { keys: store.keys, clock })({
    headers: headers.map(([name, value]): [string, string] => [name, value.replace('TOKEN', token)]),
    route: { path: '/v1/messages', kind: 'messages' },
  })

describe('a messages route, whose clients send x-api-key', () => {
  const BOTH = 'x-api-key: KEY, or Authorization: Bearer KEY'
  test.each<[string, [string, string][], string, string]>([
    ['nothing', [], 'missing_api_key', `No API key. Send it as: ${BOTH}`],
    ['an empty one', [['x-api-key', '']], 'missing_api_key', `The x-api-key header is empty. Send the key as: ${BOTH}`],
    ['another scheme', [['authorization', 'Basic TOKEN']], 'missing_api_key', `not Bearer. Send the key as: ${BOTH}`],
    ['a mistyped one', [['x-api-key', 'TOKENx']], 'malformed_api_key', 'Copy it again'],
    ['one with a space in it', [['x-api-key', 'TOKEN more']], 'malformed_api_key', 'The x-api-key header must hold'],
    [
      'two',
      [
        ['x-api-key', 'TOKEN'],
        ['X-API-Key', 'TOKEN'],
      ],
      'bad_request',
      'two x-api-key headers',
    ],
    [
      'one, and another with Bearer',
      [
        ['x-api-key', 'TOKEN'],
        ['authorization', 'Bearer other'],
      ],
      'bad_request',
      'hold two keys',
    ],
    ['api-key', [['api-key', 'TOKEN']], 'missing_api_key', `the api-key header, which is not read here`],
  ])('%s', async (_name, headers, code, sentence) => {
    const { refusal, passed } = await presentMessages(...headers)
    expect(refusal).toMatchObject({ code })
    expect(refusal!.message).toContain(sentence)
    expect(refusal!.message).not.toContain(token.slice(0, 12))
    expect(passed).toBe(false)
  })

  test.each<[string, [string, string][]]>([
    ['alone', [['X-Api-Key', 'TOKEN']]],
    [
      'empty, beside one with Bearer',
      [
        ['x-api-key', ''],
        ['authorization', 'Bearer TOKEN'],
      ],
    ],
    [
      'beside the same with Bearer',
      [
        ['x-api-key', 'TOKEN'],
        ['authorization', 'Bearer TOKEN'],
      ],
    ],
    ['not at all, but Bearer', [['authorization', 'Bearer TOKEN']]],
  ])('%s: found', async (_name, headers) => {
    const { refusal, exchange } = await presentMessages(...headers)
    expect(refusal).toBeNull()
    expect(exchange.account?.name).toBe('ada')
  })
})

describe('a header that is not one Bearer key', () => {
  test.each<[string, [string, string][], string, string]>([
    ['nothing', [], 'missing_api_key', 'No API key. Send it as: Authorization: Bearer KEY'],
    ['an empty header', [['Authorization', '']], 'missing_api_key', 'is empty'],
    ['the word alone', [['Authorization', 'Bearer']], 'missing_api_key', 'key after Bearer is missing'],
    ['the word and spaces', [['authorization', 'bearer  ']], 'missing_api_key', 'key after Bearer is missing'],
    ['another scheme', [['Authorization', 'Basic TOKEN']], 'missing_api_key', 'scheme basic, not Bearer'],
    ['no scheme', [['Authorization', 'TOKEN']], 'missing_api_key', 'does not begin with the word Bearer'],
    ['an unknown scheme', [['Authorization', 'Secret TOKEN']], 'missing_api_key', 'does not begin with'],
    ['a scheme that begins alike', [['Authorization', 'BearerTOKEN']], 'missing_api_key', 'does not begin with'],
    ['two spaces', [['Authorization', 'Bearer  TOKEN']], 'malformed_api_key', 'one space and the key'],
    ['a tab', [['Authorization', 'Bearer\tTOKEN']], 'malformed_api_key', 'one space and the key'],
    ['a space in the key', [['Authorization', 'Bearer TOKEN more']], 'malformed_api_key', 'without spaces in it'],
    ['a second scheme', [['Authorization', 'Bearer Bearer TOKEN']], 'malformed_api_key', 'one space and the key'],
    ['a letter beyond ASCII', [['Authorization', 'Bearer é']], 'malformed_api_key', 'one space and the key'],
    ['a mistyped key', [['Authorization', 'Bearer TOKENx']], 'malformed_api_key', 'Copy it again'],
    [
      "an operator's token",
      [['Authorization', `Bearer tg_oper_${'a'.repeat(40)}`]],
      'malformed_api_key',
      "This is an operator's token, not an API key",
    ],
    [
      'an x-api-key header',
      [['X-Api-Key', 'TOKEN']],
      'missing_api_key',
      'the x-api-key header, which is not read here',
    ],
    ['an api-key header', [['api-key', 'TOKEN']], 'missing_api_key', 'the api-key header, which is not read here'],
  ])('%s', async (_name, headers, code, sentence) => {
    const sent = headers.map(([name, value]): [string, string] => [name, value.replace('TOKEN', token)])
    const { refusal, passed, exchange } = await present(...sent)
    expect(refusal).toMatchObject({ code, status: 401, headers: { 'www-authenticate': 'Bearer' } })
    expect(refusal!.message).toContain(sentence)
    expect(refusal!.message).not.toContain(token.slice(0, 12))
    expect(passed).toBe(false)
    expect(exchange.key).toBeUndefined()
  })

  test.each([
    ['Authorization', 'Authorization'],
    ['authorization', 'AUTHORIZATION'],
  ])('two headers, %s and %s, even with the same key', async (one, two) => {
    const { refusal, passed } = await present([one, `Bearer ${token}`], [two, `Bearer ${token}`])
    expect(refusal).toMatchObject({ code: 'bad_request', status: 400 })
    expect(passed).toBe(false)
  })
})

test.each([
  ['malformed', 'malformed_api_key'],
  ['unknown', 'invalid_api_key'],
  ['revoked', 'revoked_api_key'],
  ['expired', 'expired_api_key', /^This API key has expired/],
  ['rotated', 'expired_api_key', /because its key was rotated/],
] as const)('a key that the store calls %s is %s', async (found, code, message = /./) => {
  const keys: Keys = { find: () => ({ found }) }
  const { refusal, passed } = await createSteps([{ use: apiKey }], { keys, clock })({
    headers: [['Authorization', 'Bearer something']],
  })
  expect(refusal).toMatchObject({ code, status: 401, headers: { 'www-authenticate': 'Bearer' } })
  expect(refusal?.message).toMatch(message)
  expect(passed).toBe(false)
})

describe('with a real store', () => {
  test('a well-formed key of another gateway is unknown', async () => {
    const other = await openStore({ url: 'memory', secret: 'another secret for tests, as long as it must be', clock })
    await other.createAccount({ name: 'eve' })
    const { token: foreign } = await other.createKey({ account: 'eve', name: 'x' })
    await other.close()
    expect((await present(['Authorization', `Bearer ${foreign}`])).refusal?.code).toBe('invalid_api_key')
  })

  test('revoked and expired keys are refused', async () => {
    const revoked = await store.createKey({ account: 'ada', name: 'lost' })
    const expiring = await store.createKey({ account: 'ada', name: 'trial', expiresAt: clock.time + 1000 })
    expect((await present(['Authorization', `Bearer ${revoked.token}`])).passed).toBe(true)
    expect((await present(['Authorization', `Bearer ${expiring.token}`])).passed).toBe(true)
    await store.revokeKey(revoked.key.id)
    clock.time += 1000
    expect((await present(['Authorization', `Bearer ${revoked.token}`])).refusal?.code).toBe('revoked_api_key')
    expect((await present(['Authorization', `Bearer ${expiring.token}`])).refusal?.code).toBe('expired_api_key')
  })

  test('a frozen account is refused with 403, and unfreezing it takes effect at once', async () => {
    await store.freeze('ada', true)
    const { refusal, passed, exchange } = await present(['Authorization', `Bearer ${token}`])
    expect(refusal).toMatchObject({ code: 'account_frozen', status: 403, headers: {} })
    expect([passed, exchange.key, exchange.account]).toEqual([false, undefined, undefined])
    await store.freeze('ada', false)
    expect((await present(['Authorization', `Bearer ${token}`])).passed).toBe(true)
  })

  test.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('%s KEY gives the key and its account', async scheme => {
    const { exchange, passed, refusal } = await present(['aUTHORIZATION', `${scheme} ${token}`], ['x-api-key', 'other'])
    expect([refusal, passed]).toEqual([null, true])
    expect(exchange.key).toMatchObject({ name: 'laptop', revokedAt: null })
    expect(exchange.account).toMatchObject({ name: 'ada', frozen: false, id: exchange.key!.accountId })
  })
})
