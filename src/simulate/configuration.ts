/** A configuration whose exchanges are only played (policy tests, explain, replay): what only writes down lets pass. */
import type { AnyPlugin, FactName } from '#contract'
import type { PlannableStep } from '../loader/plan.ts'

interface WithRoutes {
  readonly routes: readonly { readonly steps: { readonly steps: readonly { readonly plugin: AnyPlugin }[] } }[]
}

/** The same configuration, in which a step whose plugin `records` has its place and its name, and does nothing. */
export function simulated<Configuration extends WithRoutes>(configuration: Configuration): Configuration {
  const routes = configuration.routes.map(route => {
    const steps = route.steps.steps.map(step => (step.plugin.records ? { ...step, plugin: idle(step.plugin) } : step))
    return { ...route, steps: { ...route.steps, steps } }
  })
  return { ...configuration, routes }
}

function idle(plugin: AnyPlugin): AnyPlugin {
  return { ...plugin, uses: [], create: () => (_ctx, next) => next() }
}

/** Whether a step may run where no request is real. Of a middleware from npm nobody knows what it does. */
export function runsDry({
  plugin,
  foreign,
  settings,
}: Pick<PlannableStep, 'plugin' | 'foreign' | 'settings'>): boolean {
  const { dryRun = false } = plugin
  return !foreign && (typeof dryRun === 'function' ? dryRun(settings as never) : dryRun)
}

const IDENTITY: readonly FactName[] = ['key', 'account']

/** Whether a step says who asks, and nothing else. */
export function saysWho({ gives = [] }: AnyPlugin): boolean {
  return gives.length > 0 && gives.every(fact => IDENTITY.includes(fact))
}
