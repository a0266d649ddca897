/** Errors after a route has written a part of its changes: the message "Nothing has changed" would be wrong. */
import { refuse } from '#contract'
import { StoreError } from '../store/error.ts'
import { type CreditGrant, type Store, StoreUnavailable } from '../store/store.ts'

/**
 * Runs the remaining work. If the store fails, the refusal reports what is already done.
 *
 * @param done whole sentences that are true whether or not the remaining work was written, because the store may not know
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

/**
 * Gives a new account its first credit. The error reports that the account exists, so that the operator does not create a second
 * one.
 */
export async function giveFirstCredit(store: Pick<Store, 'credit'>, credit: CreditGrant): Promise<void> {
  const done = `The account ${credit.account} was made, but its credit was not given, or may not have been. \
Give it with the reference ${credit.reference}: the same one is credited once.`
  await afterWriting(done, () => store.credit(credit), 'reference')
}
