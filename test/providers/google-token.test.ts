/** Tokens of a service account: the signed request, caching and renewal. Google is a server on loopback. */
import { createVerify, generateKeyPairSync } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { assertionFor, keepToken, type ServiceAccount } from '../../src/providers/google-token.ts'
import { REFUSED_URL } from '../helpers/unreachable.ts'

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
const NOW = Date.UTC(2026, 0, 1)

let server: Server
let account: ServiceAccount
let asked: URLSearchParams[]
let answer: { status: number; body: string }

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    asked.push(new URLSearchParams(body))
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  account = { clientEmail: 'gw@p.example', privateKey: PEM, tokenUri: `http://127.0.0.1:${port}/token` }
})
afterAll(() => new Promise(resolve => server.close(resolve)))
beforeEach(() => {
  asked = []
  answer = { status: 200, body: JSON.stringify({ access_token: 'token-1', expires_in: 3600 }) }
})

/** Starts a token keeper whose clock and timers the test controls. */
function start(of: Partial<ServiceAccount> = {}) {
  const clock = { now: NOW }
  const problems: string[] = []
  const due: { ms: number; act: () => void }[] = []
  const keeper = keepToken({
    account: { ...account, ...of },
    now: () => clock.now,
    schedule(ms, act) {
      const entry = { ms, act }
      due.push(entry)
      return () => due.splice(due.indexOf(entry), 1)
    },
    onProblem: detail => problems.push(detail),
  })
  const renewed = async () => {
    const before = due.length
    due.at(-1)!.act()
    await expect.poll(() => due.length).toBe(before + 1)
  }
  return { keeper, clock, problems, due, renewed }
}

describe('without a token', () => {
  test.each([
    ['refused', 400, '{"error":"invalid_grant","error_description":"Invalid JWT"}', 'status 400, invalid_grant'],
    ['an HTML page', 502, '<html>', 'status 502'],
    ['an error that is not a string', 400, '{"error":{"a":1}}', 'status 400'],
    ['an answer without a token', 200, '{"expires_in":3600}', 'the answer has no valid access_token'],
    [
      'a token that is not a valid header value',
      200,
      '{"access_token":"a\\r\\nb"}',
      'the answer has no valid access_token',
    ],
    ['no JSON', 200, 'ok', 'the answer has no valid access_token'],
    ['an endless body', 200, 'x'.repeat(100_000), 'the answer is longer than 65536 bytes'],
  ])('%s: reported, and retried soon', async (_name, status, body, said) => {
    answer = { status, body }
    const { keeper, problems, due, renewed } = start()
    await keeper.tried
    expect(keeper.current()).toBeNull()
    expect(problems).toEqual([said])
    expect(due.map(({ ms }) => ms)).toEqual([15_000])
    answer = { status: 200, body: '{"access_token":"late"}' }
    await renewed()
    expect(keeper.current()).toBe('late')
  })

  test('a refused connection is reported, without the key', async () => {
    const { keeper, problems } = start({ tokenUri: `${REFUSED_URL}/token` })
    await keeper.tried
    expect(keeper.current()).toBeNull()
    expect(problems).toHaveLength(1)
    expect(problems[0]).not.toContain('KEY')
  })

  test('a redirect is not followed: the assertion is for one address', async () => {
    const other = createServer((_request, response) => response.writeHead(307, { location: account.tokenUri }).end())
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
    const { keeper, problems } = start({ tokenUri: `http://127.0.0.1:${(other.address() as AddressInfo).port}/` })
    await keeper.tried
    expect(problems).toHaveLength(1)
    expect(asked).toEqual([])
    await new Promise(resolve => other.close(resolve))
  })

  test('an expired token is not used if the renewal failed', async () => {
    const { keeper, clock, problems, renewed } = start()
    await keeper.tried
    answer = { status: 500, body: '{}' }
    await renewed()
    clock.now = NOW + 3_599_999
    expect(keeper.current()).toBe('token-1')
    clock.now = NOW + 3_600_000
    expect(keeper.current()).toBeNull()
    expect(problems).toEqual(['status 500'])
  })
})

test('a token is renewed five minutes before it expires, and used until then', async () => {
  const { keeper, clock, due, renewed } = start()
  await keeper.tried
  expect(keeper.current()).toBe('token-1')
  expect(due.map(({ ms }) => ms)).toEqual([55 * 60_000])
  clock.now += 55 * 60_000
  answer = { status: 200, body: JSON.stringify({ access_token: 'token-2', expires_in: 600 }) }
  await renewed()
  expect(keeper.current()).toBe('token-2')
  expect(due.at(-1)!.ms).toBe(5 * 60_000)
})

test('nothing is renewed after close', async () => {
  const { keeper, due } = start()
  await keeper.tried
  keeper.close()
  expect(due).toEqual([])
})

test('the assertion is signed by the account, for Google, for an hour', async () => {
  const { keeper } = start()
  await keeper.tried
  expect(asked[0]!.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
  expect(asked[0]!.get('assertion')).toBe(await assertionFor(account, NOW))
  const [head, claims, signature] = asked[0]!.get('assertion')!.split('.') as [string, string, string]
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as object
  expect(read(head)).toEqual({ alg: 'RS256', typ: 'JWT' })
  expect(read(claims)).toEqual({
    iss: account.clientEmail,
    scope: 'https://www.googleapis.com/auth/cloud-platform',
    aud: account.tokenUri,
    iat: NOW / 1000,
    exp: NOW / 1000 + 3600,
  })
  const verifier = createVerify('RSA-SHA256').update(`${head}.${claims}`)
  expect(verifier.verify(publicKey, Buffer.from(signature, 'base64url'))).toBe(true)
})
