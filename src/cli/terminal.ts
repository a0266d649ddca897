/** What a command sees of the world around it, passed in so that tests can pass their own. */

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where relative paths of the command line begin. */
  readonly folder: string
  /** Results: what a pipe carries on. */
  out(text: string): void
  /** Problems, hints and progress. */
  err(text: string): void
  /** Whether somebody watches stderr, so that progress is worth showing. */
  readonly watched: boolean
  /**
   * Asks a question and answers with the line that a person types. Left out unless stdin and stdout are a terminal. Rejects with a
   * `CommandError` when the person ends the input.
   */
  readonly ask?: (question: string) => Promise<string>
  /** The command line that runs this program again: `npx tollgate`, `node src/cli/tollgate.js`. */
  readonly self: string
}

/** What a command did: 0 fine, 1 problems found or not done. (2 is a mistake in the command line itself.) */
export type ExitCode = 0 | 1

/** A command that could not do its work: its message is for people, and the exit code is 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** One line that shows how far long work has come, on stderr; nothing where nobody watches. */
export interface Progress {
  show(done: number, total: number): void
  /** Wipes the line. */
  end(): void
}

export function progressLine(terminal: Terminal, what: string): Progress {
  if (!terminal.watched) return { show() {}, end() {} }
  let shown = -1
  return {
    show(done, total) {
      const percent = total === 0 ? 100 : Math.floor((done * 100) / total)
      if (percent === shown) return
      shown = percent
      terminal.err(`\r${what}: ${done} of ${total} (${percent} %)\x1b[K`)
    },
    end() {
      if (shown !== -1) terminal.err('\r\x1b[K')
    },
  }
}

/** The same for work that has several parts: a line for each, one after the other. */
export interface Stages {
  show(doing: string, done: number, total: number): void
  /** A sentence on a line of its own. */
  tell(sentence: string): void
  end(): void
}

export function progressStages(terminal: Terminal): Stages {
  let [doing, progress]: [string, Progress | undefined] = ['', undefined]
  return {
    show(what, done, total) {
      if (what !== doing) {
        progress?.end()
        progress = progressLine(terminal, what)
        doing = what
      }
      progress?.show(done, total)
    },
    tell(sentence) {
      progress?.end()
      ;[doing, progress] = ['', undefined]
      terminal.err(`${sentence}\n`)
    },
    end: () => progress?.end(),
  }
}
