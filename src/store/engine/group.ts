/**
 * Group commit: operations that arrive in one turn of the event loop share one transaction and one wait for the disk. (Measured: 64
 * operations to a commit cost 18 us each, 8 cost 45, one costs 173. Groups form by themselves under load, because work queues up during
 * a commit; a timer would only add latency.)
 *
 * Guarantees for an operation:
 * - Its promise resolves after COMMIT, never before.
 * - If it is refused (`RefusedOperation`), it changes nothing, and the others of its group are committed together.
 * - If one throws because of a fault of the storage or the code, the group is rolled back and each runs by itself. A bad operation
 *   never fails another one.
 * - If COMMIT fails, it is unknown whether the group was written. The operations are retried: each looks up its id, so it is applied once.
 * After a few tries the promise rejects with `StoreUnavailable`.
 *
 * Operations are data, not functions, because they usually run in the ledger's thread (thread/writer-thread.ts), with callbacks instead
 * of promises. In memory, or with `writes: 'here'`, they run here.
 */

import { RefusedOperation } from '../error.ts'
import { StoreUnavailable } from '../store.ts'
import type { CommitCounter } from '../store-figures.ts'
import { isStorageFailure } from './database.ts'

/** An operation or a COMMIT failed and certainly changed nothing; see the cause. */
export class Undone extends Error {
  override readonly name = 'Undone'
}

type Outcomes<Result> = readonly (Result | RefusedOperation)[]

/** The database's side of a group, all synchronous. */
export interface Work<Operation, Result> {
  begin(): void
  apply(operation: Operation): Result | RefusedOperation
  /** Runs a whole group in order; left out: `apply` for each. The results may be filled in by `commit`. */
  applyAll?(operations: readonly Operation[]): Outcomes<Result>
  /** After a throw it is unknown whether it is on disk, unless the error is `Undone`. */
  commit(): void
  /** Must not throw when there is nothing to roll back. */
  rollback(): void
}

/** The caller of an operation. Called once, after its COMMIT or its last failure. */
export interface Waiter<Operation, Result> {
  resolve(result: Result, operation: Operation): void
  reject(error: unknown, operation: Operation): void
}

export interface Group<Operation, Result> {
  op(operation: Operation): Promise<Result>
  /** Like `op`, with callbacks, for a thread whose event loop is blocked. */
  add(operation: Operation, waiter: Waiter<Operation, Result>): void
  /** Resolves when no operation is waiting. */
  idle(): Promise<void>
  size(): number
  /** False after an operation that the disk refused, until the next successful commit. */
  healthy(): boolean
}

interface PendingOperation<Operation, Result> {
  readonly operation: Operation
  readonly waiter: Waiter<Operation, Result>
  tries: number
  /** Whether a COMMIT with it has failed: it may have been written. */
  uncertain: boolean
}

const MAX_TRIES = 3
/** Limits how long one group blocks its thread, and with it later operations: about 10 ms. */
export const LARGEST_GROUP = 512

/**
 * @param schedule calls its argument once, after the callbacks that are ready now: `setImmediate`
 * @param counter counts groups
 */
export function createGroup<Operation, Result>(
  work: Work<Operation, Result>,
  schedule: (fn: () => void) => void,
  counter?: CommitCounter,
): Group<Operation, Result> {
  type Member = PendingOperation<Operation, Result>
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
    // Retried operations go first, so that the order stays.
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

  /** After a fault of the storage or the code, runs each operation by itself, so that it cannot harm the others. */
  function dissolve(group: Member[], error: unknown): void {
    work.rollback()
    if (group.length > 1) for (const member of group) run([member])
    else if (isStorageFailure(error)) giveUp(group[0]!, error)
    else answer(group, [new RefusedOperation(error)])
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

function answer<Operation, Result>(
  group: readonly PendingOperation<Operation, Result>[],
  results: Outcomes<Result>,
): void {
  group.forEach(({ waiter, operation }, index) => {
    const result = results[index]!
    if (result instanceof RefusedOperation) waiter.reject(result.error, operation)
    else waiter.resolve(result, operation)
  })
}

/** Marks operations as uncertain, except refused ones, which wrote nothing. */
function doubt<Operation, Result>(
  group: readonly PendingOperation<Operation, Result>[],
  results: Outcomes<Result>,
): void {
  group.forEach((member, index) => {
    member.uncertain ||= !isRefused(results[index])
  })
}

const isRefused = (result: unknown): boolean => result instanceof RefusedOperation

function applyAll<Operation, Result>(
  work: Work<Operation, Result>,
  group: readonly PendingOperation<Operation, Result>[],
): Outcomes<Result> {
  const all = group.map(member => member.operation)
  try {
    return work.applyAll?.(all) ?? all.map(operation => work.apply(operation))
  } catch (error) {
    throw new Undone('an operation has failed', { cause: error })
  }
}
