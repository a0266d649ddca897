/** The password-reset link of operators, for the API and the command. */
import type { NewLink, Person } from '../../store/people/people.ts'

/** The input of `createLink` for a new password of this person. */
export function resetFor(person: Person, made: Pick<NewLink, 'createdBy' | 'expiresAt'>): NewLink {
  const { id: personId, email, role } = person
  return { kind: 'reset', role, accountId: null, plan: null, credit: 0n, email, personId, ...made }
}
