/** Accounts: names, lookups, plans. */
import { expect, test } from 'vitest'
import { fund, onEveryEngine, testStore } from '../helpers.ts'

onEveryEngine(() => {
  test.each([
    ['an empty name', { name: '' }, /the name "" is not 1 to 200 visible characters/],
    ['space around the name', { name: ' alice' }, /the name " alice"/],
    ['a line break', { name: 'a\nb' }, /the name "a\\nb"/],
    ['201 characters', { name: 'x'.repeat(201) }, /is not 1 to 200/],
    ['a name that looks like an id', { name: 'acc_alice' }, /begins with acc_, which only ids may/],
    ['an empty plan', { name: 'alice', plan: '' }, /the plan ""/],
  ])('%s is refused', async (_what, account, message) => {
    const store = await testStore({ url: 'memory' })
    await expect(store.createAccount(account)).rejects.toThrow(message)
    expect(store.reads.listAccounts()).toEqual([])
  })

  test('a name is given once, even to simultaneous requests', async () => {
    const store = await testStore()
    const both = await Promise.allSettled([
      store.createAccount({ name: 'alice' }),
      store.createAccount({ name: 'alice' }),
    ])
    expect(both.map(result => result.status)).toEqual(['fulfilled', 'rejected'])
    await expect(store.createAccount({ name: 'alice' })).rejects.toThrow(
      'The name "alice" is taken by another account. Choose another name.',
    )
    expect(store.reads.listAccounts()).toHaveLength(1)
  })

  test('freezing an unknown account is refused', async () => {
    const store = await testStore({ url: 'memory' })
    await expect(store.freeze('bob', true)).rejects.toThrow('The account "bob" does not exist.')
    expect(store.reads.findAccount('acc_bob')).toBeUndefined()
  })

  test('another plan applies from the next lookup of a key on', async () => {
    const store = await testStore()
    const alice = await store.createAccount({ name: 'alice', plan: 'free' })
    const { token } = await store.createKey({ account: 'alice', name: 'k' })
    expect(store.keys.find(token, store.clock.ms)).toMatchObject({ account: { plan: 'free' } })
    expect(await store.setPlan('alice', 'gold')).toEqual({ ...alice, plan: 'gold' })
    expect(store.keys.find(token, store.clock.ms)).toMatchObject({ account: { plan: 'gold' } })
    await expect(store.setPlan('alice', '')).rejects.toMatchObject({ code: 'invalid' })
    await expect(store.setPlan('bob', 'gold')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('an account is found by id and by name, with its money, and listed in order of creation', async () => {
    const store = await testStore()
    const alice = await store.createAccount({ name: 'alice', plan: 'free' })
    expect(alice).toEqual({
      id: expect.stringMatching(/^acc_[0-9A-HJKMNP-TV-Z]{26}$/),
      name: 'alice',
      plan: 'free',
      frozen: false,
      createdAt: store.clock.ms,
    })
    await fund(store, 7n, 'Bob & Söhne')
    expect(store.reads.findAccount(alice.id)).toEqual({ ...alice, posted: 0n, held: 0n })
    expect(store.reads.findAccount('Bob & Söhne')).toMatchObject({ plan: 'default', posted: 7n })
    expect(store.reads.listAccounts().map(account => account.name)).toEqual(['alice', 'Bob & Söhne'])
    expect(await store.freeze('alice', true)).toEqual({ ...alice, frozen: true })
    expect(store.reads.findAccount('alice')?.frozen).toBe(true)
  })
})
