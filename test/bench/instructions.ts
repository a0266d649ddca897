/**
 * Counts the instructions that a process executes, with Linux's `perf stat`. They hardly vary between runs, even on a busy
 * machine. Many virtual machines do not count them; the caller then gets the reason.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { treeOf } from './cpu.ts'

/** Instructions of the process, and of the kernel for the process. */
const EVENTS = ['instructions:u', 'instructions:k']

/** Some locales write commas in numbers, but here a comma separates fields. */
const environment = () => ({ ...process.env, LC_ALL: 'C' })

export type Stat =
  /** `count` is the sum of all events. */
  { readonly count: number; readonly why: null } | { readonly count: null; readonly why: string }

/** Why this machine cannot count instructions; null if it can. */
export function whyNoInstructions(events: readonly string[] = EVENTS): string | null {
  const args = ['stat', '-x,', '-e', events.join(','), '--', process.execPath, '--version']
  const { error, stderr } = spawnSync('perf', args, { encoding: 'utf8', env: environment() })
  if (error) return `perf does not run (${error.message})`
  return readStat(stderr, events).why
}

/**
 * Reads what `perf stat -x,` prints: `value,unit,event,run time,share of time counted,…` (perf-stat(1), "CSV FORMAT").
 * Processors with two kinds of cores have a line for each kind, such as `cpu_core/instructions/u`; their counts are added.
 * Every event must have at least one value.
 */
export function readStat(text: string, events: readonly string[] = EVENTS): Stat {
  const counts = new Map<string, number>()
  const missing = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [value = '', , name = ''] = line.split(',')
    const event = name.replace(/^\w+\/(.+?)\/?$/, '$1').replace('/', ':')
    if (!events.includes(event)) continue
    if (/^\d+(\.\d+)?$/.test(value)) counts.set(event, (counts.get(event) ?? 0) + Number(value))
    else missing.set(event, value)
  }
  if (counts.size === 0 && missing.size === 0) {
    const message = text.split('\n').find(line => line.trim() !== '' && line.trim() !== 'Error:')
    return { count: null, why: `perf stat: ${message?.trim() ?? 'no output'}` }
  }
  const absent = events.find(event => !counts.has(event))
  if (absent !== undefined) {
    return { count: null, why: `perf stat does not count ${absent} here: ${missing.get(absent) ?? 'no line'}` }
  }
  return { count: [...counts.values()].reduce((sum, each) => sum + each, 0), why: null }
}

export interface Counting {
  /** Resolves with the count; rejects if perf could not count. */
  stop(): Promise<number>
}

/** Counts for a process, its descendants and threads that they start. Resolves when counting has begun. */
export async function startCounting(pid: number, events: readonly string[] = EVENTS): Promise<Counting> {
  const control = ['-D', '-1', '--control', 'fd:3,4']
  const args = ['stat', '-x,', '-e', events.join(','), ...control, '-p', treeOf(pid).join(',')]
  const perf = spawn('perf', args, { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], env: environment() })
  let text = ''
  perf.stderr!.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  const [commands, answers] = [perf.stdio[3] as Duplex, perf.stdio[4] as Duplex]
  // An error of a pipe means that perf ends, which `ended` reports.
  for (const pipe of [commands, answers]) pipe.on('error', () => {})
  const closed = once(perf, 'close')
  const ended = closed.then(() => {
    throw new Error(`perf has ended: ${readStat(text, events).why ?? text}`)
  })
  ended.catch(() => {})
  const sendCommand = async (command: string) => {
    const answered = once(answers, 'data')
    answered.catch(() => {})
    commands.write(`${command}\n`)
    await Promise.race([answered, ended])
  }
  await sendCommand('enable')
  return {
    async stop() {
      await sendCommand('disable')
      perf.kill('SIGINT')
      await closed
      const { count, why } = readStat(text, events)
      if (count === null) throw new Error(why)
      return count
    },
  }
}
