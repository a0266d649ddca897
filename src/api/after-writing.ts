/** What is said when a route has written something and the rest of its work fails: then "nothing was changed" would be a lie. */
import { refuse } from '#contract'
import { StoreError } from '../store/error.ts'
import { type CreditGrant, type Store, StoreUnavailable } from '../store/store.ts'

/**
 * Does the rest of the work. Where the store fails at it, the refusal says what was done and what was not.
 *
 * @param done Whole sentences, true whether the rest was written or not: the store may not know.
 */
export async function afterWriting<Result>(
  done: string,
  rest: () => Promise<Result>,
  param: string | null = null,
): Promise<Result> {
  try {
    return await rest()
  } catch (error) {
    if (error instanceof StoreUnavailable) {
      throw refuse('store_unavailable', { message: done, retryAfterMs: 1000, cause: error })
    }
    if (error instanceof StoreError)
      throw refuse('conflict', { param, message: `${done} ${error.message}`, cause: error })
    throw error
  }
}

/** The account is there by now; so a failure says that, or somebody would make a second one. */
export async function giveFirstCredit(store: Pick<Store, 'credit'>, credit: CreditGrant): Promise<void> {
  const done = `The account ${credit.account} was made, but its credit was not given, or may not have been. \
Give it with the reference ${credit.reference}: the same one is credited once.`
  await afterWriting(done, () => store.credit(credit), 'reference')
}
