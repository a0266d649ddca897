/** The measurements of the benchmark: jobs for the clients, and figures from their results. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Contestant, type Name, type Rig, start } from './contestants.ts'
import { type CpuTime, memoryOf } from './cpu.ts'
import type { Job, JobOptions, Latency, Model, Result } from './load.ts'
import { readProfiles } from './profile.ts'
import type { Memory, Round } from './report.ts'

export type Profiles = Map<Name, ReturnType<typeof readProfiles>>

export const CONNECTIONS = 64
const REQUESTS_PER_SECOND = 500
/** Not a divisor of 100, the chunks a second of a stream: else many streams would send their chunks at the same time. */
export const STREAMS_PER_SECOND = 47
const OPEN_STREAMS = 2000
/** Unmeasured time, in which V8 compiles: once for each contestant, and before each measurement. */
const FIRST_WARM_MS = 2000
const WARM_MS = 700
/** Streams last a second; from then on, as many streams end as begin. */
const STREAM_WARM_MS = 1300
const PROFILED_MS = 5000

export class Bench {
  readonly rig: Rig
  readonly #load: ChildProcess
  readonly #windowMs: number
  readonly #countsInstructions: boolean
  readonly #progress: (text: string) => void

  constructor(
    load: ChildProcess,
    rig: Rig,
    { windowMs, countsInstructions }: { readonly windowMs: number; readonly countsInstructions: boolean },
    progress: (text: string) => void,
  ) {
    this.#load = load
    this.rig = rig
    this.#countsInstructions = countsInstructions
    this.#windowMs = windowMs
    this.#progress = progress
  }

  async warm(target: Contestant): Promise<void> {
    this.#progress(`warming ${target.name}`)
    const lengths = { warmMs: FIRST_WARM_MS, windowMs: 1 }
    await this.#run({ kind: 'saturate', connections: CONNECTIONS }, { target, model: 'json-1k', ...lengths })
    await this.#run({ kind: 'rate', perSecond: STREAMS_PER_SECOND }, { target, model: 'paced', ...lengths })
  }

  /** Measures every contestant for one kind before the next kind, so that compared figures are close in time. */
  async round(order: readonly Contestant<Name>[], title: string): Promise<Map<Name, Round>> {
    const figures = new Map<Name, Round>(order.map(({ name }) => [name, {}]))
    const each = async (what: string, measure: (target: Contestant<Name>) => Promise<Round>) => {
      for (const target of order) {
        this.#progress(`${title}: ${what}, ${target.name}`)
        figures.set(target.name, { ...figures.get(target.name), ...(await measure(target)) })
      }
    }
    await each('1 kB', target => this.saturated(target, 'json-1k'))
    await each('16 kB', target => this.saturated(target, 'json-16k'))
    await each(`${REQUESTS_PER_SECOND} a second`, target => this.#atRate(target))
    await each('streams', target => this.#streams(target))
    return figures
  }

  /** Measures whole answers at full load. */
  async saturated(target: Contestant, model: 'json-1k' | 'json-16k'): Promise<Round> {
    if (target.pid === null) return {}
    const lengths = { warmMs: WARM_MS, windowMs: this.#windowMs }
    const job = { kind: 'saturate', connections: CONNECTIONS, countsInstructions: this.#countsInstructions } as const
    const { cpu, answers, seconds, instructions, rss, latency } = await this.#run(job, { target, model, ...lengths })
    const { p50, p99 } = measured(latency)
    return { [model]: { cpu: divided(cpu!, answers), instructions, perSecond: answers / seconds, p50, p99, rss: rss! } }
  }

  async #atRate(target: Contestant): Promise<Round> {
    const lengths = { warmMs: WARM_MS, windowMs: this.#windowMs }
    const job = { kind: 'rate', perSecond: REQUESTS_PER_SECOND } as const
    const { cpu, answers, latency } = await this.#run(job, { target, model: 'json-1k', ...lengths })
    return { rate: { ...measured(latency), cpu: cpu && divided(cpu, answers) } }
  }

  async #streams(target: Contestant): Promise<Round> {
    const lengths = { warmMs: STREAM_WARM_MS, windowMs: this.#windowMs }
    const job = { kind: 'rate', perSecond: STREAMS_PER_SECOND } as const
    const { cpu, events, latency } = await this.#run(job, { target, model: 'paced', ...lengths })
    const { p50: first50, p99: first99 } = measured(latency)
    return { streams: { cpu: cpu && divided(cpu, events), first50, first99 } }
  }

  /** Measures one target at full load. */
  saturate(target: Contestant, model: Model, windowMostMs: number, connections = CONNECTIONS): Promise<Result> {
    const lengths = { warmMs: WARM_MS, windowMs: Math.min(this.#windowMs, windowMostMs) }
    return this.#run({ kind: 'saturate', connections }, { target, model, ...lengths })
  }

  /** Measures streams of one target at the usual rate. */
  pace(target: Contestant, windowMs: number): Promise<Result> {
    const lengths = { warmMs: STREAM_WARM_MS, windowMs }
    return this.#run({ kind: 'rate', perSecond: STREAMS_PER_SECOND }, { target, model: 'paced', ...lengths })
  }

  /** Measures in a separate process, so that memory of an earlier load is not counted. */
  async memory(name: Name): Promise<Memory> {
    this.#progress(`memory: ${name}`)
    const target = await start(name, this.rig)
    const options: JobOptions = { target, model: 'open', warmMs: 0, windowMs: 2000 }
    await sleep(2000)
    const idle = memoryOf(target.pid!).rss
    // The first streams load code, whose memory is not counted.
    await this.#run({ kind: 'open', count: 20 }, options)
    await this.#run({ kind: 'close' }, options)
    const before = memoryOf(target.pid!).rss
    await this.#run({ kind: 'open', count: OPEN_STREAMS }, options)
    const after = memoryOf(target.pid!).rss
    await this.#run({ kind: 'close' }, options)
    await target.stop()
    return { idle: idle / 1024, perStream: (after - before) / OPEN_STREAMS }
  }

  /** Profiles at saturation in separate processes, because a profiled process is slower. */
  async profile(names: readonly Name[], into: string | undefined): Promise<Profiles> {
    const profiles: Profiles = new Map()
    for (const name of names) {
      this.#progress(`profile: ${name}`)
      const folder = resolve(into ?? join(this.rig.folder, 'profiles'), name)
      mkdirSync(folder, { recursive: true })
      const target = await start(name, this.rig, ['--cpu-prof', '--cpu-prof-interval=500', `--cpu-prof-dir=${folder}`])
      const lengths = { warmMs: FIRST_WARM_MS, windowMs: PROFILED_MS }
      await this.#run({ kind: 'saturate', connections: CONNECTIONS }, { target, model: 'json-1k', ...lengths })
      await target.stop()
      profiles.set(name, readProfiles(folder, PROFILED_MS))
    }
    return profiles
  }

  async #run(job: Job, { target, ...lengths }: JobOptions): Promise<Result> {
    const { port, pid, keys, path } = target
    this.#load.send({ job, options: { ...lengths, target: { port, pid, keys, ...(path && { path }) } } })
    const [answer] = (await once(this.#load, 'message')) as [{ result: Result } | { error: string }]
    if ('error' in answer) throw new Error(`${(target as Contestant).name}, ${lengths.model}: ${answer.error}`)
    return answer.result
  }
}

function divided(cpu: CpuTime, count: number): CpuTime {
  return { main: cpu.main / count, ledger: cpu.ledger / count, helpers: cpu.helpers / count }
}

function measured(latency: Latency | null): Latency {
  if (latency === null) throw new Error('no request was answered in the window; increase --seconds')
  return latency
}

function sleep(ms: number): Promise<void> {
  return new Promise(done => setTimeout(done, ms))
}
