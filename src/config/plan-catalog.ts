/** The service `plans` over the plans of a configuration. */
import { type Plans, refuse } from '#contract'
import type { Configuration } from './configuration.ts'

/** @param configuration whose `plans` is null without that section in gateway.yaml: then any name is a plan */
export function createPlans({ plans }: Pick<Configuration, 'plans'>): Plans {
  if (plans === null) return NONE
  return {
    find: name => plans.get(name),
    of({ plan: name }) {
      const plan = plans.get(name)
      if (plan !== undefined) return plan
      throw refuse('plan_not_declared', { message: `${undeclared(name)} Ask the operator of this gateway.` })
    },
  }
}

const NONE: Plans = { find: () => undefined, of: () => undefined }

/** The message for a plan that gateway.yaml does not declare, for clients and commands. */
export function undeclared(name: string): string {
  return `The plan ${JSON.stringify(name)} is not declared in gateway.yaml.`
}
