/** A store that fails in the middle of a route's work: the answer reports what was already written. */
import { describe, expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import { StoreUnavailable } from '../../src/store/store.ts'
import { PASSWORD, type Reply, type Rig, startRig } from './rig.ts'

const ALICE = 'alice@example.com'
const NEW = { email: 'new@example.com', password: PASSWORD }

const fails = () => Promise.reject(new StoreUnavailable('not_written', new Error('disk full')))

async function expectMessage(asked: Promise<Reply>, words: RegExp): Promise<void> {
  const { status, body } = await asked
  expect(status).toBe(503)
  const { error } = body as ErrorEnvelope
  expect(error.code).toBe('store_unavailable')
  expect(error.message).toMatch(words)
  expect(error.message).not.toContain('Nothing has changed')
}

describe('when the session cannot be started', () => {
  const noSessions = (rig: Rig) => Object.assign(rig.store.people, { createSession: fails })
  const invite = async (rig: Rig, personId: string | null) => {
    const link = { role: 'member', accountId: null, plan: null, credit: 0n, email: null } as const
    const kind = personId === null ? 'invitation' : 'reset'
    const expiresAt = rig.clock.ms + 3_600_000
    return (await rig.store.people.createLink({ ...link, kind, personId, createdBy: 'test', expiresAt })).token
  }

  test('registering reports that the account was created', async () => {
    await using rig = await startRig()
    noSessions(rig)
    await expectMessage(rig.browser().post('/api/register', NEW), /account is made.*Sign in/)
    expect(rig.store.reads.people.list()).toHaveLength(1)
  })

  test('joining reports that the person has joined', async () => {
    await using rig = await startRig()
    const token = await invite(rig, null)
    noSessions(rig)
    await expectMessage(rig.browser().post('/api/join', { ...NEW, token }), /have joined.*Sign in/)
  })

  test('a reset reports that the password was set', async () => {
    await using rig = await startRig()
    const { person } = await rig.member(ALICE)
    const token = await invite(rig, person.id)
    noSessions(rig)
    await expectMessage(rig.browser().post('/api/reset', { token, password: 'another password' }), /password is set/)
  })

  test('a password change reports that the password was changed', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    noSessions(rig)
    const change = alice.post('/api/password', { current: PASSWORD, new: 'another password' })
    await expectMessage(change, /password is changed/)
  })

  test('a failed sign-in has changed nothing', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    noSessions(rig)
    const again = rig.browser()
    again.cookie = alice.cookie
    const reply = await again.post<ErrorEnvelope>('/api/session', { email: ALICE, password: PASSWORD })
    expect(reply.body.error.message).toContain('Nothing has changed')
    expect((await alice.get('/api/session')).status).toBe(200)
  })
})

test('a change that was written but cannot be read back is not reported as failed', async () => {
  await using rig = await startRig()
  const alice = await rig.member(ALICE)
  const { key } = (await alice.post<{ key: { id: string } }>('/api/keys', { name: 'a' })).body
  const { changeKey } = rig.store
  const unread = () => Promise.reject(new StoreUnavailable('not_read', new Error('connection refused')))
  Object.assign(rig.store, {
    async changeKey(...change: Parameters<typeof changeKey>) {
      await changeKey.apply(rig.store, change)
      Object.assign(rig.store, { findKey: unread })
    },
  })
  await expectMessage(alice.patch(`/api/keys/${key.id}`, { name: 'b' }), /could not be read.*check whether it was made/)
})

test('signing in succeeds when the password cannot be rehashed', async () => {
  await using rig = await startRig()
  const { person } = await rig.member(ALICE)
  const stored = rig.store.reads.people.findByEmail(ALICE)!.password
  await rig.store.people.upgradePassword(person.id, stored.replace('m=19456,t=2', 'm=8192,t=1'))
  Object.assign(rig.store.people, { upgradePassword: fails })
  expect((await rig.browser().post('/api/session', { email: ALICE, password: PASSWORD })).status).toBe(201)
  expect(rig.log.filter(({ level }) => level === 'warn')).toHaveLength(1)
})

test('an account created without its first credit is named, with the reference to retry the credit', async () => {
  await using rig = await startRig()
  const operator = await rig.operator()
  Object.assign(rig.store, { credit: fails })
  const asked = operator.post('/api/operator/accounts', { name: 'acme', credit: '5', reference: 'invoice-1' })
  await expectMessage(asked, /account acc_\w+ was made.*invoice-1/)
  expect(rig.store.reads.findAccount('acme')).toBeDefined()
})

test('an account that was frozen but kept its plan is reported as such', async () => {
  await using rig = await startRig()
  const operator = await rig.operator()
  const { id } = await rig.store.createAccount({ name: 'acme' })
  Object.assign(rig.store, { setPlan: fails })
  await expectMessage(
    operator.patch(`/api/operator/accounts/${id}`, { plan: 'gold', frozen: true }),
    /is frozen now.*plan/,
  )
  expect(rig.store.reads.findAccount(id)!.frozen).toBe(true)
})
