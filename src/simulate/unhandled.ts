/**
 * Errors of steps that come when nobody waits for them: out of a timer, or of a promise that was dropped. Commands that play
 * exchanges keep them, so that they do not end the command in the middle of its work.
 */
import { mistakeText } from '#contract'

/** `exception`: a gateway would have ended at it; `rejection`: it is told, and the gateway goes on. */
export type UnhandledKind = 'exception' | 'rejection'

/**
 * Calls `keep` with each from now on, in this process; the answer ends that.
 * @param keep given the error's message, with the file and line from which it comes where it has one
 * @param beside as for `mistakeText`
 */
export function watchUnhandled(keep: (kind: UnhandledKind, words: string) => void, beside?: string): () => void {
  const onException = (error: unknown) => keep('exception', mistakeText(error, beside))
  const onRejection = (error: unknown) => keep('rejection', mistakeText(error, beside))
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
  return () => {
    process.off('uncaughtException', onException)
    process.off('unhandledRejection', onRejection)
  }
}
