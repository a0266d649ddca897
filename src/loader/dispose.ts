/** Letting go of what was made: one that fails to go, or takes for ever, must not keep the others. */
import { mistakeText } from '#contract'
import { withinLimit } from './find-plugin.ts'

/** Longer than that nobody waits for a step to be let go of. */
export const LET_GO_MS = 5_000

/** Calls each, in this order, and waits for all, whatever becomes of the others. Throws what went wrong when all are over. */
export async function disposeAll(disposers: readonly (() => unknown)[]): Promise<void> {
  const ends = await Promise.allSettled(disposers.map(async dispose => dispose()))
  const errors = ends.flatMap(end => (end.status === 'rejected' ? [asError(end.reason)] : []))
  if (errors.length > 1) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
  if (errors.length > 0) throw errors[0]
}

/**
 * Calls it and waits `LET_GO_MS` at most; what is thrown then begins with `who`.
 *
 * @param policyFile the file of the policy that names the plugin
 */
export function disposeInTime(who: string, dispose: () => unknown, policyFile?: string): Promise<void> {
  const late = `${who} was not let go of: its dispose() did not end within ${LET_GO_MS / 1000} s`
  const going = async () => {
    try {
      await dispose()
    } catch (error) {
      throw new Error(`${who} was not let go of: ${mistakeText(error, policyFile)}`, { cause: error })
    }
  }
  return withinLimit(going(), LET_GO_MS, late)
}

const asError = (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason)))
