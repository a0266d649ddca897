/** A configuration whose exchanges are only played (policy tests, explain, replay): what only writes down lets pass. */
import type { AnyPlugin } from '#contract'

interface WithRoutes {
  readonly routes: readonly { readonly steps: { readonly steps: readonly { readonly plugin: AnyPlugin }[] } }[]
}

/** The same configuration, in which a step whose plugin `records` has its place and its name, and does nothing. */
export function played<Configuration extends WithRoutes>(configuration: Configuration): Configuration {
  const routes = configuration.routes.map(route => {
    const steps = route.steps.steps.map(step => (step.plugin.records ? { ...step, plugin: idle(step.plugin) } : step))
    return { ...route, steps: { ...route.steps, steps } }
  })
  return { ...configuration, routes }
}

function idle(plugin: AnyPlugin): AnyPlugin {
  return { ...plugin, uses: [], create: () => (_ctx, next) => next() }
}
