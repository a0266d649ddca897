/** Manages the serving threads. Each has its own listener on the same address; the kernel distributes the connections. */
import { extname } from 'node:path'
import { MessageChannel, type Worker } from 'node:worker_threads'
import type { DeadlineClock } from '../common/clock.ts'
import { SharedCount } from '../common/shared-count.ts'
import type { Address } from '../config/configuration.ts'
import type { Logger } from '../observe/log.ts'
import type { MetricValues } from '../observe/metric-registry.ts'
import type { ShadowFigures } from '../observe/shadow.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import type { State } from '../state/state.ts'
import { Lanes, laneOf } from '../store/ids.ts'
import type { StoreThreads } from '../store/served-store.ts'
import { startWorker } from '../store/start-worker.ts'
import type { Texts } from './loader.ts'
import { mergeProviders } from './operator-views.ts'
import type { ServingSet } from './serving.ts'
import type { MainHandlers, ServingThreadParts, ThreadHandlers } from './serving-thread.ts'
import { Calls, fulfilled, ThreadEnded } from './thread-calls.ts'
import { ThreadDeaths } from './thread-deaths.ts'
import { serveState, type ThreadMemory } from './thread-state.ts'

export interface ThreadsParts {
  readonly count: number
  readonly store: StoreThreads
  readonly secret: string
  readonly configFile: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logLevel: string
  readonly stepGraceMs: number
  readonly log: Logger
  /** Writes the lines of their logs. */
  write(lines: string): void
  /** Takes over the counts of a thread that has ended. */
  retire(values: MetricValues): void
  readonly figures: Pick<ShadowFigures, 'count'>
  /** Data that services of steps keep between requests. */
  readonly state: State
  /** Memory that the threads share; null: a state server has it. */
  readonly memory: ThreadMemory | null
  /** The texts of the serving configuration. */
  texts(): Texts
  readonly ready: MainHandlers['ready']
  readonly about: MainHandlers['about']
  readonly clock: Pick<DeadlineClock, 'now' | 'watch'>
}

interface Thread {
  readonly index: number
  readonly lane: number
  readonly worker: Worker
  readonly calls: Calls<ThreadHandlers>
  /** Releases its part of the state. */
  endState(): void
  isEnding: boolean
  /** The error that ended it. */
  failure: Error | undefined
  /** Its last counts, and whether it failed to answer the last request for them. */
  counted: MetricValues | null
  isSilent: boolean
  /** Why it cannot charge exchanges, by the last check. */
  problem: string | null
}

/** A thread that does not answer within this time is shown with its last counts. */
const SILENT_MS = 2_000
/** Kubernetes gives up on `/readyz` after a second by default. */
const [LOOK_EVERY_MS, LOOK_FOR_MS] = [1_000, 500]
/** Pauses between attempts to start a thread or settle its holds. */
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 10_000

export class ServingThreads implements ServingSet {
  readonly #parts: ThreadsParts
  readonly #words: Int32Array<SharedArrayBuffer>
  readonly #admitted: SharedCount
  readonly #threads = new Map<number, Thread>()
  readonly #deaths: ThreadDeaths
  readonly #lanes = new Lanes()
  #address: Address | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #looking = Promise.resolve()
  /** Whether a dead thread is replaced. */
  #isKept = false
  #isClosing = false
  /** Cleanups of ended threads that are in progress. */
  readonly #settling = new Set<Promise<void>>()

  private constructor(parts: ThreadsParts) {
    this.#parts = parts
    this.#deaths = new ThreadDeaths(parts.clock.now)
    this.#words = new Int32Array(new SharedArrayBuffer(4 * (parts.count + 1)))
    // The main thread serves no client: its word stays 0.
    this.#admitted = new SharedCount(this.#words, parts.count)
  }

  /** Resolves when all threads have created their configuration. Rejects if one cannot. */
  static async start(parts: ThreadsParts): Promise<ServingThreads> {
    const threads = new ServingThreads(parts)
    for (let index = 0; index < parts.count; index++) threads.#start(index, threads.#lanes.take()!)
    try {
      await Promise.all(threads.#all().map(({ calls }) => calls.call('waiting')))
      threads.#isKept = true
      return threads
    } catch (error) {
      await threads.close()
      throw error
    }
  }

  readonly views: ServingSet['views'] = {
    exchanges: async () =>
      (await this.#answersInTime(this.#callAll('exchanges'))).flat().sort((one, other) => (one.id < other.id ? -1 : 1)),
    providers: async () => mergeProviders(await this.#answersInTime(this.#callAll('providers'))),
    find: id => this.#find(id),
  }

  /** A thread that is too busy to answer in time is shown with its last counts: metrics matter most when something hangs. */
  async metrics(): Promise<MetricValues[]> {
    const asked = this.#all().map(async thread => {
      const [counted] = await this.#answersInTime([thread.calls.call('metrics')])
      thread.isSilent = counted === undefined
      thread.counted = counted ?? thread.counted
    })
    await Promise.all(asked)
    // A thread that has ended meanwhile is retired.
    return this.#all().flatMap(({ counted }) => (counted === null ? [] : [counted]))
  }

  threads(): ReturnType<ServingSet['threads']> {
    const all = this.#all()
    const silent = all.filter(({ isSilent }) => isSilent).length
    return { answering: all.length - silent, silent, deaths: this.#deaths.all }
  }

  readonly queued = () => this.#parts.memory?.slots.waiting ?? 0

  /** Checks the threads at most once per second. The answer of a slow thread counts when it arrives. */
  look(): Promise<void> {
    const now = this.#parts.clock.now()
    if (now - this.#lookedAtMs < LOOK_EVERY_MS) return this.#looking
    this.#lookedAtMs = now
    const asked = this.#all().map(async thread => {
      thread.problem = await thread.calls.call('look')
    })
    this.#looking = this.#answersInTime(asked, LOOK_FOR_MS).then(() => {})
    return this.#looking
  }

  problem(): string | null {
    return this.#deaths.problem() ?? this.#all().find(({ problem }) => problem !== null)?.problem ?? null
  }

  /** Makes all threads listen; resolves with the port. */
  async listen(address: Address): Promise<number> {
    const [first] = this.#all()
    if (first === undefined) throw new Error(`no serving thread is left: ${this.#deaths.last}`)
    const port = await first.calls.call('listen', address)
    const all = { ...address, port }
    this.#address = all
    await Promise.all(this.#all().map(thread => thread !== first && thread.calls.call('listen', all)))
    return port
  }

  /** Prepares a configuration in all threads. Rejects if one of them cannot use it; then none does. */
  async prepare(texts: Texts): Promise<void> {
    try {
      await Promise.all(this.#all().map(({ calls }) => calls.call('prepare', texts)))
    } catch (error) {
      for (const { calls } of this.#all()) calls.notify('abandon')
      this.#parts.memory?.dropOldCaches()
      throw error
    }
  }

  /** Commits the prepared configuration, which `texts` already returns. A thread that cannot follow is replaced. */
  changed(): void {
    const texts = this.#parts.texts()
    this.#parts.memory?.dropOldCaches()
    for (const thread of this.#all()) {
      thread.calls.call('commit', texts).catch((error: Error) => this.#giveUp(thread, error))
    }
  }

  inflight(): number {
    return this.#admitted.total
  }

  drain(): void {
    this.#isKept = false
    for (const { calls } of this.#all()) calls.notify('drain')
  }

  cut(): void {
    for (const { calls } of this.#all()) calls.notify('cut')
  }

  async idle(): Promise<void> {
    await fulfilled(this.#callAll('idle'))
  }

  async waiting(): Promise<number> {
    return (await fulfilled(this.#callAll('waiting'))).reduce((sum, each) => sum + each, 0)
  }

  async flushed(): Promise<void> {
    await fulfilled(this.#callAll('flushed'))
  }

  figures(): undefined {}

  /** Ends all threads, and settles their open holds. Rejects if resources could not be released. */
  async close(): Promise<void> {
    this.#isKept = false
    this.#isClosing = true
    const ends = await Promise.all(this.#all().map(thread => this.#end(thread)))
    await Promise.all(this.#settling)
    if (ends.includes(false)) throw new Error('a serving thread did not shut down properly')
  }

  /** Resolves with whether it has released everything. */
  async #end(thread: Thread): Promise<boolean> {
    // If it dies before it answers, that counts as a death: its open holds are settled.
    const isOrderly = await thread.calls.call('end').then(
      answer => {
        thread.isEnding = true
        return answer
      },
      () => true,
    )
    await thread.worker.terminate()
    return isOrderly
  }

  /** Terminates a thread that cannot continue, with the same consequences as a death. */
  #giveUp(thread: Thread, reason: Error): void {
    if (reason instanceof ThreadEnded) return
    thread.failure = reason
    void thread.worker.terminate()
  }

  #all(): Thread[] {
    return [...this.#threads.values()]
  }

  #callAll<Name extends 'exchanges' | 'providers' | 'idle' | 'waiting' | 'flushed'>(name: Name) {
    type Call = (name: Name) => Promise<Awaited<ReturnType<ThreadHandlers[Name]>>>
    return this.#all().map(({ calls }) => (calls.call as Call).call(calls, name))
  }

  /** The answers of threads that neither die meanwhile nor are too busy. */
  #answersInTime<Value>(answers: readonly Promise<Value>[], ms = SILENT_MS): Promise<Value[]> {
    const late = this.#pause(ms).then((): Value[] => [])
    return fulfilled(answers.map(answer => Promise.race([fulfilled([answer]), late]))).then(
      all => all.flat() as Value[],
    )
  }

  async #find(id: string): Promise<ExchangeSummary | undefined> {
    const lane = laneOf(id)
    const asked = this.#all().flatMap(each => (each.lane === lane ? [each.calls.call('find', id)] : []))
    return (await this.#answersInTime(asked))[0]
  }

  #start(index: number, lane: number): Thread {
    const parts = this.#parts
    const { port1, port2 } = new MessageChannel()
    const state = serveState(parts.state, parts.memory)
    const handlers: MainHandlers = {
      ...state.handlers,
      log: lines => parts.write(lines),
      shadowRan: ({ exchange, step, code }) => parts.figures.count(exchange, step, code),
      ready: parts.ready,
      about: parts.about,
      find: id => this.#find(id),
    }
    const { configFile, env, secret, logLevel, stepGraceMs } = parts
    const store = parts.store.attach(lane)
    const workerData: ServingThreadParts = {
      configFile,
      env,
      secret,
      logLevel,
      stepGraceMs,
      store,
      index,
      memory: parts.memory?.shared ?? null,
      threads: parts.count,
      texts: parts.texts(),
      admitted: this.#words,
      port: port2,
    }
    // Where types are not stripped, both files are compiled.
    const worker = startWorker(new URL(`./serving-thread${extname(import.meta.url)}`, import.meta.url), {
      name: `tollgate-serving-${index + 1}`,
      workerData,
      transferList: [port2, store.client.port],
    })
    const thread: Thread = {
      index,
      lane,
      worker,
      calls: new Calls<ThreadHandlers>(port1, handlers),
      endState: state.end,
      isEnding: false,
      failure: undefined,
      counted: null,
      isSilent: false,
      problem: null,
    }
    this.#threads.set(index, thread)
    worker.once('error', error => {
      thread.failure = error as Error
    })
    worker.once('exit', code => {
      const settling = this.#ended(thread, thread.failure ?? new Error(`it ended with code ${code}`))
      this.#settling.add(settling)
      void settling.then(() => this.#settling.delete(settling))
    })
    return thread
  }

  async #ended(thread: Thread, error: Error): Promise<void> {
    // The exit event may come before the last messages.
    await thread.calls.closed
    thread.endState()
    this.#parts.memory?.forget(thread.index + 1)
    if (this.#threads.get(thread.index) === thread) this.#threads.delete(thread.index)
    if (thread.counted !== null) this.#parts.retire(thread.counted)
    this.#admitted.forget(thread.index)
    if (!thread.isEnding) this.#died(thread.index, error)
    await this.#settle(thread)
  }

  #died(index: number, error: Error): void {
    this.#deaths.add(error.message)
    this.#parts.log.log.error({ thread: index + 1, error }, 'a serving thread has ended')
    void this.#replace(index)
  }

  /** Settles a thread's open holds, until that succeeds or the process ends. No other thread gets its lane before that. */
  async #settle({ index, lane }: Thread): Promise<void> {
    const { store } = this.#parts
    const { log } = this.#parts.log
    const thread = index + 1
    for (let attempts = 1; ; attempts++) {
      try {
        const { settled, replayed } = await store.detach(lane)
        if (settled + replayed > 0)
          log.warn({ thread, settled, replayed }, 'settled the open holds of a serving thread that ended')
        return this.#lanes.give(lane)
      } catch (error) {
        if (this.#isClosing) {
          return log.error({ thread, error }, 'the open holds of a serving thread are settled at the next start')
        }
        if (attempts === 1) log.error({ thread, error }, 'the open holds of a serving thread cannot be settled yet')
      }
      await this.#pause(pauseMs(attempts))
    }
  }

  /** Replaces a dead thread: the first within a minute at once, later ones after growing pauses. One that cannot listen is dead. */
  async #replace(index: number): Promise<void> {
    const before = this.#deaths.ofMinute() - 1
    if (before > 0) await this.#pause(pauseMs(before))
    if (!this.#isKept) return
    const lane = this.#lanes.take()
    if (lane === null)
      return this.#died(
        index,
        new Error('no serving thread can start until the open holds of earlier ones are settled'),
      )
    const thread = this.#start(index, lane)
    const address = this.#address
    try {
      await (address === null ? thread.calls.call('waiting') : thread.calls.call('listen', address))
    } catch (error) {
      if (this.#isKept) this.#giveUp(thread, error as Error)
    }
  }

  /** Waits; ends early at the shutdown. */
  #pause(ms: number): Promise<void> {
    const { clock } = this.#parts
    const until = clock.now() + ms
    return new Promise(resolve => {
      const stop = clock.watch(now => {
        if (now < until && !this.#isClosing) return
        stop()
        resolve()
      })
    })
  }
}

/** @param attempts the number of earlier attempts, from 1 */
const pauseMs = (attempts: number) => Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempts - 1))
