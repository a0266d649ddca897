/** Derived routes accept the credentials of the routes that they come from: models, receipts, kept responses, counts. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AUDIENCE, createSigner, ISSUER, sign } from '../../plugins/jwt/test-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

const signer = createSigner('ES256', 'one')
const other = createSigner('ES256', 'two')
const OTHER_ISSUER = 'https://elsewhere.example'
const jwt = (issuer = ISSUER, from = signer) => ({
  use: 'jwt',
  with: { issuer, audience: AUDIENCE, jwks: { keys: [from.jwk] }, account_claim: 'tenant' },
})
const REST = FIVE_STEPS.slice(1)
/** A copy of the shipped file, as most configurations have it; its limit covers all clients of the path. */
const CATALOG = [
  { use: 'rate-limit', id: 'early', with: { per: 'address', requests: '10k per minute' } },
  { use: 'api-key' },
  { use: 'rate-limit', with: { per: 'account', requests: '1000 per minute' } },
]
const token = (of: InProcess, claims = {}, from = signer) => sign(from, Date.now(), { tenant: of.accountId, ...claims })

/** Routes of three policies: one prefix for tokens only, and one path that keys and two kinds of tokens share. */
const ROUTES = [
  { path: '/v1/chat/completions', policy: 'test' },
  { path: '/v1/messages', policy: 'office' },
  { path: '/v1/responses', policy: 'elsewhere', keep_responses: '1h' },
  { path: '/internal/v1/chat/completions', policy: 'office' },
  { path: '/internal/v1/responses', policy: 'office', keep_responses: '1h' },
  { path: '/internal/v1/messages', policy: 'office' },
  { path: '/keys/v1/chat/completions', policy: 'test' },
]

let gateway: InProcess
beforeAll(async () => {
  gateway = await startInProcess({
    policies: { office: [jwt(), ...REST], elsewhere: [jwt(OTHER_ISSUER, other), ...REST], catalog: CATALOG },
    yaml: { routes: ROUTES },
  })
})
afterAll(() => gateway.stop())

const send = (path: string, secret: string, body?: object) =>
  fetch(`${gateway.url}${path}`, {
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  })
const MESSAGES = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }

describe('below a prefix for tokens', () => {
  test.each(['/internal/v1/models', '/internal/v1/models/m', '/internal/v1/receipts/req_1'])(
    '%s does not accept a key',
    async path => {
      await expectRefusal(await send(path, gateway.key), 'malformed_api_key')
    },
  )

  test.each(['/internal/v1/models', '/internal/v1/receipts/req_1'])('%s does not take a stale token', async path => {
    const stale = await sign(signer, Date.now() - 7_200_000, { tenant: gateway.accountId })
    await expectRefusal(await send(path, stale), 'expired_api_key')
  })

  test('models, a model, a receipt, a kept response and a count accept the token of the route', async () => {
    const good = await token(gateway)
    const list = (await (await send('/internal/v1/models', good)).json()) as { data: { id: string }[] }
    expect(list.data.map(({ id }) => id)).toEqual(['m'])
    expect(await (await send('/internal/v1/models/m', good)).json()).toMatchObject({ id: 'm' })

    const answer = await send('/internal/v1/chat/completions', good, MESSAGES)
    expect(answer.status).toBe(200)
    await answer.text()
    const id = answer.headers.get('x-request-id')!
    await gateway.exchangeLine(id)
    expect(await (await send(`/internal/v1/receipts/${id}`, good)).json()).toMatchObject({ object: 'receipt', id })

    const asked = await send('/internal/v1/responses', good, { model: 'm', input: 'Hello' })
    const { id: response } = (await asked.json()) as { id: string }
    expect(await (await send(`/internal/v1/responses/${response}`, good)).json()).toMatchObject({ id: response })
    // Of the same account, with a key: this route accepts tokens only.
    await expectRefusal(await send(`/internal/v1/responses/${response}`, gateway.key), 'malformed_api_key')

    for (const [path, body] of [
      ['/internal/v1/messages/count_tokens', MESSAGES],
      ['/internal/v1/responses/input_tokens', { model: 'm', input: 'Hello' }],
    ] as const) {
      expect((await send(path, good, body)).status).toBe(200)
      expect((await send(path, gateway.key, body)).status).toBe(401)
    }
  })

  test('a token cannot read a receipt of another account', async () => {
    const stranger = await gateway.account()
    const answer = await stranger.chat()
    await answer.text()
    const id = answer.headers.get('x-request-id')!
    await expectRefusal(await send(`/internal/v1/receipts/${id}`, await token(gateway)), 'receipt_not_found')
  })
})

describe('next to routes of several policies', () => {
  test('each credential gets the policy that accepts its form', async () => {
    const mine = await token(gateway)
    const theirs = await token(gateway, { iss: OTHER_ISSUER }, other)
    for (const secret of [gateway.key, mine, theirs]) {
      for (const path of ['/v1/models', '/v1/models/m']) expect((await send(path, secret)).status).toBe(200)
    }
    const line = await gateway.exchangeLine((await send('/v1/models', theirs)).headers.get('x-request-id')!)
    expect(line).toMatchObject({ policy: 'elsewhere:catalog', route: '/v1/models' })
    const { steps } = gateway.running.configuration.routes.find(({ policy }) => policy === 'elsewhere:catalog')!
    expect(steps.steps.map(({ id }) => id)).toEqual(['early', 'jwt', 'rate-limit'])
    // Both files have a step with this id; the one of the catalog counts here.
    expect(steps.steps[2]).toMatchObject({ settings: { per: 'account' } })
    const byKey = await gateway.exchangeLine((await send('/v1/models', gateway.key)).headers.get('x-request-id')!)
    expect(byKey).toMatchObject({ policy: 'catalog' })
  })

  test.each<[string, () => Promise<string> | string, Parameters<typeof expectRefusal>[1]]>([
    ['a word', () => 'sesame', 'malformed_api_key'],
    ['a token of an unknown issuer', () => token(gateway, { iss: 'https://unknown.example' }), 'malformed_api_key'],
    ['a token with the wrong signature', () => token(gateway, {}, other), 'invalid_api_key'],
    ['an unknown key', () => `${gateway.key.slice(0, -1)}!`, 'malformed_api_key'],
  ])('%s is refused', async (_name, secret, code) => {
    await expectRefusal(await send('/v1/models', await secret()), code)
  })

  test('if all routes accept keys nothing changes', async () => {
    expect((await send('/keys/v1/models', gateway.key)).status).toBe(200)
    await expectRefusal(await send('/keys/v1/models', await token(gateway)), 'malformed_api_key')
  })
})

test('a step of catalog.yaml stays where an identifying step of the route has its id', async () => {
  await using own = await startInProcess({
    policies: {
      office: [{ ...jwt(), id: 'limit' }, ...REST],
      catalog: [
        { use: 'api-key' },
        { use: 'rate-limit', id: 'limit', with: { per: 'account', requests: '1 per day' } },
      ],
    },
    yaml: { routes: [{ path: '/internal/v1/chat/completions', policy: 'office' }] },
  })
  const { steps } = own.running.configuration.routes.find(({ policy }) => policy === 'office:catalog')!
  expect(steps.steps.map(({ id }) => id)).toEqual(['limit', 'limit:catalog'])
  const secret = await token(own)
  const list = () => fetch(`${own.url}/internal/v1/models`, { headers: { authorization: `Bearer ${secret}` } })
  expect((await list()).status).toBe(200)
  const refused = await list()
  const line = await own.exchangeLine(refused.headers.get('x-request-id')!)
  expect(line).toMatchObject({ decided_by: 'limit:catalog' })
  await expectRefusal(refused, 'rate_limit_exceeded')
})

test('a catalog.yaml that identifies clients in another way applies to all of them', async () => {
  await using own = await startInProcess({
    policies: { office: [jwt(), ...REST], catalog: [jwt(OTHER_ISSUER, other)] },
    yaml: { routes: [{ path: '/internal/v1/chat/completions', policy: 'office' }] },
  })
  const list = (secret: string) =>
    fetch(`${own.url}/internal/v1/models`, { headers: { authorization: `Bearer ${secret}` } })
  expect((await list(await token(own, { iss: OTHER_ISSUER }, other))).status).toBe(200)
  await expectRefusal(await list(await token(own)), 'invalid_api_key')
})
