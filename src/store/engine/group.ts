/**
 * Group commit: whatever arrives in one turn of the event loop shares one transaction and one wait for the disk.
 * (Measured: 64 operations to a commit cost 18 us each, 8 cost 45, one costs 173. Groups form by themselves under load,
 * because work queues up during a commit; a timer would only add latency.)
 *
 * What an operation may count on:
 * - its promise resolves after COMMIT, never before;
 * - one that is refused (`Refused`) leaves nothing behind, and the others of its group are committed together;
 * - when one of a group throws, which is a fault of the storage or of the code, the group is rolled back and each is run by
 *   itself: a bad one never fails a neighbour;
 * - when COMMIT fails, nobody knows whether it happened. The operations are tried again (each recognises by its id what
 *   has been done already), and after a few tries the promise rejects with `StoreUnavailable`.
 *
 * Operations are data, not functions: a store in a file runs all of this in a thread of its own (link/writer-thread.ts), which waits
 * for no promise and is told by callbacks; a store in memory runs it here.
 */

import { Refused } from '../error.ts'
import { StoreUnavailable } from '../store.ts'
import type { CommitCounter } from '../store-figures.ts'
import { isStorageFailure } from './database.ts'

/** An operation or a COMMIT that failed, and certainly left nothing behind; the cause says why. */
export class Undone extends Error {
  override readonly name = 'Undone'
}

type Outcomes<Result> = readonly (Result | Refused)[]

/** The database's side of a group, all of it synchronous. */
export interface Work<Operation, Result> {
  begin(): void
  apply(operation: Operation): Result | Refused
  /** A whole group in its order; left out: `apply`, one after the other. The results may come with COMMIT. */
  applyAll?(operations: readonly Operation[]): Outcomes<Result>
  /** A throw means: unknown whether it is on disk, unless it throws `Undone`. */
  commit(): void
  /** Must not throw when there is nothing to roll back. */
  rollback(): void
}

/** Who waits for an operation; told once, after its COMMIT or its last failure. */
export interface Waiter<Operation, Result> {
  resolve(result: Result, operation: Operation): void
  reject(error: unknown, operation: Operation): void
}

export interface Group<Operation, Result> {
  op(operation: Operation): Promise<Result>
  /** Like `op`, for a caller that has no turns of an event loop in which promises resolve. */
  add(operation: Operation, waiter: Waiter<Operation, Result>): void
  /** Resolves when nothing is waiting any more. */
  idle(): Promise<void>
  /** How many operations wait. */
  size(): number
  /** False from an operation that the disk refused until the next commit that succeeds. */
  healthy(): boolean
}

interface Waiting<Operation, Result> {
  readonly operation: Operation
  readonly waiter: Waiter<Operation, Result>
  tries: number
  /** Whether a COMMIT with it has failed: then nobody can say any more that it was not written. */
  uncertain: boolean
}

const MAX_TRIES = 3
/** Bounds how long one group can keep its thread, and with it those who come later: about 10 ms. */
export const LARGEST_GROUP = 512

/**
 * @param schedule Calls back once, soon, after what is ready now: `setImmediate`.
 * @param counter counts groups; left out: nobody does
 */
export function createGroup<Operation, Result>(
  work: Work<Operation, Result>,
  schedule: (fn: () => void) => void,
  counter?: CommitCounter,
): Group<Operation, Result> {
  type Member = Waiting<Operation, Result>
  let queue: Member[] = []
  let again: Member[] = []
  let armed = false
  let healthy = true
  let idlers: (() => void)[] = []

  function flush(): void {
    armed = false
    const group = queue.length <= LARGEST_GROUP ? queue : queue.slice(0, LARGEST_GROUP)
    queue = queue.slice(group.length)
    run(group)
    // In front of everybody else, so that the order stays.
    queue = [...again, ...queue]
    again = []
    arm()
  }

  function arm(): void {
    if (queue.length === 0) {
      for (const resolve of idlers) resolve()
      idlers = []
    } else if (!armed) {
      armed = true
      schedule(flush)
    }
  }

  function run(group: Member[]): void {
    const beganAtMs = counter?.now() ?? 0
    let results: Outcomes<Result> = []
    try {
      work.begin()
    } catch (error) {
      tryAgain(group, error)
      return
    }
    try {
      results = applyAll(work, group)
      if (results.every(isRefused)) work.rollback()
      else {
        work.commit()
        healthy = true
      }
    } catch (error) {
      if (error instanceof Undone) {
        dissolve(group, error.cause)
        return
      }
      doubt(group, results)
      tryAgain(group, error)
      return
    }
    if (!results.every(isRefused)) counter?.committed(group.length, beganAtMs)
    answer(group, results)
  }

  /** After a fault of the storage or of the code: each is run by itself, so that it harms no other one. */
  function dissolve(group: Member[], error: unknown): void {
    work.rollback()
    if (group.length > 1) for (const member of group) run([member])
    else if (isStorageFailure(error)) giveUp(group[0]!, error)
    else answer(group, [new Refused(error)])
  }

  function tryAgain(group: Member[], error: unknown): void {
    work.rollback()
    for (const member of group) {
      if (++member.tries < MAX_TRIES) again.push(member)
      else giveUp(member, error)
    }
  }

  function giveUp(member: Member, error: unknown): void {
    healthy = false
    counter?.refused()
    member.waiter.reject(new StoreUnavailable(member.uncertain ? 'unknown' : 'not_written', error), member.operation)
  }

  function add(operation: Operation, waiter: Waiter<Operation, Result>): void {
    queue.push({ operation, waiter, tries: 0, uncertain: false })
    arm()
  }

  return {
    op: operation => new Promise((resolve, reject) => add(operation, { resolve, reject })),
    add,
    idle: () =>
      new Promise(resolve => {
        idlers.push(resolve)
        arm()
      }),
    size: () => queue.length,
    healthy: () => healthy,
  }
}

function answer<Operation, Result>(group: readonly Waiting<Operation, Result>[], results: Outcomes<Result>): void {
  group.forEach(({ waiter, operation }, index) => {
    const result = results[index]!
    if (result instanceof Refused) waiter.reject(result.error, operation)
    else waiter.resolve(result, operation)
  })
}

/** Of one that was refused nothing was in the transaction. */
function doubt<Operation, Result>(group: readonly Waiting<Operation, Result>[], results: Outcomes<Result>): void {
  group.forEach((member, index) => {
    member.uncertain ||= !isRefused(results[index])
  })
}

const isRefused = (result: unknown): boolean => result instanceof Refused

function applyAll<Operation, Result>(
  work: Work<Operation, Result>,
  group: readonly Waiting<Operation, Result>[],
): Outcomes<Result> {
  const all = group.map(member => member.operation)
  try {
    return work.applyAll?.(all) ?? all.map(operation => work.apply(operation))
  } catch (error) {
    throw new Undone('an operation has failed', { cause: error })
  }
}
