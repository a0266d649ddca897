/** The story of a request: the recordings as one result, for text and for JSON. */

import type { Attempt, Exchange, NanoUsd, TrailEntry } from '#contract'
import type { Configuration, StepConfig } from '../../config/configuration.ts'
import { didYouMean, listed } from '../../config/yaml/problem.ts'
import { BUILT_IN } from '../../loader/builtin.ts'
import { type ChargeStory, chargeStory, type HoldStory, holdStory } from './money.ts'
import { findRoute, otherPaths } from './plan.ts'
import { isNotRun, type StepRecording } from './recorder.ts'
import type { RunOptions, RunResult, TrialRequest } from './run.ts'
import { type Change, changesOf, type Fit } from './targets.ts'
import { otherwiseOf, reasonOf, shortText } from './why.ts'

/** The verdict of one step, its reason, and when it would differ. */
export interface StepStory {
  readonly nr: number
  readonly id: string
  readonly plugin: string
  readonly verdict: TrailEntry['verdict'] | 'not reached' | 'not run'
  readonly code: string | null
  readonly reason: string
  readonly otherwise: string | null
}

/** A target of the model: asked, in reserve for failures, or passed over as unsuitable. */
export interface TargetStory {
  readonly id: string
  readonly dialect: string
  readonly priority: number
  readonly weight: number
  readonly verdict: 'asked' | 'in reserve' | 'passed over'
  readonly why: string
}

/** The request to a provider, compared with the client's request. */
export interface SentStory {
  readonly to: string
  readonly dialect: string
  readonly path: string
  readonly changes: readonly Change[]
  readonly dropped: readonly string[]
  readonly body: unknown
}

export interface Story {
  readonly method: string
  readonly path: string
  readonly policy: string | null
  readonly given: {
    readonly account: string
    readonly plan: string
    readonly balance: NanoUsd
    readonly models: readonly string[] | null
    readonly atMs: number
  }
  readonly status: number | null
  readonly code: string | null
  readonly outcome: string | null
  /** The deciding step; `send` for the upstream call, `gateway` for checks before the steps; null if a provider answered. */
  readonly decidedBy: string | null
  /** The error message to the client. */
  readonly message: string | null
  /** Details for operators only. */
  readonly detail: string | null
  readonly steps: readonly StepStory[]
  /** Reached steps that were not run: the verdict assumes that they let the request pass. */
  readonly notRun: readonly string[]
  /** External steps that ran: it is unknown what they sent or wrote. */
  readonly ownSteps: readonly string[]
  readonly hold: HoldStory | null
  readonly charge: ChargeStory | null
  readonly targets: readonly TargetStory[]
  readonly attempts: readonly Attempt[]
  readonly sent: readonly SentStory[]
  readonly headers: Readonly<Record<string, string>>
  readonly mistakes: readonly string[]
}

export interface StoryParts {
  readonly configuration: Configuration
  readonly request: TrialRequest
  readonly run: RunOptions
}

export function story(ran: RunResult, { configuration, request, run }: StoryParts): Story {
  const { answer, record, seen, exchange, receipt } = ran
  const route = record && findRoute(configuration.routes, request.path)
  const steps = route ? route.steps.steps : []
  const trail = record?.trail ?? []
  const code = record?.code ?? answer.error?.code ?? null
  const seenOf = (step: StepConfig) => seen.steps.get(`${route?.policy}/${step.id}`)!
  const holds = steps.flatMap(step => seenOf(step).holds)
  const { account, plan, balance, models, atMs } = run
  const hasRun = ({ verdict }: TrailEntry) => verdict !== 'skipped' && verdict !== 'off'
  const reached = steps.filter(({ id }) => trail.some(entry => entry.step === id && hasRun(entry)))
  return {
    method: request.method,
    path: request.path,
    policy: route?.policy ?? null,
    given: { account, plan, balance, models, atMs },
    status: answer.status,
    code,
    outcome: record?.outcome ?? null,
    decidedBy: record ? (record.decidedBy ?? null) : 'gateway',
    message: answer.error?.message ?? null,
    detail: detailOf(code, { configuration, request, exchange, models }) ?? shortText(holds),
    steps: steps.map((step, at) => stepStory(step, at, { trail, seen: seenOf(step), exchange })),
    notRun: reached.filter(isNotRun).map(({ id }) => id),
    ownSteps: reached.filter(step => !isNotRun(step) && !BUILT_IN.includes(step.plugin)).map(({ id }) => id),
    hold: holdStory(holds, exchange),
    charge: chargeStory(receipt),
    targets: targetsOf(ran, steps),
    attempts: exchange?.attempts ?? [],
    sent: sentOf(ran),
    headers: headersOf(answer.headers),
    mistakes: ran.mistakes,
  }
}

const NOT_RUN = 'an external plugin runs here only with dryRun: true, so its decision is unknown'

interface StepParts {
  readonly trail: readonly TrailEntry[]
  readonly seen: StepRecording
  readonly exchange: Exchange | null
}

function stepStory(step: StepConfig, at: number, { trail, seen, exchange }: StepParts): StepStory {
  const entry = trail.find(each => each.step === step.id)
  const parts = { step, seen, entry, exchange }
  const common = { nr: at + 1, id: step.id, plugin: step.plugin.name }
  if (entry && entry.verdict !== 'skipped' && entry.verdict !== 'off' && isNotRun(step)) {
    return { ...common, verdict: 'not run', code: null, reason: NOT_RUN, otherwise: null }
  }
  return {
    ...common,
    verdict: entry?.verdict ?? 'not reached',
    code: entry?.code ?? null,
    reason: reasonOf(parts),
    otherwise: otherwiseOf(parts),
  }
}

interface DetailParts {
  readonly configuration: Configuration
  readonly request: TrialRequest
  readonly exchange: Exchange | null
  readonly models: readonly string[] | null
}

/** Details that clients do not get, so that they cannot find out which models and paths exist. */
function detailOf(code: string | null, { configuration, request, exchange, models }: DetailParts): string | null {
  if (code === 'unknown_url') return otherPaths(configuration.routes, request.path.split('?', 1)[0]!)
  if (code !== 'model_not_found' || exchange === null || exchange.model) return null
  const id =
    exchange.route.kind === 'model' ? request.path.split('?', 1)[0]!.split('/models/')[1] : requestedModel(exchange)
  if (typeof id !== 'string') return null
  const model = configuration.models.get(configuration.aliases.get(id) ?? id)
  if (!model) {
    const names = [...configuration.models.keys(), ...configuration.aliases.keys()]
    return `this model does not exist; ${didYouMean(id, names) ?? `the models are ${listed(names, 'and')}`}`
  }
  if (!model.enabled) return 'the model exists, but has enabled: false'
  if (models) return `the model exists, but the key can only use ${listed(models, 'and')}`
  return model.public ? null : 'the model exists, but is not public: a key must list it'
}

function requestedModel(exchange: Exchange): unknown {
  try {
    return (exchange.json() as { readonly model?: unknown }).model
  } catch {
    // Invalid JSON was reported.
    return null
  }
}

/** The targets in the order of attempts, with unsuitable ones last. */
function targetsOf({ fits, exchange }: RunResult, steps: readonly StepConfig[]): readonly TargetStory[] {
  const attempts = exchange?.attempts ?? []
  const fitting = fits.filter(({ refusal }) => refusal === null)
  const unfit = fits.filter(({ refusal }) => refusal !== null)
  return [...fitting, ...unfit].map(fit => {
    const { target, dialect } = fit
    const own = attempts.filter(attempt => attempt.target === target.id)
    const isAsked = own.length > 0
    const verdict = fit.refusal ? 'passed over' : isAsked ? 'asked' : 'in reserve'
    const why = fit.refusal
      ? `${dialect}: ${fit.refusal.message}`
      : isAsked
        ? attemptsText(own)
        : reserveText(fit, fitting, steps)
    return { id: target.id, dialect, priority: target.priority, weight: target.weight, verdict, why }
  })
}

const attemptsText = (attempts: readonly Attempt[]) =>
  attempts.map(({ status, code }) => [status ?? 'no status', code ?? ''].join(' ').trim()).join(', then ')

/** Explains why a target was not the first. */
function reserveText({ target }: Fit, fitting: readonly Fit[], steps: readonly StepConfig[]): string {
  const first = fitting[0]!.target
  if (target.priority !== first.priority) return `priority ${target.priority}, but ${first.id} has ${first.priority}`
  const giver = steps.find(({ plugin }) => plugin.gives?.includes('targets'))
  const { order, sticky = 'none' } = (giver?.plugin.name === 'route' ? giver.settings : {}) as {
    order?: string
    sticky?: string
  }
  if (order === 'listed') return `it is listed after ${first.id} (order: listed)`
  if (order === 'latency') return `no latency was measured here, so the written order is used (order: latency)`
  if (order !== 'weights') return `the step "${giver?.id}" put it after ${first.id}`
  const group = fitting.filter(fit => fit.target.priority === first.priority)
  const total = group.reduce((sum, fit) => sum + fit.target.weight, 0)
  const share = total === 0 ? 0 : Math.round((target.weight / total) * 100)
  if (sticky !== 'none')
    return `weight ${target.weight} of ${total}, but this ${sticky} is bound to ${first.id} (sticky)`
  return `weight ${target.weight} of ${total}: first for ${share} % of requests; here the choice was ${first.id}`
}

function sentOf({ fits, calls, exchange }: RunResult): readonly SentStory[] {
  if (!exchange || calls.length === 0) return []
  if (!exchange.chat) {
    const { provider, path, body } = calls.at(-1)!
    return [{ to: provider, dialect: 'raw', path, changes: [], dropped: [], body }]
  }
  const asked = new Set(exchange.attempts.map(({ target }) => target))
  return fits.flatMap(({ target, dialect, request }) => {
    if (!request || !asked.has(target.id)) return []
    const body: unknown = JSON.parse(request.body.toString('utf8'))
    const dropped = [...(exchange.chat?.dropped ?? []), ...request.dropped]
    return [{ to: target.id, dialect, path: request.path, changes: changesOf(exchange.json(), body), dropped, body }]
  })
}

/** The headers about the decision. */
function headersOf(headers: Readonly<Record<string, string>>): Record<string, string> {
  const kept = /^(x-tollgate-|x-ratelimit-|x-should-retry$|retry-after|allow$|www-authenticate$)/
  // This header was computed with the canonical format. The correct value is shown with the sent requests.
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => kept.test(name) && name !== 'x-tollgate-dropped'),
  )
}
