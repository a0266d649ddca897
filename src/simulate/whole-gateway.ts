/**
 * The real gateway without sockets and network: its application, pipeline and store, with a controlled clock and scripted providers.
 * Shared by benches and policy tests.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Log, mistakeText, type Random, type StepRun, type TrailEntry } from '#contract'
import { createClientApp, createListener, type Listener } from '../app.ts'
import type { Configuration } from '../config/configuration.ts'
import { Gateway } from '../gateway.ts'
import { createGeneration, type Generation, type GenerationParts } from '../request/generation.ts'
import { createTimelessQueue } from '../request/http/owners.ts'
import { mistakeSentence, type StepReport } from '../request/pipeline/step-report.ts'
import { summaryOf } from '../request/send/exchange-summary.ts'
import type { LiveExchange } from '../request/send/live-exchange.ts'
import { createLocalState } from '../state/state.ts'
import { openStore } from '../store/engine/sqlite.ts'
import { createIds } from '../store/ids.ts'
import type { LocalStore } from '../store/local-store.ts'
import type { RecoveryReport } from '../store/store.ts'
import { type BenchTime, turn } from './time.ts'
import { createUpstream, type ScriptedUpstream } from './upstream.ts'
import { type BenchAnswer, type BenchRequest, Visit } from './visit.ts'

/** A log line of the gateway or of a step. */
export interface LogEntry {
  readonly level: 'info' | 'warn' | 'error'
  /** Null for the gateway's own lines. */
  readonly step: string | null
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** The summary of an exchange, as the gateway recorded it. */
export type BenchRecord = ReturnType<typeof summaryOf> & { readonly signal: AbortSignal }

/** The result of recovery after a killed process. */
export interface RecoveryResult {
  readonly report: RecoveryReport
  readonly openHolds: number
  readonly violations: readonly string[]
  /** Balances in nano-dollars. */
  readonly balances: readonly { readonly id: string; readonly posted: bigint; readonly held: bigint }[]
}

export interface TestGatewayOptions {
  readonly configuration: Configuration
  readonly time: BenchTime
  readonly random: Random
  /** Real time that a step may still take after the exchange has ended. */
  readonly stepGraceMs: number
  /** Real time before a request without progress is reported as stuck. Default: 10 s. */
  readonly patienceMs?: number
  /** `file`: in a temporary folder, so that a crash can be simulated. */
  readonly store: 'memory' | 'file'
  /** The kind of run, which steps can read. Default: `test`. */
  readonly run?: StepRun
}

/** A mistake of a step, or an unexpected error. */
type GatewayMistake = StepReport | { readonly exchange: string; readonly error: unknown }

/** A mistake as a sentence, without a full stop. */
export function gatewayMistakeText(mistake: GatewayMistake): string {
  return 'mistake' in mistake ? mistakeSentence(mistake) : `an unexpected error: ${mistakeText(mistake.error)}`
}

/** After this many turns the request waits for real I/O: a file, another process. */
const QUICK_TURNS = 2_000
const PATIENCE_MS = 10_000
/** Real time for the remaining exchanges and steps to end when the test gateway closes; longer than the grace period of steps. */
const CLOSING_MS = 10_000

/** A request that does not end. */
export class StuckError extends Error {
  override readonly name = 'StuckError'
  /** The trail of the exchange so far. */
  readonly trail: readonly TrailEntry[]
  /** The step in progress; null if none is, or if no exchange began. */
  readonly step: string | null

  constructor(message: string, trail: readonly TrailEntry[] = [], step: string | null = null) {
    super(message)
    this.trail = trail
    this.step = step
  }
}

/** A bench has few clients, and allocating room for 65,536 would take most of its time. */
const MAX_REMEMBERED = 1024

const SECRET = 'a secret for a temporary store'

/** A gateway that is open until `close()`. */
export class TestGateway {
  readonly #options: TestGatewayOptions
  readonly #folder: string | null
  readonly #parts: GenerationParts
  readonly #listener: Listener
  readonly #ids: ReturnType<typeof createIds>
  #generation!: Generation
  readonly #retired = new Set<Generation>()
  readonly #visits = new Map<unknown, Visit>()
  /** Exchange ids by connection. */
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
    this.upstream = createUpstream(time, ({ headers }) => this.#upstreamCalled(headers['x-request-id']))
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
      // `#disposeRetired` asks the gateway which exchanges a generation still has.
      entered() {},
      left() {},
      stepGraceMs,
      reportStep: report => void this.#mistakes.push(report),
      reportBug,
      record: (exchange, sentError) => {
        const { signal, id } = exchange
        this.#records.set(id, { ...summaryOf(exchange, sentError, clock), signal })
        this.#exchanges.set(exchange.ctx.req.socket, id)
      },
    })
    const nextId = () => this.#ids.next('req_')
    const ready = () => ({ ready: true })
    const app = createClientApp({ gateway: this.gateway, generation, nextId, ready, reportBug })
    this.#listener = createListener(app, configuration.limits, nextId, undefined, createTimelessQueue())
  }

  /** Sends a request and resolves when its exchange has ended completely. */
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

  /** Creates a new generation from the same configuration; the old one is disposed of after its last exchange. */
  async reload(): Promise<void> {
    const previous = this.#generation
    this.#generation = await createGeneration({ ...this.#parts, previous })
    this.#retired.add(previous)
    await this.#disposeRetired()
  }

  /** The state that a start would find if the process were killed now. Only with a store in a file. */
  async crash(): Promise<RecoveryResult> {
    if (this.#folder === null) throw new Error("openBench: a crash is simulated with store: 'file'")
    const copy = join(this.#folder, `crash-${this.#ids.next('')}.db`)
    return recoverCopy(join(this.#folder, 'store.db'), copy, this.#options.time)
  }

  async close(): Promise<void> {
    this.gateway.cut()
    try {
      await inTime(this.gateway.idle(), 'an exchange that was cut does not end')
      for (const each of [...this.#retired, this.#generation]) {
        await inTime(each.dispose(), "a step's dispose() does not end")
      }
    } finally {
      await this.#closeStore()
    }
  }

  async #closeStore(): Promise<void> {
    await this.store.close()
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true })
  }

  #upstreamCalled(id: string | undefined): void {
    const running = this.gateway.exchanges()
    // A raw request does not have the id of its exchange: then the newest exchange is meant.
    const exchange = running.find(each => each.id === id) ?? running.at(-1)
    this.#visits.get(exchange?.ctx.req.socket)?.upstreamCalled()
  }

  /** Waits until the connection and the exchange have ended. Skips pauses between two attempts. */
  async #settled(visit: Visit): Promise<void> {
    const { time, patienceMs = PATIENCE_MS } = this.#options
    let isClosed = false
    void visit.closed.then(() => {
      isClosed = true
    })
    let nowMs = time.clock.now()
    for (let nth = 0; ; nth++) {
      await (nth < QUICK_TURNS ? turn() : pause(1))
      // A silent provider advances the time, which counts as progress.
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
  if (!exchange) return new StuckError('the request does not end: it gets no answer')
  const { trail, step, sealed, plan } = exchange
  const path = trail.map(each => `${each.step} ${each.verdict}`).join(', ')
  const current = sealed ? null : (plan.steps[step]?.id ?? null)
  const where = current === null ? '' : `, and the step "${current}" is in progress`
  return new StuckError(`the request does not end: its trail so far is: ${path || 'empty'}${where}`, trail, current)
}

/** Waits in real time, for events outside of the test's own time. */
export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** Rejects after a time limit. The timer also keeps the process alive, which a step that waits forever does not. */
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

/** Whether the exchange is between two attempts at a provider: nothing happens until time passes. */
function isPausing({ phase, currentTarget, attempts }: LiveExchange): boolean {
  return phase === 'sending' && currentTarget === null && attempts.at(-1)?.code != null
}

function logInto(log: LogEntry[], step: string | null): Log {
  const writer =
    (level: LogEntry['level']) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void =>
      void log.push({ level, step, message, fields })
  return { info: writer('info'), warn: writer('warn'), error: writer('error') }
}

/** Recovers a copy of the committed data as a new owner. */
async function recoverCopy(path: string, copy: string, { clock }: BenchTime): Promise<RecoveryResult> {
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
