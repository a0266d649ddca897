/** Policy tests whose later steps repeat the request, and tests with several accounts. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { inherited } from '../../src/testing/policy/inherit.ts'
import type { RequestShape } from '../../src/testing/policy/schema.ts'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

async function run(tests: string, policy = STANDARD_POLICY) {
  place.write('policies/standard.yaml', policy)
  place.write('policies/standard.test.yaml', tests)
  return place.tollgate(['test'])
}
const before = (step: string) => STANDARD_POLICY.replace('  - use: credits\n', `${step}\n  - use: credits\n`)

describe('the request of a step under "then"', () => {
  test.each<[string, RequestShape | undefined, RequestShape | undefined, RequestShape]>([
    [
      'is that of the test by default',
      { content: 'Hi', stream: true, key: 'none' },
      undefined,
      { content: 'Hi', stream: true, key: 'none' },
    ],
    ['overrides parts of it', { content: 'Hi', stream: true }, { content: 'No' }, { content: 'No', stream: true }],
    [
      'merges headers and body with those of the test',
      { headers: { a: '1', b: '2' }, body: { seed: 1, n: 2 } },
      { headers: { b: null }, body: { n: 1 } },
      { headers: { a: '1', b: null }, body: { seed: 1, n: 1 } },
    ],
    ['has a body that is text', { body: { seed: 1 } }, { body: '{' }, { body: '{' }],
    ['is sent once and read to its end', { times: 20, leaves_after: 1, model: 'm' }, undefined, { model: 'm' }],
    ['is repeated only by its own times', { times: 20, leaves_after: 1 }, { times: 2 }, { times: 2 }],
    [
      'for another path keeps the client',
      { content: 'Hi', body: { seed: 1 }, key: 'expired', account: 'b', address: '::1', headers: { a: '1' } },
      { path: '/v1/models' },
      { path: '/v1/models', key: 'expired', account: 'b', address: '::1' },
    ],
    [
      'for another method keeps the client',
      { body: { seed: 1 }, key: 'none' },
      { method: 'GET', key: 'good' },
      { method: 'GET', key: 'good' },
    ],
    ['without one in the test is its own', undefined, { key: 'none' }, { key: 'none' }],
  ])('%s', (_name, first, request, expected) => {
    const test = { name: 'x', expect: {}, ...(first ? { request: first } : {}) }
    expect(inherited(test, { expect: {}, ...(request ? { request } : {}) })).toEqual(expected)
  })

  test('in a test: the same request is sent again', async () => {
    const { code, out } = await run(`tests:
  - name: the same again
    request: { content: Once more, body: { seed: 7 }, times: 3 }
    expect: { status: 200, upstream: 3, sent: { seed: 7 } }
    then:
      - expect: { status: 200, upstream: 1, sent: { seed: 7, messages: [{ content: Once more }] } }
      - request: { key: none }
        expect: { status: 401 }
`)
    expect(out).toContain('1 test')
    expect(code, out).toBe(0)
  })
})

describe('several accounts', () => {
  const LIMITED = before('  - { use: rate-limit, with: { per: account, requests: 1 per hour } }')

  test('each has its own plan, credit, key and limits', async () => {
    const { code, out } = await run(
      `tests:
  - name: they do not use up each other's
    given:
      account: { name: one, balance: $5 }
      accounts:
        two: { balance: $0 }
        three: { frozen: true }
        four: { key: { models: [demo-small] } }
        five:
    expect: { status: 200 }
    then:
      - expect: { status: 429, decided_by: rate-limit, balance: $4.9999 }
      - request: { account: two }
        expect: { status: 402, balance: $0 }
      - request: { account: three }
        expect: { status: 403, code: account_frozen, balance: $10 }
      - request: { account: four }
        expect: { status: 200 }
      - request: { account: five, key: revoked }
        expect: { status: 401, code: revoked_api_key }
      - request: { account: five }
        expect: { status: 200 }
`.replace('balance: $4.9999', 'upstream: 0'),
      LIMITED,
    )
    expect(code, out).toBe(0)
  })

  test('an expectation for the wrong account is reported', async () => {
    const { code, out } = await run(`tests:
  - name: wrong
    given: { accounts: { poor: { balance: $1 } } }
    request: { account: poor }
    expect: { balance: $10 }
`)
    expect(code).toBe(1)
    expect(out).toContain('balance')
  })

  test('a token is for the account of its request', async () => {
    const jwt = `steps:
  - use: jwt
    with: { issuer: "https://id.example.com/", audience: tollgate, jwks: "https://id.example.com/keys", account_claim: org }
  - use: schema
  - use: credits
  - use: route
`
    const { code, out } = await run(
      `tests:
  - name: by token
    given: { account: { name: one }, accounts: { two: { balance: $0 } } }
    expect: { status: 200 }
    then:
      - request: { account: two }
        expect: { status: 402 }
`,
      jwt,
    )
    expect(code, out).toBe(0)
  })

  test.each<[string, string, string, string]>([
    [
      'an account that is missing in the test',
      '    given: { accounts: { other: } }\n    request: { account: othre }\n',
      '4:25',
      'the test has no account "othre"; did you mean "other"?',
    ],
    [
      'its account in both places',
      '    given: { account: { name: b }, accounts: { b: } }\n',
      '3:48',
      '"b" is already the account of given.account',
    ],
    [
      'an unknown model',
      '    given: { accounts: { b: { key: { models: [demo-smal] } } } }\n',
      '3:47',
      'the model "demo-smal" does not exist; did you mean "demo-small"?',
    ],
    ['a misspelt part', '    given: { accounts: { b: { plna: pro } } }\n', '3:31', 'did you mean "plan"?'],
  ])('%s', async (_name, given, at, says) => {
    const { code, out } = await run(`tests:\n  - name: x\n${given}    expect: { status: 200 }\n`)
    expect(code).toBe(1)
    expect(out).toContain(`standard.test.yaml:${at}: `)
    expect(out).toContain(says)
  })
})
