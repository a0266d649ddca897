/** Limits of reports: which are refused, what the refusal advises, and that the advice works. */
import { describe, expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import { MAX_ROWS } from '../../src/api/usage.ts'
import type { UsageView } from '../../src/api/views.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { readCsv } from './read-csv.ts'
import { type Rig, type SignedIn, startRig } from './rig.ts'

const HOUR = 3_600_000

/** A number of exchanges of a number of models with two keys, one after the other. */
async function use(
  rig: Rig,
  who: SignedIn,
  { count, name, spreadMs = 0 }: { count: number; name: (index: number) => string; spreadMs?: number },
): Promise<void> {
  const begin = rig.clock.ms
  for (let at = 0; at < count; at += 500) {
    const some = Array.from({ length: Math.min(500, count - at) }, (_, index) => at + index)
    rig.clock.ms = begin + Math.floor((at / count) * spreadMs)
    const ids = some.map(index => ({ exchange: `req_${index}`, keyId: `key_${index % 2}`, model: name(index) }))
    await Promise.all(ids.map(each => rig.store.ledger.hold(aHold({ ...each, accountId: who.accountId, amount: 1n }))))
    await Promise.all(ids.map(({ exchange }) => rig.store.ledger.settle(aSettle({ exchange, amount: 1n }))))
  }
  rig.clock.ms += 1
  who.cookie = await rig.store.people.createSession(who.person.id)
}

describe('usage', () => {
  test('with too many rows for an answer is refused, and the advised request is answered', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await use(rig, alice, { count: MAX_ROWS + 1, name: index => `m${index}` })
    const operator = await rig.operator()
    const refused = {
      'step=day&by=both': ['by', 'Use a shorter time, by=model or by=key.'],
      'step=day&by=model': ['by', 'Use a shorter time or by=none.'],
      'step=hour&by=model': ['by', 'Use a shorter time, step=day or by=none.'],
    }
    const to = new Date(rig.clock.ms).toISOString()
    const from = new Date(rig.clock.ms - 24 * HOUR).toISOString()
    for (const [query, [param, advice]] of Object.entries(refused)) {
      for (const path of ['/api/usage', '/api/usage.csv', `/api/operator/accounts/${alice.accountId}/usage`]) {
        const who = path.includes('operator') ? operator : alice
        const { status, body } = await who.get<ErrorEnvelope>(`${path}?${query}&from=${from}&to=${to}`)
        expect([path, status, body.error.code, body.error.param]).toEqual([path, 400, 'invalid_value', param])
        expect(body.error.message).toBe(`The answer would be too large. ${advice}`)
      }
    }
    expect((await operator.get(`/api/operator/usage?by=model&step=day`)).status).toBe(400)
    const { body } = await alice.get<UsageView>('/api/usage?step=day&by=key')
    expect(body.rows.map(({ key_id, requests }) => [key_id, requests])).toEqual([
      ['key_0', MAX_ROWS / 2 + 1],
      ['key_1', MAX_ROWS / 2],
    ])
    expect(body.total).toMatchObject({ requests: MAX_ROWS + 1, charged: '0.000004001' })
  })

  test('uses the step that fits if the request names none', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    // The same thousand models in five hours of one day: too many rows by the hour.
    rig.clock.ms = Math.ceil(rig.clock.ms / (24 * HOUR)) * 24 * HOUR
    await use(rig, alice, { count: 5000, spreadMs: 10 * HOUR, name: index => `m${index % 1000}` })
    const from = `from=${new Date(rig.clock.ms - 12 * HOUR).toISOString()}`
    expect((await alice.get(`/api/usage?by=model&step=hour&${from}`)).status).toBe(400)
    const { body } = await alice.get<UsageView>(`/api/usage?by=model&${from}`)
    expect([body.step, body.rows.length, body.total.requests]).toEqual(['day', 1000, 5000])
    expect((await alice.get<UsageView>(`/api/usage?by=none&${from}`)).body.step).toBe('hour')
  })

  test('never exceeds a million bytes, whatever the models are called', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await use(rig, alice, { count: 1200, name: index => `${'é'.repeat(400)}${index}` })
    const answer = await alice.get<ErrorEnvelope>('/api/usage?by=model')
    expect([answer.status, answer.body.error.message]).toEqual([
      400,
      'The answer would be too large. Use a shorter time or by=none.',
    ])
    expect((await alice.get('/api/usage.csv?by=model')).status).toBe(400)
    expect((await alice.get<UsageView>('/api/usage?by=none')).body.total.requests).toBe(1200)
  })
})

describe('the ledger as a file', () => {
  test('with several pages, mostly of free requests, has all charges; HEAD does not count as a download', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await use(rig, alice, { count: 1400, name: () => 'm' })
    for (let index = 0; index < 2500; index++) {
      const exchange = `req_free_${index}`
      void rig.store.ledger.hold(aHold({ exchange, accountId: alice.accountId, amount: 0n }))
      const settled = rig.store.ledger.settle(aSettle({ exchange, amount: 0n }))
      if (index % 500 === 499) await settled
    }
    rig.clock.ms += 1
    const head = await alice.call('HEAD', '/api/entries.csv')
    expect([head.status, head.text, head.headers['content-type']]).toEqual([200, '', 'text/csv; charset=utf-8'])
    const [header, ...rows] = readCsv((await alice.get('/api/entries.csv')).text)
    expect(header![0]).toBe('at')
    expect(rows).toHaveLength(1401)
    expect(new Set(rows.map(row => row[3])).size).toBe(1401)
  })
})
