/** Checks that a person or token still belongs to an operator, in the transaction of an operation for operators. */
import type { Clock } from '#contract'
import type { Database } from '../engine/database.ts'
import { forbidden } from '../mistakes.ts'
import { PERSON_PREFIX, TOKEN_PREFIX } from './people.ts'

export interface Creators {
  /**
   * Throws `forbidden` for the id of a person who is not an operator, or of a token that does not work. A creator without an id in the
   * store (`cli:USER`) owns the store and passes.
   */
  check(creator: string): void
}

export function createCreators(database: Database, clock: Clock): Creators {
  const operator = database.prepare("SELECT 1 FROM person WHERE id = ? AND role = 'operator'")
  const token = database.prepare(
    'SELECT 1 FROM operator_token WHERE id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)',
  )
  return {
    check(creator) {
      if (creator.startsWith(PERSON_PREFIX) && operator.get(creator) === undefined) {
        throw forbidden('Only operators may do this, and you are not an operator any more.')
      }
      if (creator.startsWith(TOKEN_PREFIX) && token.get(creator, clock.now()) === undefined) {
        throw forbidden("Only operators may do this, and your operators' token was revoked or has expired.")
      }
    },
  }
}
