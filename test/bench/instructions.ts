/**
 * Counts the instructions that a process executes, by Linux's `perf stat`. They hardly vary between runs, also on a busy
 * machine. Many virtual machines have no counter for them; then the caller gets the reason.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { treeOf } from './cpu.ts'

/** In the process itself, and in the kernel on its behalf. */
const EVENTS = ['instructions:u', 'instructions:k']

/** The numbers of other languages have commas, which is what separates the fields. */
const environment = () => ({ ...process.env, LC_ALL: 'C' })

export type Stat =
  /** The sum of all events. */
  { readonly count: number; readonly why: null } | { readonly count: null; readonly why: string }

/** Why this machine cannot count instructions; null when it can. */
export function whyNoInstructions(events: readonly string[] = EVENTS): string | null {
  const args = ['stat', '-x,', '-e', events.join(','), '--', process.execPath, '--version']
  const { error, stderr } = spawnSync('perf', args, { encoding: 'utf8', env: environment() })
  if (error) return `perf does not run (${error.message})`
  return readStat(stderr, events).why
}

/**
 * Reads what `perf stat -x,` prints: `value,unit,event,run time,share of time counted,…` (perf-stat(1), "CSV FORMAT").
 * Processors with two kinds of cores have a line for each kind, such as `cpu_core/instructions/u`: they are added.
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
    const said = text.split('\n').find(line => line.trim() !== '' && line.trim() !== 'Error:')
    return { count: null, why: `perf stat: ${said?.trim() ?? 'no output'}` }
  }
  const absent = events.find(event => !counts.has(event))
  if (absent !== undefined) {
    return { count: null, why: `perf stat does not count ${absent} here: ${missing.get(absent) ?? 'no line'}` }
  }
  return { count: [...counts.values()].reduce((sum, each) => sum + each, 0), why: null }
}

export interface Counting {
  /** Resolves with what was counted; rejects when perf could not count. */
  stop(): Promise<number>
}

/** Counts in a process, everybody below it, and threads that they begin. Resolves when it counts. */
export async function startCounting(pid: number, events: readonly string[] = EVENTS): Promise<Counting> {
  const control = ['-D', '-1', '--control', 'fd:3,4']
  const args = ['stat', '-x,', '-e', events.join(','), ...control, '-p', treeOf(pid).join(',')]
  const perf = spawn('perf', args, { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], env: environment() })
  let text = ''
  perf.stderr!.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  const [commands, answers] = [perf.stdio[3] as Duplex, perf.stdio[4] as Duplex]
  // What breaks here ends perf, which is noticed.
  for (const pipe of [commands, answers]) pipe.on('error', () => {})
  const closed = once(perf, 'close')
  const gone = closed.then(() => {
    throw new Error(`perf has ended: ${readStat(text, events).why ?? text}`)
  })
  gone.catch(() => {})
  const tell = async (command: string) => {
    const answered = once(answers, 'data')
    answered.catch(() => {})
    commands.write(`${command}\n`)
    await Promise.race([answered, gone])
  }
  await tell('enable')
  return {
    async stop() {
      await tell('disable')
      perf.kill('SIGINT')
      await closed
      const { count, why } = readStat(text, events)
      if (count === null) throw new Error(why)
      return count
    },
  }
}
