/**
 * Passwords, sessions and limits of attempts. Limits with a name count over all replicas; those without a name limit the work of this
 * process.
 */
import type { Log } from '#contract'
import type { ApiParts } from './api-parts.ts'
import { type Attempts, createAttempts } from './attempts.ts'
import { createKnownClients, type KnownClients } from './known-clients.ts'
import { createPasswords, type Passwords } from './password.ts'
import { createSessions, type Sessions } from './sessions.ts'

export interface Guard {
  readonly passwords: Passwords
  readonly sessions: Sessions
  readonly known: KnownClients
  /** Wrong passwords in one known browser. Those of unknown clients do not count here. */
  readonly signInsByBrowser: Attempts
  /** Wrong passwords from one address for one person. */
  readonly signInsByPlace: Attempts
  /** Wrong passwords of unknown clients, by e-mail address and by network address. */
  readonly signInsByEmail: Attempts
  readonly signInsByAddress: Attempts
  /** All passwords, also correct ones: each takes the same work. */
  readonly hashesByEmail: Attempts
  readonly hashesByAddress: Attempts
  /** All unknown clients together: limits the processor time of their guesses. */
  readonly hashesOfStrangers: Attempts
  /** Wrong passwords of a signed-in person, by session. Attempts of unknown clients do not count here. */
  readonly changesBySession: Attempts
  /** Changes by signed-in people, by person. */
  readonly changesByPerson: Attempts
  readonly registrationsByAddress: Attempts
  /** All registrations together: each may get free credit. */
  readonly registrations: Attempts
}

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const QUARTER_HOUR_MS = 15 * 60_000
const HOUR_MS = 60 * 60_000

/** At most seven attempts in 15 minutes, so that one address cannot use up the ten attempts of unknown clients for a person. */
const AT_ONE_PERSON = { free: 3, firstMs: 30 * SECOND_MS, longestMs: QUARTER_HOUR_MS }
/** Enough for an office behind one address. */
const AT_ALL_TOGETHER = { free: 20, firstMs: SECOND_MS, longestMs: QUARTER_HOUR_MS }

/** @param passwords for tests only */
export function createGuard(
  { store, clock, log }: Pick<ApiParts, 'store' | 'clock'> & { readonly log: Log },
  passwords: Passwords = createPasswords(),
): Guard {
  return {
    passwords,
    sessions: createSessions(store.people, clock, log),
    known: createKnownClients(store.people),
    signInsByBrowser: createAttempts(clock, AT_ONE_PERSON, { name: 'signInsByBrowser' }),
    signInsByPlace: createAttempts(clock, AT_ONE_PERSON, { name: 'signInsByPlace' }),
    signInsByEmail: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }, { name: 'signInsByEmail' }),
    signInsByAddress: createAttempts(clock, AT_ALL_TOGETHER, { name: 'signInsByAddress' }),
    hashesByEmail: createAttempts(clock, { most: 60, windowMs: QUARTER_HOUR_MS }),
    hashesByAddress: createAttempts(clock, { most: 300, windowMs: QUARTER_HOUR_MS }),
    // A hash takes about 30 ms, so this is a sixth of a core.
    hashesOfStrangers: createAttempts(clock, { most: 50, windowMs: 10 * SECOND_MS }),
    changesBySession: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }, { name: 'changesBySession' }),
    changesByPerson: createAttempts(clock, { most: 60, windowMs: MINUTE_MS }),
    registrationsByAddress: createAttempts(clock, { most: 10, windowMs: HOUR_MS }, { name: 'registrationsByAddress' }),
    registrations: createAttempts(clock, { most: 100, windowMs: HOUR_MS }, { name: 'registrations' }),
  }
}
