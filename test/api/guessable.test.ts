/** Guessable passwords are refused wherever one is chosen, before they are processed. */
import { expect, test } from 'vitest'
import { MAX_MS } from '../../src/api/sessions.ts'
import { PASSWORD, type Reply, type Rig, type SignedIn, startRig } from './rig.ts'

const EMAIL = 'new@example.com'

/** All requests that set a password, with the name of its field. */
const REQUESTS: readonly (readonly [
  where: string,
  param: 'password' | 'new',
  send: (rig: Rig, alice: SignedIn, password: string) => Promise<Reply>,
])[] = [
  [
    'registering',
    'password',
    ({ browser }, _, password) => browser().post('/api/register', { email: EMAIL, password }),
  ],
  [
    'an invitation',
    'password',
    async (rig, _, password) =>
      rig.browser().post('/api/join', { token: await linkOf(rig, null), email: EMAIL, password }),
  ],
  [
    'a reset link',
    'password',
    async (rig, alice, password) =>
      rig.browser().post('/api/reset', { token: await linkOf(rig, alice.person.id), password }),
  ],
  [
    'a password change',
    'new',
    (_, alice, password) => alice.post('/api/password', { current: PASSWORD, new: password }),
  ],
]

async function linkOf({ store, clock }: Rig, personId: string | null): Promise<string> {
  const { token } = await store.people.createLink({
    kind: personId === null ? 'invitation' : 'reset',
    role: 'member',
    accountId: null,
    plan: null,
    credit: 0n,
    email: personId === null ? null : EMAIL,
    personId,
    createdBy: 'test',
    expiresAt: clock.ms + MAX_MS,
  })
  return token
}

test.each(REQUESTS)('%s', async (where, param, send) => {
  await using rig = await startRig({ parts: { registration: { mode: 'open', credit: 0n, plan: 'default' } } })
  const alice = await rig.member(where === 'registering' || where === 'an invitation' ? 'alice@example.com' : EMAIL)
  const hashes = rig.hashes()
  for (const password of [
    '12345678',
    'Password123',
    'aaaaaaaa',
    'AaAaAaAa',
    '🔑'.repeat(8),
    EMAIL,
    'New@Example.COM',
  ]) {
    const reply = await send(rig, alice, password)
    expect(reply, password).toMatchObject({
      status: 400,
      body: {
        error: { code: 'invalid_value', param, message: expect.stringMatching(/^This password is easy to guess/) },
      },
    })
    expect(reply.text).not.toContain(password)
  }
  expect(rig.hashes()).toBe(hashes)
  expect((await send(rig, alice, 'aaaaaaab')).status).toBeLessThan(300)
})
