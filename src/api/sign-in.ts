/**
 * What stands at the door of the account API: passwords, sessions, and how often somebody may try. One for the process. Limits
 * with a name count at all replicas together; those without bound the work of this process.
 */
import type { Log } from '#contract'
import type { ApiParts } from './api-parts.ts'
import { type Attempts, createAttempts } from './attempts.ts'
import { createKnown, type Known } from './known-clients.ts'
import { createPasswords, type Passwords } from './password.ts'
import { createSessions, type Sessions } from './sessions.ts'

export interface Guard {
  readonly passwords: Passwords
  readonly sessions: Sessions
  readonly known: Known
  /** Wrong passwords in one known browser: strangers' do not count there. */
  readonly signInsByBrowser: Attempts
  /** Wrong passwords from one address at one person. */
  readonly signInsByPlace: Attempts
  /** Strangers' wrong passwords, by e-mail address and by where they come from. */
  readonly signInsByEmail: Attempts
  readonly signInsByAddress: Attempts
  /** The right ones too: each takes as much work. */
  readonly hashesByEmail: Attempts
  readonly hashesByAddress: Attempts
  /** Of all strangers together: what guesses may take of the processor. */
  readonly hashesOfStrangers: Attempts
  /** Wrong passwords of somebody who is signed in, by session: strangers' tries do not count here. */
  readonly changesBySession: Attempts
  /** Changes that people make once they are signed in, by person. */
  readonly changesByPerson: Attempts
  readonly registrationsByAddress: Attempts
  /** From everywhere together: each may begin with free credit. */
  readonly registrations: Attempts
}

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const QUARTER_HOUR_MS = 15 * 60_000
const HOUR_MS = 60 * 60_000

/** Seven tries in a quarter of an hour: one address alone cannot use up the ten that strangers have at a person. */
const AT_ONE_PERSON = { free: 3, firstMs: 30 * SECOND_MS, longestMs: QUARTER_HOUR_MS }
/** An office behind one address may mistype some passwords in the morning. */
const AT_ALL_TOGETHER = { free: 20, firstMs: SECOND_MS, longestMs: QUARTER_HOUR_MS }

/** @param passwords only for tests: one that counts what it does */
export function createGuard(
  { store, clock, log }: Pick<ApiParts, 'store' | 'clock'> & { readonly log: Log },
  passwords: Passwords = createPasswords(),
): Guard {
  return {
    passwords,
    sessions: createSessions(store.people, clock, log),
    known: createKnown(store.people),
    signInsByBrowser: createAttempts(clock, AT_ONE_PERSON, { name: 'signInsByBrowser' }),
    signInsByPlace: createAttempts(clock, AT_ONE_PERSON, { name: 'signInsByPlace' }),
    signInsByEmail: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }, { name: 'signInsByEmail' }),
    signInsByAddress: createAttempts(clock, AT_ALL_TOGETHER, { name: 'signInsByAddress' }),
    hashesByEmail: createAttempts(clock, { most: 60, windowMs: QUARTER_HOUR_MS }),
    hashesByAddress: createAttempts(clock, { most: 300, windowMs: QUARTER_HOUR_MS }),
    // Some 30 ms of a core each: a sixth of one.
    hashesOfStrangers: createAttempts(clock, { most: 50, windowMs: 10 * SECOND_MS }),
    changesBySession: createAttempts(clock, { most: 10, windowMs: QUARTER_HOUR_MS }, { name: 'changesBySession' }),
    changesByPerson: createAttempts(clock, { most: 60, windowMs: MINUTE_MS }),
    registrationsByAddress: createAttempts(clock, { most: 10, windowMs: HOUR_MS }, { name: 'registrationsByAddress' }),
    registrations: createAttempts(clock, { most: 100, windowMs: HOUR_MS }, { name: 'registrations' }),
  }
}
