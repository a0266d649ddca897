/**
 * Recent trails: details of finished exchanges beyond their receipts, and the suppressed actions of steps in shadow. In memory, since the
 * start; a reload keeps them.
 */
import type { ApiParts } from '../api/api-parts.ts'
import type { PastExchangeView, ShadowStepView, ShadowView } from '../api/views.ts'
import type { Metrics } from '../observe/metrics.ts'
import { createRecent, MAX_RECENT } from '../observe/recent.ts'
import { type ShadowFigures, type ShadowStep, shadowRun } from '../observe/shadow.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import type { Generation, LiveRoute } from '../request/generation.ts'

/** The recent exchanges of one thread. */
export interface RecentTrails {
  /** Called once for each exchange, when it is over. */
  remember(exchange: ExchangeSummary, plan: LiveRoute['plan']): void
  /** Finds a recent exchange. */
  find(id: string): ExchangeSummary | undefined
}

export interface RecentTrailsParts {
  readonly metrics: Pick<Metrics, 'shadowRan'>
  /** The figures of all threads are counted in the main thread. */
  readonly figures: Pick<ShadowFigures, 'count'>
}

export function createRecentTrails({ metrics, figures }: RecentTrailsParts): RecentTrails {
  const ofKeys = createRecent()
  /** Requests without a valid key do not displace the others. */
  const ofStrangers = createRecent()
  return {
    remember(exchange, plan) {
      const recent = exchange.keyId === null ? ofStrangers : ofKeys
      recent.add(exchange)
      const inShadow = shadowSteps(plan)
      if (inShadow === null) return
      for (const entry of exchange.trail) {
        const code = inShadow.has(entry.step) ? shadowRun(entry) : undefined
        if (code === undefined) continue
        metrics.shadowRan({ policy: exchange.policy, step: entry.step, code })
        figures.count(shadowExchangeOf(exchange), entry.step, code)
      }
    },
    find: id => ofKeys.find(id) ?? ofStrangers.find(id),
  }
}

export interface PastParts {
  /** Finds a recent exchange of any thread. */
  find(id: string): Promise<ExchangeSummary | undefined>
  readonly figures: Pick<ShadowFigures, 'steps'>
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  generation(): Pick<Generation, 'routes'>
  /** Removes the secrets of the configuration from a text. */
  redact(text: string): string
}

/** The operators' view of finished exchanges. */
export function createPast({ find, figures, startedAt, generation, redact }: PastParts): ApiParts['past'] {
  return {
    async exchange(id) {
      const found = await find(id)
      return found && exchangeView(found, redact)
    },
    shadow: () => shadowView(figures.steps(), generation().routes, startedAt),
    most: MAX_RECENT,
  }
}

/** Cached by plan: an exchange whose policy has no step in shadow costs one lookup. */
const shadowByPlan = new WeakMap<LiveRoute['plan'], ReadonlySet<string> | null>()

function shadowSteps(plan: LiveRoute['plan']): ReadonlySet<string> | null {
  const known = shadowByPlan.get(plan)
  if (known !== undefined) return known
  const ids = plan.steps.filter(({ mode }) => mode === 'shadow').map(({ id }) => id)
  const steps = ids.length === 0 ? null : new Set(ids)
  shadowByPlan.set(plan, steps)
  return steps
}

function shadowExchangeOf({ id, at, policy, accountId, account, keyId, key }: ExchangeSummary) {
  return {
    id,
    at,
    policy,
    account: accountId === null ? null : { id: accountId, name: account ?? accountId },
    key: keyId === null ? null : { id: keyId, name: key ?? keyId },
  }
}

function exchangeView(exchange: ExchangeSummary, redact: PastParts['redact']): PastExchangeView {
  return {
    id: exchange.id,
    kept: 'memory',
    trace_id: exchange.traceId,
    started_at: timeView(exchange.at),
    ms: Math.round(exchange.ms * 10) / 10,
    route: exchange.route,
    policy: exchange.policy,
    method: exchange.method,
    account_id: exchange.accountId,
    account: exchange.account,
    key_id: exchange.keyId,
    key: exchange.key,
    model: exchange.model,
    stream: exchange.stream,
    status: exchange.status,
    outcome: exchange.outcome,
    code: exchange.code,
    decided_by: exchange.decidedBy,
    tags: exchange.tags ?? {},
    trail: exchange.trail,
    attempts: exchange.attempts.map(({ target, status, code, ms }, index) => {
      const detail = exchange.attemptDetails?.[index] ?? null
      return { target, status, code, ms, ...(detail === null ? {} : { detail: redact(detail) }) }
    }),
    receipt: null,
  }
}

function shadowView(steps: readonly ShadowStep[], routes: Generation['routes'], startedAt: number): ShadowView {
  const views = steps.map((each): ShadowStepView => ({ ...each, now: false }))
  const byName = new Map(views.map(each => [`${each.policy}\n${each.step}`, each]))
  for (const { plan } of routes) {
    for (const step of shadowSteps(plan) ?? []) {
      const name = `${plan.name}\n${step}`
      const silent = { policy: plan.name, step, since: null, ran: 0, would_refuse: 0, refusals: [] }
      byName.set(name, { ...(byName.get(name) ?? silent), now: true })
    }
  }
  return { since: timeView(startedAt), steps: [...byName.values()] }
}

function timeView(ms: number): string {
  return new Date(ms).toISOString()
}
