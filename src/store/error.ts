/** The named mistakes of callers of the store. */

/** A named mistake of a caller: no such account, a reference used for another amount. Its message is for people. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode | undefined

  constructor(message: string, { code, cause }: { readonly code?: StoreErrorCode; readonly cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

/** In place of a result: the operation was refused, and nothing of it is left in the transaction, which goes on. */
export class Refused {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/**
 * Which mistake it was, for callers that answer each differently: something else is there already, or stands in the way;
 * what is named is not there; a link was used, revoked or is past; a value breaks a rule; whoever asks is no operator any
 * more.
 */
export type StoreErrorCode = 'conflict' | 'not_found' | 'link_invalid' | 'invalid' | 'forbidden'
