/**
 * Errors of steps that come when nobody waits for them: out of a timer, or of a promise that was dropped. They are kept,
 * and told in the command's own words, so that they do not end it in the middle of its work.
 */

/** What went astray so far. */
export interface Strays {
  /** A sentence for each kind since it was last asked, without a full stop. */
  take(): string[]
  /** Whether one of them would have ended a gateway: an exception, not only a rejected promise. */
  readonly wereFatal: boolean
  /** From now on they are nobody's again. */
  end(): void
}

/** So many different ones are told; a step may have one for each of a million requests. */
const MOST_KINDS = 5

/** Begins to keep them, in this process. One at a time. */
export function keepStrays(): Strays {
  let kinds = new Map<string, number>()
  let others = 0
  let wereFatal = false
  const keep = (what: string, error: unknown) => {
    const sentence = `${what}: ${wordsOf(error)}`
    const before = kinds.get(sentence)
    if (before === undefined && kinds.size >= MOST_KINDS) others++
    else kinds.set(sentence, (before ?? 0) + 1)
  }
  const onException = (error: unknown) => {
    wereFatal = true
    keep('an error that nobody catches, at which a gateway ends', error)
  }
  const onRejection = (error: unknown) => keep('a promise that nobody waits for was rejected', error)
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
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
    end() {
      process.off('uncaughtException', onException)
      process.off('unhandledRejection', onRejection)
    },
  }
}

const FRAME = /\(?((?:file:\/\/)?\/[^()\s]+:\d+:\d+)\)?$/

/** Its message, and the file and line from which it comes. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const frames = (error.stack ?? '').split('\n').filter(line => line.trimStart().startsWith('at '))
  const place = frames.map(line => FRAME.exec(line)?.[1]).find(found => found !== undefined)
  return place === undefined
    ? error.message
    : `${error.message} (${place.replace('file://', '').replace(/\?[^:]*/, '')})`
}
