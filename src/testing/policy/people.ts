/** Who is there when a scripted request comes: one account with its credit, and one key. */
import type { Key } from '#contract'
import type { House } from '../house.ts'
import type { TestShape } from './schema.ts'

/** The account's id, its key, and the key as clients send it. */
export interface People {
  readonly account: string
  readonly key: Key
  readonly good: string
}

/** The name of the account where a test gives it none. */
export const STANDARD_ACCOUNT = 'acme'

/** Makes the account and its key; what is left out is as policy tests say. */
export async function settle(
  { store }: Pick<House, 'store'>,
  given: NonNullable<TestShape['given']> = {},
): Promise<People> {
  const { name = STANDARD_ACCOUNT, plan = 'default', balance = 10_000_000_000n, frozen = false } = given.account ?? {}
  const { id } = await store.createAccount({ name, plan })
  if (balance > 0n) await store.credit({ account: id, amount: balance, reference: 'given', actor: 'test' })
  const { models, spending_cap: spendingCap } = given.key ?? {}
  const { key, token } = await store.createKey({
    account: id,
    name: 'test',
    ...(models ? { models } : {}),
    ...(spendingCap === undefined ? {} : { spendingCap }),
  })
  if (frozen) await store.freeze(id, true)
  return { account: id, key, good: token }
}
