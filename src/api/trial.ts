/** An attempt with a password: its limits, the queue of its hash, and its result. */

import { addressGroup } from '#contract'
import type { Replicas } from '../store/engine/replicas.ts'
import type { Person, PersonWithPassword } from '../store/people/people.ts'
import { type Try, takeAll } from './attempts.ts'
import type { HashClient } from './password.ts'
import type { Call } from './route.ts'

export interface Trial {
  readonly password: string
  readonly client: HashClient
  /** The limits of a wrong attempt, and those of each attempt. */
  readonly wrong: readonly Try[]
  readonly all: readonly Try[]
}

/**
 * The limits of an attempt to sign in. In a known browser only its own limit counts, so that no other client can lock it. A known
 * address shares a limit with other guesses for this person from there. Unknown clients have all limits. The limit of all comes
 * first, so that a flood of invented names does not remove other counts from memory.
 */
export async function signInTrial(
  { guard, caller }: Call,
  person: Person | undefined,
  email: string,
): Promise<Omit<Trial, 'password'>> {
  const by = await guard.known.by(person?.id, caller.address, caller.device)
  const all: Try[] = [[guard.hashesByEmail, email]]
  const owner = `person ${email}`
  if (by && 'browser' in by) {
    return { client: { by: [owner], isStranger: false }, all, wrong: [[guard.signInsByBrowser, by.browser]] }
  }
  const address = addressGroup(caller.address)
  const place: Try = [guard.signInsByPlace, `${address} ${email}`]
  const client = { by: [owner, `address ${address}`], isStranger: by === null }
  if (by) return { client, all, wrong: [place] }
  return {
    client,
    all: [[guard.hashesOfStrangers, 'all'], [guard.hashesByAddress, address], ...all],
    wrong: [[guard.signInsByAddress, address], place, [guard.signInsByEmail, email]],
  }
}

/** Whether the password is correct. For an unknown address the work is the same. */
export async function checkPassword(call: Call, known: PersonWithPassword | undefined, trial: Trial) {
  const { takeBackWrong, takeBackAll } = await take(trial, call.parts.store.replicas)
  try {
    const verdict = await call.guard.passwords.verify(known?.password, trial.password, trial.client)
    if (verdict.right) takeBackWrong()
    return verdict
  } catch (error) {
    // No password was compared, because the queue was full.
    takeBackAll()
    throw error
  }
}

async function take({ wrong, all }: Trial, replicas: Replicas | null) {
  const takeBackTotal = await takeAll(all, replicas)
  try {
    const takeBackWrong = await takeAll(wrong, replicas)
    const takeBackAll = () => {
      takeBackWrong()
      takeBackTotal()
    }
    return { takeBackWrong, takeBackAll }
  } catch (error) {
    takeBackTotal()
    throw error
  }
}

/** The address and the person, for the limit of hashes of each. */
export function placesOf({ caller }: Call, whom: string): string[] {
  return [`address ${addressGroup(caller.address)}`, `person ${whom}`]
}

/** The owner of a hash for a client with a valid link or session. */
export function knownClient(call: Call, whom: string): HashClient {
  return { by: placesOf(call, whom), isStranger: false }
}
