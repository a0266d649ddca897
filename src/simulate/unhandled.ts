/**
 * Collects unhandled errors of steps: from a timer, or from a promise without a handler. Commands that simulate exchanges use it, so
 * that such an error does not end the command.
 */
import { mistakeText } from '#contract'

/** `exception`: a gateway would crash; `rejection`: a gateway logs it and continues. */
export type UnhandledKind = 'exception' | 'rejection'

/** A description of each kind, for people. */
export const UNHANDLED: Readonly<Record<UnhandledKind, string>> = {
  exception: 'an uncaught error, which ends a gateway',
  rejection: 'an unhandled rejected promise',
}

/**
 * Calls `keep` for each unhandled error of this process until the returned function is called.
 * @param keep gets the error's message, with its file and line if known
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

/** Maximum number of different errors that are reported; a step may have one for each of a million requests. */
const MAX_KINDS = 5

/** Keeps the unhandled errors of this process for a report. Only one instance at a time. */
export class UnhandledErrors {
  #kinds = new Map<string, number>()
  #others = 0
  /** Whether one of them would have ended a gateway: an exception, not only a rejected promise. */
  wereFatal = false
  /** Stops collecting. */
  readonly end = watchUnhandled((kind, words) => this.#keep(kind, words))

  /** A sentence for each kind since the last call, without a full stop. */
  take(): string[] {
    const sentences = [...this.#kinds].map(([sentence, times]) =>
      times === 1 ? sentence : `${sentence} (${times} times)`,
    )
    if (this.#others > 0) sentences.push(`and ${this.#others} more errors of other kinds`)
    this.#kinds = new Map()
    this.#others = 0
    return sentences
  }

  #keep(kind: UnhandledKind, words: string): void {
    if (kind === 'exception') this.wereFatal = true
    const sentence = `${UNHANDLED[kind]}: ${words}`
    const before = this.#kinds.get(sentence)
    if (before === undefined && this.#kinds.size >= MAX_KINDS) this.#others++
    else this.#kinds.set(sentence, (before ?? 0) + 1)
  }
}
