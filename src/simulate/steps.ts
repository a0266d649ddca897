/** Decides which steps may run without real requests (policy tests, explain, replay, dry run), and replaces the others. */
import type { Account, AnyPlugin, Exchange, FactName, Key, StepMiddleware } from '#contract'
import type { PlannableStep } from '../loader/plan.ts'

type Step = Pick<PlannableStep, 'plugin' | 'foreign' | 'settings'>

/**
 * `records`: it only records exchanges. `runs`: it may run without real requests. `identifies`: it only identifies the client, through
 * another service. `decides`: its decision is unknown without real requests.
 */
export type Role = 'records' | 'runs' | 'identifies' | 'decides'

/** The role of a step without real requests. */
export function roleOf(step: Step): Role {
  if (step.plugin.records) return 'records'
  if (runsDry(step)) return 'runs'
  return identifies(step.plugin) ? 'identifies' : 'decides'
}

/** Whether a step may run without real requests. The behaviour of a middleware from npm is unknown. */
export function runsDry({ plugin, foreign, settings }: Step): boolean {
  const { dryRun = false } = plugin
  return !foreign && (typeof dryRun === 'function' ? dryRun(settings as never) : dryRun)
}

const IDENTITY: readonly FactName[] = ['key', 'account', 'claims']

/** Whether a step only identifies the client. */
export function identifies({ gives = [] }: AnyPlugin): boolean {
  return gives.length > 0 && gives.every(fact => IDENTITY.includes(fact))
}

const NO_CLAIMS = Object.freeze({})

/** Gives the facts of a plugin that identifies. */
export function identify(
  { gives = [] }: AnyPlugin,
  exchange: Pick<Exchange, 'give'>,
  key: Key,
  account: Account,
): void {
  if (gives.includes('key')) exchange.give('key', key)
  if (gives.includes('account')) exchange.give('account', account)
  if (gives.includes('claims')) exchange.give('claims', NO_CLAIMS)
}

export const passOn: StepMiddleware = (_ctx, next) => next()

/** The step with another middleware; null returns the step unchanged. */
export function standIn<Some extends Pick<PlannableStep, 'plugin'>>(step: Some, handle: StepMiddleware | null): Some {
  return handle === null ? step : { ...step, plugin: { ...step.plugin, uses: [], create: () => handle } }
}

interface WithRoutes<Some> {
  readonly routes: readonly { readonly steps: { readonly name: string; readonly steps: readonly Some[] } }[]
}

/** Replaces steps whose plugin `records` by steps that do nothing, under the same name. */
export function simulated<Some extends Pick<PlannableStep, 'plugin'>, All extends WithRoutes<Some>>(
  configuration: All & WithRoutes<Some>,
): All {
  const routes = configuration.routes.map(route => {
    const steps = route.steps.steps.map(step => standIn(step, step.plugin.records ? passOn : null))
    return { ...route, steps: { ...route.steps, steps } }
  })
  return { ...configuration, routes }
}
