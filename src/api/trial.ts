/** A try at a password: where it counts, whose room the work takes, and whether it was right. */

import { addressGroup } from '#contract'
import type { Replicas } from '../store/engine/replicas.ts'
import type { Person, PersonWithPassword } from '../store/people/people.ts'
import { type Try, takeAll } from './attempts.ts'
import type { Whose } from './password.ts'
import type { Call } from './route.ts'

export interface Trial {
  readonly password: string
  readonly whose: Whose
  /** Where it counts when it is wrong, and where in any case. */
  readonly wrong: readonly Try[]
  readonly all: readonly Try[]
}

/**
 * Where a try to sign in counts. One in a known browser counts there alone, so nothing that anybody else does locks it. One
 * from a known address shares with whoever else guesses at this person from there. Strangers share all they have; what is
 * theirs together comes first, so that no flood of made-up names pushes the counts of others out of memory.
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
    return { whose: { by: [owner], isStranger: false }, all, wrong: [[guard.signInsByBrowser, by.browser]] }
  }
  const address = addressGroup(caller.address)
  const place: Try = [guard.signInsByPlace, `${address} ${email}`]
  const whose = { by: [owner, `address ${address}`], isStranger: by === null }
  if (by) return { whose, all, wrong: [place] }
  return {
    whose,
    all: [[guard.hashesOfStrangers, 'all'], [guard.hashesByAddress, address], ...all],
    wrong: [[guard.signInsByAddress, address], place, [guard.signInsByEmail, email]],
  }
}

/** Whether it is the password of the person. For an address that nobody has, the work is the same. */
export async function checkPassword(call: Call, known: PersonWithPassword | undefined, trial: Trial) {
  const { takeBackSome, takeBackAll } = await take(trial, call.parts.store.replicas)
  try {
    const verdict = await call.guard.passwords.verify(known?.password, trial.password, trial.whose)
    if (verdict.right) takeBackSome()
    return verdict
  } catch (error) {
    // Nothing was tried: there was no room.
    takeBackAll()
    throw error
  }
}

async function take({ wrong, all }: Trial, replicas: Replicas | null) {
  const takeBackRest = await takeAll(all, replicas)
  try {
    const takeBackSome = await takeAll(wrong, replicas)
    const takeBackAll = () => {
      takeBackSome()
      takeBackRest()
    }
    return { takeBackSome, takeBackAll }
  } catch (error) {
    takeBackRest()
    throw error
  }
}

/** Whose places in the room of the hashes it takes. */
export function placesOf({ caller }: Call, whom: string): string[] {
  return [`address ${addressGroup(caller.address)}`, `person ${whom}`]
}

/** Somebody who has shown more than an address: a link, or a session. */
export function familiar(call: Call, whom: string): Whose {
  return { by: placesOf(call, whom), isStranger: false }
}
