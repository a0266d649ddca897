/**
 * Errors of steps that come when nobody waits for them: out of a timer, or of a promise that was dropped. Commands that play
 * exchanges keep them, so that they do not end the command in the middle of its work.
 */
import { mistakeText } from '#contract'

/** `exception`: a gateway would have ended at it; `rejection`: it is told, and the gateway goes on. */
export type UnhandledKind = 'exception' | 'rejection'

/** What each kind is, for people. */
export const UNHANDLED: Readonly<Record<UnhandledKind, string>> = {
  exception: 'an error that nobody catches, at which a gateway ends',
  rejection: 'a promise that nobody waits for was rejected',
}

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

/** So many different ones are told; a step may have one for each of a million requests. */
const MAX_KINDS = 5

/** Keeps the unhandled errors of this process, for a report. One at a time. */
export class UnhandledErrors {
  #kinds = new Map<string, number>()
  #others = 0
  /** Whether one of them would have ended a gateway: an exception, not only a rejected promise. */
  wereFatal = false
  /** From now on they are nobody's again. */
  readonly end = watchUnhandled((kind, words) => this.#keep(kind, words))

  /** A sentence for each kind since it was last asked, without a full stop. */
  take(): string[] {
    const told = [...this.#kinds].map(([sentence, times]) => (times === 1 ? sentence : `${sentence} (${times} times)`))
    if (this.#others > 0) told.push(`and ${this.#others} more errors of other kinds`)
    this.#kinds = new Map()
    this.#others = 0
    return told
  }

  #keep(kind: UnhandledKind, words: string): void {
    if (kind === 'exception') this.wereFatal = true
    const sentence = `${UNHANDLED[kind]}: ${words}`
    const before = this.#kinds.get(sentence)
    if (before === undefined && this.#kinds.size >= MAX_KINDS) this.#others++
    else this.#kinds.set(sentence, (before ?? 0) + 1)
  }
}
