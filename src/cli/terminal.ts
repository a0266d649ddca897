/** The environment of a command, which tests can replace. */

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  /** The base folder of relative paths in the command line. */
  readonly folder: string
  /** Writes results to stdout. */
  out(text: string): void
  /** Writes problems, hints and progress to stderr. */
  err(text: string): void
  /** Whether stderr is a terminal, so that progress is shown. */
  readonly watched: boolean
  /**
   * Asks a question and returns the line that a person types. Undefined unless stdin and stdout are a terminal. Rejects with a
   * `CommandError` if the person ends the input.
   */
  readonly ask?: (question: string) => Promise<string>
  /** The command for this program: `npx tollgate`, `node src/cli/tollgate.js`. */
  readonly self: string
}

/** 0: success; 1: the command failed or found problems. (2, a wrong command line, is returned elsewhere.) */
export type ExitCode = 0 | 1

/** A failure of a command. Its message is for people; the exit code is 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** A progress line on stderr; nothing is shown without a terminal. */
export interface Progress {
  show(done: number, total: number): void
  /** Clears the line. */
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

/** Progress of work in several stages, with a line for each. */
export interface Stages {
  show(doing: string, done: number, total: number): void
  /** Prints a sentence on its own line. */
  print(sentence: string): void
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
    print(sentence) {
      progress?.end()
      ;[doing, progress] = ['', undefined]
      terminal.err(`${sentence}\n`)
    },
    end: () => progress?.end(),
  }
}
