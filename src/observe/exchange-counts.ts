/** Counts exchanges. One exchange updates several series, so these are cached by route, model and target. */
import type { Counter, Histogram, MoneyCounter, MoneySum, Series, Sum, TraceReference } from './metric-registry.ts'
import type { ExchangeSummary } from './summary.ts'

export type ExchangeMeasures = Pick<
  ExchangeSummary,
  | 'route'
  | 'outcome'
  | 'code'
  | 'traceId'
  | 'isSampled'
  | 'at'
  | 'ms'
  | 'model'
  | 'firstTokenMs'
  | 'perTokenMs'
  | 'usage'
  | 'charge'
  | 'cost'
  | 'target'
  | 'attempts'
>

export interface ExchangeMetrics {
  readonly exchanges: Counter
  readonly durations: Histogram
  readonly firstTokens: Histogram
  readonly perToken: Histogram
  readonly tokens: Counter
  readonly charged: MoneyCounter
  readonly costs: MoneyCounter
  readonly overruns: MoneyCounter
}

export interface AttemptMetrics {
  readonly tries: Counter
  readonly durations: Histogram
  readonly retries: Counter
  readonly fallbacks: Counter
}

const NONE = 'none'
/** Maximum number of cached groups. Reloads change routes, models and targets, so the cache is cleared when it is full. */
const MAX_GROUPS = 1000

interface OutcomeSeries {
  readonly durations: Series
  readonly exchanges: Map<string, Sum>
}

/** The series of a route, model and target. Each is created on first use, because the page shows it from then on. */
interface Group {
  readonly endings: Map<string, OutcomeSeries>
  firstTokens: Series | null
  perToken: Series | null
  costs: MoneySum | null
  money: { readonly charged: MoneySum; readonly overruns: MoneySum } | null
  tokens: { readonly input: Sum; readonly cached: Sum; readonly written: Sum; readonly output: Sum } | null
}

export class ExchangeCounts {
  readonly #metrics: ExchangeMetrics
  readonly #groups = new Map<string, Map<string | null, Map<string | null, Group>>>()
  #size = 0

  constructor(metrics: ExchangeMetrics) {
    this.#metrics = metrics
  }

  add(summary: ExchangeMeasures): void {
    const { route, at, ms, firstTokenMs, perTokenMs, usage, charge, cost, target, traceId, isSampled } = summary
    const model = summary.model ?? NONE
    const provider = target === null ? NONE : providerOf(target)
    const metrics = this.#metrics
    const group = this.#groupOf(summary)
    const ending = this.#endingOf(group, summary, provider)
    const code = summary.code ?? NONE
    let exchanges = ending.exchanges.get(code)
    if (exchanges === undefined) {
      exchanges = metrics.exchanges.of(route, model, provider, summary.outcome ?? NONE, code)
      ending.exchanges.set(code, exchanges)
    }
    exchanges.add(1)
    const traced: TraceReference | null = isSampled && traceId !== null ? { traceId, at: at + ms } : null
    ending.durations.observe(ms / 1000, traced)
    if (firstTokenMs !== null) {
      group.firstTokens ??= metrics.firstTokens.of(model, provider)
      group.firstTokens.observe(firstTokenMs / 1000, traced)
    }
    if (perTokenMs !== null) {
      group.perToken ??= metrics.perToken.of(model, provider)
      group.perToken.observe(perTokenMs / 1000, traced)
    }
    if (cost !== null) (group.costs ??= metrics.costs.of(route, model, provider, target!)).add(cost)
    if (charge !== null) {
      group.money ??= {
        charged: metrics.charged.of(route, model, provider),
        overruns: metrics.overruns.of(route, model, provider),
      }
      group.money.charged.add(charge.amount)
      group.money.overruns.add(charge.overrun)
    }
    // The model of a raw route's tokens is unknown.
    if (summary.model === null || usage === null) return
    group.tokens ??= {
      input: metrics.tokens.of(route, model, provider, 'input'),
      cached: metrics.tokens.of(route, model, provider, 'cached_input'),
      written: metrics.tokens.of(route, model, provider, 'cache_write'),
      output: metrics.tokens.of(route, model, provider, 'output'),
    }
    const { input = 0, cached_input = 0, cache_write = 0, output = 0 } = usage
    group.tokens.input.add(input - cached_input - cache_write)
    group.tokens.cached.add(cached_input)
    group.tokens.written.add(cache_write)
    group.tokens.output.add(output)
  }

  #groupOf({ route, model, target }: ExchangeMeasures): Group {
    const known = this.#groups.get(route)?.get(model)?.get(target)
    if (known !== undefined) return known
    if (this.#size >= MAX_GROUPS) {
      this.#groups.clear()
      this.#size = 0
    }
    this.#size++
    const ofRoute = this.#groups.get(route) ?? new Map<string | null, Map<string | null, Group>>()
    const ofModel = ofRoute.get(model) ?? new Map<string | null, Group>()
    const group = { endings: new Map(), firstTokens: null, perToken: null, costs: null, money: null, tokens: null }
    this.#groups.set(route, ofRoute.set(model, ofModel.set(target, group)))
    return group
  }

  #endingOf(group: Group, summary: ExchangeMeasures, provider: string): OutcomeSeries {
    const outcome = summary.outcome ?? NONE
    let ending = group.endings.get(outcome)
    if (ending === undefined) {
      const durations = this.#metrics.durations.of(summary.route, summary.model ?? NONE, provider, outcome)
      ending = { durations, exchanges: new Map() }
      group.endings.set(outcome, ending)
    }
    return ending
  }
}

interface Target {
  readonly durations: Series
  readonly tries: Map<string, Sum>
}

export class AttemptCounts {
  readonly #metrics: AttemptMetrics
  readonly #targets = new Map<string, Target>()

  constructor(metrics: AttemptMetrics) {
    this.#metrics = metrics
  }

  add(attempts: ExchangeMeasures['attempts']): void {
    for (let at = 0; at < attempts.length; at++) {
      const { target, code, ms } = attempts[at]!
      const { tries, durations } = this.#targetOf(target)
      const name = code ?? NONE
      let ofCode = tries.get(name)
      if (ofCode === undefined) tries.set(name, (ofCode = this.#metrics.tries.of(providerOf(target), target, name)))
      ofCode.add(1)
      durations.observe(ms / 1000, null)
      if (at === 0) continue
      const failed = attempts[at - 1]!.target
      const again = failed === target ? this.#metrics.retries : this.#metrics.fallbacks
      again.add(1, providerOf(failed), failed)
    }
  }

  #targetOf(name: string): Target {
    let target = this.#targets.get(name)
    if (target === undefined) {
      if (this.#targets.size >= MAX_GROUPS) this.#targets.clear()
      target = { durations: this.#metrics.durations.of(providerOf(name), name), tries: new Map() }
      this.#targets.set(name, target)
    }
    return target
  }
}

/** Returns the provider of a target: PROVIDER/MODEL, or PROVIDER on raw routes. */
export function providerOf(target: string): string {
  const end = target.indexOf('/')
  return end < 0 ? target : target.slice(0, end)
}
