/** The error of the store. */

/**
 * A mistake of the caller, such as an unknown account, or a store that cannot be opened, migrated, copied or closed. It has a code only
 * if callers distinguish the case. The message is for people.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode | undefined

  constructor(message: string, { code, cause }: { readonly code?: StoreErrorCode; readonly cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

/** Returned in place of a result: the operation was refused and undone alone; its transaction continues. */
export class RefusedOperation {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/**
 * Lets callers answer each mistake differently.
 *
 * - `conflict`: it exists already, or something prevents it.
 * - `not_found`: nothing has this name.
 * - `link_invalid`: the link was used, revoked or has expired.
 * - `invalid`: a value breaks a rule.
 * - `forbidden`: the caller is not an operator, or not any more.
 * - `secret`: the secret of the keys is missing, too short, or not that of the store.
 */
export type StoreErrorCode = 'conflict' | 'not_found' | 'link_invalid' | 'invalid' | 'forbidden' | 'secret'
