/** The link that operators make for somebody who has forgotten a password: by the API and by the command, the same. */
import type { NewLink, Person } from '../../store/people/people.ts'

/** For `createLink`: it lets that person, and nobody else, choose a new password. */
export function resetFor(person: Person, made: Pick<NewLink, 'createdBy' | 'expiresAt'>): NewLink {
  const { id: personId, email, role } = person
  return { kind: 'reset', role, accountId: null, plan: null, credit: 0n, email, personId, ...made }
}
