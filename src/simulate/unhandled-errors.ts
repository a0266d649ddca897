/** What went astray while exchanges were played, in the words of the commands `replay` and `explain`. */
import { type UnhandledKind, watchUnhandled } from './unhandled.ts'

/** What went astray so far. */
export interface UnhandledErrors {
  /** A sentence for each kind since it was last asked, without a full stop. */
  take(): string[]
  /** Whether one of them would have ended a gateway: an exception, not only a rejected promise. */
  readonly wereFatal: boolean
  /** From now on they are nobody's again. */
  end(): void
}

/** So many different ones are told; a step may have one for each of a million requests. */
const MAX_KINDS = 5

const WHAT: Readonly<Record<UnhandledKind, string>> = {
  exception: 'an error that nobody catches, at which a gateway ends',
  rejection: 'a promise that nobody waits for was rejected',
}

/** Begins to keep them, in this process. One at a time. */
export function keepUnhandled(): UnhandledErrors {
  let kinds = new Map<string, number>()
  let others = 0
  let wereFatal = false
  const end = watchUnhandled((kind, words) => {
    if (kind === 'exception') wereFatal = true
    const sentence = `${WHAT[kind]}: ${words}`
    const before = kinds.get(sentence)
    if (before === undefined && kinds.size >= MAX_KINDS) others++
    else kinds.set(sentence, (before ?? 0) + 1)
  })
  return {
    take() {
      const told = [...kinds].map(([sentence, times]) => (times === 1 ? sentence : `${sentence} (${times} times)`))
      if (others > 0) told.push(`and ${others} more errors of other kinds`)
      kinds = new Map()
      others = 0
      return told
    },
    get wereFatal() {
      return wereFatal
    },
    end,
  }
}
