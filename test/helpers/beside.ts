/** Runs commands beside a main one, which has the terminal. Returns the output of the others when all have ended. */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { ROOT } from './repository.ts'

export interface Command {
  readonly name: string
  /** The program and its arguments. */
  readonly line: readonly string[]
}

export interface CheckResult {
  readonly name: string
  readonly code: number
  readonly output: string
}

export interface RunOutcome {
  /** Exit code of the main command; 128 and the signal's number after a signal. */
  readonly code: number
  /** Of the main command. */
  readonly pid: number
  /** Whether the main command was the first process of a group of its own. */
  readonly isGroup: boolean
  /** The other commands; empty after a signal. */
  readonly checks: readonly CheckResult[]
}

/** The interval between repeated signals, because a program that starts may miss the first one. */
const REPEAT_MS = 250

/** Runs all of them from the top of the repository; SIGINT and SIGTERM end all of them. */
export async function runTogether(beside: readonly Command[], main: Command): Promise<RunOutcome> {
  const signals = new Signals()
  const checks = beside.map(async command => ({ name: command.name, ...(await start(command, 'pipe', signals).ended) }))
  const { pid, isGroup, ended } = start(main, 'inherit', signals)
  const { code } = await ended
  const results = await Promise.all(checks)
  const { received } = signals
  signals.close()
  return received
    ? { code: 128 + constants.signals[received], pid, isGroup, checks: [] }
    : { code, pid, isGroup, checks: results }
}

function start({ line }: Command, output: 'inherit' | 'pipe', signals: Signals) {
  // A program that reads from the terminal must stay in the terminal's process group.
  const isGroup = output === 'pipe' || !process.stdin.isTTY
  const [program = '', ...args] = line
  const child = spawn(program, args, {
    cwd: ROOT,
    stdio: [output === 'pipe' ? 'ignore' : 'inherit', output, output],
    detached: isGroup,
  })
  signals.pass(isGroup ? -child.pid! : child.pid!)
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', piece => (text += piece))
  const ended = new Promise<{ readonly code: number; readonly output: string }>((resolve, reject) => {
    const fail = (error: Error) =>
      output === 'pipe' ? resolve({ code: 127, output: `${error.message}\n` }) : reject(error)
    child.once('error', fail).once('close', code => {
      signals.passNoMore(isGroup ? -child.pid! : child.pid!)
      resolve({ code: code ?? 1, output: text })
    })
  })
  return { pid: child.pid!, isGroup, ended }
}

/** Passes signals of this process to all commands that are running, until they end. */
class Signals {
  received: 'SIGINT' | 'SIGTERM' | null = null
  readonly #running = new Set<number>()
  #repeating: NodeJS.Timeout | undefined
  readonly #listeners = (['SIGINT', 'SIGTERM'] as const).map(signal => {
    const listener = () => {
      this.received = signal
      const pass = () => {
        for (const pid of this.#running) kill(pid, signal)
      }
      pass()
      this.#repeating ??= setInterval(pass, REPEAT_MS)
    }
    process.on(signal, listener)
    return { signal, listener }
  })

  pass(pid: number): void {
    this.#running.add(pid)
  }

  passNoMore(pid: number): void {
    this.#running.delete(pid)
  }

  close(): void {
    clearInterval(this.#repeating)
    for (const { signal, listener } of this.#listeners) process.off(signal, listener)
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has already ended.
  }
}
