/** Who is there when a scripted request comes: accounts with their credit, and a key of each. */
import type { Key } from '#contract'
import type { TestGateway } from '../../simulate/whole-gateway.ts'
import type { AccountShape, KeyShape, OwnBudget, TestShape } from './schema.ts'

/** The account's id and name, its key, and the key as clients send it. */
export interface Person {
  readonly account: string
  readonly name: string
  readonly plan: string
  /** The models of the key, as the test says them. */
  readonly models: readonly string[] | undefined
  readonly key: Key
  readonly good: string
}

/** The accounts of a test. */
export interface People extends Person {
  /** By name; left out: the one that the test calls its account. */
  of(name?: string): Person
}

/** The name of the account where a test gives it none. */
export const STANDARD_ACCOUNT = 'acme'

type Given = NonNullable<TestShape['given']>

/** The accounts of a test by their names, the one that it calls its account first. */
export function accountsOf({ account = {}, key, accounts = {} }: Given = {}) {
  const { name = STANDARD_ACCOUNT, ...first } = account
  const others = Object.entries(accounts).map(([id, each]) => [id, each ?? {}] as const)
  return [[name, { ...first, ...(key ? { key } : {}) }] as const, ...others]
}

/** Makes the accounts and their keys; what is left out is as policy tests say. */
export async function settle({ store }: Pick<TestGateway, 'store'>, given?: Given): Promise<People> {
  const people = new Map<string, Person>()
  for (const [name, account] of accountsOf(given)) people.set(name, await settleOne(store, name, account))
  const [first] = people.values()
  return { ...first!, of: name => (name === undefined ? first! : people.get(name)!) }
}

async function settleOne(
  store: TestGateway['store'],
  name: string,
  {
    plan = 'default',
    balance = 10_000_000_000n,
    frozen = false,
    budgets,
    key: said = {},
  }: AccountShape & { key?: KeyShape },
): Promise<Person> {
  const { id } = await store.createAccount({ name, plan })
  if (balance > 0n) await store.credit({ account: id, amount: balance, reference: `given to ${name}`, actor: 'test' })
  const { models, spending_cap: spendingCap } = said
  const { key, token } = await store.createKey({
    account: id,
    name: 'test',
    ...(models ? { models } : {}),
    ...(spendingCap === undefined ? {} : { spendingCap }),
  })
  await setBudgets(store, 'account', id, budgets)
  await setBudgets(store, 'key', key.id, said.budgets)
  if (frozen) await store.freeze(id, true)
  return { account: id, name, plan, models, key, good: token }
}

async function setBudgets(
  store: TestGateway['store'],
  of: 'account' | 'key',
  name: string,
  budgets: readonly OwnBudget[] = [],
) {
  for (const { every, ...budget } of budgets) await store.setBudget({ of, name, every, budget })
}
