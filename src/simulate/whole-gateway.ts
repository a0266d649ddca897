/**
 * The real gateway put together without sockets, network and waiting: its application, pipeline and store, under a clock
 * that stands still, with scripted providers. What a bench and the policy tests have in common.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Log, mistakeText, type Random, type StepRun, type TrailEntry } from '#contract'
import { createClientApp, createListener, type Listener } from '../app.ts'
import type { Configuration } from '../config/configuration.ts'
import { Gateway } from '../gateway.ts'
import { createGeneration, type Generation, type GenerationParts } from '../request/generation.ts'
import { createTimelessWork } from '../request/http/owners.ts'
import { mistakeSentence, type StepReport } from '../request/pipeline/step-report.ts'
import type { LiveExchange } from '../request/send/live-exchange.ts'
import { summaryOf } from '../request/send/record.ts'
import { createLocalState } from '../state/state.ts'
import { openStore } from '../store/engine/sqlite.ts'
import { createIds } from '../store/ids.ts'
import type { LocalStore } from '../store/local-store.ts'
import type { RecoveryReport } from '../store/store.ts'
import { type BenchTime, turn } from './time.ts'
import { createUpstream, type ScriptedUpstream } from './upstream.ts'
import { type BenchAnswer, type BenchRequest, Visit } from './visit.ts'

/** A line that the gateway or a step wrote to the log. */
export interface LogEntry {
  readonly level: 'info' | 'warn' | 'error'
  /** Null: the gateway's own. */
  readonly step: string | null
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** How an exchange ended, as the gateway recorded it. */
export type BenchRecord = ReturnType<typeof summaryOf> & { readonly signal: AbortSignal }

/** What recovery made of what a killed process had left. */
export interface Recovered {
  readonly report: RecoveryReport
  readonly openHolds: number
  readonly violations: readonly string[]
  /** Of each account, in nano-dollars. */
  readonly balances: readonly { readonly id: string; readonly posted: bigint; readonly held: bigint }[]
}

export interface TestGatewayOptions {
  readonly configuration: Configuration
  readonly time: BenchTime
  readonly random: Random
  /** How long a step may go on when the exchange is over; real time. */
  readonly stepGraceMs: number
  /** How long a request may come to no end before that is told; real time. Default: 10 s. */
  readonly patienceMs?: number
  /** `file`: in a folder of its own, so that a crash can be played. */
  readonly store: 'memory' | 'file'
  /** What steps are told of where they run. Default: `test`. */
  readonly run?: StepRun
}

/** What a step did wrong, or an error that nobody expected. */
type GatewayMistake = StepReport | { readonly exchange: string; readonly error: unknown }

/** A mistake as a sentence without a full stop. */
export function gatewayMistakeText(mistake: GatewayMistake): string {
  return 'mistake' in mistake ? mistakeSentence(mistake) : `an unexpected error: ${mistakeText(mistake.error)}`
}

/** Then it is something real that is waited for: a file, another process. */
const QUICK_TURNS = 2_000
const PATIENCE_MS = 10_000
/** How long what is left of exchanges and steps may take to end when the test gateway is closed; real time, and more than steps have. */
const CLOSING_MS = 10_000

/** A request that does not come to its end. */
export class StuckError extends Error {
  override readonly name = 'StuckError'
  /** Of the exchange, as far as it has come. */
  readonly trail: readonly TrailEntry[]
  /** The step that is under way; null: none is, or no exchange was begun. */
  readonly step: string | null

  constructor(message: string, trail: readonly TrailEntry[] = [], step: string | null = null) {
    super(message)
    this.trail = trail
    this.step = step
  }
}

/** Few people come to a bench, and room for 65,536 of them takes longer than all the rest. */
const MAX_REMEMBERED = 1024

const SECRET = 'a secret for a store that nobody keeps'

/** The gateway, open until `close()`. */
export class TestGateway {
  readonly #options: TestGatewayOptions
  readonly #folder: string | null
  readonly #parts: GenerationParts
  readonly #listener: Listener
  readonly #ids: ReturnType<typeof createIds>
  #generation!: Generation
  readonly #retired = new Set<Generation>()
  readonly #visits = new Map<unknown, Visit>()
  /** Ids of exchanges by their connections. */
  readonly #exchanges = new Map<unknown, string>()
  readonly #log: LogEntry[] = []
  readonly #mistakes: GatewayMistake[] = []
  readonly #records = new Map<string, BenchRecord>()
  readonly store: LocalStore
  readonly upstream: ScriptedUpstream
  readonly gateway: Gateway
  readonly log: readonly LogEntry[] = this.#log
  readonly mistakes: readonly GatewayMistake[] = this.#mistakes
  readonly records: ReadonlyMap<string, BenchRecord> = this.#records

  static async open(options: TestGatewayOptions): Promise<TestGateway> {
    const folder = options.store === 'file' ? mkdtempSync(join(tmpdir(), 'tollgate-bench-')) : null
    const store = await openStore({
      url: folder === null ? 'memory' : `sqlite:${join(folder, 'store.db')}`,
      secret: SECRET,
      clock: options.time.clock,
      writes: 'here',
      mostRemembered: MAX_REMEMBERED,
    })
    const testGateway = new TestGateway(options, store, folder)
    try {
      testGateway.#generation = await createGeneration(testGateway.#parts)
      return testGateway
    } catch (error) {
      await testGateway.#closeStore()
      throw error
    }
  }

  private constructor(options: TestGatewayOptions, store: LocalStore, folder: string | null) {
    const { configuration, time, random, stepGraceMs, run = 'test' } = options
    const { clock, deadlineClock } = time
    const log = logInto(this.#log, null)
    const generation = () => this.#generation
    const reportBug = (exchange: string, error: unknown) => void this.#mistakes.push({ exchange, error })
    this.#options = options
    this.#folder = folder
    this.store = store
    this.#ids = createIds(clock)
    this.upstream = createUpstream(time, ({ headers }) => this.#asked(headers['x-request-id']))
    const { transportTo, rawProxy } = this.upstream
    const shared = { store, clock, random, deadlineClock, log }
    this.#parts = {
      ...shared,
      state: createLocalState(clock),
      configuration,
      version: '0',
      logFor: step => logInto(this.#log, step),
      redact: text => text,
      transportTo,
      rawProxy,
      run,
    }
    this.gateway = new Gateway({
      work: null,
      ...shared,
      generation,
      // Which exchanges a generation still has is asked of the gateway itself.
      entered() {},
      left() {},
      stepGraceMs,
      reportStep: report => void this.#mistakes.push(report),
      reportBug,
      record: (exchange, told) => {
        const { signal, id } = exchange
        this.#records.set(id, { ...summaryOf(exchange, told, clock), signal })
        this.#exchanges.set(exchange.ctx.req.socket, id)
      },
    })
    const nextId = () => this.#ids.next('req_')
    const ready = () => ({ ready: true })
    const app = createClientApp({ gateway: this.gateway, generation, nextId, ready, reportBug })
    this.#listener = createListener(app, configuration.limits, nextId, undefined, createTimelessWork())
  }

  /** Sends a request and resolves when all of its exchange is over. */
  async send(request: BenchRequest, headers: Readonly<Record<string, string>>): Promise<BenchAnswer> {
    const visit = new Visit(request)
    this.#visits.set(visit.wire, visit)
    try {
      this.#listener.server.emit('connection', visit.wire)
      visit.send(request, headers)
      await this.#settled(visit)
      return visit.answer(this.#exchanges.get(visit.wire) ?? null)
    } finally {
      this.#visits.delete(visit.wire)
      this.#exchanges.delete(visit.wire)
      await this.#disposeRetired()
    }
  }

  /** A new generation from the same configuration; the old one is disposed of when its last exchange is over. */
  async reload(): Promise<void> {
    const previous = this.#generation
    this.#generation = await createGeneration({ ...this.#parts, previous })
    this.#retired.add(previous)
    await this.#disposeRetired()
  }

  /** What a start would find if the process were killed now. Only with a store in a file. */
  async crash(): Promise<Recovered> {
    if (this.#folder === null) throw new Error("openBench: a crash is simulated with store: 'file'")
    const copy = join(this.#folder, `crash-${this.#ids.next('')}.db`)
    return recoverCopy(join(this.#folder, 'store.db'), copy, this.#options.time)
  }

  async close(): Promise<void> {
    this.gateway.cut()
    try {
      await inTime(this.gateway.idle(), 'an exchange that was cut does not come to its end')
      for (const each of [...this.#retired, this.#generation]) {
        await inTime(each.dispose(), "a step's dispose() does not come to its end")
      }
    } finally {
      await this.#closeStore()
    }
  }

  async #closeStore(): Promise<void> {
    await this.store.close()
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true })
  }

  /** A provider is asked. */
  #asked(id: string | undefined): void {
    const running = this.gateway.exchanges()
    // A raw request does not carry the id of its exchange: then it is the only one that can be meant.
    const exchange = running.find(each => each.id === id) ?? running.at(-1)
    this.#visits.get(exchange?.ctx.req.socket)?.asked()
  }

  /** Until the connection and the exchange are over. A pause between two tries is over at once. */
  async #settled(visit: Visit): Promise<void> {
    const { time, patienceMs = PATIENCE_MS } = this.#options
    let isClosed = false
    void visit.closed.then(() => {
      isClosed = true
    })
    let nowMs = time.clock.now()
    for (let nth = 0; ; nth++) {
      await (nth < QUICK_TURNS ? turn() : pause(1))
      // A provider that is silent lets time pass, which is something that happens.
      if (time.clock.now() !== nowMs) {
        nowMs = time.clock.now()
        nth = Math.min(nth, QUICK_TURNS)
      }
      const running = this.gateway.exchanges().find(each => each.ctx.req.socket === (visit.wire as unknown))
      if (nth > QUICK_TURNS + patienceMs) throw stuck(running)
      if (!running && isClosed) return
      if (!running || !isPausing(running)) continue
      await time.pass(100)
      nowMs = time.clock.now()
    }
  }

  async #disposeRetired(): Promise<void> {
    for (const old of this.#retired) {
      if (this.gateway.exchanges().some(({ generation }) => generation === old)) continue
      this.#retired.delete(old)
      await old.dispose()
    }
  }
}

function stuck(exchange: LiveExchange | undefined): StuckError {
  if (!exchange) return new StuckError('the request does not come to its end: nobody answers it')
  const { trail, step, sealed, plan } = exchange
  const way = trail.map(each => `${each.step} ${each.verdict}`).join(', ')
  const underWay = sealed ? null : (plan.steps[step]?.id ?? null)
  const where = underWay === null ? '' : `, and the step "${underWay}" is under way`
  return new StuckError(
    `the request does not come to its end: its trail so far is: ${way || 'empty'}${where}`,
    trail,
    underWay,
  )
}

/** Lets real milliseconds pass, for what happens outside of the test's own time. */
export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** Rejects when it takes too long. Its timer also keeps the process there: a step that waits for ever does not. */
async function inTime(work: Promise<unknown>, complaint: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new StuckError(complaint)), CLOSING_MS)
  })
  try {
    await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Between two tries at a provider: nothing happens before time has passed. */
function isPausing({ phase, asking, attempts }: LiveExchange): boolean {
  return phase === 'sending' && asking === null && attempts.at(-1)?.code != null
}

function logInto(log: LogEntry[], step: string | null): Log {
  const writer =
    (level: LogEntry['level']) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void =>
      void log.push({ level, step, message, fields })
  return { info: writer('info'), warn: writer('warn'), error: writer('error') }
}

/** What was committed is copied as it stands, and a new owner recovers it. */
async function recoverCopy(path: string, copy: string, { clock }: BenchTime): Promise<Recovered> {
  for (const end of ['', '-wal', '.spool']) if (existsSync(path + end)) copyFileSync(path + end, copy + end)
  const store = await openStore({ url: `sqlite:${copy}`, secret: SECRET, clock, writes: 'here' })
  try {
    const report = await store.recover()
    return {
      report,
      openHolds: store.openHolds(),
      violations: store.reads
        .verify()
        .violations.map(({ invariant, subject, message }) => `${invariant} ${subject}: ${message}`),
      balances: store.reads.listAccounts().map(({ id, posted, held }) => ({ id, posted, held })),
    }
  } finally {
    await store.close()
  }
}
