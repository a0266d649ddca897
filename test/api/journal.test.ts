/** The audit log of the account API has refusals with their actors, and strangers cannot flood it. */
import { expect, test } from 'vitest'
import { startRig } from './rig.ts'

const ALICE = 'alice@example.com'

test('a request refused before it ran is logged with its actor', async () => {
  await using rig = await startRig()
  const alice = await rig.member(ALICE)
  await alice.post('/api/operator/accounts', { name: 'acme' })
  expect(rig.log[0]).toMatchObject({
    actor: ALICE,
    by: alice.person.id,
    route: 'POST /api/operator/accounts',
    about: { refused: 'forbidden' },
  })
})

test.each<[what: string, code: string, ask: (rig: Awaited<ReturnType<typeof startRig>>) => Promise<unknown>]>([
  [
    'a change from another site',
    'cross_site_request',
    rig => rig.browser().call('POST', '/api/session', { body: {}, headers: { 'sec-fetch-site': 'cross-site' } }),
  ],
  ['a change without a session', 'not_signed_in', rig => rig.browser().post('/api/keys', { name: 'x' })],
  ['a guess at a token', 'unauthorized', rig => rig.machine('tg_oper_guess').get('/api/operator/summary')],
  ['a change with a wrong token', 'unauthorized', rig => rig.machine('x').post('/api/operator/tokens', { name: 'x' })],
])('%s is logged', async (_, code, ask) => {
  await using rig = await startRig()
  await ask(rig)
  expect(rig.log).toMatchObject([{ actor: 'nobody', address: '127.0.0.1', about: { refused: code } }])
  expect(JSON.stringify(rig.log)).not.toContain('guess')
})

test('refusals of strangers are logged once a minute, and the next line counts the skipped ones', async () => {
  await using rig = await startRig()
  const ask = (address: string) =>
    rig.browser().call('POST', '/api/keys', { body: {}, headers: { 'x-forwarded-for': address } })
  for (let round = 0; round < 50; round++) await ask('10.0.0.1')
  await ask('10.0.0.2')
  expect(rig.log.map(({ address }) => address)).toEqual(['10.0.0.1', '10.0.0.2'])
  rig.clock.ms += 59_999
  await ask('10.0.0.1')
  expect(rig.log).toHaveLength(2)
  rig.clock.ms += 1
  await ask('10.0.0.1')
  expect(rig.log[2]).toMatchObject({ address: '10.0.0.1', about: { refused: 'not_signed_in', more: 50 } })
})

test('each wrong password of a known person is logged with their id, never with the typed address', async () => {
  await using rig = await startRig()
  const alice = await rig.member(ALICE)
  const signIn = (email: string) => rig.browser().post('/api/session', { email, password: 'wrong password' })
  for (let round = 0; round < 3; round++) await signIn(ALICE)
  await signIn('unknown@example.com')
  await signIn('unknown@example.com')
  expect(rig.log.map(({ about }) => about)).toEqual([
    ...Array.from({ length: 3 }, () => ({ person: alice.person.id, refused: 'wrong_credentials' })),
    { refused: 'wrong_credentials' },
  ])
  expect(JSON.stringify(rig.log)).not.toContain('@')
})

test('the line has the new values: a role, a plan, a freeze, an amount', async () => {
  await using rig = await startRig()
  const [operator, alice] = [await rig.operator(), await rig.member(ALICE)]
  const account = `/api/operator/accounts/${alice.accountId}`
  await operator.patch(`/api/operator/people/${alice.person.id}`, { role: 'operator' })
  await operator.patch(account, { plan: 'gold', frozen: true })
  await operator.post(`${account}/credit`, { amount: '2.5', reference: 'r1' })
  await operator.post('/api/operator/links', { kind: 'invitation', role: 'operator' })
  expect(rig.log.map(({ about }) => about)).toMatchObject([
    { id: alice.person.id, role: 'operator' },
    { id: alice.accountId, plan: 'gold', frozen: true },
    { id: alice.accountId, amount: '2.500000000', reference: 'r1' },
    { id: rig.store.reads.people.links()[0]!.id, role: 'operator' },
  ])
  expect(rig.log.every(({ by }) => by === operator.person.id)).toBe(true)
})
