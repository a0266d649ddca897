/** Creates the accounts of a policy test, with their credit and a key each. */
import type { Key } from '#contract'
import type { TestGateway } from '../../simulate/whole-gateway.ts'
import type { AccountShape, KeyShape, OwnBudget, TestShape } from './schema.ts'

/** An account's id and name, its key, and the key's token. */
export interface TestAccount {
  readonly account: string
  readonly name: string
  readonly plan: string
  /** The models of the key, as in the test. */
  readonly models: readonly string[] | undefined
  readonly key: Key
  readonly good: string
}

/** The accounts of a test. Has the members of the first one. */
export interface TestAccounts extends TestAccount {
  /** The account with a name. Default: `given.account`. */
  of(name?: string): TestAccount
}

/** The default name of the account. */
export const STANDARD_ACCOUNT = 'acme'

type GivenShape = NonNullable<TestShape['given']>

/** The accounts of a test by name; `given.account` comes first. */
export function accountsOf({ account = {}, key, accounts = {} }: GivenShape = {}) {
  const { name = STANDARD_ACCOUNT, ...first } = account
  const others = Object.entries(accounts).map(([id, each]) => [id, each ?? {}] as const)
  return [[name, { ...first, ...(key ? { key } : {}) }] as const, ...others]
}

/** Creates the accounts and their keys, with the defaults of policy tests. */
export async function createAccounts({ store }: Pick<TestGateway, 'store'>, given?: GivenShape): Promise<TestAccounts> {
  const accounts = new Map<string, TestAccount>()
  for (const [name, account] of accountsOf(given)) accounts.set(name, await createAccount(store, name, account))
  const [first] = accounts.values()
  return { ...first!, of: name => (name === undefined ? first! : accounts.get(name)!) }
}

async function createAccount(
  store: TestGateway['store'],
  name: string,
  {
    plan = 'default',
    balance = 10_000_000_000n,
    frozen = false,
    budgets,
    key: given = {},
  }: AccountShape & { key?: KeyShape },
): Promise<TestAccount> {
  const { id } = await store.createAccount({ name, plan })
  if (balance > 0n) await store.credit({ account: id, amount: balance, reference: `given to ${name}`, actor: 'test' })
  const { models, spending_cap: spendingCap } = given
  const { key, token } = await store.createKey({
    account: id,
    name: 'test',
    ...(models ? { models } : {}),
    ...(spendingCap === undefined ? {} : { spendingCap }),
  })
  await setBudgets(store, 'account', id, budgets)
  await setBudgets(store, 'key', key.id, given.budgets)
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
