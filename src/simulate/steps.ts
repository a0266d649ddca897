/** Which steps may run where no request is real (policy tests, explain, replay, a dry run), and what runs in place of the others. */
import type { Account, AnyPlugin, Exchange, FactName, Key, StepMiddleware } from '#contract'
import type { PlannableStep } from '../loader/plan.ts'

type Step = Pick<PlannableStep, 'plugin' | 'foreign' | 'settings'>

/**
 * `records`: it only writes down what happened. `runs`: it may run here. `identifies`: it asks somebody else who the client
 * is, and does nothing more. `decides`: nobody here knows what it would decide.
 */
export type Role = 'records' | 'runs' | 'identifies' | 'decides'

/** What a step is where no request is real. */
export function roleOf(step: Step): Role {
  if (step.plugin.records) return 'records'
  if (runsDry(step)) return 'runs'
  return identifies(step.plugin) ? 'identifies' : 'decides'
}

/** Whether a step may run where no request is real. Of a middleware from npm nobody knows what it does. */
export function runsDry({ plugin, foreign, settings }: Step): boolean {
  const { dryRun = false } = plugin
  return !foreign && (typeof dryRun === 'function' ? dryRun(settings as never) : dryRun)
}

const IDENTITY: readonly FactName[] = ['key', 'account', 'claims']

/** Whether a step says who the client is, and nothing else. */
export function identifies({ gives = [] }: AnyPlugin): boolean {
  return gives.length > 0 && gives.every(fact => IDENTITY.includes(fact))
}

const NO_CLAIMS = Object.freeze({})

/** Gives what a plugin that identifies gives. */
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

/** Lets every request pass. */
export const passOn: StepMiddleware = (_ctx, next) => next()

/** The step with a middleware in place of its plugin's; null: the step itself. */
export function standIn<Some extends Pick<PlannableStep, 'plugin'>>(step: Some, handle: StepMiddleware | null): Some {
  return handle === null ? step : { ...step, plugin: { ...step.plugin, uses: [], create: () => handle } }
}

interface WithRoutes<Some> {
  readonly routes: readonly { readonly steps: { readonly name: string; readonly steps: readonly Some[] } }[]
}

/** The same configuration, in which a step whose plugin `records` has its place and its name, and does nothing. */
export function simulated<Some extends Pick<PlannableStep, 'plugin'>, All extends WithRoutes<Some>>(
  configuration: All & WithRoutes<Some>,
): All {
  const routes = configuration.routes.map(route => {
    const steps = route.steps.steps.map(step => standIn(step, step.plugin.records ? passOn : null))
    return { ...route, steps: { ...route.steps, steps } }
  })
  return { ...configuration, routes }
}
