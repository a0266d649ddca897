/** What stands at the door of the account API: passwords, sessions, and how often somebody may try. One for the process. */
import type { Log } from '#contract'
import { type Attempts, createAttempts } from './attempts.ts'
import type { ApiParts } from './parts.ts'
import { createPasswords, type Passwords } from './password.ts'
import { createSessions, type Sessions } from './sessions.ts'

export interface Guard {
  readonly passwords: Passwords
  readonly sessions: Sessions
  /** Tries to sign in that were wrong, by e-mail address and by where they come from. */
  readonly signInsByEmail: Attempts
  readonly signInsByAddress: Attempts
  /** The right ones too: each takes as much work. */
  readonly hashesByEmail: Attempts
  readonly hashesByAddress: Attempts
  /** Wrong passwords of somebody who is signed in, by session: strangers' tries do not count here. */
  readonly changesBySession: Attempts
  readonly registrationsByAddress: Attempts
  /** From everywhere together: each may begin with credit of the house. */
  readonly registrations: Attempts
}

const QUARTER_HOUR_MS = 15 * 60_000
const HOUR_MS = 60 * 60_000

/** @param passwords only for tests: one that counts what it does */
export function createGuard(
  { store, clock, log }: Pick<ApiParts, 'store' | 'clock'> & { readonly log: Log },
  passwords: Passwords = createPasswords(),
): Guard {
  return {
    passwords,
    sessions: createSessions(store.people, clock, log),
    signInsByEmail: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }),
    signInsByAddress: createAttempts(clock, { most: 100, windowMs: QUARTER_HOUR_MS }),
    hashesByEmail: createAttempts(clock, { most: 60, windowMs: QUARTER_HOUR_MS }),
    hashesByAddress: createAttempts(clock, { most: 300, windowMs: QUARTER_HOUR_MS }),
    changesBySession: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }),
    registrationsByAddress: createAttempts(clock, { most: 10, windowMs: HOUR_MS }),
    registrations: createAttempts(clock, { most: 100, windowMs: HOUR_MS }),
  }
}
