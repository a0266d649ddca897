/** The request to a webhook: its body, and a signature by Standard Webhooks. */
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { alertText } from '../../src/alerts/alert-text.ts'
import { signature, webhookId, webhookRequest } from '../../src/alerts/webhook-request.ts'
import type { Alert } from '../../src/store/alerts/alert-rows.ts'
import { anAlert } from './receiver.ts'

const SECRET = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const NOW_MS = 1_800_000_000_999

test.each([SECRET, `whsec_${SECRET}`])('the signature is of the id, the time in seconds and the body: %s', secret => {
  const { headers, body } = webhookRequest({ format: 'json', secret }, anAlert(), NOW_MS)
  const id = headers['webhook-id']!
  const expected = createHmac('sha256', Buffer.from(SECRET, 'base64'))
    .update(`${id}.1800000000.${body}`)
    .digest('base64')
  expect(headers).toEqual({
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': '1800000000',
    'webhook-signature': `v1,${expected}`,
  })
})

test('a message with a published signature of the reference libraries', () => {
  const signed = 'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
  expect(signature(`whsec_${SECRET}`, signed)).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('without a secret the request has no signature, and the id is the same at each attempt', () => {
  const [one, other] = [NOW_MS, NOW_MS + 60_000].map(at =>
    webhookRequest({ format: 'json', secret: null }, anAlert(), at),
  )
  expect(one!.headers['webhook-signature']).toBeUndefined()
  expect(one!.headers['webhook-id']).toBe(other!.headers['webhook-id'])
  expect(one!.headers['webhook-id']).toMatch(/^alert_[\w-]{24}$/)
  expect(one!.body).toBe(other!.body)
})

test('the body has the account, amounts in dollars, times in ISO 8601 and a sentence', () => {
  const alert = anAlert({
    id: 'budget acc_1 team 0 80',
    kind: 'budget',
    account: 'acc_1',
    accountName: 'acme',
    data: {
      budget: 'policy a%2Fb/team/month UTC/',
      start: 0,
      end: 1_800_000_000_000,
      amount: '100000000000',
      spent: '80500000000',
      mark: 80,
    },
  })
  expect(JSON.parse(webhookRequest({ format: 'json', secret: null }, alert, NOW_MS).body)).toEqual({
    id: webhookId(alert.id),
    type: 'budget',
    at: '2027-01-15T08:00:00.000Z',
    account: { id: 'acc_1', name: 'acme' },
    data: {
      budget: 'policy a%2Fb/team/month UTC/',
      start: '1970-01-01T00:00:00.000Z',
      end: '2027-01-15T08:00:00.000Z',
      amount: '100.000000000',
      spent: '80.500000000',
      mark: 80,
    },
    text:
      'Account acme has spent $80.50 of $100.00, which is 80 % or more of its budget "team" (policy a/b) ' +
      'until 2027-01-15T08:00:00.000Z.',
  })
})

test('Slack gets one sentence, in which names cannot make mentions or links', () => {
  const alert = anAlert({ kind: 'low_balance', account: 'acc_1', accountName: '<!channel> & co', data: LOW })
  expect(JSON.parse(webhookRequest({ format: 'slack', secret: null }, alert, NOW_MS).body)).toEqual({
    text: 'The credit of account &lt;!channel&gt; &amp; co is below $5.00: $4.20 is left.',
  })
})

const LOW = { below: '5000000000', credit: '4200000000' }
test.each<[Pick<Alert, 'kind' | 'data'>, string]>([
  [{ kind: 'provider_down', data: { provider: 'p', replica: 'r' } }, 'All targets of provider p fail, as r sees it.'],
  [
    { kind: 'credential_refused', data: { provider: 'p', refused: 1, total: 2, replica: 'r' } },
    'Provider p refuses 1 of 2 credentials, as r sees it.',
  ],
  [
    { kind: 'breaker_open', data: { target: 'p/m', replica: 'r' } },
    'Target p/m fails and is tried after all others by r.',
  ],
  [
    { kind: 'reload_invalid', data: { problem: 'gateway.yaml:1:1: wrong', replica: 'r' } },
    'The changed configuration is not used by r: gateway.yaml:1:1: wrong',
  ],
  [
    { kind: 'budget', data: { budget: 'plan pro/run/life/a%2Fb', mark: 50, spent: '0', amount: '0' } },
    'Account  has spent $0.00 of $0.00, which is 50 % or more of its budget "run" (plan pro, a/b).',
  ],
  [
    { kind: 'budget', data: { budget: 'account/team/life/', mark: 100, spent: '81000000000', amount: '100000000000' } },
    'Account  has spent $81.00 of $100.00 of its budget "team" (account), and a request had no room in the rest.',
  ],
  [{ kind: 'low_balance', data: {} }, 'The credit of account  is below $?: $? is left.'],
  [{ kind: 'of a later version', data: {} }, 'An alert of the kind of a later version.'],
])('%o in words', (alert, sentence) => expect(alertText(anAlert(alert))).toBe(sentence))
