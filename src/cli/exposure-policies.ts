/** The exposure of each policy: how many exchanges it admits at once, whether it charges, and whether it needs a key. */

import type { Configuration, RouteConfig, StepConfig } from '../config/configuration.ts'
import { asksModel, type NanoUsd, paysFor, type Rate, rateOf, rawHold } from '../contract/index.ts'
import { MAX_PAUSE_MS, SLOW_MS } from '../providers/retry.ts'
import { showNano } from './format.ts'

/** A raw route, which has its own hold. */
export interface RawExposure {
  readonly path: string
  /** Null: it is free. */
  readonly hold: Figure | null
  /** The operator's cost of a request that is not charged; null: unknown. */
  readonly unpaid: Figure | null
}

/** The maximum number of simultaneous exchanges of a key or an account, and its formula. */
export interface Concurrency {
  readonly atOnce: number
  readonly formula: string
  /** The maximum sum of their holds. */
  readonly openHolds: Figure
}

export interface PolicyExposure {
  readonly name: string
  readonly routes: readonly string[]
  /** Whether a step charges on every request. */
  readonly charged: boolean
  readonly key: Concurrency
  readonly account: Concurrency
  readonly raw: readonly RawExposure[]
  /** Costs on these routes without a bound in the configuration. */
  readonly unbounded: readonly string[]
  readonly remarks: readonly string[]
}

/** The exposure of each policy with chat or raw routes. */
export function policyExposures(
  configuration: Configuration,
  models: readonly { readonly largestHold: Figure }[],
): PolicyExposure[] {
  const byPolicy = Map.groupBy(
    configuration.routes.filter(({ counts }) => !counts),
    route => route.policy,
  )
  return [...byPolicy].flatMap(([name, routes]) => {
    if (!routes.some(({ kind }) => asksModel(kind) || kind === 'raw')) return []
    return [policyExposure(name, routes, configuration, models)]
  })
}

function policyExposure(
  name: string,
  routes: readonly RouteConfig[],
  configuration: Configuration,
  models: readonly { readonly largestHold: Figure }[],
): PolicyExposure {
  const { steps } = routes[0]!.steps
  const charged = steps.some(step => isCharging(step) && always(step))
  // A step that always gives a key rejects requests without one, also on public routes.
  const keyed = steps.some(step => (step.plugin.gives?.includes('key') ?? false) && always(step))
  const raw = routes.filter(({ kind }) => kind === 'raw').map(route => rawExposure(route, configuration, charged))
  const holds = [
    ...(routes.some(({ kind }) => asksModel(kind)) ? models.map(({ largestHold }) => largestHold.amount) : []),
    ...raw.map(({ hold }) => hold?.amount ?? 0n),
  ]
  const largest = charged ? holds.reduce((most, each) => (each > most ? each : most), 0n) : 0n
  const bounds = [
    { per: 'everybody', atOnce: configuration.limits.maxInflight, formula: 'limits.max_inflight' },
    ...boundsOf(steps, configuration, models.length),
  ]
  const concurrencyOf = (kinds: readonly string[]): Concurrency => {
    const { atOnce, formula } = bounds
      .filter(bound => kinds.includes(bound.per))
      .reduce((least, each) => (each.atOnce < least.atOnce ? each : least))
    const amount = BigInt(atOnce) * largest
    return {
      atOnce,
      formula,
      openHolds: { amount, formula: `${atOnce} at once x ${showNano(largest)} the largest hold` },
    }
  }
  return {
    name,
    routes: routes.map(({ path }) => path),
    charged,
    key: concurrencyOf(['key', 'account', 'everybody']),
    account: concurrencyOf(['account', 'everybody']),
    raw,
    unbounded: routes.flatMap(route => unboundedOf(route, charged)),
    remarks: [
      ...raw.flatMap(({ path, unpaid }) => (unpaid === null ? [] : [`${path} is raw: ${BEYOND_HOLD}`])),
      ...routes.filter(route => route.public && !keyed).map(({ path }) => `${path} is public: anyone, without a key`),
      ...stepRemarks(steps),
    ],
  }
}

interface Bound {
  readonly per: string
  readonly atOnce: number
  readonly formula: string
}

/** The limits of steps that always run and come before the hold: requests that they refuse never hold money. */
function boundsOf(steps: readonly StepConfig[], configuration: Configuration, models: number): Bound[] {
  const money = steps.findIndex(isCharging)
  return (money < 0 ? steps : steps.slice(0, money)).filter(always).flatMap(step => {
    const bound = boundOf(step, longestMs(steps, configuration))
    if (bound === null) return []
    // A limit per model bounds all exchanges: the limit times the number of models.
    if (bound.per !== 'model') return [bound]
    return [
      { per: 'everybody', atOnce: bound.atOnce * models, formula: `${bound.formula}, for each of ${models} models` },
    ]
  })
}

function boundOf({ id, plugin, settings }: StepConfig, lifeMs: number): Bound | null {
  const limits = (settings ?? {}) as { per?: string; limit?: number; requests?: Rate; burst?: number }
  if (limits.per === undefined) return null
  if (plugin.name === 'concurrency' && limits.limit !== undefined) {
    return { per: limits.per, atOnce: limits.limit, formula: `step "${id}": ${limits.limit} at once` }
  }
  if (plugin.name !== 'rate-limit' || limits.requests === undefined) return null
  const { amount, perMs } = limits.requests
  const burst = limits.burst ?? amount
  const refilled = Math.floor((amount * lifeMs) / perMs)
  const formula = `step "${id}": burst ${burst} + ${refilled} refilled while an exchange lasts (at most ${lifeMs / 1000} s: attempts, waits and the charge)`
  return { per: limits.per, atOnce: burst + refilled, formula }
}

/** The maximum time for which a charge is retried. */
const SETTLE_MS = 5_000

/** The maximum duration of an exchange after its first step. */
function longestMs(steps: readonly StepConfig[], { providers }: Configuration): number {
  const totalMs = Math.max(0, ...[...providers.values()].map(({ timeouts }) => timeouts.totalMs))
  const configured = steps.map(({ settings }) => (settings ?? {}) as { attempts?: number; queue?: { wait?: number } })
  const attempts = Math.max(1, ...configured.map(each => each.attempts ?? 1))
  const waitsMs = configured.reduce((sum, { queue }) => sum + (queue?.wait ?? 0), 0)
  return totalMs + (attempts - 1) * (Math.min(totalMs, SLOW_MS) + MAX_PAUSE_MS) + waitsMs + SETTLE_MS
}

const BEYOND_HOLD =
  'its "hold" is assumed to be the maximum cost of a request; the operator pays anything that the provider bills beyond it'

function rawExposure(route: RouteConfig, { limits }: Configuration, charged: boolean): RawExposure {
  const { path, price, hold = null } = route
  if (price === null) return { path, hold: null, unpaid: null }
  const amount = rawHold(price, limits.bodyBytes, hold)
  const tokens = `limits.body ${limits.bodyBytes} bytes as prompt tokens, at the highest price`
  const formula =
    hold === null
      ? paysFor(price, 'input')
        ? tokens
        : paysFor(price, 'character')
          ? 'limits.body as characters'
          : 'the price of a request'
      : '"hold" of the route'
  const unpaid = charged && hold !== null ? { amount, formula: 'one attempt within the "hold" of the route' } : null
  return { path, hold: { amount, formula }, unpaid }
}

function unboundedOf({ path, kind, price, hold, unmetered }: RouteConfig, charged: boolean): string[] {
  if (asksModel(kind)) {
    if (charged) return []
    return [`${path} does not charge${unmetered ? ' (unmetered)' : ''}: the operator pays everything`]
  }
  if (kind !== 'raw') return []
  if (price === null) return [`${path} is raw and free: the operator pays everything that the provider bills`]
  if (!charged) return [`${path} is raw and has a price, but no step charges it: the operator pays everything`]
  if (hold != null) return []
  if (!paysFor(price, 'input')) {
    return [
      paysFor(price, 'character')
        ? `${path} is raw and charges per character of the request: the operator pays anything billed beyond that`
        : `${path} is raw and charges ${showNano(rateOf(price, 'request'))} for each answer: the operator pays anything billed beyond that`,
    ]
  }
  return [
    `${path} is raw with a price and without "hold": it charges only prompt tokens, and the operator pays for the answers; set "hold" to the maximum cost of a request`,
  ]
}

function stepRemarks(steps: readonly StepConfig[]): string[] {
  const money = steps.findIndex(isCharging)
  return steps.flatMap((step, index) => {
    if (step.plugin.name !== 'rate-limit' && step.plugin.name !== 'concurrency') return []
    const settings = (step.settings ?? {}) as { limits?: 'plan'; requests?: Rate }
    const name = `the step "${step.id}" does not count as a bound:`
    if (!always(step)) return [`${name} it does not run on every request (when, mode or onError)`]
    if (money >= 0 && index > money) return [`${name} it comes after the step that charges`]
    if (settings.limits === 'plan') return [`${name} it enforces the limits of plans, which differ`]
    if (step.plugin.name === 'rate-limit' && !settings.requests) {
      return [`${name} it counts tokens, and an image counts as few tokens there but as the whole context in a hold`]
    }
    return []
  })
}

function isCharging({ plugin }: StepConfig): boolean {
  return plugin.uses?.includes('ledger') ?? false
}

/** Whether it runs on every request. */
function always({ when, mode, onError, plugin }: StepConfig): boolean {
  return when === null && mode === 'enforce' && (onError === 'refuse' || plugin.critical === true)
}

/** An amount with its formula. */
export interface Figure {
  readonly amount: NanoUsd
  readonly formula: string
}
