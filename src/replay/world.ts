/**
 * Runs recorded exchanges through one configuration. It uses the real plans and the real runner, with the time of the replay, a ledger
 * in memory and the recorded provider. No socket, no database, no network.
 */
import {
  asksModel,
  decidedBy,
  type ErrorCode,
  headerBytes,
  isRefusal,
  type KeptAnswers,
  type Refusal,
  refuse,
  type Services,
  type TrailEntry,
} from '#contract'
import { normalise } from '../common/usage.ts'
import type { Configuration, RouteConfig } from '../config/configuration.ts'
import { BUILT_IN } from '../loader/builtin.ts'
import { disposeAll } from '../loader/dispose.ts'
import { createPlan, type Plan } from '../loader/plan.ts'
import { inboundOf } from '../providers/dialects/inbound/index.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Reply } from '../request/finish.ts'
import { Contexts, lightContext } from '../simulate/context.ts'
import { SimulatedExchange, simulatedReply } from '../simulate/exchange.ts'
import { servicesFor } from '../simulate/services.ts'
import type { Verdict } from './compare.ts'
import { type LikenessOf, looksAtAnswers } from './differ.ts'
import { type BalanceOf, createLedger } from './ledger.ts'
import type { LogLine } from './line.ts'
import {
  type AtSend,
  endAs,
  growthOf,
  type Means,
  ReplayProgress,
  resized,
  sentOf,
  type UpstreamResult,
  wasAnswerRefused,
  wasSent,
} from './provider.ts'
import { createServices, type ReplayedLine, replayedStep, WITHOUT_KEY } from './services.ts'
import { standInRequest } from './stand-in.ts'
import type { Timeline } from './timeline.ts'

export interface WorldParts {
  readonly configuration: Configuration
  readonly timeline: Timeline
  readonly balanceOf: BalanceOf
  /** Shared by both configurations of a replay. */
  readonly means: Means
  /** Null: prompts have the recorded size. */
  readonly sizes: AtSend | null
  /** Likeness of each step with the other configuration. */
  readonly likeness: LikenessOf
  /** Whether this is the base of the comparison, whose steps the recorded verdicts belong to. */
  readonly isBase: boolean
}

interface Route {
  readonly config: RouteConfig
  readonly plan: Plan
  readonly isBuiltIn: boolean
  /** The longest wait in a queue of its steps. */
  readonly waitMs: number
}

interface Run extends ReplayedLine {
  sent: UpstreamResult | null
  /** The step that was waiting when the maximum time ended. */
  waitedFor: string | null
  /** The upstream call has its recorded result. */
  isRecorded: boolean
  isResized: boolean
}

/** Refusals of a body's content, which a stand-in body cannot trigger again. */
const BODY_REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'invalid_json',
  'request_too_complex',
  'missing_required_parameter',
  'unknown_parameter',
  'invalid_type',
  'invalid_value',
  'unsupported_parameter',
  'context_length_exceeded',
])

/** Time for a step to end after the exchange has ended; real time, which a replay never needs. */
const GRACE_MS = 5_000

/** Throws a `PlanError` if a step cannot be created. */
export class World {
  readonly #parts: WorldParts
  readonly #runs = new Map<string, Run>()
  readonly #services: Services
  readonly #plans = new Map<string, Plan>()
  readonly #routes: ReadonlyMap<string, Route>
  readonly #contexts = new Contexts()

  constructor(parts: WorldParts) {
    const { configuration, timeline, balanceOf } = parts
    this.#parts = parts
    this.#services = createServices({
      configuration,
      clock: { now: timeline.now },
      ledger: createLedger(balanceOf, exchange => this.#runs.get(exchange)?.line),
      runs: this.#runs,
    })
    // The first of several routes with one path counts.
    this.#routes = new Map(configuration.routes.toReversed().map(config => [config.path, this.#routeOf(config)]))
  }

  /** Starts an exchange. `onEnd` is called with its verdict. */
  begin(line: LogLine, onEnd: (verdict: Verdict) => void): void {
    const route = this.#routes.get(line.route)
    if (!route?.config.methods.includes(line.method)) {
      onEnd(refusedByGateway(route ? 'method_not_allowed' : 'unknown_url'))
      return
    }
    const run: Run = { line, unknown: null, sent: null, waitedFor: null, isRecorded: false, isResized: false }
    this.#runs.set(line.id, run)
    void this.#play(route, run).then(verdict => {
      this.#runs.delete(line.id)
      onEnd(verdict)
    })
  }

  /** Releases the plans. Takes a few seconds at most; rejects with the names of steps that were not released. */
  async dispose(): Promise<void> {
    try {
      await disposeAll([...this.#plans.values()].map(plan => plan.dispose))
    } finally {
      this.#contexts.dispose()
    }
  }

  #routeOf(config: RouteConfig): Route {
    const { policy, steps } = config
    const plan = this.#plans.get(policy) ?? this.#planOf(config)
    this.#plans.set(policy, plan)
    const waits = steps.steps.map(
      ({ settings }) => (settings as { queue?: { wait?: number } } | null)?.queue?.wait ?? 0,
    )
    const isBuiltIn = steps.steps.every(({ plugin, foreign }) => !foreign && BUILT_IN.includes(plugin))
    return { config, plan, isBuiltIn, waitMs: Math.max(0, ...waits) }
  }

  #planOf({ policy, steps }: RouteConfig): Plan {
    const { likeness, isBase } = this.#parts
    const replayed = steps.steps.map(step =>
      replayedStep(step, this.#runs, route => {
        // Routes of one policy share its plan, but may be compared with different ones.
        const like = likeness(route, step.id)
        return { applies: isBase || like !== 'other', matters: like !== 'same' }
      }),
    )
    return createPlan(policy, replayed, ({ plugin }) => servicesFor(plugin, this.#services), 'replay')
  }

  async #play(route: Route, run: Run): Promise<Verdict> {
    const exchange = this.#open(route, run)
    if (route.waitMs > 0) this.#endWaitAfter(route.waitMs, run, exchange)
    const error = await exchange.play({ reportStep() {}, stepGraceMs: GRACE_MS })
    const refusal = error === null || isRefusal(error) ? error : refuse('internal_error', { cause: error })
    if (refusal !== null) exchange.recordFailure(refusal)
    return verdictOf(run, exchange, refusal)
  }

  #open({ config, plan, isBuiltIn }: Route, run: Run): SimulatedExchange {
    const { line } = run
    const progress = new ReplayProgress()
    const head = { method: line.method, path: line.route, headers: headersOf(line), rawHeaders: rawHeadersOf(line) }
    const given = bodyOf(line)
    const inbound = line.request.body === undefined ? undefined : inboundOf(config)
    const view = {
      exchange: line.id,
      createdAt: Math.floor(line.at / 1000),
      findModel: this.#services.catalog.find,
      kept: config.keepResponsesMs === null ? undefined : notInLog(run),
    }
    return new SimulatedExchange({
      id: line.id,
      startedAt: this.#parts.timeline.now(),
      route: config,
      plan,
      address: addressOf(line),
      progress,
      ctx: isBuiltIn ? lightContext(head) : this.#contexts.koa(head),
      bytes: given.bytes,
      parse: () => this.#fitted(parsed(run, given.body), line),
      translate: inbound ? body => inbound.decodeRequest(body, view) : null,
      send: exchange => this.#send(run, exchange, progress),
      async answer(_exchange, completion) {
        const usage = normalise(completion.usage ?? null, 'cached')
        progress.over(usage, true)
        return simulatedReply('answered', usage)
      },
    })
  }

  /** For a format that requires a cap, limits it to the model's maximum, as its translation does. */
  #fitted(body: unknown, { request, kind }: LogLine): unknown {
    if (kind !== 'messages' || request.body !== undefined || request.cap === null) return body
    const most = this.#services.catalog.find(request.model ?? '')?.maxOutput ?? request.cap
    return { ...(body as object), max_tokens: Math.min(request.cap, most) }
  }

  /** Replaces the provider: waits as long as recorded, then ends as recorded. */
  async #send(run: Run, exchange: Exchange, progress: ReplayProgress): Promise<Reply> {
    const { timeline, means, sizes } = this.#parts
    if (exchange.stopped) throw refuse('rate_limit_exceeded')
    const sent = sentOf(run.line, means)
    run.sent = sent
    const more = sizes?.(run.line, growthOf(exchange))
    const { promise, resolve } = Promise.withResolvers<void>()
    timeline.at(timeline.now() + sent.ms, resolve)
    await promise
    run.isRecorded = !sent.isEstimate && run.line.code !== null
    if (run.isRecorded && wasAnswerRefused(run.line) && !this.#wouldRefuseAnswer(run, exchange))
      run.unknown ??= 'answer'
    const bytes = more?.() ?? 0
    run.isResized = bytes !== 0 && sent.usage !== null
    return endAs(exchange, progress, run.line, resized(sent, bytes))
  }

  /** Whether the step that refused the recorded answer still exists, takes part, and is the same. */
  #wouldRefuseAnswer({ line }: Run, exchange: Exchange): boolean {
    const { likeness, isBase } = this.#parts
    const { route, decidedBy: id } = line
    const step = exchange.plan.steps.find(each => each.id === id)
    if (step?.mode !== 'enforce' || (!isBase && ['words', 'other'].includes(likeness(route, step.id)))) return false
    if (step.plugin.name === 'guard' && !looksAtAnswers(step)) return false
    return exchange.trail.find(entry => entry.step === id)?.verdict !== 'skipped'
  }

  /** Ends the wait in a step's queue by the clock of the replay, because the queue itself waits in real time. */
  #endWaitAfter(ms: number, run: Run, exchange: Exchange): void {
    const { timeline } = this.#parts
    timeline.at(timeline.now() + ms, () => {
      if (run.sent !== null || exchange.outcome !== null || !this.#runs.has(run.line.id)) return
      run.waitedFor = exchange.plan.steps[exchange.step]?.id ?? null
      exchange.stop('cut', 'the maximum wait is over')
    })
  }
}

function verdictOf(run: Run, exchange: Exchange, refusal: Refusal | null): Verdict {
  const { line } = run
  const { trail } = exchange
  const outcome = exchange.outcome ?? 'failed'
  const code = refusal?.code ?? null
  const left = outcome === 'client_left'
  const decider = decidedBy(trail, refusal, 'send')
  const isAsRecorded = run.isRecorded && code === line.code && (decider === null || decider === 'send')
  return {
    outcome,
    status: left ? null : isAsRecorded ? line.status : (refusal?.status ?? (code === null ? statusOf(line, run) : 500)),
    code: left ? null : code,
    decidedBy: left ? null : isAsRecorded ? line.decidedBy : (run.waitedFor ?? decider),
    held: exchange.hold ?? 0n,
    charged: exchange.charge?.amount ?? 0n,
    isEstimate: run.sent?.isEstimate === true,
    isResized: run.isResized,
    unknown: run.unknown,
    shadow: shadowOf(trail),
  }
}

/** Answers of providers keep their recorded status; others get 200. */
function statusOf({ status, outcome }: LogLine, { sent }: Run): number {
  return sent && !sent.isEstimate && outcome === 'answered' && status !== null ? status : 200
}

const NO_SHADOW: Verdict['shadow'] = []

function shadowOf(trail: readonly TrailEntry[]): Verdict['shadow'] {
  if (!trail.some(({ verdict }) => verdict === 'would_refuse')) return NO_SHADOW
  return trail.flatMap(({ step, verdict, code }) => (verdict === 'would_refuse' ? [{ step, code: code ?? null }] : []))
}

function refusedByGateway(code: ErrorCode): Verdict {
  const { status } = refuse(code)
  const nothing = { held: 0n, charged: 0n, isEstimate: false, isResized: false, unknown: null, shadow: NO_SHADOW }
  return { outcome: 'refused', status, code, decidedBy: 'gateway', ...nothing }
}

function bodyOf(line: LogLine): { readonly body: unknown; readonly bytes: Buffer } {
  const { body, bytes } = line.request
  if (body === undefined) return standInRequest(line)
  const text = Buffer.from(JSON.stringify(body))
  // Spaces between its tokens count as bytes.
  return { body, bytes: text.length < bytes ? Buffer.concat([text, Buffer.alloc(bytes - text.length, ' ')]) : text }
}

/** A response named by its id is not in the log, so the verdict is unknown. */
function notInLog(run: Run): KeptAnswers {
  return {
    // biome-ignore lint/correctness/useYield: there is nothing to read.
    *load() {
      return undefined
    },
    find(id) {
      run.unknown ??= 'kept'
      return { id, input: [], output: [], previous: null }
    },
    item() {
      run.unknown ??= 'kept'
      return undefined
    },
    keep() {},
  }
}

/** The body for steps that read it; or the recorded refusal of a body that was not kept. */
function parsed(run: Run, body: unknown): unknown {
  const { request, code, kind } = run.line
  if (request.body === undefined && code !== null && BODY_REFUSALS.has(code) && !wasSent(run.line)) throw refuse(code)
  if (!request.isRead && asksModel(kind)) {
    run.unknown ??= 'body'
    throw refuse('invalid_json')
  }
  return body
}

/** Without a recorded address, each key gets its own; a request without a key gets a unique one. */
function addressOf({ address, who, id }: LogLine): string {
  if (address !== null) return address
  let hash = 0
  for (const letter of who?.key.id ?? id) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) | 0
  return `10.${(hash >>> 16) & 255}.${(hash >>> 8) & 255}.${hash & 255}`
}

/** Headers as Node.js represents them. */
function headersOf({ headers }: LogLine): LogLine['headers'] {
  return headers && Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, headerBytes(text)]))
}

function rawHeadersOf({ headers, who, code, id }: LogLine): string[] {
  const raw = headers === null ? [] : Object.entries(headers).flat()
  if (who === null && code !== null && WITHOUT_KEY.has(code)) return raw
  // The exchange id is the token by which the replay's key lookup finds the recorded key.
  raw.push('authorization', `Bearer ${id}`)
  return raw
}
