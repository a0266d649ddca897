/** Releases resources: a disposer that fails or hangs must not prevent the others. */
import { mistakeText } from '#contract'
import { withinLimit } from './find-plugin.ts'

/** How long a step's dispose() may take. */
export const DISPOSE_LIMIT_MS = 5_000

/** Calls the disposers in order and waits for all of them. Then throws the errors, if any. */
export async function disposeAll(disposers: readonly (() => unknown)[]): Promise<void> {
  const ends = await Promise.allSettled(disposers.map(async dispose => dispose()))
  const errors = ends.flatMap(end => (end.status === 'rejected' ? [asError(end.reason)] : []))
  if (errors.length > 1) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
  if (errors.length > 0) throw errors[0]
}

/**
 * Calls `dispose` and waits at most `DISPOSE_LIMIT_MS`. An error message begins with `who`.
 *
 * @param policyFile the file of the policy that names the plugin
 */
export function disposeInTime(who: string, dispose: () => unknown, policyFile?: string): Promise<void> {
  const late = `${who} was not released: its dispose() did not end within ${DISPOSE_LIMIT_MS / 1000} s`
  const going = async () => {
    try {
      await dispose()
    } catch (error) {
      throw new Error(`${who} was not released: ${mistakeText(error, policyFile)}`, { cause: error })
    }
  }
  return withinLimit(going(), DISPOSE_LIMIT_MS, late)
}

const asError = (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason)))
