/** The account or the key that an argument of a verb names. */
import type { AccountBalance, KeySummary } from '#contract'
import { StoreError } from '../../store/error.ts'
import type { Store } from '../../store/store.ts'

/** By id or by name. Throws a `StoreError` when it does not exist. */
export async function accountNamed(store: Store, idOrName: string): Promise<AccountBalance> {
  const account = await store.findAccount(idOrName)
  if (!account) throw new StoreError(`the account "${idOrName}" does not exist; give its id or its name`)
  return account
}

/** Throws a `StoreError` when no key has this id. */
export async function keyWith(store: Store, id: string): Promise<KeySummary> {
  const key = await store.findKey(id)
  if (!key) throw new StoreError(`the key "${id}" does not exist`)
  return key
}
