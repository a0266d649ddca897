/** What the steps of each policy let in: how many exchanges at once, who pays for them, and who may come at all. */

import type { Configuration, RouteConfig, StepConfig } from '../config/configuration.ts'
import { asksModel, type NanoUsd, paysFor, type Rate, rateOf, rawHold } from '../contract/index.ts'
import { MAX_PAUSE_MS, SLOW_MS } from '../providers/retry.ts'
import { showNano } from './format.ts'

/** A route whose bytes pass: its hold is its own. */
export interface RawExposure {
  readonly path: string
  /** Null: it is free. */
  readonly hold: Figure | null
  /** What one request that nobody is charged for can cost the operator; null: nobody knows. */
  readonly unpaid: Figure | null
}

/** How many exchanges somebody can have under way at once, and why not more. */
export interface Crowd {
  readonly atOnce: number
  readonly formula: string
  /** What these exchanges can have on hold together. */
  readonly openHolds: Figure
}

export interface PolicyExposure {
  readonly name: string
  readonly routes: readonly string[]
  /** Whether a step charges on every request. */
  readonly charged: boolean
  readonly key: Crowd
  readonly account: Crowd
  readonly raw: readonly RawExposure[]
  /** What the operator pays on these routes without a bound that the configuration knows. */
  readonly unbounded: readonly string[]
  readonly remarks: readonly string[]
}

/** One for each policy that something with a price, or something open, is behind. */
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
  // Steps that find out who asks let nobody pass without a key, whatever the route says.
  const keyed = steps.some(step => (step.plugin.gives?.includes('key') ?? false) && always(step))
  const raw = routes.filter(({ kind }) => kind === 'raw').map(route => rawExposure(route, configuration, charged))
  const holds = [
    ...(routes.some(({ kind }) => asksModel(kind)) ? models.map(({ largestHold }) => largestHold.amount) : []),
    ...raw.map(({ hold }) => hold?.amount ?? 0n),
  ]
  const largest = charged ? holds.reduce((most, each) => (each > most ? each : most), 0n) : 0n
  const bounds = [
    { who: 'everybody', atOnce: configuration.limits.maxInflight, formula: 'limits.max_inflight' },
    ...boundsOf(steps, configuration, models.length),
  ]
  const crowd = (who: readonly string[]): Crowd => {
    const { atOnce, formula } = bounds
      .filter(bound => who.includes(bound.who))
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
    key: crowd(['key', 'account', 'everybody']),
    account: crowd(['account', 'everybody']),
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
  readonly who: string
  readonly atOnce: number
  readonly formula: string
}

/** Steps that always run and stand before the money: what they refuse never holds anything. */
function boundsOf(steps: readonly StepConfig[], configuration: Configuration, models: number): Bound[] {
  const money = steps.findIndex(isCharging)
  return (money < 0 ? steps : steps.slice(0, money)).filter(always).flatMap(step => {
    const bound = boundOf(step, longestMs(steps, configuration))
    if (bound === null) return []
    // What is counted for each model bounds everybody: so many for each.
    if (bound.who !== 'model') return [bound]
    return [
      { who: 'everybody', atOnce: bound.atOnce * models, formula: `${bound.formula}, for each of ${models} models` },
    ]
  })
}

function boundOf({ id, plugin, settings }: StepConfig, lifeMs: number): Bound | null {
  const said = (settings ?? {}) as { per?: string; limit?: number; requests?: Rate; burst?: number }
  if (said.per === undefined) return null
  if (plugin.name === 'concurrency' && said.limit !== undefined) {
    return { who: said.per, atOnce: said.limit, formula: `step "${id}": ${said.limit} at once` }
  }
  if (plugin.name !== 'rate-limit' || said.requests === undefined) return null
  const { amount, perMs } = said.requests
  const burst = said.burst ?? amount
  const refilled = Math.floor((amount * lifeMs) / perMs)
  const formula = `step "${id}": burst ${burst} + ${refilled} refilled while an exchange lasts (at most ${lifeMs / 1000} s: attempts, waits and the charge)`
  return { who: said.per, atOnce: burst + refilled, formula }
}

/** So long a charge is tried again. */
const SETTLE_MS = 5_000

/** How long an exchange can last behind its first step: what was admitted before is over by then. */
function longestMs(steps: readonly StepConfig[], { providers }: Configuration): number {
  const totalMs = Math.max(0, ...[...providers.values()].map(({ timeouts }) => timeouts.totalMs))
  const said = steps.map(({ settings }) => (settings ?? {}) as { attempts?: number; queue?: { wait?: number } })
  const attempts = Math.max(1, ...said.map(each => each.attempts ?? 1))
  const waitsMs = said.reduce((sum, { queue }) => sum + (queue?.wait ?? 0), 0)
  return totalMs + (attempts - 1) * (Math.min(totalMs, SLOW_MS) + MAX_PAUSE_MS) + waitsMs + SETTLE_MS
}

const BEYOND_HOLD =
  'its "hold" is taken for the most that a request can cost; what the provider bills beyond it is the operator\'s loss'

function rawExposure(route: RouteConfig, { limits }: Configuration, charged: boolean): RawExposure {
  const { path, price, hold = null } = route
  if (price === null) return { path, hold: null, unpaid: null }
  const amount = rawHold(price, limits.bodyBytes, hold)
  const tokens = `limits.body ${limits.bodyBytes} bytes as tokens of the prompt, at their dearest`
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
    return [`${path} charges nobody${unmetered ? ' (unmetered)' : ''}: the operator pays for all of it`]
  }
  if (kind !== 'raw') return []
  if (price === null) return [`${path} is raw and free: the operator pays whatever the provider bills`]
  if (!charged) return [`${path} is raw and has a price that nobody is charged: the operator pays for all of it`]
  if (hold != null) return []
  if (!paysFor(price, 'input')) {
    return [
      paysFor(price, 'character')
        ? `${path} is raw and charges by the character of its request: the operator pays what is billed beyond that`
        : `${path} is raw and charges ${showNano(rateOf(price, 'request'))} for each answer: the operator pays what is billed beyond that`,
    ]
  }
  return [
    `${path} is raw with a price and without "hold": of the tokens it charges the prompt alone, and the operator pays what is billed for answers; say what the dearest request costs`,
  ]
}

function stepRemarks(steps: readonly StepConfig[]): string[] {
  const money = steps.findIndex(isCharging)
  return steps.flatMap((step, index) => {
    if (step.plugin.name !== 'rate-limit' && step.plugin.name !== 'concurrency') return []
    const said = (step.settings ?? {}) as { limits?: 'plan'; requests?: Rate }
    const name = `the step "${step.id}" does not count as a bound:`
    if (!always(step)) return [`${name} it does not run on every request (when, mode or onError)`]
    if (money >= 0 && index > money) return [`${name} it stands behind the money`]
    if (said.limits === 'plan') return [`${name} its limits are those of plans, and plans differ`]
    if (step.plugin.name === 'rate-limit' && !said.requests) {
      return [`${name} it counts tokens, and a picture is few of them there and the whole context in a hold`]
    }
    return []
  })
}

function isCharging({ plugin }: StepConfig): boolean {
  return plugin.uses?.includes('ledger') ?? false
}

/** Whether no request gets past it. */
function always({ when, mode, onError, plugin }: StepConfig): boolean {
  return when === null && mode === 'enforce' && (onError === 'refuse' || plugin.critical === true)
}

/** An amount and how it came about. */
export interface Figure {
  readonly amount: NanoUsd
  readonly formula: string
}
